//! Whole turns with a scripted model: tools, gates, shared state, sessions.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use inspan::{
    Agent, Context, Done, Error, Event, GateCall, Limits, Price, Provider, SessionError, Stop,
    ToolError, ToolSpec, Verdict,
    core::{
        prompt::Segment,
        provider::{BoxStream, Images, ModelEvent, Request},
    },
    testing::{Answer, ScriptedModel},
    tool,
};
use serde_json::json;

/// The current weather in a city, in °C.
#[tool(effects(reads_untrusted), repeat = pure)]
async fn weather(city: String) -> Result<String, ToolError> {
    match city.as_str() {
        "Lisbon" => Ok("21 °C".to_owned()),
        "Porto" => Ok("18 °C".to_owned()),
        _ => Err(ToolError::new(format!("no station in {city}"))),
    }
}

/// What the program lends.
struct Counter(AtomicU32);

/// Counts.
#[tool]
async fn count(context: &Context) -> Result<u32, ToolError> {
    let Counter(count) = context.shared()?;
    Ok(count.fetch_add(1, Ordering::Relaxed) + 1)
}

fn model(answers: impl IntoIterator<Item = Answer>) -> Arc<ScriptedModel> {
    Arc::new(ScriptedModel::new(answers))
}

fn cities(cities: &[&str]) -> Answer {
    let calls: Vec<_> = cities.iter().map(|city| ("weather", json!({ "city": city }))).collect();
    Answer::calls(&calls)
}

