//! Calls of tools that are served.

use std::sync::atomic::Ordering;

use futures_util::{StreamExt, future::join_all};
use inspan_core::Event;
use rmcp::{
    ServiceError,
    model::{CallToolRequest, ClientRequest, ErrorCode},
    service::PeerRequestOptions,
};
use serde_json::json;

use crate::world::{Mode, Person, World, answered, params, short};

/// What a call that ran leaves in the log of a new session.
const RAN: [&str; 10] = [
    "SessionStarted",
    "SessionConfigured",
    "PromptSubmitted",
    "RoundStarted",
    "ModelReplied",
    "GateJudged",
    "ToolStarted",
    "ToolFinished",
    "RoundStarted",
    "ModelReplied",
];

#[tokio::test]
async fn a_call_is_a_turn_of_a_session() {
    for mode in Mode::BOTH {
        let world = World::new();
        let client = world.client(Person::Nobody, mode).await;
        let result = client.call("echo", json!({ "text": "hi" })).await;
        assert_eq!(short(&result), answered("ok", "hi"), "{mode:?}");
        let second = client.call("echo", json!({ "text": "again" })).await;
        assert_eq!(short(&second), answered("ok", "again"), "{mode:?}");
        client.service.cancel().await.unwrap();

        let kinds = world.kinds().await;
        assert_eq!(kinds[..10], RAN, "{mode:?}");
        let turns = kinds.iter().filter(|kind| *kind == "PromptSubmitted").count();
        assert_eq!(turns, 2, "{mode:?}: {kinds:?}");
        let log = &world.logs().await[0];
        let said = log.iter().find_map(|entry| match &entry.event {
            Event::PromptSubmitted(said) => Some(said.content.clone()),
            _ => None,
        });
        let expected = inspan_core::message::Content::text("tester 1 calls echo over MCP");
        assert_eq!(said, Some(vec![expected]), "{mode:?}");
    }
}

#[tokio::test]
async fn every_way_a_call_can_be_answered() {
    let world = World::new();
    let client = world.client(Person::Nobody, Mode::Modern).await;
    let not_asked = "Refused, and final: nobody is there to be asked.";
    let table = [
        ("echo", json!({ "text": 1 }), "bad_arguments"),
        ("echo", json!({}), "bad_arguments"),
        ("steps", json!({ "gate": "no" }), "refused"),
        ("steps", json!({ "gate": "ask" }), "refused"),
        ("fail", json!({}), "failed"),
        ("secret", json!({}), "ok"),
    ];
    let mut told = Vec::new();
    for (name, arguments, how) in table {
        let (is_error, answered, text) = short(&client.call(name, arguments).await);
        assert_eq!((is_error, answered.as_str()), (how != "ok", how), "{name}: {text}");
        told.push(text);
    }
    assert!(told[0].contains("/text: must be a string"), "{}", told[0]);
    assert!(told[2].contains("never on Sundays"), "{}", told[2]);
    assert!(told[3].contains("nobody is there to be asked"), "{} {not_asked}", told[3]);
    assert_eq!(told[4..], ["Failed: not today", "it is [masked]"]);

    let unknown = client.service.call_tool(params("ehco", json!({}))).await.unwrap_err();
    let ServiceError::McpError(error) = unknown else { panic!("{unknown:?}") };
    let expected = (ErrorCode::INVALID_PARAMS, "there is no tool `ehco`; near to it: echo");
    assert_eq!((error.code, error.message.as_ref()), expected);
}

#[tokio::test]
async fn a_picture_is_sent_as_one_and_what_is_established_beside_it() {
    let world = World::new();
    let client = world.client(Person::Nobody, Mode::Modern).await;
    let result = serde_json::to_value(client.call("picture", json!({})).await).unwrap();
    let picture = json!([{ "type": "image", "data": "UE5H", "mimeType": "image/png" }]);
    assert_eq!(result["content"], picture);
    assert_eq!(result["_meta"]["inspan/evidence"], json!({ "pictures": 1 }));
    let id = world.logs().await.len();
    assert_eq!(id, 1);
    assert!(result["_meta"]["inspan/session"].is_string());
}

#[tokio::test]
async fn tools_tell_what_they_may_do() {
    let world = World::new();
    let client = world.client(Person::Nobody, Mode::Legacy).await;
    let tools = client.service.list_all_tools().await.unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_ref()).collect();
    assert_eq!(names, ["echo", "fail", "hang", "inquire", "picture", "secret", "steps", "write"]);
    let hints = |name: &str| {
        let tool = tools.iter().find(|tool| tool.name == name).unwrap();
        serde_json::to_value(tool.annotations.clone().unwrap()).unwrap()
    };
    assert_eq!(hints("echo"), json!({ "readOnlyHint": true, "openWorldHint": false }));
    let worst = json!({
        "readOnlyHint": false,
        "destructiveHint": true,
        "idempotentHint": false,
        "openWorldHint": true,
    });
    assert_eq!(hints("write"), worst);
}

