//! A small world for driver tests: memory, a scripted model, tools that count, paused time.
#![allow(dead_code, reason = "each test file uses its part")]

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use inspan_core::{
    Entry, Event,
    budget::Limits,
    effects::{Effects, Repeat},
    event::{ModelRef, SessionConfigured},
    gate::{Asking, BoxFuture, Gate, GateCall, Verdict},
    mask::Mask,
    message::{Content, Job, Labels, ResultState, ToolResult},
    store::{SessionId, Store},
    tool::{Invocation, Probed, Tool, ToolError, ToolSpec},
};
use inspan_engine::{Clock, Command, Session, Setup, Update, session::Ended};
use inspan_store::Memory;
use inspan_testkit::model::{Answer, ScriptedModel};
use serde_json::Value;
use tokio::{sync::Notify, time::Instant};

/// The day the tests are set on.
pub(crate) const DAY_MS: i64 = 1_790_000_000_000;

/// A clock that goes with tokio's, which tests pause.
pub(crate) struct PausedClock(Instant);

impl PausedClock {
    pub(crate) fn new() -> Self {
        Self(Instant::now())
    }
}

impl Clock for PausedClock {
    fn now_ms(&self) -> i64 {
        DAY_MS + i64::try_from(self.0.elapsed().as_millis()).unwrap_or(i64::MAX)
    }

    fn chance(&self) -> f64 {
        0.0
    }
}

/// What a tool of the tests does.
#[derive(Clone)]
pub(crate) enum Does {
    /// Gives its arguments back.
    Echo,
    /// Takes this long, then gives its arguments back.
    Takes(Duration),
    /// Fails.
    Fails,
    /// Panics.
    Panics,
    /// Takes its work elsewhere.
    Defers,
    /// Never ends; tells that it has begun.
    Hangs(Arc<Notify>),
}

/// A tool that counts, outside of every log, how often each call began and ended.
pub(crate) struct Counting {
    spec: Arc<ToolSpec>,
    does: Does,
    probed: Option<Probed>,
    pub(crate) witness: Witness,
}

/// `begin name(args)` and `end name(args)` in the order in which they happened.
#[derive(Clone, Default)]
pub(crate) struct Witness(Arc<Mutex<Vec<String>>>);

impl Witness {
    pub(crate) fn saw(&self, what: String) {
        self.0.lock().unwrap().push(what);
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn counts(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for what in self.all() {
            *counts.entry(what).or_default() += 1;
        }
        counts
    }
}

impl Counting {
    pub(crate) fn new(name: &str, repeat: Repeat, does: Does, witness: &Witness) -> Self {
        let effects = if repeat == Repeat::Pure {
            Effects::NONE
        } else {
            Effects { writes: true, ..Effects::NONE }
        };
        let mut spec = ToolSpec::new(name, "A tool of the tests.");
        spec.effects = effects;
        spec.repeat = repeat;
        Self { spec: Arc::new(spec), does, probed: None, witness: witness.clone() }
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut ToolSpec)) -> Self {
        change(Arc::make_mut(&mut self.spec));
        self
    }

    pub(crate) fn probed(mut self, probed: Probed) -> Self {
        self.probed = Some(probed);
        self
    }
}

impl Tool for Counting {
    fn spec(&self) -> Arc<ToolSpec> {
        self.spec.clone()
    }

    fn check(&self, arguments: Value) -> Result<Value, String> {
        match arguments.get("bad") {
            Some(_) => Err("/bad: unknown property".to_owned()),
            None => Ok(arguments),
        }
    }

    fn run(&self, call: Invocation) -> BoxFuture<'static, Result<ToolResult, ToolError>> {
        let (does, witness, name) =
            (self.does.clone(), self.witness.clone(), self.spec.name.clone());
        Box::pin(async move {
            let what = format!("{name}{}", call.arguments);
            witness.saw(format!("begin {what}"));
            match does {
                Does::Echo => {}
                Does::Takes(time) => tokio::time::sleep(time).await,
                Does::Fails => return Err(ToolError::new("the disk is on fire")),
                Does::Defers => {
                    let job = Job { id: "job 7".to_owned(), probe_after_ms: None };
                    let state = ResultState::Later(job);
                    return Ok(ToolResult { state, ..ToolResult::default() });
                }
                Does::Panics => panic!("a tool of the tests"),
                Does::Hangs(begun) => {
                    begun.notify_one();
                    std::future::pending::<()>().await;
                }
            }
            witness.saw(format!("end {what}"));
            Ok(ToolResult::text(call.arguments.to_string()))
        })
    }

    fn probe(&self, call: Invocation) -> BoxFuture<'static, Probed> {
        self.witness.saw(format!("probe {}{}", self.spec.name, call.arguments));
        Box::pin(std::future::ready(self.probed.clone().unwrap_or(Probed::Unknown)))
    }
}