/// The steps, in lines.
fn steps(done: &Done) -> Vec<String> {
    done.steps.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn acts() {
    let model = model([
        cities(&["Lisbon", "Porto"]).counts(100, 20),
        Answer::new().counts(150, 10).says("In Lisbon.").ends(inspan::ReplyStop::End),
    ]);
    let agent = Agent::with_provider(model.clone()).system("Be brief.").tool(weather);
    let done = agent.act("Is it warmer in Lisbon or Porto?").await.unwrap();
    assert_eq!(done.text, "In Lisbon.");
    assert_eq!(done.stop, Stop::End);
    assert_eq!(
        steps(&done),
        [
            "scripted://model ok",
            r#"weather({"city":"Lisbon"}) ok: 21 °C"#,
            r#"weather({"city":"Porto"}) ok: 18 °C"#,
            "scripted://model ok: In Lisbon.",
        ]
    );
    assert_eq!(
        model.requests()[1],
        [
            "user: \"Is it warmer in Lisbon or Porto?\"",
            r#"call: weather({"city":"Lisbon"}) | call: weather({"city":"Porto"})"#,
            "weather ok: 21 °C | weather ok: 18 °C",
        ]
    );
}

#[tokio::test]
async fn a_stop_is_no_error() {
    let answers = [cities(&["Lisbon"]), cities(&["Porto"]), Answer::text("I stopped.")];
    let agent = Agent::with_provider(model(answers)).tool(weather).rounds_max(2);
    let done = agent.act("Go").await.unwrap();
    assert_eq!((done.stop, done.text.as_str()), (Stop::Rounds, "I stopped."));

    let agent = Agent::with_provider(model([Answer::failure(inspan::ErrorClass::Auth)]));
    let done = agent.act("Go").await.unwrap();
    assert_eq!((done.stop, done.detail.as_str()), (Stop::Failed, "scripted auth"));
}

fn only_lisbon(call: &GateCall) -> Verdict {
    match call.arguments["city"].as_str() {
        Some("Lisbon") => Verdict::Allow,
        _ => Verdict::Deny("only Lisbon may be asked about".to_owned()),
    }
}

async fn from_the_shared_state(call: GateCall) -> Result<Verdict, String> {
    match call.shared.get::<Counter>() {
        Some(_) => Ok(Verdict::Allow),
        None => Err("no counter".to_owned()),
    }
}

#[tokio::test]
async fn every_gate_must_agree() {
    let script = || model([cities(&["Lisbon", "Porto"]), Answer::text("Done.")]);
    let run = async |agent: Agent| {
        let done = agent.tool(weather).act("Go").await.unwrap();
        done.tools().map(ToString::to_string).collect::<Vec<_>>()
    };
    let ok = r#"weather({"city":"Lisbon"}) ok: 21 °C"#.to_owned();
    let refused = |city: &str, why: &str| {
        let last = "This is final; do not try the same call again.";
        format!("weather({{\"city\":\"{city}\"}}) refused: Refused: {why}. {last}")
    };
    let agent = || Agent::with_provider(script());

    let only = refused("Porto", "only Lisbon may be asked about");
    assert_eq!(run(agent().gate(only_lisbon)).await, [only.clone(), ok.clone()]);
    let lent = agent().shared(Counter(AtomicU32::new(0)));
    let both = lent.gate(from_the_shared_state).gate(only_lisbon);
    assert_eq!(run(both).await, [only, ok]);

    let failed = |city| refused(city, "the gate from_the_shared_state failed: no counter");
    assert_eq!(run(agent().gate(from_the_shared_state)).await, [failed("Lisbon"), failed("Porto")]);
    let closures = agent()
        .gate(|_: &GateCall| Ok::<_, Infallible>(Verdict::Allow))
        .gate(|_: GateCall| async { Verdict::Deny("no".to_owned()) });
    assert_eq!(run(closures).await, [refused("Lisbon", "no"), refused("Porto", "no")]);
}

#[tokio::test]
async fn tools_find_what_the_program_lends() {
    let answers = || model([Answer::calls(&[("count", json!({}))]), Answer::text("Done.")]);
    let lent = Agent::with_provider(answers()).tool(count).shared(Counter(AtomicU32::new(41)));
    assert_eq!(steps(&lent.act("Go").await.unwrap())[1], "count({}) ok: 42");
    let bare = Agent::with_provider(answers()).tool(count);
    assert_eq!(
        steps(&bare.act("Go").await.unwrap())[1],
        "count({}) failed: Failed: the program lends no `agent::Counter` to its tools"
    );
}

#[tokio::test]
async fn a_gate_that_breaks_down_refuses() {
    let agent = || {
        let answers = [cities(&["Lisbon"]), Answer::text("It was refused.")];
        Agent::with_provider(model(answers)).tool(weather)
    };
    let agents = [
        agent().gate(|_: &GateCall| -> Verdict { panic!("no") }),
        agent().gate(async |_: GateCall| -> Verdict { panic!("no") }),
    ];
    for agent in agents {
        let done = agent.act("Go").await.unwrap();
        let steps: Vec<_> = done.tools().map(|step| step.how).collect();
        assert_eq!((steps, done.stop), (vec!["refused"], Stop::End));
    }
}

/// A model of another URL, whose server takes no tool `count`.
struct Picky(Arc<ScriptedModel>);

impl Provider for Picky {
    fn issuer(&self) -> &str {
        "picky://model at here"
    }

    fn render(&self, segment: Segment<'_>, images: &dyn Images) -> Vec<u8> {
        self.0.render(segment, images)
    }

    fn stream(&self, request: Request) -> BoxStream<ModelEvent> {
        self.0.stream(request)
    }

    fn unfit_tools(&self, tools: &[Arc<ToolSpec>]) -> Vec<(String, String)> {
        let unfit = tools.iter().filter(|tool| tool.name == "count");
        unfit.map(|tool| (tool.name.clone(), "it counts".to_owned())).collect()
    }
}

#[tokio::test]
async fn fallbacks_answer_in_their_order() {
    let fails = || Answer::failure(inspan::ErrorClass::Auth);
    let (first, second) = (model([fails()]), model([fails()]));
    let third = model([Answer::new().counts(100, 10).says("I can.").ends(inspan::ReplyStop::End)]);
    let price = Price { input: 2, output: 10, cache_read: 1, cache_write: 3 };
    let agent = Agent::with_provider(first.clone())
        .price(price)
        .fallback_with_provider(second, Some(price))
        .fallback_with_provider(Picky(third), Some(price))
        .limits(Limits { cost_max_nano_usd: Some(1_000_000_000), ..Limits::call() });
    let done = agent.act("Who can?").await.unwrap();
    assert_eq!(
        steps(&done),
        [
            "scripted://model auth: scripted auth",
            "scripted://model auth: scripted auth",
            "picky://model ok: I can."
        ]
    );
    assert_eq!(done.steps[2].cost_nano_usd, Some(300));
    let log = agent.log(&done.session).await.unwrap();
    let switched = log.iter().filter_map(|entry| match &entry.event {
        Event::ModelSwitched(e) => Some(e.model.as_str()),
        _ => None,
    });
    assert_eq!(switched.collect::<Vec<_>>(), ["scripted://model", "picky://model"]);
    // A limit on cost needs the price of each.
    let agent = agent.fallback_with_provider(Picky(first), None);
    assert!(matches!(
        agent.act("Go").await.unwrap_err(),
        Error::Session(SessionError::NoPrice(url)) if url == "picky://model"
    ));
}

#[tokio::test]
async fn a_tool_that_the_server_would_refuse_is_left_out() {
    let script = model([Answer::text("Fine.")]);
    let agent = Agent::with_provider(Picky(script)).tool(weather).tool(count);
    assert_eq!(agent.unfit_tools(), [("count".to_owned(), "it counts".to_owned())]);
    let done = agent.act("Go").await.unwrap();
    let log = agent.log(&done.session).await.unwrap();
    let Event::SessionConfigured(config) = &log[1].event else { panic!("{:?}", log[1]) };
    let names: Vec<&str> = config.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["weather"]);
}
