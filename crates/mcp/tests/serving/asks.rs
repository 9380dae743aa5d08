//! A person is asked by way of the client.

use inspan_core::Event;
use rmcp::model::CallToolResponse;
use serde_json::json;

use crate::world::{Mode, Person, World, answered, params, short};

#[tokio::test]
async fn only_a_clear_yes_lets_a_call_run() {
    let table = [
        (Person::Says(json!({ "allow": true })), "ok", "hi"),
        (Person::Says(json!({ "allow": false })), "refused", "the person did not allow it"),
        (Person::Says(json!({})), "refused", "the person did not allow it"),
        (Person::Declines, "refused", "the person declined"),
        (Person::Nobody, "refused", "nobody is there to be asked"),
    ];
    for mode in Mode::BOTH {
        for (person, how, text) in table.clone() {
            let world = World::asking();
            let client = world.client(person.clone(), mode).await;
            let result = client.call("echo", json!({ "text": "hi" })).await;
            let (_, answered, said) = short(&result);
            assert_eq!(answered, how, "{mode:?}, {person:?}: {said}");
            assert!(said.contains(text), "{mode:?}, {person:?}: {said}");
            world.served.stop().await;
        }
    }
}

#[tokio::test]
async fn a_question_that_nobody_answers_ends_with_the_server() {
    let world = World::asking();
    let client = world.client(Person::Declines, Mode::Modern).await;
    let asked = client.service.call_tool_once(params("echo", json!({ "text": "hi" }))).await;
    let Ok(CallToolResponse::InputRequired(asked)) = asked else { panic!("{asked:?}") };
    let asked = serde_json::to_value(asked).unwrap();
    assert_eq!(asked["inputRequests"]["permission"]["method"], "elicitation/create");
    world.served.stop().await;
    let logs = world.logs().await;
    let last = logs[0].last().map(|entry| entry.event.clone());
    let Some(Event::TurnEnded(end)) = last else { panic!("{last:?}") };
    assert_eq!(end.stop.as_str(), "cancelled");
}

#[tokio::test]
async fn an_answer_belongs_to_the_call_that_was_asked_about_and_counts_once() {
    let world = World::asking();
    let client = world.client(Person::Declines, Mode::Modern).await;
    let asked = client.service.call_tool_once(params("echo", json!({ "text": "hi" }))).await;
    let Ok(CallToolResponse::InputRequired(asked)) = asked else { panic!("{asked:?}") };
    let word = asked.request_state.unwrap();
    let yes = json!({ "action": "accept", "content": { "allow": true } });
    let again = |text: &str, word: &str| {
        let mut params = params("echo", json!({ "text": text }));
        params.request_state = Some(word.to_owned());
        params.input_responses = Some([("permission".to_owned(), yes.clone())].into());
        client.service.call_tool_once(params)
    };
    let other = again("another text", &word).await.unwrap_err().to_string();
    assert!(other.contains("no call like this waits"), "{other}");
    let made_up = again("hi", "00000000-0000-4000-8000-000000000000").await.unwrap_err();
    assert!(made_up.to_string().contains("no call like this waits"), "{made_up}");

    let result = again("hi", &word).await;
    let Ok(CallToolResponse::Complete(result)) = result else { panic!("{result:?}") };
    assert_eq!(short(&result), answered("ok", "hi"));
    let twice = again("hi", &word).await.unwrap_err().to_string();
    assert!(twice.contains("no call like this waits"), "{twice}");
}

#[tokio::test]
async fn what_a_tool_wants_to_be_told_is_asked_of_the_person_too() {
    let given = r#"{"action":"accept","content":{"project":"Shop"}}"#;
    let table = [
        (Person::Says(json!({ "project": "Shop", "more": 1 })), "ok", given),
        // What does not fit, or is missing, is no answer.
        (Person::Says(json!({ "project": 3 })), "ok", r#"{"action":"cancel"}"#),
        (Person::Says(json!({})), "ok", r#"{"action":"cancel"}"#),
        (Person::Declines, "ok", r#"{"action":"decline"}"#),
        (Person::Nobody, "failed", "Failed: nobody is there"),
    ];
    for mode in Mode::BOTH {
        for (person, how, text) in table.clone() {
            let world = World::new();
            let client = world.client(person.clone(), mode).await;
            let result = client.call("inquire", json!({})).await;
            assert_eq!(short(&result), answered(how, text), "{mode:?}, {person:?}");
        }
    }
}
