//! Answers in a form, the loop by hand, recordings.

use std::sync::Arc;

use inspan::{
    Agent, Context, Conversation, Error, Memory, Stop, ToolError, Tools, chat, schemars, serde,
    testing::{Answer, Recorder, ScriptedModel, replay},
    tool,
};
use serde_json::json;

#[derive(Debug, PartialEq, serde::Deserialize, schemars::JsonSchema)]
#[serde(crate = "inspan::serde")]
#[schemars(crate = "inspan::schemars")]
struct Order {
    /// Its number.
    number: u32,
    tags: Vec<String>,
}

#[tokio::test]
async fn an_answer_has_its_form() {
    let model = Arc::new(ScriptedModel::new([Answer::text(r#"{"number":3,"tags":["new"]}"#)]));
    let order: Order = Agent::with_provider(model.clone()).ask("Which order is it?").await.unwrap();
    assert_eq!(order, Order { number: 3, tags: vec!["new".to_owned()] });
    let schema = json!({
        "type": "object",
        "properties": {
            "number": { "type": "integer", "minimum": 0, "description": "Its number." },
            "tags": { "type": "array", "items": { "type": "string" } },
        },
        "required": ["number", "tags"],
    });
    let prompt = format!(
        "Which order is it?\n\nAnswer with JSON only, without any other text. It must fit this \
         JSON Schema:\n{schema}"
    );
    assert_eq!(model.requests(), [[format!("user: {}", json!(prompt))]]);
}

#[tokio::test]
async fn an_answer_that_does_not_fit_is_sent_back_once() {
    let wrong = r#"{"number":3,"tags":["new",7]}"#;
    let why = "/tags/1: invalid type: integer `7`, expected a string";
    let again = format!(
        "Your answer does not fit the schema: {why}\nAnswer again, with the whole JSON only."
    );
    let right = "Sorry:\n```json\n{\"number\":3,\"tags\":[]}\n```";
    let model = Arc::new(ScriptedModel::new([Answer::text(wrong), Answer::text(right)]));
    let order: Order = Agent::with_provider(model.clone()).ask("Which?").await.unwrap();
    assert_eq!(order, Order { number: 3, tags: Vec::new() });
    assert_eq!(model.requests()[1][2], format!("user: {}", json!(again)));

    let model = ScriptedModel::new([Answer::text("No."), Answer::text(wrong)]);
    match Agent::with_provider(model).ask::<Order>("Which?").await {
        Err(Error::Answer { text, why: told }) => assert_eq!((text.as_str(), &*told), (wrong, why)),
        other => panic!("{other:?}"),
    }
    let model = ScriptedModel::new([Answer::failure(inspan::ErrorClass::Auth)]);
    let error = Agent::with_provider(model).ask::<Order>("Which?").await.unwrap_err();
    assert_eq!(error.to_string(), "no answer: the turn ended with `failed`: scripted auth");
}

/// The current weather in a city, in °C.
#[tool(effects(reads_untrusted), repeat = pure)]
async fn weather(city: String) -> Result<String, ToolError> {
    match city.as_str() {
        "Lisbon" => Ok("21 °C".to_owned()),
        _ => Err(ToolError::new(format!("no station in {city}"))),
    }
}

#[tokio::test]
async fn the_loop_by_hand() {
    let calls = [
        ("weather", json!({ "city": "Lisbon" })),
        ("weather", json!({ "city": "Porto" })),
        ("weather", json!({})),
        ("whether", json!({})),
    ];
    let model = ScriptedModel::new([Answer::calls(&calls), Answer::text("In Lisbon.")]);
    let tools = Tools::new(weather);
    let mut conversation = Conversation::new("Where is it warm?").tools(&tools);
    let answer = loop {
        let reply = chat(&model, &conversation).await.unwrap();
        let calls: Vec<_> = reply.calls().cloned().collect();
        let text = reply.text();
        conversation.push_reply(reply);
        if calls.is_empty() {
            break text;
        }
        for call in &calls {
            conversation.push_results([tools.run(call).await]);
        }
    };
    assert_eq!(answer, "In Lisbon.");
    assert_eq!(
        model.requests()[1][2],
        "weather ok: 21 °C | weather failed: Failed: no station in Porto | weather \
         bad_arguments: Not run: the arguments do not fit. /city: is missing | whether \
         unknown_tool: Failed: there is no tool `whether`. Near names: weather."
    );
    let ids = conversation.messages.iter().filter_map(|message| match message {
        inspan::Message::User(user) => Some(&user.results),
        inspan::Message::Assistant(_) => None,
    });
    let ids: Vec<_> = ids.flatten().map(|result| result.call.to_string()).collect();
    assert_eq!(ids, ["call_2_0", "call_2_1", "call_2_2", "call_2_3"]);
    let error = chat(&model, &conversation).await.unwrap_err();
    assert_eq!(error.message, "scripted bad_request");
}

#[tokio::test]
async fn tools_by_hand_find_what_they_are_lent() {
    /// Gives what it was lent.
    #[tool(effects(), repeat = pure)]
    fn lent(context: &Context) -> Result<u32, ToolError> {
        context.shared().copied()
    }
    let model = ScriptedModel::new([Answer::calls(&[("lent", json!({}))])]);
    let tools = Tools::new(lent).shared(7_u32);
    let reply = chat(&model, &Conversation::new("Go").tools(&tools)).await.unwrap();
    let result = tools.run(reply.calls().next().unwrap()).await;
    assert_eq!(result.result.to_text(), "7");
}

#[tokio::test]
async fn a_log_is_a_recording() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weather.jsonl");
    let calls = Answer::calls(&[("weather", json!({ "city": "Lisbon" }))]);
    let model = ScriptedModel::new([calls, Answer::text("21 °C.")]);
    let agent = Agent::with_provider(model).store(Memory::new()).tool(weather);
    let done = agent.act("How warm is it in Lisbon?").await.unwrap();
    let log = agent.log(&done.session).await.unwrap();
    let lines: Vec<String> = log.iter().map(inspan::Entry::to_line).collect();
    std::fs::write(&path, lines.join("\n")).unwrap();

    let played = || Agent::with_provider(replay(&path).unwrap()).tool(weather);
    let again = played().act("How warm is it in Lisbon?").await.unwrap();
    assert_eq!((again.text.as_str(), again.stop), ("21 °C.", Stop::End));
    let steps = |done: &inspan::Done| done.tools().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(steps(&again), steps(&done));

    let drifted = played().system("Be brief.").act("How warm is it in Lisbon?").await.unwrap();
    assert_eq!(drifted.stop, Stop::Failed);
    assert!(drifted.detail.contains("+  Be brief."), "{}", drifted.detail);
    let error = replay(folder.path().join("none.jsonl")).err().map(|error| error.to_string());
    assert!(
        error.unwrap_or_default().ends_with("none.jsonl: No such file or directory (os error 2)")
    );
}

#[tokio::test]
async fn a_folder_of_recordings_is_played() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recordings");
    let none = replay(folder.path()).err().map(|error| error.to_string());
    let named = format!("the recording {}", folder.path().display());
    assert_eq!(none, Some(format!("{named}: the folder holds no file NAME.jsonl")));

    let model = ["Hello.", "Hi.", "Bye."].map(Answer::text);
    let agent = Agent::with_provider(ScriptedModel::new(model));
    let agent = agent.store(Recorder::new(&path, Memory::new()));
    agent.clone().system("Be brief.").act("Say hello.").await.unwrap();
    let session = agent.system("Be kind.").session().await.unwrap();
    session.say("Say hello.").await.unwrap();
    session.say("Say bye.").await.unwrap();
    session.close().await.unwrap();
    std::fs::write(path.join("notes.txt"), "no recording").unwrap();

    // The same prompt was said to two agents: the request tells which of them is meant.
    let played = |system: &str| Agent::with_provider(replay(&path).unwrap()).system(system);
    assert_eq!(played("Be brief.").act("Say hello.").await.unwrap().text, "Hello.");
    let session = played("Be kind.").session().await.unwrap();
    assert_eq!(session.say("Say hello.").await.unwrap().text, "Hi.");
    assert_eq!(session.say("Say bye.").await.unwrap().text, "Bye.");

    std::fs::write(path.join("broken.jsonl"), "{}\n").unwrap();
    let error = replay(&path).err().map(|error| error.to_string()).unwrap();
    assert!(error.contains("broken.jsonl: line 1 is no entry of a log: "), "{error}");
}

#[tokio::test]
async fn a_recording_that_cannot_be_written_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a file");
    std::fs::write(&path, "").unwrap();
    let agent = Agent::with_provider(ScriptedModel::new([Answer::text("Hello.")]));
    let agent = agent.store(Recorder::new(&path, Memory::new()));
    let error = agent.act("Say hello.").await.unwrap_err().to_string();
    let named = format!("the recording {}/", path.display());
    assert!(error.starts_with(&named) && error.contains(" can't be written: "), "{error}");
}
