//! Sessions: several prompts, questions, cancelling, going on after the driver is gone, following.

use std::sync::{Arc, Mutex};

use futures_util::{StreamExt, TryStreamExt};
use inspan::{
    Agent, Choice, Context, Delta, Done, Entry, Error, Event, GateCall, Memory, PermissionAsked,
    Sqlite, Stop, ToolError, Update, Verdict,
    testing::{Answer, ScriptedModel},
    tool,
};
use serde_json::json;
use tokio::sync::Notify;

/// Gives back its text.
#[tool(effects(), repeat = pure)]
fn echo(text: String) -> String {
    text
}

/// Writes a letter.
#[tool(effects(writes))]
fn write(text: String) -> String {
    format!("wrote {text}")
}

/// Says that it began, and never ends. Because it writes, it begins when the log says so for good.
#[tool(effects(writes), repeat = idempotent)]
async fn hang(context: &Context) -> Result<(), ToolError> {
    context.shared::<Arc<Notify>>()?.notify_one();
    std::future::pending().await
}

fn calls(name: &str, arguments: serde_json::Value) -> Answer {
    Answer::calls(&[(name, arguments)])
}

fn steps(done: &Done) -> Vec<String> {
    done.steps.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn a_session_remembers_what_was_said() {
    let model = Arc::new(ScriptedModel::new([Answer::text("Hello."), Answer::text("Ana.")]));
    let session = Agent::with_provider(model.clone()).session().await.unwrap();
    assert_eq!(session.say("I am Ana.").await.unwrap().text, "Hello.");
    let done = session.say("Who am I?").await.unwrap();
    assert_eq!((done.text.as_str(), done.steps.len()), ("Ana.", 1));
    assert_eq!(&done.session, session.id());
    assert_eq!(
        model.requests()[1],
        ["user: \"I am Ana.\"", "assistant: Hello.", "user: \"Who am I?\""]
    );
    session.close().await.unwrap();
}

#[tokio::test]
async fn the_same_prompt_twice_is_two_turns() {
    let model = ScriptedModel::new([Answer::text("One."), Answer::text("Two.")]);
    let session = Agent::with_provider(model).session().await.unwrap();
    assert_eq!(session.say("Again").await.unwrap().text, "One.");
    assert_eq!(session.say("Again").await.unwrap().text, "Two.");
}

#[tokio::test]
async fn a_prompt_that_nobody_waited_for_keeps_its_own_answer() {
    let began = Arc::new(Notify::new());
    let script = [calls("hang", json!({})), Answer::text("Second."), Answer::text("Third.")];
    let agent = Agent::with_provider(ScriptedModel::new(script)).tool(hang).shared(began.clone());
    let session = agent.session().await.unwrap();
    tokio::select! {
        done = session.say("Go") => panic!("{done:?}"),
        () = began.notified() => {}
    }
    assert_eq!(session.say("Go").await.unwrap().answer().unwrap(), "Second.");
    assert_eq!(session.say("Go").await.unwrap().answer().unwrap(), "Third.");
}

#[tokio::test]
async fn logs_that_nobody_asked_to_keep_are_forgotten() {
    let answers = (0..70).map(|_| Answer::text("Hello."));
    let agent = Agent::with_provider(ScriptedModel::new(answers));
    let mut sessions = Vec::new();
    for _ in 0..70 {
        sessions.push(agent.act("Say hello.").await.unwrap().session);
    }
    let mut kept = 0;
    for session in &sessions {
        kept += usize::from(agent.log(session).await.is_ok());
    }
    assert_eq!(kept, 64);
    assert!(agent.log(&sessions[69]).await.is_ok());
}

#[tokio::test]
async fn a_session_goes_on_in_another_agent() {
    let store = Memory::new();
    let first = Agent::with_provider(ScriptedModel::new([Answer::text("Hello.")]));
    let done = first.store(store.clone()).act("I am Ana.").await.unwrap();

    let model = Arc::new(ScriptedModel::new([Answer::text("Ana.")]));
    let agent = Agent::with_provider(model.clone()).store(store);
    let session = agent.resume(&done.session).await.unwrap();
    assert_eq!(session.go_on().await.unwrap(), None);
    assert_eq!(session.say("Who am I?").await.unwrap().text, "Ana.");
    assert_eq!(model.requests()[0].len(), 3);

    let nobody = "nobody".to_owned().try_into().unwrap();
    let error = agent.resume(&nobody).await.err().map(|error| error.to_string());
    assert_eq!(error.as_deref(), Some("there is no session nobody"));
    let error = agent.resume(&done.session).await.err().map(|error| error.to_string());
    let in_use = format!(
        "session {} is in use: another process, or another part of this one, drives it",
        done.session
    );
    assert_eq!(error, Some(in_use));
}

#[test]
fn a_turn_goes_on_after_its_process_died() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sessions.db");
    let script = [calls("hang", json!({})), Answer::text("Done.")];
    let run = |work: &mut dyn FnMut() -> std::pin::Pin<Box<dyn Future<Output = ()>>>| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(work());
    };
    let id = Arc::new(Mutex::new(None));
    run(&mut || {
        let (path, script, id) = (path.clone(), script.clone(), id.clone());
        Box::pin(async move {
            let began = Arc::new(Notify::new());
            let agent = Agent::with_provider(ScriptedModel::new(script))
                .store(Sqlite::open(&path).await.unwrap())
                .shared(began.clone())
                .tool(hang);
            let session = agent.session().await.unwrap();
            *id.lock().unwrap() = Some(session.id().clone());
            // The runtime ends in the middle of the call, and with it everything in it.
            tokio::select! {
                done = session.say("Go") => panic!("{done:?}"),
                () = began.notified() => std::mem::forget(session),
            }
        })
    });
    run(&mut || {
        let (path, id) = (path.clone(), id.lock().unwrap().take().unwrap());
        Box::pin(async move {
            /// Ends at once.
            #[tool(effects(writes), repeat = idempotent)]
            fn hang() -> &'static str {
                "at last"
            }
            let agent = Agent::with_provider(ScriptedModel::new([Answer::text("Done.")]))
                .store(Sqlite::open(&path).await.unwrap())
                .tool(hang);
            let session = agent.resume(&id).await.unwrap();
            let done = session.go_on().await.unwrap().unwrap();
            assert_eq!((done.text.as_str(), done.stop), ("Done.", Stop::End));
            assert_eq!(
                steps(&done),
                ["scripted://model ok", "hang({}) ok: at last", "scripted://model ok: Done."]
            );
        })
    });
}

