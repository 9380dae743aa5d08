//! A whole agent, served as one tool.

use inspan_core::{Event, provider::ErrorClass};
use inspan_evals::scripted::Answer;
use rmcp::{
    model::{CallToolRequest, ClientRequest},
    service::PeerRequestOptions,
};
use serde_json::json;

use crate::world::{Mode, Person, World, params, short};

/// A call and the answer after it.
fn says_hi() -> Vec<Answer> {
    let call = Answer::calls(&[("echo", json!({ "text": "hi" }))]);
    vec![call, Answer::text("It says hi.")]
}

#[tokio::test]
async fn it_answers_tells_what_it_does_and_each_call_is_a_session() {
    for mode in Mode::BOTH {
        let world = World::agent([says_hi(), vec![Answer::text("Bye.")]].concat(), false);
        let mut client = world.client(Person::Nobody, mode).await;
        let tools = client.service.list_all_tools().await.unwrap();
        assert_eq!((tools.len(), tools[0].name.as_ref()), (1, "helper"), "{mode:?}");

        let result = client.call("helper", json!({ "prompt": "Say hi." })).await;
        let expected = (false, "end".to_owned(), "It says hi.".to_owned());
        assert_eq!(short(&result), expected, "{mode:?}");
        let mut told = Vec::new();
        while told.len() < 4 {
            told.push(client.progress.recv().await.unwrap().unwrap());
        }
        assert_eq!(told, ["round 1", "echo runs", "echo: ok", "round 2"], "{mode:?}");

        let bye = client.call("helper", json!({ "prompt": "Bye." })).await;
        assert_eq!(short(&bye).2, "Bye.", "{mode:?}");
        assert_eq!(world.logs().await.len(), 2, "{mode:?}");
    }
}

#[tokio::test]
async fn the_person_at_the_client_is_asked_before_its_tools_run() {
    for mode in Mode::BOTH {
        for (person, how) in [
            (Person::Says(json!({ "allow": true })), "ok"),
            (Person::Declines, "refused"),
            (Person::Nobody, "refused"),
        ] {
            let world = World::agent(says_hi(), true);
            let client = world.client(person.clone(), mode).await;
            let result = client.call("helper", json!({ "prompt": "Say hi." })).await;
            assert_eq!(short(&result).2, "It says hi.", "{mode:?}, {person:?}");
            let logs = world.logs().await;
            let hows = logs[0].iter().filter_map(|entry| match &entry.event {
                Event::ToolFinished(e) => Some(e.how.as_str()),
                _ => None,
            });
            assert_eq!(hows.collect::<Vec<_>>(), [how], "{mode:?}, {person:?}");
        }
    }
}

#[tokio::test]
async fn a_cancel_ends_its_turn_and_what_it_does() {
    for mode in Mode::BOTH {
        let world = World::agent(vec![Answer::calls(&[("hang", json!({}))])], false);
        let client = world.client(Person::Nobody, mode).await;
        let call = CallToolRequest::new(params("helper", json!({ "prompt": "Wait." })));
        let request = ClientRequest::CallToolRequest(call);
        let options = PeerRequestOptions::no_options();
        let handle = client.service.send_request_with_option(request, options).await.unwrap();
        world.seen.began.notified().await;
        handle.cancel(None).await.unwrap();
        world.seen.dropped.notified().await;
        world.served.stop().await;
        let logs = world.logs().await;
        let last = logs[0].last().map(|entry| entry.event.clone());
        let Some(Event::TurnEnded(end)) = last else { panic!("{mode:?}: {last:?}") };
        assert_eq!(end.stop.as_str(), "cancelled", "{mode:?}");
    }
}

#[tokio::test]
async fn a_turn_that_ends_otherwise_is_an_error_that_says_why() {
    let world = World::agent(vec![Answer::failure(ErrorClass::Auth)], false);
    let client = world.client(Person::Nobody, Mode::Modern).await;
    let result = client.call("helper", json!({ "prompt": "Say hi." })).await;
    let (is_error, how, text) = short(&result);
    assert_eq!((is_error, how.as_str()), (true, "failed"), "{text}");
    assert!(text.starts_with("[stopped: failed: "), "{text}");

    let nothing = client.service.call_tool(params("helper", json!({ "prompt": " " }))).await;
    let why = nothing.unwrap_err().to_string();
    assert!(why.contains("/prompt: say something, as text"), "{why}");
}
