//! A setup for tools and nothing else.

use std::{collections::BTreeMap, sync::Arc};

use inspan_core::{
    budget::Limits, event::SessionConfigured, gate::Asking, mask::Mask, store::Store, tool::Tool,
};
use inspan_engine::{Setup, SystemClock};

use crate::serve::caller::{caller, caller_ref};

/// What it takes to serve `tools` from a program, with their log in `store`: no gates, the limits
/// of a session, and pictures where the store keeps them. All of it can be set otherwise.
pub fn setup(tools: Vec<Arc<dyn Tool>>, store: Arc<dyn Store>) -> Setup {
    Setup {
        blobs: store.blobs(),
        store,
        pictures: None,
        keeps_results: false,
        provider: caller(),
        fallbacks: Vec::new(),
        tools,
        catalogue: None,
        gates: Vec::new(),
        shared: Default::default(),
        clock: Arc::new(SystemClock),
        mask: Mask::default(),
        asking: Asking::Never,
        workdir: String::new(),
        config: SessionConfigured {
            agent: None,
            model: caller_ref(),
            fallbacks: Vec::new(),
            system: String::new(),
            tools: Vec::new(),
            found: BTreeMap::new(),
            gates: Vec::new(),
            asks: BTreeMap::new(),
            limits: Limits::session(),
            sandbox: "none".to_owned(),
            workdir: None,
        },
    }
}
