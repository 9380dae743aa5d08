//! Which tools a model is told of at once, and which it has to find.

use std::{collections::BTreeMap, sync::Arc};

use inspan_core::{
    event::SessionConfigured,
    found::{TOLD_TOOLS_PERCENT_MAX, TOLD_TOOLS_TOKENS_MAX},
    gate::BoxFuture,
    store::StoreError,
    tool::Tool,
};
use inspan_engine::tools::find::{self, CallTool, FindTools, Listed};
use inspan_store::Ranking;

use crate::config::Ceiling;

/// What a request can carry.
#[derive(Clone, Copy)]
pub(crate) struct Room {
    /// The tokens of all tools that the person wants it to carry at most.
    pub given: Option<Ceiling<u64>>,
    pub window_tokens_max: Option<u64>,
    /// How many tools the model's server takes.
    pub tools_max: u32,
}

/// Whether `tools` are more than a request should carry, so that those of servers are to be found. A
/// session that found its tools before goes on so.
pub(crate) fn is_needed(
    tools: &[Arc<dyn Tool>],
    room: Room,
    recorded: Option<&SessionConfigured>,
) -> bool {
    let tokens: u64 = tools.iter().map(|tool| tool.spec().tokens_estimate()).sum();
    let found_before = recorded.is_some_and(|recorded| !recorded.found.is_empty());
    match room.given {
        Some(Ceiling::Lifted) => false,
        // One more is the session's own.
        _ if tools.len() >= room.tools_max as usize => true,
        _ if found_before => true,
        Some(Ceiling::At(tokens_max)) => tokens > tokens_max,
        None => tokens > told_tokens_max(room.window_tokens_max),
    }
}

/// Adds the tools that find others, and says which those are: the ones of which `sources` knows the
/// server, each with it.
pub(crate) fn set_up(
    tools: &mut Vec<Arc<dyn Tool>>,
    sources: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let listed: Vec<Listed> = tools
        .iter()
        .filter_map(|tool| {
            let spec = tool.spec();
            let source = sources.get(&spec.name)?.clone();
            Some(Listed { spec, source })
        })
        .collect();
    if listed.is_empty() {
        return BTreeMap::new();
    }
    let found = listed.iter().map(|one| (one.spec.name.clone(), one.source.clone())).collect();
    let ranking = Ranked(Ranking::of(listed.iter().map(Listed::said)));
    tools.push(Arc::new(FindTools::new(listed, Arc::new(ranking))));
    tools.push(Arc::new(CallTool::default()));
    found
}

fn told_tokens_max(window_tokens_max: Option<u64>) -> u64 {
    window_tokens_max.map_or(TOLD_TOOLS_TOKENS_MAX, |window| window / 100 * TOLD_TOOLS_PERCENT_MAX)
}

struct Ranked(Ranking);

impl find::Ranking for Ranked {
    fn best(
        &self,
        question: &str,
        count_max: usize,
    ) -> BoxFuture<'static, Result<Vec<usize>, StoreError>> {
        self.0.best(question, count_max)
    }
}
