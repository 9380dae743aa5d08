//! A tool as it is lent to clients: it tells how it gets on, and one that may change anything waits
//! for its turn.

use std::{pin::pin, sync::Arc, time::Duration};

use inspan_core::{
    gate::BoxFuture,
    message::ToolResult,
    tool::{Invocation, Probed, Tool, ToolError, ToolSpec},
};
use inspan_engine::tools::Progress;
use serde_json::Value;
use tokio::{
    sync::{Mutex, MutexGuard, watch},
    time::interval,
};

/// How often a call that waits for its turn says that it is alive.
const WAITS_TELLS: Duration = Duration::from_secs(1);

/// Where the calls of a session say that they get on, for whoever follows it. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Beats(watch::Sender<u64>);

impl Beats {
    pub(crate) fn listen(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }

    fn beat(&self) {
        self.0.send_modify(|beats| *beats = beats.wrapping_add(1));
    }
}

/// A tool that is lent.
pub(crate) struct Lent {
    tool: Arc<dyn Tool>,
    /// Held by the one call that may change anything.
    turn: Option<Arc<Mutex<()>>>,
}

impl Lent {
    /// A tool whose calls come one by one out of one session.
    pub(crate) fn to_a_session(tool: Arc<dyn Tool>) -> Arc<dyn Tool> {
        Arc::new(Self { tool, turn: None })
    }

    /// A tool whose calls come from several sessions. Inside one, the engine lets calls run side by
    /// side only where all of them only read; among these, `turn` does.
    pub(crate) fn to_sessions(tool: Arc<dyn Tool>, turn: &Arc<Mutex<()>>) -> Arc<dyn Tool> {
        let turn = (!tool.spec().side_by_side()).then(|| turn.clone());
        Arc::new(Self { tool, turn })
    }
}

impl Tool for Lent {
    fn spec(&self) -> Arc<ToolSpec> {
        self.tool.spec()
    }

    fn check(&self, arguments: Value) -> Result<Value, String> {
        self.tool.check(arguments)
    }

    fn run(&self, call: Invocation) -> BoxFuture<'static, Result<ToolResult, ToolError>> {
        let (tool, turn) = (self.tool.clone(), self.turn.clone());
        Box::pin(async move {
            let progress = call.shared.get::<Progress>().cloned().unwrap_or_default();
            let beats = call.shared.get::<Beats>().cloned().unwrap_or_default();
            let _turn = match &turn {
                Some(turn) => Some(wait_for(turn, &progress).await),
                None => None,
            };
            let mut run = pin!(tool.run(call));
            loop {
                tokio::select! {
                    biased;
                    result = &mut run => return result,
                    () = progress.next() => beats.beat(),
                }
            }
        })
    }

    fn probe(&self, call: Invocation) -> BoxFuture<'static, Probed> {
        self.tool.probe(call)
    }
}

/// The time of a call begins when its turn comes.
async fn wait_for<'a>(turn: &'a Mutex<()>, progress: &Progress) -> MutexGuard<'a, ()> {
    let mut tells = interval(WAITS_TELLS);
    let mut waiting = pin!(turn.lock());
    loop {
        tokio::select! {
            biased;
            guard = &mut waiting => {
                progress.made();
                return guard;
            }
            _ = tells.tick() => progress.made(),
        }
    }
}
