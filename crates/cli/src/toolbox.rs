//! The tools of servers in a session: as they are offered and were approved, at its beginning and as
//! they come and go.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use inspan_core::{
    found::{CALL_TOOL, FIND_TOOLS},
    gate::BoxFuture,
    provider::Provider,
    tool::Tool,
    words::OPEN_RESULT,
};
use inspan_engine::{Catalogue, News};
use inspan_mcp::{Offer, Pictures, ServerConfig, Servers};

use crate::{
    agent::LiveAsks,
    approved::{Approved, Change},
    exit::Failure,
    found,
    setup::set_aside,
};

/// Where the tools of a session come from. Clones are the same.
#[derive(Clone)]
pub(crate) struct Toolbox(Arc<Inner>);

struct Inner {
    source: Source,
    /// The agent's own tools.
    own: Vec<Arc<dyn Tool>>,
    /// What is asked about, for the gate.
    asks: LiveAsks,
    provider: Arc<dyn Provider>,
    /// Those of servers are found, and not told.
    is_found: bool,
    last: Mutex<Last>,
}

/// What was offered last.
pub(crate) struct Last {
    /// The number of the catalogues: see [`Servers::changes`].
    pub(crate) seen: u64,
    /// All tools.
    pub(crate) tools: Vec<Arc<dyn Tool>>,
    /// What was said of the servers.
    pub(crate) notices: Vec<String>,
    /// Those that are found, and the servers that they are of.
    pub(crate) found: BTreeMap<String, String>,
}

/// The servers of a session.
#[derive(Clone)]
pub(crate) struct Source {
    pub(crate) servers: Arc<Servers>,
    pub(crate) configs: Vec<ServerConfig>,
    pub(crate) pictures: Pictures,
    pub(crate) approved: Approved,
}

/// What is offered, and what of it is not as it was approved.
pub(crate) struct Reviewed {
    pub(crate) offer: Offer,
    pub(crate) changes: Vec<Change>,
    /// See [`Last::seen`].
    pub(crate) seen: u64,
}

impl Source {
    /// What the servers offer now.
    ///
    /// # Errors
    /// Two tools have one name, or the approvals can't be read.
    pub(crate) async fn review(&self) -> Result<Reviewed, Failure> {
        let seen = self.servers.changes(&self.configs).await;
        let offer = self.servers.offer(&self.configs, Some(&self.pictures)).await?;
        let changes = self.approved.review(&offer)?;
        Ok(Reviewed { offer, changes, seen })
    }
}

impl Reviewed {
    /// Approves what changed.
    ///
    /// # Errors
    /// The approvals can't be written.
    pub(crate) fn accept(&mut self, source: &Source) -> Result<(), Failure> {
        source.approved.accept(&self.offer, &self.changes)?;
        self.changes.clear();
        Ok(())
    }

    /// Leaves out tools of servers that have the name of an agent's own or of Inspan's, and gives
    /// what to say of them.
    pub(crate) fn keep_clear_of(&mut self, own: &[Arc<dyn Tool>]) -> Vec<String> {
        let own: Vec<String> = own.iter().map(|tool| tool.spec().name.clone()).collect();
        let is_taken = |name: &str| {
            [FIND_TOOLS, CALL_TOOL, OPEN_RESULT].contains(&name) || own.iter().any(|o| o == name)
        };
        let (taken, tools): (Vec<_>, Vec<_>) =
            self.offer.tools.drain(..).partition(|tool| is_taken(&tool.spec().name));
        self.offer.tools = tools;
        self.offer.asks.retain(|name, _| !is_taken(name));
        self.changes.retain(|change| !is_taken(&change.tool));
        let said = |tool: &Arc<dyn Tool>| {
            let name = &tool.spec().name;
            format!("the tool `{name}` of an MCP server is left out: another tool has this name")
        };
        taken.iter().map(said).collect()
    }

    /// Leaves out what is not approved, and gives what to say of it; `how` accepts it.
    pub(crate) fn leave_out(&mut self, how: &str) -> Vec<String> {
        let changes = std::mem::take(&mut self.changes);
        let is_left = |name: &str| changes.iter().any(|change| change.tool == name);
        self.offer.tools.retain(|tool| !is_left(&tool.spec().name));
        self.offer.asks.retain(|name, _| !is_left(name));
        let said = |change: &Change| {
            format!(
                "the tool `{}` is left out: it is not as it was approved; to see what changed and \
                 accept it: {how}",
                change.tool
            )
        };
        changes.iter().map(said).collect()
    }
}

impl Toolbox {
    pub(crate) fn new(
        source: Source,
        own: Vec<Arc<dyn Tool>>,
        asks: LiveAsks,
        provider: Arc<dyn Provider>,
        is_found: bool,
        last: Last,
    ) -> Self {
        let last = Mutex::new(last);
        Self(Arc::new(Inner { source, own, asks, provider, is_found, last }))
    }
}

impl Inner {
    async fn news(&self) -> Option<News> {
        let now = self.source.servers.changes(&self.source.configs).await;
        if self.last().seen == now {
            return None;
        }
        let reviewed = self.source.review().await;
        // Only now: whoever is not waited for asks again.
        self.last().seen = now;
        let mut reviewed = match reviewed {
            Ok(reviewed) => reviewed,
            Err(failure) => {
                let why = format!("the tools of servers changed, and stay as they were: {failure}");
                let Last { tools, found, .. } = &*self.last();
                let (tools, found) = (tools.clone(), found.clone());
                return Some(News { tools, found, notices: vec![why], ..News::default() });
            }
        };
        let mut notices = std::mem::take(&mut reviewed.offer.notices);
        notices.extend(reviewed.keep_clear_of(&self.own));
        notices.extend(reviewed.leave_out(ACCEPT));
        let said = std::mem::replace(&mut self.last().notices, notices.clone());
        notices.retain(|notice| !said.contains(notice));
        let mut tools = all(&self.own, &reviewed.offer);
        let found = match self.is_found {
            true => found::set_up(&mut tools, &reviewed.offer.sources),
            false => BTreeMap::new(),
        };
        set_aside(&mut tools, &found, &*self.provider, &mut notices);
        self.asks.add(&reviewed.offer.asks);
        let mut last = self.last();
        (last.tools, last.found) = (tools.clone(), found.clone());
        drop(last);
        Some(News { tools, found, asks: reviewed.offer.asks, notices })
    }
}

impl Inner {
    fn last(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn all(own: &[Arc<dyn Tool>], offer: &Offer) -> Vec<Arc<dyn Tool>> {
    own.iter().chain(&offer.tools).cloned().collect()
}

/// How a change is accepted where no session is named.
pub(crate) const ACCEPT: &str = "inspan run or resume with --accept-changes";

impl Catalogue for Toolbox {
    fn news(&self) -> BoxFuture<'static, Option<News>> {
        let inner = self.0.clone();
        Box::pin(async move { inner.news().await })
    }
}
