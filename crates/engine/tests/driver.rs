//! The driver's rules, on whole logs.

mod common;

use std::{sync::Arc, time::Duration};

use common::{Counting, Does, Says, Witness, World, in_short, say, until, until_stop};
use inspan_core::{
    Entry, Event,
    budget::Price,
    effects::Repeat,
    event::{Head, ProjectionRepaired},
    gate::{Asking, BoxFuture, Choice, Verdict},
    hash::Hash,
    message::{Content, ImageRef, Labels, ReplyStop},
    provider::{Delta, ErrorClass},
    repair::Repair,
    store::{Claim, SessionFilter, SessionId, SessionRow, Store, StoreError},
};
use inspan_engine::{Command, Session, SessionError, Update, session::fold};
use inspan_testkit::model::Answer;
use serde_json::json;
use tokio::sync::Notify;

#[tokio::test(start_paused = true)]
async fn an_answer_without_tools_is_one_round() {
    let world = World::new([Answer::text("Hello.")]);
    let log = world.run("Hi").await;
    assert_eq!(
        in_short(&log),
        [
            "SessionStarted",
            "SessionConfigured",
            "PromptSubmitted",
            "RoundStarted 1.1",
            "ModelReplied",
            "stop end"
        ]
    );
    assert_eq!(world.model.requests(), [["user: \"Hi\""]]);
    assert_eq!(
        log.iter().map(|e| (e.turn, e.round)).collect::<Vec<_>>(),
        [(0, 0), (0, 0), (1, 0), (1, 1), (1, 1), (1, 1)]
    );
}