#[tokio::test]
async fn progress_is_told_to_who_wants_it() {
    for mode in Mode::BOTH {
        let world = World::new();
        let mut client = world.client(Person::Nobody, mode).await;
        client.call("steps", json!({})).await;
        let mut told = Vec::new();
        while told.len() < 2 {
            told.push(client.progress.recv().await.unwrap().unwrap());
        }
        assert_eq!(told, ["steps runs", "it gets on"], "{mode:?}");
    }
}

#[tokio::test]
async fn a_cancelled_call_is_aborted_and_its_session_goes_on() {
    for mode in Mode::BOTH {
        let world = World::new();
        let client = world.client(Person::Nobody, mode).await;
        let request = CallToolRequest::new(params("hang", json!({})));
        let request = ClientRequest::CallToolRequest(request);
        let options = PeerRequestOptions::no_options();
        let handle = client.service.send_request_with_option(request, options).await.unwrap();
        world.seen.began.notified().await;
        handle.cancel(None).await.unwrap();
        world.seen.dropped.notified().await;
        let result = client.call("echo", json!({ "text": "hi" })).await;
        assert_eq!(short(&result), answered("ok", "hi"), "{mode:?}");
        world.served.stop().await;
        let logs = world.logs().await;
        let ends = logs.iter().flatten().filter_map(|entry| match &entry.event {
            Event::ToolFinished(e) => Some((e.name.as_str(), e.how.as_str())),
            _ => None,
        });
        let mut ends: Vec<_> = ends.collect();
        ends.sort_unstable();
        assert_eq!(ends, [("echo", "ok"), ("hang", "cancelled")], "{mode:?}");
    }
}

#[tokio::test]
async fn a_client_that_goes_in_the_middle_cancels_its_call() {
    let world = World::new();
    let client = world.client(Person::Nobody, Mode::Modern).await;
    let peer = client.service.peer().clone();
    let call = tokio::spawn(async move { peer.call_tool(params("hang", json!({}))).await });
    world.seen.began.notified().await;
    client.service.cancel().await.unwrap();
    world.seen.dropped.notified().await;
    assert!(call.await.unwrap().is_err());
}

#[tokio::test]
async fn calls_that_change_something_run_one_by_one_however_many_come() {
    let world = World::new();
    let client = world.client(Person::Nobody, Mode::Modern).await;
    let calls = (0..100).map(|n| {
        let name = if n % 2 == 0 { "write" } else { "echo" };
        client.call(name, json!({ "text": "x" }))
    });
    let results = join_all(calls).await;
    assert!(results.iter().all(|result| !short(result).0));
    assert_eq!(world.seen.wrote.load(Ordering::SeqCst), 50);
    assert_eq!(world.seen.at_once.load(Ordering::SeqCst), 1);
    let logs = world.logs().await;
    assert!(logs.len() <= 20, "{} sessions", logs.len());
}

#[tokio::test]
async fn what_comes_beyond_all_places_is_refused_at_once() {
    let world = World::new();
    let client = world.client(Person::Nobody, Mode::Modern).await;
    let mut calls = Vec::new();
    for _ in 0..300 {
        let peer = client.service.peer().clone();
        let call = async move { peer.call_tool(params("hang", json!({}))).await };
        calls.push(tokio::spawn(call));
    }
    // Those that were refused end by themselves, the others with the server.
    let mut hows = Vec::new();
    let mut ends = calls.into_iter().collect::<futures_util::stream::FuturesUnordered<_>>();
    while hows.len() < 44 {
        hows.push(short(&ends.next().await.unwrap().unwrap().unwrap()));
    }
    let refused = "Not run: too many calls at once; try again when some have ended.";
    assert!(hows.iter().all(|how| *how == answered("not_run", refused)), "{hows:?}");
    world.served.stop().await;
    while let Some(end) = ends.next().await {
        let (is_error, how, _) = short(&end.unwrap().unwrap());
        assert!(is_error && ["not_run", "cancelled"].contains(&how.as_str()), "{how}");
    }
}

#[tokio::test]
async fn what_only_reads_does_not_wait_for_what_changes_something() {
    let world = World::new();
    let client = world.client(Person::Nobody, Mode::Modern).await;
    let calls = (0..40).map(|_| {
        let peer = client.service.peer().clone();
        tokio::spawn(async move { peer.call_tool(params("hang", json!({}))).await })
    });
    let calls: Vec<_> = calls.collect();
    world.seen.began.notified().await;
    let result = client.call("echo", json!({ "text": "hi" })).await;
    assert_eq!(short(&result), answered("ok", "hi"));
    world.served.stop().await;
    for call in calls {
        assert!(short(&call.await.unwrap().unwrap()).0);
    }
}