#[tokio::test]
async fn a_person_is_asked() {
    let ask = |call: &GateCall| match call.tool.effects.only_reads() {
        true => Verdict::Allow,
        false => Verdict::Ask("it writes".to_owned()),
    };
    let script = || {
        let both = [("write", json!({ "text": "a" })), ("echo", json!({ "text": "b" }))];
        ScriptedModel::new([
            Answer::calls(&both),
            calls("write", json!({ "text": "c" })),
            Answer::text("Done."),
        ])
    };
    let agent = || Agent::with_provider(script()).tool(write).tool(echo).gate(ask);

    let asked = Arc::new(Mutex::new(Vec::new()));
    let questions = asked.clone();
    let done = agent()
        .ask_with(move |asked: PermissionAsked| {
            let question = format!("{}({}): {}", asked.name, asked.arguments, asked.why);
            questions.lock().unwrap().push(question);
            async { Choice::Session }
        })
        .act("Go")
        .await
        .unwrap();
    assert_eq!(*asked.lock().unwrap(), [r#"write({"text":"a"}): it writes"#]);
    let ran: Vec<_> = done.tools().map(|step| (step.name.as_str(), step.how)).collect();
    assert_eq!(ran, [("write", "ok"), ("echo", "ok"), ("write", "ok")]);

    let done = agent().act("Go").await.unwrap();
    let told: Vec<_> = done.tools().map(ToString::to_string).collect();
    let no = "refused: Refused: nobody is there to be asked. This is final; do not try the same \
              call again.";
    assert_eq!(
        told,
        [
            format!(r#"write({{"text":"a"}}) {no}"#),
            r#"echo({"text":"b"}) ok: b"#.to_owned(),
            format!(r#"write({{"text":"c"}}) {no}"#),
        ]
    );
}

#[tokio::test]
async fn a_turn_can_be_cancelled() {
    let began = Arc::new(Notify::new());
    let script = [calls("hang", json!({})), Answer::text("Back.")];
    let agent = Agent::with_provider(ScriptedModel::new(script)).tool(hang).shared(began.clone());
    let session = agent.session().await.unwrap();
    let cancel = async {
        began.notified().await;
        session.cancel().await;
    };
    let (done, ()) = tokio::join!(session.say("Go"), cancel);
    let done = done.unwrap();
    assert_eq!(done.stop, Stop::Cancelled);
    assert_eq!(steps(&done), ["scripted://model ok", "hang({}) cancelled: Cancelled by the user."]);
    assert_eq!(session.say("And now?").await.unwrap().text, "Back.");
}

#[tokio::test]
async fn dropping_the_future_cancels_the_turn() {
    let began = Arc::new(Notify::new());
    let store = Memory::new();
    let agent = Agent::with_provider(ScriptedModel::new([calls("hang", json!({}))]))
        .store(store.clone())
        .tool(hang)
        .shared(began.clone());
    let session = agent.session().await.unwrap();
    let id = session.id().clone();
    tokio::select! {
        done = session.say("Go") => panic!("{done:?}"),
        () = began.notified() => {}
    }
    session.close().await.unwrap();
    let log = agent.log(&id).await.unwrap();
    let stop = log.last().map(|entry| entry.columns().stop.map(str::to_owned));
    assert_eq!(stop, Some(Some("cancelled".to_owned())));
}

#[tokio::test]
async fn a_tool_that_works_elsewhere_hears_of_the_end() {
    /// Works in a task of its own.
    #[tool(effects(), repeat = pure)]
    async fn elsewhere(context: &Context) -> Result<(), ToolError> {
        let ended = context.shared::<Arc<Notify>>()?.clone();
        let cancellation = context.cancellation();
        assert!(!cancellation.is_over());
        tokio::spawn(async move {
            cancellation.clone().over().await;
            assert!(cancellation.is_over());
            ended.notify_one();
        });
        Ok(())
    }
    let ended = Arc::new(Notify::new());
    let script = [calls("elsewhere", json!({})), Answer::text("Done.")];
    let agent = Agent::with_provider(ScriptedModel::new(script)).tool(elsewhere);
    agent.shared(ended.clone()).act("Go").await.unwrap();
    ended.notified().await;
}

#[tokio::test]
async fn updates_are_the_entries_and_the_pieces() {
    let script = [calls("echo", json!({ "text": "a" })), Answer::text("Done.")];
    let agent = Agent::with_provider(ScriptedModel::new(script)).tool(echo);
    let session = agent.session().await.unwrap();
    let updates = session.updates();
    let done = session.say("Go").await.unwrap();
    let entries: Vec<Entry> = agent.log(&done.session).await.unwrap();
    session.close().await.unwrap();
    let updates: Vec<Update> = updates.try_collect().await.unwrap();
    let told: Vec<Entry> = updates
        .iter()
        .filter_map(|update| match update {
            Update::Entry(entry) => Some((**entry).clone()),
            Update::Delta { .. } => None,
        })
        .collect();
    assert_eq!(told, entries);
    let text: String = updates
        .iter()
        .filter_map(|update| match update {
            Update::Delta { delta: Delta::Text(text), .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(text, "Done.");
}

#[tokio::test(start_paused = true)]
async fn a_session_is_followed_from_elsewhere() {
    let store = Memory::new();
    let script = [Answer::text("One."), Answer::text("Two.")];
    let driving = Agent::with_provider(ScriptedModel::new(script)).store(store.clone());
    let watching = Agent::with_provider(ScriptedModel::new([])).store(store);
    let session = driving.session().await.unwrap();
    let mut seen = watching.follow(session.id());
    let mut next_end = async || loop {
        match seen.next().await.unwrap().unwrap().event {
            Event::ModelReplied(replied) => return replied.reply.text(),
            _ => continue,
        }
    };
    session.say("1").await.unwrap();
    assert_eq!(next_end().await, "One.");
    let later = async {
        tokio::time::sleep(std::time::Duration::from_secs(5)).await;
        session.say("2").await.unwrap()
    };
    let (seen, _) = tokio::join!(next_end(), later);
    assert_eq!(seen, "Two.");

    let nobody = "nobody".to_owned().try_into().unwrap();
    let error = watching.follow(&nobody).next().await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "there is no session nobody");
}

#[tokio::test]
async fn what_keeps_an_agent_from_running_is_an_error() {
    let twice = Agent::with_provider(ScriptedModel::new([])).tool(echo).tool(echo);
    let error = twice.act("Go").await.unwrap_err();
    assert_eq!(error.to_string(), "two tools are called `echo`: rename one, or leave it out");
    assert!(matches!(error, Error::Session(_)));
    let error = Agent::new("claude").err().map(|error| error.to_string());
    assert_eq!(
        error.as_deref(),
        Some("`claude` is no model: write SERVER://MODEL, such as anthropic://claude-sonnet-5-5")
    );
}
