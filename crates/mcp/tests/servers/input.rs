//! What servers want to be told in the middle of a call, by a person or by nobody.

use inspan_core::message::ToolResult;
use inspan_mcp::{Inquiry, Reply, Wants, inquiries};
use serde_json::{Map, Value, json};

use crate::world::{Tools, World, call};

/// What the call gives when a person says this to what is asked.
async fn told(tools: &Tools, name: &str, say: impl Fn(&Inquiry) -> Reply) -> String {
    let (person, mut asked) = inquiries();
    let mut invocation = call(json!({}));
    invocation.shared.insert(person);
    let run = tools.get(name).run(invocation);
    let answering = async {
        while let Some(inquiry) = asked.recv().await {
            let reply = say(&inquiry);
            inquiry.reply(reply);
        }
    };
    tokio::select! {
        result = run => result.map_or_else(|error| error.message, |result| result.to_text()),
        () = answering => unreachable!("the call holds the way to the person"),
    }
}

/// Fills in a city, and leaves the rest as it is.
fn lisbon(inquiry: &Inquiry) -> Reply {
    assert_eq!((inquiry.server.as_str(), inquiry.message.as_str()), ("bad", "Which city?"));
    let Wants::Form(fields) = &inquiry.wants else { panic!("{inquiry:?}") };
    let line = |name: &str| if name == "city" { "Lisbon" } else { "" };
    let read = |field: &inspan_mcp::Field| field.read(line(&field.name)).unwrap();
    let given = fields.iter().map(|field| (field.name.clone(), read(field).unwrap()));
    Reply::Given(given.collect::<Map<String, Value>>())
}

#[tokio::test]
async fn a_person_is_asked_and_the_answer_sent_back() {
    let world = World::new();
    let tools = world.tools(&world.bad(&[])).await;
    let accepted = r#"{"action": "accept", "content": {"city": "Lisbon", "stars": 3}}"#;
    // In the newest revision with the question asked again, in the older ones in the middle of it.
    let again = told(&tools, "bad_asking", lisbon).await;
    assert_eq!(again, format!(r#"[{{"a": {accepted}}}, "s1"]"#));
    let within = told(&tools, "bad_elicits", lisbon).await;
    assert_eq!(within, format!(r#"{{"result": {accepted}}}"#));
    let declined = told(&tools, "bad_elicits", |_| Reply::Declined).await;
    assert_eq!(declined, r#"{"result": {"action": "decline"}}"#);
    let cancelled = told(&tools, "bad_elicits", |_| Reply::Cancelled).await;
    assert_eq!(cancelled, r#"{"result": {"action": "cancel"}}"#);
}

#[tokio::test]
async fn a_page_is_visited_and_the_call_tried_again() {
    let world = World::new();
    let tools = world.tools(&world.bad(&[])).await;
    let visit = |inquiry: &Inquiry| {
        let Wants::Visit(url) = &inquiry.wants else { panic!("{inquiry:?}") };
        assert_eq!(
            (inquiry.message.as_str(), url.as_str()),
            ("Log in.", "https://example.com/login")
        );
        Reply::Declined
    };
    let why = "it needs a person to visit a page, who did not want to";
    assert_eq!(told(&tools, "bad_visits", visit).await, why);
    std::fs::remove_file(world.folder.path().join("visited")).unwrap();
    let visited = |inquiry: &Inquiry| {
        visit(inquiry);
        Reply::Given(Map::new())
    };
    assert_eq!(told(&tools, "bad_visits", visited).await, "visited");
}

#[tokio::test]
async fn without_a_person_the_call_says_what_was_wanted() {
    let world = World::new();
    let tools = world.tools(&world.bad(&[])).await;
    let asked = "the server wants input from a person, and nobody can be asked: Which city?";
    assert_eq!(tools.error("bad_asking").await, asked);
    let error = format!(r#"{{"error": {{"code": -32600, "message": "{asked}"}}}}"#);
    assert_eq!(tools.error("bad_elicits").await, error);
    let visit = "the server wants input from a person, and nobody can be asked: Log in.";
    assert_eq!(tools.error("bad_visits").await, visit);
    let samples = "the server wants `sampling/createMessage`, which is not offered here";
    assert_eq!(tools.error("bad_samples").await, samples);
    // It is there for other calls.
    assert_eq!(tools.run("bad_odd", json!({})).await, Ok(ToolResult::default()));
}
