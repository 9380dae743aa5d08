//! Turns that wait for something outside, refusals that are mended, servers that are replaced:
//! on whole sessions.

mod common;

use std::sync::Arc;

use common::{Counting, Does, PausedClock, Says, Witness, World, in_short, say, until_stop};
use inspan_core::{
    Event,
    effects::Repeat,
    event::{ModelRef, Stop},
    gate::{AnsweredBy, Asking, Choice, Verdict},
    mask::Mask,
    message::{CallId, ReplyStop, ToolResult},
    provider::{ErrorClass, Refused},
    store::AnswerLeft,
};
use inspan_engine::{
    Command, Fallback, Session,
    outside::{self, OutsideError},
};
use inspan_testkit::model::{Answer, ScriptedModel};
use serde_json::json;

fn call(id: &str) -> CallId {
    CallId(id.to_owned())
}

/// The process that asked ends; another one answers; a third goes on.
#[tokio::test(start_paused = true)]
async fn a_permission_is_answered_by_another_process() {
    let witness = Witness::default();
    let mut world = World::new([Answer::calls(&[("pay", json!({}))]), Answer::text("Paid.")])
        .tool(Counting::new("pay", Repeat::Once, Does::Echo, &witness))
        .gate(Says("pay", Ok(Verdict::Ask("it costs".to_owned()))));
    world.setup.asking = Asking::Later;
    let log = world.run("Pay").await;
    assert_eq!(in_short(&log).last().unwrap(), "stop parked: pay (call_5_0) waits for a person");
    let (store, clock) = (&*world.setup.store, PausedClock::new());
    let answer = |id: &str, choice| {
        let (session, call, why) = (world.id.clone(), call(id), String::new());
        let clock = &clock;
        async move { outside::answer(store, clock, &session, &call, choice, why).await }
    };
    assert_eq!(
        answer("call_9_0", Choice::Once).await.unwrap_err().to_string(),
        "no question about call_9_0 waits for an answer; these do: call_5_0"
    );
    assert_eq!(answer("call_5_0", Choice::Once).await, Ok(()));
    assert_eq!(
        answer("call_5_0", Choice::No).await.unwrap_err().to_string(),
        "no question about call_5_0 waits for an answer; none does in this session"
    );
    assert_eq!(witness.all(), Vec::<String>::new());
    let (session, ended) = Session::resume(world.setup.clone(), world.id.clone()).await.unwrap();
    drop(session);
    ended.await.unwrap().unwrap();
    assert_eq!(witness.all(), ["begin pay{}", "end pay{}"]);
    let log = inspan_engine::session::log(store, &world.id).await.unwrap();
    let log: Vec<_> = log.into_iter().map(Arc::new).collect();
    assert_eq!(
        in_short(&log)[6..],
        [
            "PermissionAsked",
            "Parked",
            "stop parked: pay (call_5_0) waits for a person",
            "PermissionAnswered",
            "Woken",
            "ToolStarted pay 1",
            "pay ok: {}",
            "RoundStarted 2.1",
            "ModelReplied",
            "stop end"
        ]
    );
}

