//! A look at a server from all sides: whether it starts, what it offers, how it behaves.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use inspan_core::tool::ToolSpec;
use tokio::time::timeout;

use crate::{
    ServerConfig,
    call::{List, NoAnswer},
    catalogue::{shown, spec, unknown_names},
    child::Closed,
    connection::Connection,
    server::Server,
    servers::Place,
};

/// Time for the answer to a second question.
const AGAIN_MS_MAX: u64 = 5_000;

/// What the look at a server found.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The server.
    pub name: String,
    /// The whole in one word.
    pub grade: Grade,
    /// What it calls itself, with its version; empty when it can't be used.
    pub title: String,
    /// The revision that was agreed on; empty when it can't be used.
    pub revision: String,
    /// Time until it was agreed with and had listed its tools, in milliseconds.
    pub start_ms: u64,
    /// The tools that are offered of it: the name for the model, and the effects that are assumed.
    pub tools: Vec<(String, String)>,
    /// These tools as the model is told of them.
    pub specs: Vec<Arc<ToolSpec>>,
    /// Tokens that the descriptions and schemas of these tools cost in each request, estimated.
    pub tokens: u64,
    /// What a person could mend, one sentence each.
    pub faults: Vec<String>,
}

/// How good a server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grade {
    /// Nothing is wrong with it.
    Good,
    /// It can be used, and something is wrong with it.
    Fair,
    /// It can't be used.
    Bad,
}

impl Grade {
    /// The word for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Fair => "fair",
            Self::Bad => "bad",
        }
    }
}

/// Starts the server as if nothing were known of it, looks at it and closes it.
pub(crate) async fn examine(config: &ServerConfig, place: &Arc<Place>) -> Report {
    let mut report = Report {
        name: config.name.clone(),
        grade: Grade::Bad,
        title: String::new(),
        revision: String::new(),
        start_ms: 0,
        tools: Vec::new(),
        specs: Vec::new(),
        tokens: 0,
        faults: Vec::new(),
    };
    let server = Server::unknown(config.clone(), place.clone());
    let began = Instant::now();
    let connection = match server.connection().await {
        Ok(connection) => connection,
        Err(why) => {
            report.faults.push(why);
            return report;
        }
    };
    report.start_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    report.title.clone_from(&connection.title);
    report.revision.clone_from(&connection.revision);
    if let Ok(kept) = server.catalogue().await {
        let catalogue = &kept.catalogue;
        for tool in catalogue.tools.iter().filter(|tool| config.offers(&tool.name)) {
            let spec = spec(config, tool);
            if spec.name != format!("{}_{}", config.name, tool.name) {
                report.faults.push(format!(
                    "the name `{}` is none that every model takes: it is `{}` here",
                    shown(&tool.name),
                    spec.name
                ));
            }
            report.tokens += spec.tokens_estimate();
            let effects: Vec<&str> = spec.effects.names().collect();
            let effects = if effects.is_empty() { "none".to_owned() } else { effects.join(", ") };
            let about = format!("{effects}; {}", spec.repeat.as_str());
            report.tools.push((spec.name.clone(), about));
            report.specs.push(Arc::new(spec));
        }
        for (tool, why) in &catalogue.set_aside {
            report.faults.push(format!("`{tool}` is left out: {why}"));
        }
        for unknown in unknown_names(config, catalogue) {
            report
                .faults
                .push(format!("it has no tool `{unknown}`, which the configuration names"));
        }
    }
    if let Some(fault) = hangs(&connection).await {
        report.faults.push(fault);
    }
    let closed = server.close().await;
    let junk = connection.junk();
    if let Some(first) = &junk.first {
        let lines = junk.lines;
        report.faults.push(format!("{lines} lines on its output are no messages, as: {first}"));
    }
    match closed {
        None | Some(Closed::ByItself) => {}
        Some(Closed::Terminated) => report
            .faults
            .push("it did not end when its input was closed; a signal ended it".to_owned()),
        Some(Closed::Killed) => report
            .faults
            .push("it ended neither with its input nor on a signal, and was killed".to_owned()),
    }
    if let left @ 1.. = connection.left() {
        report.faults.push(format!(
            "when it ended, it left processes of its own ({left}), which were ended, too"
        ));
    }
    report.grade = if report.faults.is_empty() { Grade::Good } else { Grade::Fair };
    report
}

/// Whether the server is silent when it is asked once more. No tool is called: it may do anything.
async fn hangs(connection: &Connection) -> Option<String> {
    let asked = connection.page(List::Tools, None);
    match timeout(Duration::from_millis(AGAIN_MS_MAX), asked).await {
        Ok(Ok(_) | Err(NoAnswer::Refused(_))) => None,
        Ok(Err(_)) => Some("it was lost when it was asked for its tools once more".to_owned()),
        Err(_) => Some(format!(
            "it did not answer in {} s when it was asked for its tools once more",
            AGAIN_MS_MAX / 1000
        )),
    }
}
