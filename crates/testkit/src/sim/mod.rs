//! A simulated world: a seed gives a session's limits, what its model answers, what its tools,
//! gates and persons do, and when its process dies. A small driver runs it over the pure core by
//! the rules of the real one, and `checks` looks at every entry.
//!
//! Nothing here waits and nothing is random beyond the seed: a failing seed fails again.

mod checks;
mod driver;
mod world;

use std::{collections::BTreeSet, fmt};

use inspan_core::{
    Action, Event,
    decide::Abort,
    event::Stop,
    message::How,
    provider::{ErrorClass, Provider},
};

use crate::wire::Api;

/// A provider to whose model the sessions are shown, and which answers in some of them.
#[derive(Clone, Copy)]
pub struct Shown<'a> {
    /// Renders what is sent. It is never asked anything.
    pub provider: &'a dyn Provider,
    /// What its server accepts.
    pub api: Api,
}

/// When the process that drives the session dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// It lives.
    Never,
    /// When the log has grown to this many entries. Some of those that go on die soon after, too.
    After(usize),
}

/// Runs the world of `seed`, then one more turn in calm weather, which must reach its end.
///
/// # Errors
/// The first thing that was not as it must be, with the log up to it.
pub fn run(seed: u64, crash: Crash, shown: &[Shown<'_>]) -> Result<Report, Failure> {
    driver::Driver::new(seed, crash, shown).run()
}

/// What a run was like.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The entries of the log, before the calm turn.
    pub entries: usize,
    /// What was reached.
    pub reached: Reached,
}

/// What runs have reached, by the words of the log and the names of the actions.
#[derive(Clone, Debug, Default)]
pub struct Reached(BTreeSet<String>);

impl Reached {
    /// Adds what another run has reached.
    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// What no run has reached, of all event kinds, stops, answers, error classes and actions.
    pub fn missing(&self) -> Vec<String> {
        let kinds = Event::KINDS.iter().map(|kind| format!("event {kind}"));
        let stops = Stop::ALL.iter().map(|stop| format!("stop {}", stop.as_str()));
        let hows = How::ALL.iter().map(|how| format!("how {}", how.as_str()));
        let classes = ErrorClass::ALL.iter().map(|class| format!("class {}", class.as_str()));
        let actions = ACTIONS.iter().map(|action| format!("action {action}"));
        kinds
            .chain(stops)
            .chain(hows)
            .chain(classes)
            .chain(actions)
            .filter(|one| !self.0.contains(one))
            .collect()
    }

    fn event(&mut self, event: &Event) {
        self.add("event", event.kind());
        match event {
            Event::TurnEnded(ended) => self.add("stop", ended.stop.as_str()),
            Event::ToolFinished(finished) => self.add("how", finished.how.as_str()),
            Event::ModelFailed(failed) => self.add("class", failed.class.as_str()),
            _ => {}
        }
    }

    fn action(&mut self, action: &Action) {
        self.add("action", name_of(action));
    }

    fn add(&mut self, what: &str, word: &str) {
        let reached = format!("{what} {word}");
        if !self.0.contains(&reached) {
            self.0.insert(reached);
        }
    }
}

const ACTIONS: [&str; 10] = [
    "AppendEvent",
    "CallModel",
    "JudgeCall",
    "AskPerson",
    "RunTool",
    "ProbeTool",
    "AbortEffects Cancelled",
    "AbortEffects OutOfTime",
    "Wait",
    "Idle",
];

fn name_of(action: &Action) -> &'static str {
    match action {
        Action::AppendEvent(_) => "AppendEvent",
        Action::CallModel(_) => "CallModel",
        Action::JudgeCall(_) => "JudgeCall",
        Action::AskPerson(_) => "AskPerson",
        Action::RunTool(_) => "RunTool",
        Action::ProbeTool(_) => "ProbeTool",
        Action::AbortEffects(Abort::Cancelled) => "AbortEffects Cancelled",
        Action::AbortEffects(Abort::OutOfTime) => "AbortEffects OutOfTime",
        Action::Wait { .. } => "Wait",
        Action::Idle { .. } => "Idle",
    }
}

/// A run that went wrong. As text: what to call to see it again, why, and the log's lines.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// When its process died.
    pub crash: Crash,
    /// What was wrong.
    pub why: String,
    /// The log up to there, a line for each entry.
    pub log: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, crash, why, log } = self;
        write!(f, "run({seed}, Crash::{crash:?}): {why}\n{}", log.join("\n"))
    }
}
