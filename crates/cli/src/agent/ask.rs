//! The gate of an agent's folder: the tools of which `agent.yaml` says `ask`.

use std::{collections::BTreeMap, future::ready};

use inspan_core::gate::{BoxFuture, Gate, GateCall, Verdict};

/// Asks a person before each call of these tools.
pub(crate) struct Ask {
    /// Why it is asked, by the name of the tool.
    why: BTreeMap<String, String>,
}

impl Ask {
    /// The gate for these tools and reasons; `None` when there are none.
    pub(crate) fn new(why: BTreeMap<String, String>) -> Option<Self> {
        (!why.is_empty()).then_some(Self { why })
    }
}

impl Gate for Ask {
    fn name(&self) -> &'static str {
        "ask"
    }

    fn judge<'a>(&'a self, call: &'a GateCall) -> BoxFuture<'a, Result<Verdict, String>> {
        let why = self.why.get(&call.tool.name);
        Box::pin(ready(Ok(why.map_or(Verdict::Allow, |why| Verdict::Ask(why.clone())))))
    }
}
