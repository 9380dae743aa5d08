//! What is left out after a provider refused a request, and who is asked instead.

use std::sync::Arc;

use inspan_core::{
    event::ModelRef,
    hash::Hash,
    message::{Content, How, ImageRef, Usage},
    prompt::{Message, project},
    provider::{ErrorClass, Refused},
    tool::ToolSpec,
};

use crate::log::{ISSUER, Log, call, reasoning, text};

fn image(name: &str) -> Content {
    let (hash, media_type) = (Hash::of_bytes(name.as_bytes()), format!("image/{name}"));
    Content::Image(ImageRef { hash, media_type, size_bytes: 1 })
}

fn model(url: &str) -> ModelRef {
    ModelRef {
        url: url.to_owned(),
        window_tokens_max: None,
        output_tokens_max: None,
        price: None,
        cuts_silently: false,
    }
}

#[test]
fn the_new_picture_is_the_offender() {
    let mut log = Log::new();
    log.prompt_with("with old.png", vec![Content::text("Look."), image("old")]);
    log.replied(&[text("I see.")]);
    log.prompt_with("with new.png", vec![image("new"), Content::text("And this?")]);
    log.refused(Some(Refused::Images { count_max: None }));
    log.replied(&[text("Nothing there.")]);
    log.is(r#"
        > prompt with old.png
        ask model: round 1, attempt 1, reads 1537, writes 8192 at most
        wait
        > replied End: "I see."
        end end ""
        idle
        > prompt with new.png
        ask model: round 1, attempt 1, reads 3041, writes 8192 at most
        wait
        > refused Images { count_max: None }
        repair: a picture is left out
        ask model: round 1, attempt 2, reads 1553, writes 8192 at most
        wait
        > replied End: "Nothing there."
        end end ""
        idle
        --------
        user: Look.
        user: image/old
        model: "I see."
        user: [image left out: the provider did not take it]
        user: And this?
        model: "Nothing there."
    "#);
}

/// Half of what may stay does, so that the next picture changes nothing that was sent.
#[test]
fn the_oldest_pictures_go_where_there_are_too_many() {
    let mut log = Log::new();
    log.prompt_with("a, b, c", vec![image("a"), image("b"), image("c")]);
    log.refused(Some(Refused::Images { count_max: Some(2) }));
    log.is(r#"
        > prompt a, b, c
        ask model: round 1, attempt 1, reads 4536, writes 8192 at most
        wait
        > refused Images { count_max: Some(2) }
        repair: 2 pictures are left out
        ask model: round 1, attempt 2, reads 1559, writes 8192 at most
        wait
        --------
        user: [image left out: the provider did not take it]
        user: [image left out: the provider did not take it]
        user: image/c
    "#);
}

#[test]
fn reasoning_a_tool_and_calls_are_left_out_one_by_one() {
    let mut log = Log::new();
    log.prompt("Look.");
    log.replied(&[reasoning(true), call("look", "{\"n\":1}")]);
    log.finished(0, How::Ok, "19");
    log.refused(Some(Refused::Reasoning));
    log.refused(Some(Refused::Tool { name: "rm".to_owned() }));
    log.refused(Some(Refused::Calls));
    assert!(project(&log.state, ISSUER).tools.iter().all(|tool| tool.name != "rm"));
    log.replied(&[text("19.")]);
    log.is(r#"
        > prompt "Look."
        ask model: round 1, attempt 1, reads 37, writes 8192 at most
        wait
        > replied End: (signed), look({"n":1})
        judge call_5_0
        run call_5_0 look, attempt 1, key s/call_5_0, Pure []
        wait
        > finished call_5_0 ok: "19"
        ask model: round 2, attempt 1, reads 42, writes 8192 at most
        wait
        > refused Reasoning
        repair: earlier reasoning is left out
        ask model: round 2, attempt 2, reads 41, writes 8192 at most
        wait
        > refused Tool { name: "rm" }
        repair: the tool `rm` is set aside
        ask model: round 2, attempt 3, reads 41, writes 8192 at most
        wait
        > refused Calls
        repair: earlier calls are told in text
        ask model: round 2, attempt 4, reads 41, writes 8192 at most
        wait
        > replied End: "19."
        end end ""
        idle
        --------
        user: Look.
        model: "[called look with {\"n\":1}]"
        user: [result of look: 19]
        model: "19."
    "#);
}

/// Texts are cut in steps; a reply proves the repair, which then holds for good.
#[test]
fn what_is_too_long_is_cut_in_its_middle() {
    let mut log = Log::new();
    log.prompt(&"x".repeat(100_000));
    log.refused(Some(Refused::Size { tokens_max: Some(4_000) }));
    log.refused(Some(Refused::Size { tokens_max: Some(4_000) }));
    assert_eq!(log.state.window_tokens_max(), Some(4_000));
    log.replied(&[text("Much.")]);
    let messages = project(&log.state, ISSUER).messages;
    let Message::User(user) = &**messages[0] else { panic!() };
    let x = |count| "x".repeat(count);
    let note = "\n[… 95905 bytes left out here: the request was too large …]\n";
    assert_eq!(user.content, [Content::text(format!("{}{note}{}", x(2730), x(1365)))]);
    assert_eq!(log.state.repairs, log.state.repairs_kept);
}

#[test]
fn it_stops_with_the_reason_and_forgets_what_did_not_help() {
    let mut log = Log::new();
    log.prompt("Look.");
    log.replied(&[reasoning(true), call("look", "{}")]);
    log.finished(0, How::Ok, "19");
    log.replied(&[text("19.")]);
    log.prompt("Again.");
    for _ in 0..3 {
        log.refused(Some(Refused::Unsaid));
    }
    log.is(r#"
        > prompt "Look."
        ask model: round 1, attempt 1, reads 37, writes 8192 at most
        wait
        > replied End: (signed), look({})
        judge call_5_0
        run call_5_0 look, attempt 1, key s/call_5_0, Pure []
        wait
        > finished call_5_0 ok: "19"
        ask model: round 2, attempt 1, reads 41, writes 8192 at most
        wait
        > replied End: "19."
        end end ""
        idle
        > prompt "Again."
        ask model: round 1, attempt 1, reads 43, writes 8192 at most
        wait
        > refused Unsaid
        repair: earlier reasoning is left out
        ask model: round 1, attempt 2, reads 42, writes 8192 at most
        wait
        > refused Unsaid
        repair: earlier calls are told in text
        ask model: round 1, attempt 3, reads 42, writes 8192 at most
        wait
        > refused Unsaid
        end failed "no such thing"
        idle
        --------
        user: Look.
        model: (signed)
        model: look({})
        call_5_0 ok: 19
        model: "19."
        user: Again.
    "#);
}

#[test]
fn a_fallback_answers_for_the_rest_of_the_turn() {
    let mut log = Log::with(|config| {
        config.limits.retries_max = 0;
        config.fallbacks = vec![model("test://second"), model("test://third")];
    });
    log.prompt("Look.");
    log.failed(ErrorClass::Overloaded, None);
    log.failed(ErrorClass::Quota, Some(3_600_000));
    log.replied(&[text("19.")]);
    assert_eq!(log.state.model().map(|model| model.url.as_str()), Some(ISSUER));
    log.prompt("More.");
    log.failed(ErrorClass::BadRequest, None);
    log.is(r#"
        > prompt "Look."
        ask model: round 1, attempt 1, reads 37, writes 8192 at most
        wait
        > failed Overloaded
        switch to test://second: "Overloaded it was"
        ask model: round 1, attempt 2, reads 37, writes 8192 at most
        wait
        > failed Quota
        switch to test://third: "Quota it was"
        ask model: round 1, attempt 3, reads 37, writes 8192 at most
        wait
        > replied End: "19."
        end end ""
        idle
        > prompt "More."
        ask model: round 1, attempt 1, reads 39, writes 8192 at most
        wait
        > failed BadRequest
        end failed "BadRequest it was"
        idle
        --------
        user: Look.
        model: "19."
        user: More.
    "#);
}

/// The server has room for 1,000 tokens and says nothing: the counts tell it, once.
#[test]
fn a_prompt_that_was_cut_without_a_word_is_noticed() {
    let mut log = Log::with(|config| config.model.cuts_silently = true);
    let usage = |input| Usage { input: Some(input), output: Some(5), ..Usage::default() };
    log.usage = usage(900);
    log.prompt(&"word ".repeat(900));
    log.replied(&[text("Yes.")]);
    log.usage = usage(1_000);
    log.prompt(&"word ".repeat(2_000));
    log.replied(&[text("Yes.")]);
    log.prompt(&"word ".repeat(2_000));
    log.replied(&[text("Yes.")]);
    let cut: Vec<&str> = log.story.lines().filter(|line| line.starts_with("prompt cut")).collect();
    assert_eq!(cut, ["prompt cut: 1000 of 3405"]);
    assert_eq!(log.state.window_tokens_max(), Some(1_000));
}

/// No text is long, and all of them are too much: the oldest go, and the prompt stays.
#[test]
fn many_short_texts_are_left_out_from_the_oldest_on() {
    let mut log = Log::new();
    for number in 0..6 {
        log.prompt(&format!("Number {number} is one of many short questions."));
        log.replied(&[text("And this is one of as many short answers.")]);
    }
    log.prompt("What was the last one?");
    log.refused(Some(Refused::Size { tokens_max: Some(100) }));
    log.refused(Some(Refused::Size { tokens_max: Some(100) }));
    log.refused(Some(Refused::Size { tokens_max: Some(100) }));
    log.replied(&[text("Number 5.")]);
    let repairs: Vec<&str> = log.story.lines().filter(|line| line.starts_with("repair")).collect();
    assert_eq!(
        repairs,
        [
            "repair: the first 6 messages are left out",
            "repair: the first 9 messages are left out",
            "repair: the first 12 messages are left out"
        ]
    );
    let messages = project(&log.state, ISSUER).messages;
    let shown: Vec<String> = messages
        .iter()
        .map(|message| match &***message {
            Message::User(user) => match user.content.as_slice() {
                [Content::Text { text }] => text.clone(),
                other => format!("{other:?}"),
            },
            Message::Assistant(reply) => reply.text(),
        })
        .collect();
    let mut expected = vec!["[left out]"; 12];
    expected.extend(["What was the last one?", "Number 5."]);
    assert_eq!(shown, expected);
}

/// One bad declaration after the other is not the end of the turn.
#[test]
fn as_many_tools_are_set_aside_as_are_refused() {
    let names: Vec<String> = (0..9).map(|number| format!("tool_{number}")).collect();
    let mut log = Log::with(|config| {
        let like = config.tools[0].clone();
        let named = |name: &String| Arc::new(ToolSpec { name: name.clone(), ..(*like).clone() });
        config.tools = names.iter().map(named).collect();
    });
    log.prompt("Look.");
    for name in &names {
        log.refused(Some(Refused::Tool { name: name.clone() }));
    }
    log.replied(&[text("Without any.")]);
    assert_eq!(project(&log.state, ISSUER).tools.len(), 0);
    assert!(
        log.story.ends_with("> replied End: \"Without any.\"\nend end \"\"\nidle\n"),
        "{}",
        log.story
    );
}

/// What one model refused, another may take, and a tool that was mended is told again.
#[test]
fn repairs_end_with_what_they_were_made_for() {
    let refused = || {
        let mut log = Log::new();
        log.prompt_with("with a.png", vec![Content::text("Look."), image("a")]);
        log.refused(Some(Refused::Images { count_max: None }));
        log.refused(Some(Refused::Tool { name: "rm".to_owned() }));
        log.replied(&[text("Nothing.")]);
        let config = log.state.config.as_deref().cloned().unwrap();
        (log, config)
    };
    let left_out = |log: &Log| {
        let projection = project(&log.state, ISSUER);
        let Message::User(user) = &**projection.messages[0] else { panic!() };
        let has_rm = projection.tools.iter().any(|tool| tool.name == "rm");
        (!user.content.contains(&image("a")), !has_rm)
    };
    let (log, _) = refused();
    assert_eq!(left_out(&log), (true, true));
    let (mut log, mut config) = refused();
    config.limits.rounds_max += 1;
    log.append(config.clone().into());
    assert_eq!(left_out(&log), (true, true));
    config.model = model("test://other");
    log.append(config.into());
    assert_eq!(left_out(&log), (false, false));
    let (mut log, mut config) = refused();
    let mend = |tool: &Arc<ToolSpec>| {
        Arc::new(ToolSpec { description: "Mended.".to_owned(), ..(**tool).clone() })
    };
    config.tools = config.tools.iter().map(mend).collect();
    log.append(config.into());
    assert_eq!(left_out(&log), (false, false));
}