/// A gate that always says the same of one tool.
pub(crate) struct Says(pub(crate) &'static str, pub(crate) Result<Verdict, String>);

impl Gate for Says {
    fn name(&self) -> &'static str {
        "says"
    }

    fn judge<'a>(&'a self, call: &'a GateCall) -> BoxFuture<'a, Result<Verdict, String>> {
        let said = if call.tool.name == self.0 { self.1.clone() } else { Ok(Verdict::Allow) };
        Box::pin(std::future::ready(said))
    }
}

/// A session's surroundings.
pub(crate) struct World {
    pub(crate) setup: Setup,
    pub(crate) model: Arc<ScriptedModel>,
    pub(crate) id: SessionId,
}

impl World {
    pub(crate) fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        Self::on(Arc::new(Memory::new()), answers)
    }

    pub(crate) fn on(store: Arc<dyn Store>, answers: impl IntoIterator<Item = Answer>) -> Self {
        let model = Arc::new(ScriptedModel::new(answers));
        let setup = Setup {
            store,
            blobs: None,
            pictures: None,
            keeps_results: false,
            provider: model.clone(),
            fallbacks: Vec::new(),
            tools: Vec::new(),
            catalogue: None,
            gates: Vec::new(),
            shared: Default::default(),
            clock: Arc::new(PausedClock::new()),
            mask: Mask::new(["hunter2hunter2".to_owned()]),
            asking: Asking::Never,
            workdir: "/work".to_owned(),
            config: SessionConfigured {
                agent: None,
                model: ModelRef {
                    url: "scripted://model".to_owned(),
                    window_tokens_max: None,
                    output_tokens_max: None,
                    price: None,
                    cuts_silently: false,
                },
                fallbacks: Vec::new(),
                system: String::new(),
                tools: Vec::new(),
                found: Default::default(),
                gates: Vec::new(),
                asks: Default::default(),
                limits: Limits::session(),
                sandbox: "none".to_owned(),
                workdir: None,
            },
        };
        let id = SessionId::try_from("s1".to_owned()).unwrap();
        Self { setup, model, id }
    }

    pub(crate) fn tool(mut self, tool: Counting) -> Self {
        self.setup.tools.push(Arc::new(tool));
        self
    }

    pub(crate) fn gate(mut self, gate: Says) -> Self {
        self.setup.gates.push(Arc::new(gate));
        self
    }

    pub(crate) fn limits(mut self, change: impl FnOnce(&mut Limits)) -> Self {
        change(&mut self.setup.config.limits);
        self
    }

    pub(crate) async fn start(&self) -> (Session, Ended) {
        Session::start(self.setup.clone(), self.id.clone()).await.unwrap()
    }

    /// Runs one prompt to the end of its turn and gives the log.
    pub(crate) async fn run(&self, prompt: &str) -> Vec<Arc<Entry>> {
        let (session, ended) = self.start().await;
        say(&session, prompt).await;
        let log = until_stop(&session).await;
        drop(session);
        ended.await.unwrap().unwrap();
        log
    }
}

pub(crate) async fn say(session: &Session, prompt: &str) {
    let content = vec![Content::text(prompt)];
    assert!(session.submit(Command::Prompt(content, Labels::default())).await);
}

/// The log up to the end of the first turn that ends.
pub(crate) async fn until_stop(session: &Session) -> Vec<Arc<Entry>> {
    until(session, |event| matches!(event, Event::TurnEnded(_))).await
}

/// The log up to the first entry of that kind.
pub(crate) async fn until(session: &Session, is_last: impl Fn(&Event) -> bool) -> Vec<Arc<Entry>> {
    let mut updates = session.updates(0);
    let mut log = Vec::new();
    while let Some(update) = updates.next().await.unwrap() {
        if let Update::Entry(entry) = update {
            let done = is_last(&entry.event);
            log.push(entry);
            if done {
                break;
            }
        }
    }
    log
}

/// The log in a few words an entry.
pub(crate) fn in_short(log: &[Arc<Entry>]) -> Vec<String> {
    log.iter()
        .map(|entry| match &entry.event {
            Event::ToolFinished(e) => {
                format!("{} {}: {}", e.name, e.how.as_str(), e.result.to_text())
            }
            Event::TurnEnded(e) if e.detail.is_empty() => format!("stop {}", e.stop.as_str()),
            Event::TurnEnded(e) => format!("stop {}: {}", e.stop.as_str(), e.detail),
            Event::ToolStarted(e) => format!("ToolStarted {} {}", e.name, e.attempt),
            Event::RoundStarted(e) => match e.closing {
                Some(limit) => format!("RoundStarted closing {}", limit.words()),
                None => format!("RoundStarted {}.{}", e.round, e.attempt),
            },
            Event::ModelFailed(e) => format!("ModelFailed {}", e.class.as_str()),
            event => event.kind().to_owned(),
        })
        .collect()
}
