//! Every call is answered: the rows of the table of answers, and what stays of a reply.

use inspan_core::{
    Event,
    event::ToolFinished,
    gate::{Choice, Verdict},
    message::{CallId, How, Labels, ReplyStop, ToolResult},
    provider::ErrorClass,
};

use crate::log::{Log, call, half_call, reasoning, text};

#[test]
fn a_tool_ran() {
    let mut log = Log::new();
    log.prompt("Is it warm?");
    log.replied(&[text("Let me look."), call("look", "{\"n\":1}")]);
    log.finished(0, How::Ok, "19");
    log.replied(&[text("Yes.")]);
    log.is(r#"
        > prompt "Is it warm?"
        ask model: round 1, attempt 1, reads 39, writes 8192 at most
        wait
        > replied End: "Let me look.", look({"n":1})
        judge call_5_0
        run call_5_0 look, attempt 1, key s/call_5_0, Pure []
        wait
        > finished call_5_0 ok: "19"
        ask model: round 2, attempt 1, reads 45, writes 8192 at most
        wait
        > replied End: "Yes."
        end end ""
        idle
        --------
        user: Is it warm?
        model: "Let me look."
        model: look({"n":1})
        call_5_0 ok: 19
        model: "Yes."
    "#);
}

#[test]
fn a_tool_failed_and_one_gave_nothing() {
    let mut log = Log::new();
    log.prompt("Is it warm?");
    log.replied(&[call("look", "{}"), call("look", "")]);
    log.finished(1, How::Ok, " \n");
    log.finished(0, How::Failed, "no network");
    log.is(r#"
        > prompt "Is it warm?"
        ask model: round 1, attempt 1, reads 39, writes 8192 at most
        wait
        > replied End: look({}), look()
        judge call_5_0
        run call_5_0 look, attempt 1, key s/call_5_0, Pure []
        judge call_5_1
        run call_5_1 look, attempt 1, key s/call_5_1, Pure []
        wait
        > finished call_5_1 ok: " \n"
        wait
        > finished call_5_0 failed: "no network"
        ask model: round 2, attempt 1, reads 47, writes 8192 at most
        wait
        --------
        user: Is it warm?
        model: look({})
        model: look()
        call_5_0 failed: no network
        call_5_1 ok: [no output]
    "#);
}

#[test]
fn no_tool_has_that_name_and_arguments_are_unreadable() {
    let mut log = Log::new();
    log.prompt("Is it warm?");
    log.replied(&[call("web.look", "{}"), call("look", "{\"n\":"), call("", "{}")]);
    log.is(r#"
        > prompt "Is it warm?"
        ask model: round 1, attempt 1, reads 39, writes 8192 at most
        wait
        > replied End: web.look({}), look({"n":), ({})
        judge call_5_0
        judge call_5_1
        judge call_5_2
        ask model: round 2, attempt 1, reads 90, writes 8192 at most
        wait
        --------
        user: Is it warm?
        model: web_look({})
        model: look({"n":)
        model: _({})
        call_5_0 unknown_tool: Failed: there is no tool `web.look`. Near names: look.
        call_5_1 bad_arguments: Not run: the arguments are not a JSON object. Write the call again with valid JSON.
        call_5_2 unknown_tool: Failed: there is no tool ``. Near names: look.
    "#);
}

#[test]
fn a_gate_refused() {
    let mut log = Log::new();
    log.verdicts.push_back(Verdict::Deny("not on Mondays".to_owned()));
    log.prompt("Remove it.");
    log.replied(&[call("rm", "{}")]);
    log.is(r#"
        > prompt "Remove it."
        ask model: round 1, attempt 1, reads 39, writes 8192 at most
        wait
        > replied End: rm({})
        judge call_5_0
        answer call_5_0 rm refused: "Refused: not on Mondays. This is final; do not try the same call again."
        ask model: round 2, attempt 1, reads 57, writes 8192 at most
        wait
        --------
        user: Remove it.
        model: rm({})
        call_5_0 refused: Refused: not on Mondays. This is final; do not try the same call again.
    "#);
}

#[test]
fn a_reply_was_cut_twice() {
    let mut log = Log::new();
    log.prompt("Tell me a story.");
    log.replied_as(ReplyStop::Length, &[text("Once"), call("look", "{}"), half_call("look")]);
    log.replied_as(ReplyStop::Length, &[reasoning(false), half_call("look")]);
    log.is(r#"
        > prompt "Tell me a story."
        ask model: round 1, attempt 1, reads 40, writes 8192 at most
        wait
        > replied Length: "Once", look({}), look({"n":…
        answer call_5_0 look not_run: "Not run: your reply was cut at its limit of 8192 tokens, so nothing of it ran. Write less in one reply."
        ask model: round 2, attempt 1, reads 94, writes 32768 at most
        wait
        > replied Length: (unsigned), look({"n":…
        end length ""
        idle
        --------
        user: Tell me a story.
        model: "Once"
        model: look({})
        call_5_0 not_run: Not run: your reply was cut at its limit of 8192 tokens, so nothing of it ran. Write less in one reply.
        user: [Your reply was cut at its limit of 8192 tokens. Go on from there, or answer in fewer words.]
        model: "[reply cut]"
        user: [Your reply was cut at its limit of 32768 tokens. Go on from there, or answer in fewer words.]
    "#);
}

#[test]
fn what_was_cut_in_its_calls_is_no_part_of_the_answer() {
    let mut log = Log::new();
    log.prompt("Tell me a story.");
    log.replied_as(ReplyStop::Length, &[text("I look first."), half_call("look")]);
    log.replied(&[text("Once upon a time.")]);
    assert_eq!(log.state.answer, "Once upon a time.");

    log.prompt("Another one.");
    log.replied_as(ReplyStop::Length, &[text("Once upon ")]);
    log.replied(&[text("a time.")]);
    assert_eq!(log.state.answer, "Once upon a time.");

    // Nothing follows a closing reply: what it says is the answer, however it ended.
    let mut log = Log::with(|config| config.limits.rounds_max = 1);
    log.prompt("Look.");
    log.replied(&[call("look", "{}")]);
    log.finished(0, How::Ok, "21");
    log.replied_as(ReplyStop::Length, &[text("It is 21."), half_call("look")]);
    assert_eq!(log.state.answer, "It is 21.");
}

#[test]
fn a_reply_of_text_was_cut_once() {
    let mut log = Log::new();
    log.prompt("Tell me a story.");
    log.replied_as(ReplyStop::Length, &[reasoning(true), text("Once upon")]);
    log.replied(&[text("a time.")]);
    log.is(r#"
        > prompt "Tell me a story."
        ask model: round 1, attempt 1, reads 40, writes 8192 at most
        wait
        > replied Length: (signed), "Once upon"
        ask model: round 2, attempt 1, reads 67, writes 32768 at most
        wait
        > replied End: "a time."
        end end ""
        idle
        --------
        user: Tell me a story.
        model: (signed)
        model: "Once upon"
        user: [Your reply was cut at its limit of 8192 tokens. Go on from there, or answer in fewer words.]
        model: "a time."
    "#);
}

#[test]
fn the_stream_broke_for_good() {
    let mut log = Log::with(|config| config.limits.retries_max = 0);
    log.prompt("Look.");
    log.arrived = vec![text("Let me"), call("look", "{}"), half_call("rm")];
    log.failed(ErrorClass::Network, None);
    log.prompt("Again.");
    log.is(r#"
        > prompt "Look."
        ask model: round 1, attempt 1, reads 37, writes 8192 at most
        wait
        > failed Network
        answer call_5_0 look not_run: "Not run: this reply broke off before its end, so nothing of it ran."
        end failed "Network it was"
        idle
        > prompt "Again."
        ask model: round 1, attempt 1, reads 60, writes 8192 at most
        wait
        --------
        user: Look.
        model: "Let me"
        model: look({})
        call_5_0 not_run: Not run: this reply broke off before its end, so nothing of it ran.
        user: Again.
    "#);
}

#[test]
fn a_limit_was_reached_before_it() {
    let mut log = Log::with(|config| config.limits.calls_max = 1);
    log.prompt("Look twice.");
    log.replied(&[call("rm", "{}"), call("look", "{}"), call("lok", "{}")]);
    log.finished(0, How::Ok, "gone");
    log.replied(&[text("One was enough.")]);
    log.is(r#"
        > prompt "Look twice."
        ask model: round 1, attempt 1, reads 39, writes 8192 at most
        wait
        > replied End: rm({}), look({}), lok({})
        judge call_5_0
        run call_5_0 rm, attempt 1, key s/call_5_0, Once ["destroys"]
        answer call_5_1 look not_run: "Not run: the limit on tool calls was reached before it."
        answer call_5_2 lok not_run: "Not run: the limit on tool calls was reached before it."
        wait
        > finished call_5_0 ok: "gone"
        ask model: round 1, attempt 1, closing for Calls, reads 71, writes 2048 at most
        wait
        > replied End: "One was enough."
        end calls ""
        idle
        --------
        user: Look twice.
        model: rm({})
        model: look({})
        model: lok({})
        call_5_0 ok: gone
        call_5_1 not_run: Not run: the limit on tool calls was reached before it.
        call_5_2 not_run: Not run: the limit on tool calls was reached before it.
        user: [The limit on tool calls of this turn is reached. No tool will run any more. Answer now, in text, with what you have; say what is unfinished.]
        model: "One was enough."
    "#);
}

#[test]
fn it_ran_past_its_time() {
    let mut log = Log::new();
    log.prompt("Look.");
    log.replied(&[call("look", "{}")]);
    log.finished(0, How::TimedOut, "Failed: it ran past its limit of 20s and was ended.");
    log.is(r#"
        > prompt "Look."
        ask model: round 1, attempt 1, reads 37, writes 8192 at most
        wait
        > replied End: look({})
        judge call_5_0
        run call_5_0 look, attempt 1, key s/call_5_0, Pure []
        wait
        > finished call_5_0 timed_out: "Failed: it ran past its limit of 20s and was ended."
        ask model: round 2, attempt 1, reads 52, writes 8192 at most
        wait
        --------
        user: Look.
        model: look({})
        call_5_0 timed_out: Failed: it ran past its limit of 20s and was ended.
    "#);
}

#[test]
fn nothing_of_a_refusal_runs() {
    let mut log = Log::new();
    log.prompt("Remove all.");
    log.replied_as(ReplyStop::Refusal, &[text("No."), call("rm", "{}")]);
    log.is(r#"
        > prompt "Remove all."
        ask model: round 1, attempt 1, reads 39, writes 8192 at most
        wait
        > replied Refusal: "No.", rm({})
        answer call_5_0 rm not_run: "Not run: the reply ended as a refusal."
        end refusal ""
        idle
        --------
        user: Remove all.
        model: "No."
        model: rm({})
        call_5_0 not_run: Not run: the reply ended as a refusal.
    "#);
}

#[test]
fn a_pause_is_continued() {
    let mut log = Log::new();
    log.prompt("Search.");
    log.replied_as(ReplyStop::Paused, &[reasoning(true), text("Searching.")]);
    log.replied(&[text("Found.")]);
    log.is(r#"
        > prompt "Search."
        ask model: round 1, attempt 1, reads 38, writes 8192 at most
        wait
        > replied Paused: (signed), "Searching."
        ask model: round 2, attempt 1, reads 42, writes 8192 at most
        wait
        > replied End: "Found."
        end end ""
        idle
        --------
        user: Search.
        model: (signed)
        model: "Searching."
        model: "Found."
    "#);
}

#[test]
fn a_late_result_is_news() {
    let mut log = Log::new();
    log.prompt("Pay.");
    log.replied(&[call("pay", "{}")]);
    log.finished(0, How::Ok, "accepted");
    log.replied(&[text("It is on its way.")]);
    let late = ToolFinished {
        call: CallId("call_5_0".to_owned()),
        name: "pay".to_owned(),
        how: How::Ok,
        result: ToolResult::text("paid"),
        labels: Labels::default(),
        ms: 9,
    };
    log.say("late result", Event::from(late));
    log.prompt("And?");
    log.is(r#"
        > prompt "Pay."
        ask model: round 1, attempt 1, reads 37, writes 8192 at most
        wait
        > replied End: pay({})
        judge call_5_0
        run call_5_0 pay, attempt 1, key s/call_5_0, Keyed ["spends"]
        wait
        > finished call_5_0 ok: "accepted"
        ask model: round 2, attempt 1, reads 40, writes 8192 at most
        wait
        > replied End: "It is on its way."
        end end ""
        idle
        > late result
        idle
        > prompt "And?"
        ask model: round 1, attempt 1, reads 61, writes 8192 at most
        wait
        --------
        user: Pay.
        model: pay({})
        call_5_0 ok: accepted
        model: "It is on its way."
        user: [Late result of pay (call_5_0), after it was answered: paid]
        user: And?
    "#);
}

#[test]
fn a_blank_prompt_is_one() {
    let mut log = Log::new();
    log.prompt(" \n");
    log.replied(&[text(" "), reasoning(true)]);
    log.is(r#"
        > prompt " \n"
        ask model: round 1, attempt 1, reads 39, writes 8192 at most
        wait
        > replied End: " ", (signed)
        end end ""
        idle
        --------
        user: [no prompt]
        model: (signed)
        model: "[no text]"
    "#);
}

#[test]
fn a_person_refused() {
    let mut log = Log::new();
    log.verdicts.push_back(Verdict::Ask("it destroys".to_owned()));
    log.prompt("Remove it.");
    log.replied(&[call("rm", "{\"n\":1}")]);
    log.answered(0, Choice::No);
    log.is(r#"
        > prompt "Remove it."
        ask model: round 1, attempt 1, reads 39, writes 8192 at most
        wait
        > replied End: rm({"n":1})
        judge call_5_0
        ask person: call_5_0 rm({"n":1}), "it destroys", [Once, Session, No]
        wait
        > answered call_5_0 No
        answer call_5_0 rm refused: "Refused: no reason given. This is final; do not try the same call again."
        ask model: round 2, attempt 1, reads 59, writes 8192 at most
        wait
        --------
        user: Remove it.
        model: rm({"n":1})
        call_5_0 refused: Refused: no reason given. This is final; do not try the same call again.
    "#);
}