/// Another process leaves an answer for whoever drives the session, or drives it next.
#[tokio::test(start_paused = true)]
async fn an_answer_that_was_left_is_taken() {
    for asking in [Asking::Now, Asking::Later] {
        let witness = Witness::default();
        let mut world = World::new([Answer::calls(&[("pay", json!({}))]), Answer::text("Paid.")])
            .tool(Counting::new("pay", Repeat::Once, Does::Echo, &witness))
            .gate(Says("pay", Ok(Verdict::Ask("it costs".to_owned()))));
        world.setup.asking = asking;
        let store = world.setup.store.clone();
        let left = AnswerLeft {
            call: call("call_5_0"),
            choice: Choice::Once,
            why: "it is mine".to_owned(),
        };
        let (mut session, mut ended) = world.start().await;
        say(&session, "Pay").await;
        if asking == Asking::Now {
            common::until(&session, |event| event.kind() == "PermissionAsked").await;
            // What nobody was asked about is not taken.
            let other = AnswerLeft { call: call("call_9_0"), ..left.clone() };
            store.leave_answer(&world.id, other).await.unwrap();
            store.leave_answer(&world.id, left).await.unwrap();
        } else {
            until_stop(&session).await;
            drop(session);
            ended.await.unwrap().unwrap();
            store.leave_answer(&world.id, left).await.unwrap();
            (session, ended) =
                Session::resume(world.setup.clone(), world.id.clone()).await.unwrap();
        }
        let is_end = |event: &Event| matches!(event, Event::TurnEnded(e) if e.stop == Stop::End);
        let log = common::until(&session, is_end).await;
        let answers = log.iter().filter_map(|entry| match &entry.event {
            Event::PermissionAnswered(e) => Some((e.by, e.why.as_str())),
            _ => None,
        });
        assert_eq!(answers.collect::<Vec<_>>(), [(AnsweredBy::Person, "it is mine")]);
        assert_eq!(witness.all(), ["begin pay{}", "end pay{}"], "{asking:?}");
        let still = store.answers_left(&world.id).await.unwrap();
        assert!(still.iter().all(|left| left.call == call("call_9_0")), "{still:?}");
        drop(session);
        ended.await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_result_that_comes_later_wakes_the_turn_and_comes_once() {
    let witness = Witness::default();
    let world = World::new([
        Answer::calls(&[("order", json!({}))]),
        Answer::text("It is here."),
        Answer::text("Twice?"),
    ])
    .tool(Counting::new("order", Repeat::Once, Does::Defers, &witness));
    let (session, ended) = world.start().await;
    say(&session, "Order").await;
    let log = until_stop(&session).await;
    assert_eq!(
        in_short(&log).last().unwrap(),
        "stop parked: order (call_5_0) waits for its job job 7"
    );
    let outcome = Ok(ToolResult::text("hunter2hunter2 is here"));
    session.submit(Command::Deliver { call: call("call_5_0"), outcome }).await;
    let log = common::until(
        &session,
        |event| matches!(event, Event::TurnEnded(e) if e.stop.as_str() == "end"),
    )
    .await;
    assert_eq!(
        in_short(&log)[7..],
        [
            "ToolDeferred",
            "Parked",
            "stop parked: order (call_5_0) waits for its job job 7",
            "order ok: [masked] is here",
            "Woken",
            "RoundStarted 2.1",
            "ModelReplied",
            "stop end"
        ]
    );
    drop(session);
    ended.await.unwrap().unwrap();
    let (store, clock) = (&*world.setup.store, PausedClock::new());
    let deliver_text = |id: &str, text: &str| {
        let (session, call, clock) = (world.id.clone(), call(id), &clock);
        let outcome = Ok(ToolResult::text(text));
        async move {
            outside::deliver(store, clock, &session, &call, outcome, &Mask::default(), None).await
        }
    };
    let deliver = |id: &'static str| deliver_text(id, "once more");
    // The same again is no news.
    assert_eq!(
        deliver_text("call_5_0", "[masked] is here").await,
        Err(OutsideError::Delivered(call("call_5_0")))
    );
    assert_eq!(deliver("call_5_0").await, Ok(()));
    assert_eq!(deliver("call_5_0").await, Err(OutsideError::Delivered(call("call_5_0"))));
    assert_eq!(deliver("call_9_0").await, Err(OutsideError::NoCall(call("call_9_0"))));
    let (session, ended) = Session::resume(world.setup.clone(), world.id.clone()).await.unwrap();
    say(&session, "And?").await;
    drop(session);
    ended.await.unwrap().unwrap();
    let last = world.model.requests().pop().unwrap();
    assert_eq!(
        last.last().unwrap(),
        "user: \"[Late result of order (call_5_0), after it was answered: once more]\" | user: \"And?\""
    );
}

#[tokio::test(start_paused = true)]
async fn a_refused_request_is_sent_without_what_was_refused() {
    let witness = Witness::default();
    let calls = [("echo", json!({"n": 1}))];
    let refuses = |refused| Answer::new().refuses(refused);
    let world = World::new([
        Answer::new().reasons("hm", "{}").asks("echo", "{\"n\":1}").ends(ReplyStop::End),
        refuses(Refused::Reasoning),
        refuses(Refused::Tool { name: "other".to_owned() }),
        refuses(Refused::Calls),
        Answer::calls(&calls),
        Answer::text("Done."),
    ])
    .tool(Counting::new("echo", Repeat::Pure, Does::Echo, &witness))
    .tool(Counting::new("other", Repeat::Pure, Does::Echo, &witness));
    let log = world.run("Go").await;
    assert_eq!(in_short(&log).last().unwrap(), "stop end");
    let requests = world.model.requests();
    let (user, call, result) = ("user: \"Go\"", "call: echo({\"n\":1})", "echo ok: {\"n\":1}");
    let said = "assistant: [called echo with {\"n\":1}]";
    let told = "user: \"[result of echo: {\\\"n\\\":1}]\"";
    assert_eq!(
        requests,
        [
            vec![user],
            vec![user, "reasoning: hm | call: echo({\"n\":1})", result],
            vec![user, call, result],
            vec![user, call, result],
            vec![user, said, told],
            vec![user, said, told, call, result],
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_fallback_answers_when_the_server_fails_for_good() {
    let second = Arc::new(ScriptedModel::new([Answer::text("I am the second.")]));
    let mut world = World::new([Answer::new().says("half").fails(ErrorClass::Auth, None)]);
    world.setup.fallbacks = vec![Fallback {
        model: ModelRef { url: "scripted://second".to_owned(), ..world.setup.config.model.clone() },
        provider: second.clone(),
    }];
    let log = world.run("Go").await;
    assert_eq!(
        in_short(&log)[3..],
        [
            "RoundStarted 1.1",
            "ModelFailed auth",
            "ModelSwitched",
            "RoundStarted 1.2",
            "ModelReplied",
            "stop end"
        ]
    );
    assert_eq!(second.requests(), [["user: \"Go\""]]);
}

/// A count that can't be would spend all that the session may spend.
#[tokio::test(start_paused = true)]
async fn a_server_that_counts_anything_is_not_believed() {
    let answer = |input, text| Answer::new().counts(input, 5).says(text).ends(ReplyStop::End);
    let answers = [answer(6_000_000, "Hi."), answer(20, "Still here.")];
    let world = World::new(answers);
    let (session, ended) = world.start().await;
    for prompt in ["Hello", "And now?"] {
        say(&session, prompt).await;
        until_stop(&session).await;
    }
    drop(session);
    ended.await.unwrap().unwrap();
    let log = inspan_engine::session::log(&*world.setup.store, &world.id).await.unwrap();
    let replies: Vec<_> = log
        .iter()
        .filter_map(|entry| match &entry.event {
            Event::ModelReplied(e) => Some((e.reply.text(), e.reply.usage.estimated)),
            _ => None,
        })
        .collect();
    assert_eq!(replies, [("Hi.".to_owned(), true), ("Still here.".to_owned(), false)]);
    let state = inspan_engine::session::fold(&*world.setup.store, &world.id).await.unwrap();
    assert!(state.total.tokens < 1_000, "{:?}", state.total);
}
