//! The gate for the tools of which `agent.yaml`, or `mcpServers`, says `ask`.

use std::{
    collections::BTreeMap,
    future::ready,
    sync::{Arc, PoisonError, RwLock},
};

use inspan_core::gate::{BoxFuture, Gate, GateCall, Verdict};

/// Why a person is asked before a call, by the name of the tool. Tools of servers may come while a
/// session goes on. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct LiveAsks(Arc<RwLock<BTreeMap<String, String>>>);

impl LiveAsks {
    pub(crate) fn new(asks: BTreeMap<String, String>) -> Self {
        Self(Arc::new(RwLock::new(asks)))
    }

    /// Asks about these, too. Nothing is asked about less.
    pub(crate) fn add(&self, asks: &BTreeMap<String, String>) {
        let asks = asks.iter().map(|(name, why)| (name.clone(), why.clone()));
        self.0.write().unwrap_or_else(PoisonError::into_inner).extend(asks);
    }
}

/// Asks a person before each call of these tools.
pub(crate) struct Ask(pub(crate) LiveAsks);

impl Gate for Ask {
    fn name(&self) -> &'static str {
        "ask"
    }

    fn judge<'a>(&'a self, call: &'a GateCall) -> BoxFuture<'a, Result<Verdict, String>> {
        let asks = self.0.0.read().unwrap_or_else(PoisonError::into_inner);
        let why = asks.get(&call.tool.name);
        Box::pin(ready(Ok(why.map_or(Verdict::Allow, |why| Verdict::Ask(why.clone())))))
    }
}