/// The scripted model takes 20 pictures.
#[tokio::test(start_paused = true)]
async fn pictures_that_would_be_too_many_are_left_out_before_they_are_sent() {
    let picture = |number: u8| {
        let (hash, media_type) = (Hash([number; 32]), "image/png".to_owned());
        Content::Image(ImageRef { hash, media_type, size_bytes: 1 })
    };
    let world = World::new([Answer::text("Many."), Answer::text("And one.")]);
    let (session, ended) = world.start().await;
    for numbers in [1..=21, 22..=22] {
        let content = numbers.map(picture).collect();
        assert!(session.submit(Command::Prompt(content, Labels::default())).await);
        until_stop(&session).await;
    }
    let store = world.setup.store.clone();
    drop(session);
    ended.await.unwrap().unwrap();
    let log: Vec<_> =
        store.read(&world.id, 2, 99).await.unwrap().into_iter().map(Arc::new).collect();
    let round =
        |rest: &[&'static str]| [rest, &["RoundStarted 1.1", "ModelReplied", "stop end"]].concat();
    let expected = [round(&["PromptSubmitted", "ProjectionRepaired"]), round(&["PromptSubmitted"])];
    assert_eq!(in_short(&log), expected.concat());
    let Event::ProjectionRepaired(repaired) = &log[1].event else { panic!("{:?}", log[1]) };
    let images = (1..=11).map(|number| Hash([number; 32])).collect();
    let why = "the model is shown 20 pictures at most".to_owned();
    assert_eq!(*repaired, ProjectionRepaired { repair: Repair::DropImages { images }, why });
}

#[tokio::test(start_paused = true)]
async fn reading_tools_run_side_by_side_and_are_answered_in_order() {
    let witness = Witness::default();
    let takes = |ms| Does::Takes(Duration::from_millis(ms));
    let calls = [("slow", json!({"n": 1})), ("quick", json!({"n": 2}))];
    let world = World::new([Answer::calls(&calls), Answer::text("Done.")])
        .tool(Counting::new("slow", Repeat::Pure, takes(200), &witness))
        .tool(Counting::new("quick", Repeat::Pure, takes(100), &witness));
    world.run("Go").await;
    assert_eq!(
        witness.all(),
        ["begin slow{\"n\":1}", "begin quick{\"n\":2}", "end quick{\"n\":2}", "end slow{\"n\":1}"]
    );
    assert_eq!(
        world.model.requests()[1],
        [
            "user: \"Go\"",
            "call: slow({\"n\":1}) | call: quick({\"n\":2})",
            "slow ok: {\"n\":1} | quick ok: {\"n\":2}"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn writing_tools_run_one_after_the_other() {
    let witness = Witness::default();
    let takes = Does::Takes(Duration::from_millis(100));
    let calls = [("write", json!({"n": 1})), ("write", json!({"n": 2})), ("read", json!({"n": 3}))];
    let world = World::new([Answer::calls(&calls), Answer::text("Done.")])
        .tool(Counting::new("write", Repeat::Once, takes, &witness))
        .tool(Counting::new("read", Repeat::Pure, Does::Echo, &witness));
    world.run("Go").await;
    assert_eq!(
        witness.all(),
        [
            "begin write{\"n\":1}",
            "end write{\"n\":1}",
            "begin write{\"n\":2}",
            "end write{\"n\":2}",
            "begin read{\"n\":3}",
            "end read{\"n\":3}"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_call_is_answered() {
    let witness = Witness::default();
    let answer = Answer::new()
        .asks("echo", "{\"a\":1}")
        .asks("ecco", "{}")
        .asks("echo", "{\"bad\":1}")
        .asks("echo", "{\"a\":")
        .asks("fails", "{}")
        .asks("panics", "{}")
        .asks("secret", "{\"say\":\"hunter2hunter2\"}")
        .asks("denied", "{}")
        .asks("asked", "{}")
        .asks("late", "{}")
        .ends(ReplyStop::End);
    let hangs = Does::Hangs(Arc::new(Notify::new()));
    let tool = |name: &str, does: Does| Counting::new(name, Repeat::Pure, does, &witness);
    let world = World::new([answer, Answer::text("Done.")])
        .tool(tool("echo", Does::Echo))
        .tool(tool("fails", Does::Fails))
        .tool(tool("panics", Does::Panics))
        .tool(tool("secret", Does::Echo))
        .tool(tool("denied", Does::Echo))
        .tool(tool("asked", Does::Echo))
        .tool(tool("late", hangs).with(|spec| spec.timeout_ms_max = 20_000))
        .gate(Says("denied", Ok(Verdict::Deny("not on a Monday".to_owned()))))
        .gate(Says("asked", Ok(Verdict::Ask("it is expensive".to_owned()))));
    world.run("Go").await;
    let results = world.model.requests()[1][2].clone();
    assert_eq!(
        results.split(" | ").collect::<Vec<_>>(),
        [
            "echo ok: {\"a\":1}",
            "ecco unknown_tool: Failed: there is no tool `ecco`. Near names: echo.",
            "echo bad_arguments: Not run: the arguments do not fit. /bad: unknown property",
            "echo bad_arguments: Not run: the arguments are not a JSON object. Write the call again \
          with valid JSON.",
            "fails failed: Failed: the disk is on fire",
            "panics failed: Failed: the tool itself broke down.",
            "secret ok: {\"say\":\"[masked]\"}",
            "denied refused: Refused: not on a Monday. This is final; do not try the same call again.",
            "asked refused: Refused: nobody is there to be asked. This is final; do not try the same \
          call again.",
            "late timed_out: Failed: it ran past its limit of 20s and was ended."
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_person_answers_once_for_the_session_or_no() {
    let witness = Witness::default();
    let call = |n: u32| Answer::calls(&[("pay", json!({ "n": n }))]);
    let world = World::new([call(1), call(2), call(3), call(4), Answer::text("Done.")])
        .tool(Counting::new("pay", Repeat::Once, Does::Echo, &witness))
        .gate(Says("pay", Ok(Verdict::Ask("it costs".to_owned()))));
    let mut world = world;
    world.setup.asking = Asking::Now;
    let (session, ended) = world.start().await;
    say(&session, "Go").await;
    let mut updates = session.updates(0);
    let mut choices = [Choice::Once, Choice::No, Choice::Session].into_iter();
    let mut asked = Vec::new();
    while let Some(update) = updates.next().await.unwrap() {
        let Update::Entry(entry) = update else { continue };
        match &entry.event {
            Event::PermissionAsked(e) => {
                asked.push((e.why.clone(), e.arguments.to_string()));
                let choice = choices.next().unwrap();
                let why = if choice == Choice::No { "too dear" } else { "" }.to_owned();
                let call = e.call.clone();
                session.submit(Command::Answer { call: call.clone(), choice, why }).await;
                // A second answer to the same question changes nothing.
                let why = String::new();
                session.submit(Command::Answer { call, choice: Choice::Session, why }).await;
            }
            Event::TurnEnded(_) => break,
            _ => {}
        }
    }
    let ask = |n: u32| ("it costs".to_owned(), format!("{{\"n\":{n}}}"));
    assert_eq!(asked, [ask(1), ask(2), ask(3)]);
    let last = world.model.requests().pop().unwrap();
    let results: Vec<&String> = last.iter().filter(|message| message.starts_with("pay")).collect();
    assert_eq!(
        results,
        [
            "pay ok: {\"n\":1}",
            "pay refused: Refused: too dear. This is final; do not try the same call again.",
            "pay ok: {\"n\":3}",
            "pay ok: {\"n\":4}"
        ]
    );
    drop((session, updates));
    ended.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn cancel_in_the_middle_of_a_stream_keeps_the_text() {
    let half = Answer::new().says("Lisbon is").asks("echo", "{}").asks_half("echo", "{\"a").hangs();
    let world = World::new([half, Answer::text("Fine.")]);
    let (session, _ended) = world.start().await;
    say(&session, "Go").await;
    let mut updates = session.updates(0);
    while !matches!(updates.next().await.unwrap(), Some(Update::Delta { .. })) {}
    session.submit(Command::Cancel).await;
    let log = until_stop(&session).await;
    assert_eq!(
        in_short(&log)[4..],
        [
            "CancelRequested",
            "ModelReplied",
            "echo cancelled: Cancelled by the user.",
            "stop cancelled"
        ]
    );
    say(&session, "Go on").await;
    until(&session, |event| matches!(event, Event::TurnEnded(e) if e.stop.as_str() == "end")).await;
    assert_eq!(
        world.model.requests()[1],
        [
            "user: \"Go\"",
            "assistant: Lisbon is | call: echo({})",
            "echo cancelled: Cancelled by the user. | user: \"Go on\""
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn cancel_ends_running_tools_and_those_that_wait() {
    let (witness, begun) = (Witness::default(), Arc::new(Notify::new()));
    let calls = [("hangs", json!({})), ("after", json!({}))];
    let world = World::new([Answer::calls(&calls)])
        .tool(Counting::new("hangs", Repeat::Once, Does::Hangs(begun.clone()), &witness))
        .tool(Counting::new("after", Repeat::Once, Does::Echo, &witness));
    let (session, _ended) = world.start().await;
    say(&session, "Go").await;
    begun.notified().await;
    session.submit(Command::Cancel).await;
    let log = until_stop(&session).await;
    assert_eq!(
        in_short(&log)[5..],
        [
            "GateJudged",
            "ToolStarted hangs 1",
            "CancelRequested",
            "hangs cancelled: Cancelled by the user while it ran. It may have done some of its \
             work: check before you try it again.",
            "after cancelled: Cancelled by the user.",
            "stop cancelled"
        ]
    );
    assert_eq!(witness.all(), ["begin hangs{}"]);
}

#[tokio::test(start_paused = true)]
async fn a_patient_cancel_waits_for_what_must_not_run_twice() {
    let (witness, begun) = (Witness::default(), Arc::new(Notify::new()));
    let world = World::new([Answer::calls(&[("hangs", json!({}))])]).tool(
        Counting::new("hangs", Repeat::Once, Does::Hangs(begun.clone()), &witness)
            .with(|spec| spec.timeout_ms_max = 1_000),
    );
    let (session, _ended) = world.start().await;
    say(&session, "Go").await;
    begun.notified().await;
    session.submit(Command::CancelSafely).await;
    let log = until_stop(&session).await;
    assert_eq!(
        in_short(&log)[5..],
        [
            "GateJudged",
            "ToolStarted hangs 1",
            "CancelRequested",
            "hangs timed_out: Failed: it ran past its limit of 1s and was ended.",
            "stop cancelled"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_patient_cancel_waits_no_longer_than_the_turn_may_last() {
    let (witness, begun) = (Witness::default(), Arc::new(Notify::new()));
    let world = World::new([Answer::calls(&[("hangs", json!({}))])]).tool(Counting::new(
        "hangs",
        Repeat::Once,
        Does::Hangs(begun.clone()),
        &witness,
    ));
    let world = world.limits(|limits| limits.time_ms_max = Some(1_000));
    let (session, _ended) = world.start().await;
    say(&session, "Go").await;
    begun.notified().await;
    session.submit(Command::CancelSafely).await;
    let log = until_stop(&session).await;
    assert_eq!(
        in_short(&log)[7..],
        [
            "CancelRequested",
            "hangs cancelled: Cancelled by the user while it ran. It may have done some of its \
             work: check before you try it again.",
            "stop cancelled"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_prompt_during_a_turn_is_taken_at_the_next_round() {
    let (witness, begun) = (Witness::default(), Arc::new(Notify::new()));
    let world = World::new([Answer::calls(&[("slow", json!({}))]), Answer::text("Done.")]).tool(
        Counting::new("slow", Repeat::Pure, Does::Hangs(begun.clone()), &witness)
            .with(|spec| spec.timeout_ms_max = 1000),
    );
    let (session, _ended) = world.start().await;
    say(&session, "Go").await;
    begun.notified().await;
    say(&session, "And Porto?").await;
    until_stop(&session).await;
    assert_eq!(
        world.model.requests()[1],
        [
            "user: \"Go\"",
            "call: slow({})",
            "slow timed_out: Failed: it ran past its limit of 1s and was ended. | user: \"And Porto?\""
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn passing_failures_are_tried_again_and_final_ones_are_not() {
    let passing = [ErrorClass::Overloaded, ErrorClass::Network, ErrorClass::Stalled];
    let mut answers: Vec<Answer> = passing.into_iter().map(Answer::failure).collect();
    answers.push(Answer::new().says("Half").fails(ErrorClass::RateLimited, Some(7000)));
    answers.push(Answer::text("Hello."));
    let world = World::new(answers);
    let log = world.run("Hi").await;
    assert_eq!(
        in_short(&log)[3..],
        [
            "RoundStarted 1.1",
            "ModelFailed overloaded",
            "RoundStarted 1.2",
            "ModelFailed network",
            "RoundStarted 1.3",
            "ModelFailed stalled",
            "RoundStarted 1.4",
            "ModelFailed rate_limited",
            "RoundStarted 1.5",
            "ModelReplied",
            "stop end"
        ]
    );
    let waits: Vec<i64> = log[3..].windows(2).map(|pair| pair[1].at_ms - pair[0].at_ms).collect();
    assert_eq!(waits, [0, 500, 0, 1000, 0, 2000, 0, 7000, 0, 0]);

    let world = World::new([Answer::failure(ErrorClass::Auth)]);
    assert_eq!(
        in_short(&world.run("Hi").await)[3..],
        ["RoundStarted 1.1", "ModelFailed auth", "stop failed: scripted auth"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_breaks_for_good_keeps_its_text_and_runs_nothing() {
    let broken = || Answer::new().says("Half").asks("echo", "{}").fails(ErrorClass::Network, None);
    let witness = Witness::default();
    let world = World::new([broken(), broken()])
        .tool(Counting::new("echo", Repeat::Pure, Does::Echo, &witness))
        .limits(|limits| limits.retries_max = 1);
    let log = world.run("Hi").await;
    assert_eq!(
        in_short(&log)[5..],
        [
            "RoundStarted 1.2",
            "ModelFailed network",
            "echo not_run: Not run: this reply broke off before its end, so nothing of \
          it ran.",
            "stop failed: scripted network"
        ]
    );
    assert_eq!(witness.all(), [] as [&str; 0]);
}

#[tokio::test(start_paused = true)]
async fn past_its_time_a_turn_ends_without_a_closing_call() {
    let (witness, begun) = (Witness::default(), Arc::new(Notify::new()));
    let world = World::new([Answer::calls(&[("hangs", json!({}))])])
        .tool(Counting::new("hangs", Repeat::Once, Does::Hangs(begun), &witness))
        .limits(|limits| limits.time_ms_max = Some(90_000));
    let log = world.run("Go").await;
    assert_eq!(
        in_short(&log)[6..],
        [
            "ToolStarted hangs 1",
            "hangs timed_out: Failed: the time of this turn was over while it ran, and it was ended.",
            "stop time"
        ]
    );
    assert_eq!(log.last().unwrap().at_ms - log[2].at_ms, 90_000);

    let world = World::new([Answer::new().says("I think").hangs()])
        .limits(|limits| limits.time_ms_max = Some(5_000));
    let log = world.run("Go").await;
    assert_eq!(
        in_short(&log)[3..],
        ["RoundStarted 1.1", "ModelFailed time_limit", "stop time: the time of this turn was over"]
    );
}

#[tokio::test(start_paused = true)]
async fn the_closing_call_comes_at_the_limit_on_rounds() {
    let witness = Witness::default();
    let call = |n: u32| Answer::calls(&[("echo", json!({ "n": n }))]);
    let closing = Answer::new().says("So far: 1.").asks("echo", "{}").ends(ReplyStop::End);
    let world = World::new([call(1), closing])
        .tool(Counting::new("echo", Repeat::Pure, Does::Echo, &witness))
        .limits(|limits| limits.rounds_max = 1);
    let log = world.run("Go").await;
    assert_eq!(
        in_short(&log)[6..],
        [
            "ToolStarted echo 1",
            "echo ok: {\"n\":1}",
            "RoundStarted closing rounds",
            "ModelReplied",
            "echo not_run: Not run: the limit on rounds was reached before it.",
            "stop rounds"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_quota_parks_the_turn_and_waking_goes_on() {
    let quota = Answer::new().fails(ErrorClass::Quota, Some(3_600_000));
    let world = World::new([quota, Answer::text("Hello.")]);
    let (session, _ended) = world.start().await;
    say(&session, "Hi").await;
    let log = until_stop(&session).await;
    assert_eq!(
        in_short(&log)[3..],
        ["RoundStarted 1.1", "ModelFailed quota", "Parked", "stop parked: scripted quota"]
    );
    session.submit(Command::Wake).await;
    let log =
        until(&session, |event| matches!(event, Event::TurnEnded(e) if e.stop.as_str() == "end"))
            .await;
    assert_eq!(in_short(&log)[7..], ["Woken", "RoundStarted 1.2", "ModelReplied", "stop end"]);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_comes_late_sees_every_entry_once() {
    let world = World::new([Answer::text("One."), Answer::text("Two.")]);
    let (session, _ended) = world.start().await;
    say(&session, "First").await;
    let first = until_stop(&session).await;
    say(&session, "Second").await;
    let all = until(&session, |e| matches!(e, Event::TurnEnded(_))).await;
    assert_eq!(all, first);
    let mut updates = session.updates(first.len() as u64);
    let mut kinds = Vec::new();
    while kinds.last().map(String::as_str) != Some("TurnEnded") {
        if let Some(Update::Entry(entry)) = updates.next().await.unwrap() {
            kinds.push(entry.event.kind().to_owned());
        }
    }
    assert_eq!(kinds, ["PromptSubmitted", "RoundStarted", "ModelReplied", "TurnEnded"]);
}

#[tokio::test(start_paused = true)]
async fn what_can_not_start_says_why() {
    let witness = Witness::default();
    let echo = || Counting::new("echo", Repeat::Pure, Does::Echo, &witness);
    let world = World::new([]).tool(echo()).tool(echo());
    let error = Session::start(world.setup, world.id).await.err();
    assert_eq!(error, Some(SessionError::ToolTwice("echo".to_owned())));

    let world = World::new([]).limits(|limits| limits.cost_max_nano_usd = Some(1));
    let error = Session::start(world.setup, world.id).await.err();
    assert_eq!(
        error.map(|error| error.to_string()).as_deref(),
        Some(
            "a cost limit needs the price of scripted://model: set it (`models` in config.yaml, \
             `.price(…)` in a program), or leave out the limit"
        )
    );
}

#[tokio::test(start_paused = true)]
async fn the_result_of_any_tool_is_capped() {
    let witness = Witness::default();
    let text = "ab".repeat(50_000);
    let world = World::new([Answer::calls(&[("echo", json!({ "t": text }))]), Answer::text("Ok.")])
        .tool(Counting::new("echo", Repeat::Pure, Does::Echo, &witness));
    let log = world.run("Go").await;
    let Event::ToolFinished(finished) = &log[7].event else { panic!("{:?}", log[7].event) };
    let kept = finished.result.to_text();
    let cut: Vec<&str> = kept.lines().collect();
    assert_eq!((cut.len(), cut[1]), (3, "[34536 bytes left out here]"));
    assert!(cut[0].starts_with("{\"t\":\"abab") && cut[2].ends_with("abab\"}"));
}

#[tokio::test(start_paused = true)]
async fn what_was_cut_or_paused_is_part_of_the_answer() {
    let says = |text: &str, stop| Answer::new().says(text).ends(stop);
    let world = World::new([
        says("One ", ReplyStop::Length),
        says("two ", ReplyStop::Paused),
        says("three.", ReplyStop::End),
    ]);
    world.run("Count").await;
    assert_eq!(fold(&*world.setup.store, &world.id).await.unwrap().answer, "One two three.");

    let calls = Answer::new().says("Let me see.").asks("echo", "{}").ends(ReplyStop::End);
    let world = World::new([calls, Answer::failure(ErrorClass::Auth)]);
    world.run("Go").await;
    assert_eq!(fold(&*world.setup.store, &world.id).await.unwrap().answer, "");
}

#[tokio::test(start_paused = true)]
async fn what_was_begun_is_charged_and_what_was_refused_is_not() {
    let price = Price { input: 10, output: 100, cache_read: 0, cache_write: 0 };
    let charged = async |answers: Vec<Answer>| {
        let mut world = World::new(answers);
        world.setup.config.model.price = Some(price);
        let log = world.run("Go").await;
        let total = fold(&*world.setup.store, &world.id).await.unwrap().total;
        (
            in_short(&log).last().cloned().unwrap(),
            total.tokens,
            total.cost_nano_usd,
            total.incomplete,
        )
    };
    let end = "stop end".to_owned();
    // Refused at the door, then answered and counted.
    let done = Answer::new().says("Hello.").counts(1000, 10).ends(ReplyStop::End);
    let refused = vec![Answer::failure(ErrorClass::RateLimited), done.clone()];
    assert_eq!(charged(refused).await, (end.clone(), 1010, 11_000, false));
    // Broke after the provider had counted its input.
    let broken = Answer::new().counts(1000, 1).fails(ErrorClass::Network, None);
    assert_eq!(charged(vec![broken, done]).await, (end.clone(), 2011, 21_100, true));
    // Never counted: what was sent and written is estimated.
    assert_eq!(charged(vec![Answer::text("Hello.")]).await, (end, 10, 910, true));
}

/// A store whose commits take their time.
struct Slow(inspan_store::Memory);

impl Store for Slow {
    fn create(&self, session: &SessionId) -> BoxFuture<'static, Result<Claim, StoreError>> {
        self.0.create(session)
    }

    fn claim(&self, session: &SessionId) -> BoxFuture<'static, Result<Claim, StoreError>> {
        self.0.claim(session)
    }

    fn append(
        &self,
        claim: &Claim,
        after: Head,
        entries: Arc<[Entry]>,
    ) -> BoxFuture<'static, Result<(), StoreError>> {
        let append = self.0.append(claim, after, entries);
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            append.await
        })
    }

    fn read(
        &self,
        session: &SessionId,
        after: u64,
        count_max: usize,
    ) -> BoxFuture<'static, Result<Vec<Entry>, StoreError>> {
        self.0.read(session, after, count_max)
    }

    fn sessions(
        &self,
        filter: &SessionFilter,
    ) -> BoxFuture<'static, Result<Vec<SessionRow>, StoreError>> {
        self.0.sessions(filter)
    }
}

#[tokio::test(start_paused = true)]
async fn clients_hear_of_an_answer_after_the_entry_that_announces_it() {
    // The first answer is whole before its announcement is durable: its entry says it all.
    let store = Arc::new(Slow(inspan_store::Memory::new()));
    let witness = Witness::default();
    let calls = Answer::new().says("Wait.").asks("echo", "{}").ends(ReplyStop::End);
    let world = World::on(store, [calls, Answer::new().says("Do").says("ne.").hangs()])
        .tool(Counting::new("echo", Repeat::Pure, Does::Echo, &witness));
    let (session, _ended) = world.start().await;
    let mut updates = session.updates(2);
    say(&session, "Go").await;
    let mut heard = Vec::new();
    while heard.last().map(String::as_str) != Some("delta ne.") {
        heard.push(match updates.next().await.unwrap().unwrap() {
            Update::Entry(entry) => entry.event.kind().to_owned(),
            Update::Delta { delta: Delta::Text(text), .. } => format!("delta {text}"),
            Update::Delta { .. } => "delta of a call".to_owned(),
        });
    }
    assert_eq!(
        heard,
        [
            "PromptSubmitted",
            "RoundStarted",
            "ModelReplied",
            "GateJudged",
            "ToolStarted",
            "ToolFinished",
            "RoundStarted",
            "delta Do",
            "delta ne."
        ]
    );
}

/// Tools that are others from the second look on.
struct Changing {
    looks: std::sync::atomic::AtomicU32,
    tools: Vec<Arc<dyn inspan_core::tool::Tool>>,
}

impl inspan_engine::Catalogue for Changing {
    fn news(&self) -> BoxFuture<'static, Option<inspan_engine::News>> {
        let looks = self.looks.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let tools = self.tools.clone();
        let news = (looks == 1).then(|| inspan_engine::News {
            tools,
            asks: [("new".to_owned(), "it is new".to_owned())].into(),
            found: Default::default(),
            notices: vec!["hunter2hunter2 is new".to_owned()],
        });
        Box::pin(async move {
            tokio::task::yield_now().await;
            news
        })
    }
}

#[tokio::test(start_paused = true)]
async fn tools_that_come_and_go_are_in_the_next_round() {
    let witness = Witness::default();
    let counting = |name| Counting::new(name, Repeat::Pure, Does::Echo, &witness);
    let call = |name| Answer::calls(&[(name, json!({}))]);
    let answers = [call("old"), call("new"), Answer::text("Done.")];
    let mut world = World::new(answers).tool(counting("old"));
    world.setup.catalogue = Some(Arc::new(Changing {
        looks: Default::default(),
        tools: vec![Arc::new(counting("new"))],
    }));
    let log = world.run("Go.").await;
    let changed = log.iter().find_map(|entry| match &entry.event {
        Event::CatalogueChanged(change) => Some((entry.seq, change)),
        _ => None,
    });
    let (seq, change) = changed.unwrap();
    let came: Vec<_> = change.came.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!((came, &change.went[..]), (vec!["new"], &["old".to_owned()][..]));
    assert_eq!(change.notices, ["[masked] is new"]);
    assert_eq!(change.asks.len(), 1);
    // It stands before the round that has it.
    assert_eq!(log[seq as usize].event.kind(), "RoundStarted");
    assert_eq!(witness.all(), ["begin old{}", "end old{}", "begin new{}", "end new{}"]);
}
