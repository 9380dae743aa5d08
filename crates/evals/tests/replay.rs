//! A session is recorded once and played again with no model.

use std::sync::{Arc, Mutex};

use inspan_core::{
    Entry, Event,
    budget::Limits,
    event::{ModelRef, SessionConfigured},
    gate::Asking,
    mask::Mask,
    message::{Content, Labels},
    provider::Provider,
    store::SessionId,
};
use inspan_engine::{Command, Session, Setup, SystemClock, Update, tools};
use inspan_evals::{Drift, Recording, RecordingError, Replay};
use inspan_store::Memory;
use inspan_testkit::model::{Answer, ScriptedModel};
use serde_json::json;

/// Runs the prompts one after the other in a new session and gives its log.
async fn run(provider: Arc<dyn Provider>, system: &str, prompts: &[&str]) -> Vec<Entry> {
    let model = ModelRef {
        url: "scripted://model".to_owned(),
        window_tokens_max: None,
        output_tokens_max: None,
        price: None,
        cuts_silently: false,
    };
    let setup = Setup {
        store: Arc::new(Memory::new()),
        blobs: None,
        pictures: None,
        keeps_results: false,
        provider,
        fallbacks: Vec::new(),
        tools: tools::builtin("echo").into_iter().collect(),
        catalogue: None,
        gates: Vec::new(),
        shared: Default::default(),
        clock: Arc::new(SystemClock),
        mask: Mask::new([]),
        asking: Asking::Never,
        workdir: String::new(),
        config: SessionConfigured {
            agent: None,
            model,
            fallbacks: Vec::new(),
            system: system.to_owned(),
            tools: Vec::new(),
            found: Default::default(),
            gates: Vec::new(),
            asks: Default::default(),
            limits: Limits::call(),
            sandbox: "none".to_owned(),
            workdir: None,
        },
    };
    let id = SessionId::try_from("s1".to_owned()).unwrap();
    let (session, _ended) = Session::start(setup, id).await.unwrap();
    let mut updates = session.updates(0);
    let mut log = Vec::new();
    for prompt in prompts {
        let content = vec![Content::text(*prompt)];
        session.submit(Command::Prompt(content, Labels::default())).await;
        while let Some(update) = updates.next().await.unwrap() {
            let Update::Entry(entry) = update else { continue };
            log.push((*entry).clone());
            if matches!(entry.event, Event::TurnEnded(_)) {
                break;
            }
        }
    }
    log
}

fn answers() -> Vec<Answer> {
    let echo = |n: u32| Answer::calls(&[("echo", json!({ "text": n.to_string() }))]);
    vec![echo(1), Answer::text("One."), echo(2), Answer::text("Two."), Answer::text("Three.")]
}

/// What a user would compare: kinds, texts and results, not times and hashes.
fn facts(log: &[Entry]) -> Vec<String> {
    log.iter()
        .map(|entry| match &entry.event {
            Event::ModelReplied(e) => format!("replied {}", e.reply.text()),
            Event::ToolFinished(e) => format!("{} {}", e.how.as_str(), e.result.to_text()),
            Event::TurnEnded(e) => format!("{} {}", e.stop.as_str(), e.detail),
            event => event.kind().to_owned(),
        })
        .collect()
}

fn lines(log: &[Entry]) -> String {
    log.iter().map(|entry| entry.to_line() + "\n").collect()
}

fn replay(recording: &Recording, strict: bool) -> (Arc<Replay>, Arc<Mutex<Vec<Drift>>>) {
    let drifts = Arc::new(Mutex::new(Vec::new()));
    let seen = drifts.clone();
    let on_drift = Arc::new(move |drift| seen.lock().unwrap().push(drift));
    (Arc::new(Replay::new(recording.clone(), strict, on_drift)), drifts)
}

#[tokio::test]
async fn a_recorded_session_plays_again_by_prompt_and_round() {
    let prompts = ["First", "Same", "Same"];
    let recorded = run(Arc::new(ScriptedModel::new(answers())), "Be brief.", &prompts).await;
    let recording = Recording::read(&lines(&recorded)).unwrap();

    let (model, drifts) = replay(&recording, true);
    let played = run(model, "Be brief.", &prompts).await;
    assert_eq!(facts(&played), facts(&recorded));
    assert_eq!(*drifts.lock().unwrap(), []);

    // A turn of the middle can be played alone; what it was asked then was longer.
    let (model, drifts) = replay(&recording, false);
    let played = run(model, "Be brief.", &["Same"]).await;
    assert_eq!(facts(&played).last().unwrap(), "end ");
    assert_eq!(facts(&played)[7], "ok 2");
    assert_eq!(drifts.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn a_drifted_request_is_told_and_strictly_refused() {
    let recorded = run(Arc::new(ScriptedModel::new(answers())), "Be brief.", &["First"]).await;
    let recording = Recording::of(&recorded);
    let (model, drifts) = replay(&recording, false);
    let played = run(model, "Be long.", &["First"]).await;
    assert_eq!(facts(&played), facts(&recorded));
    let drift = drifts.lock().unwrap()[0].clone();
    assert_eq!((drift.prompt.as_str(), drift.round), ("First", 1));
    assert!(drift.diff.contains("-  Be brief.\n+  Be long.\n"), "{}", drift.diff);

    let (model, _) = replay(&recording, true);
    let played = run(model, "Be long.", &["First"]).await;
    let told = facts(&played).pop().unwrap();
    assert!(told.starts_with("failed reply 1 to `First` was recorded for another request:\n"));
    assert!(told.contains("-  Be brief.\n+  Be long.\n"), "{told}");
}

#[tokio::test]
async fn what_was_not_recorded_is_said() {
    let recorded = run(Arc::new(ScriptedModel::new(answers())), "", &["First"]).await;
    let (model, _) = replay(&Recording::of(&recorded), false);
    let played = run(model.clone(), "", &["Second"]).await;
    assert_eq!(
        facts(&played).last().unwrap(),
        "failed the recording knows no such prompt; it has: `First`"
    );
    let damaged = lines(&recorded).replacen("\"seq\":2", "\"seq\":", 1);
    let error = Recording::read(&damaged).unwrap_err();
    assert!(matches!(error, RecordingError::Line { line: 2, .. }), "{error}");
    assert_eq!(Recording::read("\n"), Err(RecordingError::Empty));
}
