//! All servers that a process has to do with.

use std::{
    collections::{BTreeMap, HashMap},
    ffi::OsString,
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, Once, PoisonError},
};

use futures_util::future::join_all;
use inspan_core::{hash::Hash, message::Content, tool::Tool, words};
use inspan_engine::tools::Progress;

use crate::{
    Inquiries, Link, McpError, Pictures, Report, ServerConfig,
    catalogue::{spec, unknown_names},
    ear::Attention,
    examine,
    leftovers::{Owner, end_leftovers},
    login::{self, Login},
    readable::{Readable, Wanted},
    server::Server,
    tool::ServerTool,
};

/// How servers are kept.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The folder for what is learned of servers; without one nothing is remembered.
    pub cache: Option<PathBuf>,
    /// The folder for logins, which are secrets; without one there are none.
    pub logins: Option<PathBuf>,
    /// The words before a server's own that tie its life to that of this process: a command that
    /// calls [`crate::launch()`], which must be given this process's number first.
    pub launcher: Vec<OsString>,
    /// How long the start of a server may take.
    pub timeouts: Timeouts,
}

/// Time limits for the start of a server, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// For starting a server and agreeing with it, whatever that takes.
    pub start_ms_max: u64,
    /// In which a server must answer a first message of the newest revision, before it is started
    /// again the older way. Some take seconds for reading their own code.
    pub discover_ms_max: u64,
}

/// Time for starting a server and agreeing with it, in milliseconds.
const START_MS_DEFAULT: u64 = 60_000;
/// Time for the answer to a first message of the newest revision, in milliseconds.
const DISCOVER_MS_DEFAULT: u64 = 8_000;

impl Default for Timeouts {
    fn default() -> Self {
        Self { start_ms_max: START_MS_DEFAULT, discover_ms_max: DISCOVER_MS_DEFAULT }
    }
}

/// Servers by their configuration: the same one is shared by all who ask for it. Nothing is started
/// before it is needed. Dropping the value kills those that run; [`Servers::close`] ends them in
/// order.
pub struct Servers {
    place: Arc<Place>,
    servers: Mutex<HashMap<Hash, Arc<Server>>>,
    leftovers: Once,
}

/// What all servers have in common.
pub(crate) struct Place {
    pub(crate) cache: Option<PathBuf>,
    pub(crate) logins: Option<PathBuf>,
    pub(crate) launcher: Vec<OsString>,
    pub(crate) owner: Owner,
    pub(crate) timeouts: Timeouts,
}

/// The tools of some servers.
#[derive(Default)]
pub struct Offer {
    /// The tools, sorted by name.
    pub tools: Vec<Arc<dyn Tool>>,
    /// Why a person is asked before a call, by the names of the tools for which that is so.
    pub asks: BTreeMap<String, String>,
    /// The name of the server that each tool is of, by its own.
    pub sources: BTreeMap<String, String>,
    /// Whose each tool is, by its name: see [`ServerConfig::identity`].
    pub servers: BTreeMap<String, Hash>,
    /// What a person should be told: servers that can't be used, tools that are set aside.
    pub notices: Vec<String>,
}

impl Servers {
    /// No servers yet.
    pub fn new(options: Options) -> Self {
        let Options { cache, logins, launcher, timeouts } = options;
        let place = Place { cache, logins, launcher, owner: Owner::this(), timeouts };
        Self { place: Arc::new(place), servers: Mutex::default(), leftovers: Once::new() }
    }

    /// The tools of these servers. Those of which nothing is known are started, side by side; one
    /// that can't be used is a notice, and the others are offered. What a dead process left running
    /// is ended meanwhile.
    ///
    /// # Errors
    /// [`McpError::NameTwice`].
    pub async fn offer(
        &self,
        configs: &[ServerConfig],
        pictures: Option<&Pictures>,
    ) -> Result<Offer, McpError> {
        let mut offer = Offer::default();
        if configs.is_empty() {
            return Ok(offer);
        }
        self.leftovers.call_once(|| {
            tokio::task::spawn_blocking(end_leftovers);
        });
        let servers: Vec<Arc<Server>> = configs.iter().map(|config| self.server(config)).collect();
        let kept = join_all(servers.iter().map(|server| server.catalogue())).await;
        let mut sources = BTreeMap::new();
        for ((config, server), kept) in configs.iter().zip(servers).zip(kept) {
            let name = &config.name;
            let catalogue = match &kept {
                Ok(kept) => &kept.catalogue,
                Err(why) => {
                    offer.notices.push(format!("the MCP server `{name}` is left out: {why}"));
                    continue;
                }
            };
            let identity = config.identity();
            for (tool, why) in catalogue.set_aside.iter().filter(|(tool, _)| config.offers(tool)) {
                let about = format!("`{tool}` of the MCP server `{name}` is left out: {why}");
                offer.notices.push(about);
            }
            for unknown in unknown_names(config, catalogue) {
                offer.notices.push(format!("the MCP server `{name}` has no tool `{unknown}`"));
            }
            for tool in catalogue.tools.iter().filter(|tool| config.offers(&tool.name)) {
                let spec = spec(config, tool);
                let source = format!("{name}/{}", tool.name);
                if let Some(first) = sources.insert(spec.name.clone(), source.clone()) {
                    return Err(McpError::NameTwice { name: spec.name, first, second: source });
                }
                offer.sources.insert(spec.name.clone(), name.clone());
                if let Some(why) = config.asked(&tool.name) {
                    offer.asks.insert(spec.name.clone(), why.to_owned());
                }
                offer.servers.insert(spec.name.clone(), identity);
                offer.tools.push(Arc::new(ServerTool::new(
                    spec,
                    tool.name.clone(),
                    server.clone(),
                    pictures.cloned(),
                )));
            }
        }
        offer.tools.sort_by_key(|tool| tool.spec().name.clone());
        Ok(offer)
    }

    /// A number that is another one when what these servers offer is: see [`Servers::offer`]. A
    /// server that said so is asked for its list first, which takes as long as it takes, within the
    /// limit of such a list.
    pub async fn changes(&self, configs: &[ServerConfig]) -> u64 {
        let servers: Vec<Arc<Server>> = configs.iter().map(|config| self.server(config)).collect();
        join_all(servers.iter().map(|server| server.changes())).await.iter().sum()
    }

    /// What the server offers to be read, as far as it is known; else it is started and asked.
    ///
    /// # Errors
    /// [`McpError::Unusable`].
    pub async fn readable(&self, config: &ServerConfig) -> Result<Readable, McpError> {
        let kept = self.server(config).catalogue().await;
        let unusable = |why| McpError::Unusable { server: config.name.clone(), why };
        Ok(kept.map_err(unusable)?.readable.clone())
    }

    /// Reads a resource or a prompt of the server. What it wants to be told for that is asked of the
    /// `person`.
    ///
    /// # Errors
    /// [`McpError::NotRead`].
    pub async fn read(
        &self,
        config: &ServerConfig,
        wanted: &Wanted,
        pictures: Option<&Pictures>,
        person: Option<Inquiries>,
    ) -> Result<Vec<Content>, McpError> {
        let progress = Progress::default();
        let attention = Attention::new(&config.name, Some(progress.clone()), person);
        let server = self.server(config);
        let answer = tokio::select! {
            answer = server.read(wanted, &attention) => answer,
            () = progress.ceased(config.timeout_ms_max) => {
                Err(format!("it gave no answer in {}", words::duration(config.timeout_ms_max)))
            }
        };
        let content = match answer {
            Ok(answer) => wanted.content(&answer, pictures).await,
            Err(why) => Err(attention.unasked().unwrap_or(why)),
        };
        content.map_err(|why| McpError::NotRead {
            server: config.name.clone(),
            what: wanted.named(),
            why,
        })
    }

    /// Logs a person in at a server: they open the address that is `shown` and agree there, for what
    /// the server asks and these `scopes`.
    ///
    /// # Errors
    /// [`McpError::NoLogin`].
    pub async fn login(
        &self,
        config: &ServerConfig,
        scopes: &[String],
        shown: impl FnOnce(&str),
    ) -> Result<(), McpError> {
        let no_login = |why| McpError::NoLogin { server: config.name.clone(), why };
        let Link::Http(link) = &config.link else {
            return Err(no_login("it is a program of this machine, which needs none".to_owned()));
        };
        let login = Login::of(self.place.logins.as_deref(), link);
        login.get(link, scopes, shown).await.map_err(no_login)
    }

    /// Forgets the login at a server. False when there was none.
    ///
    /// # Errors
    /// [`McpError::NoLogin`] when it can't be removed.
    pub fn logout(&self, config: &ServerConfig) -> Result<bool, McpError> {
        let Link::Http(link) = &config.link else { return Ok(false) };
        let forgotten = Login::of(self.place.logins.as_deref(), link).forget();
        let server = || config.name.clone();
        forgotten.map_err(|error| McpError::NoLogin { server: server(), why: error.to_string() })
    }

    /// The secrets of all logins, which must not be shown.
    pub fn login_secrets(&self) -> Vec<String> {
        self.place.logins.as_deref().map(login::secrets).unwrap_or_default()
    }

    /// Starts a server, looks at everything that can be seen of it, and closes it. What was known
    /// of it before is found out anew.
    pub async fn examine(&self, config: &ServerConfig) -> Report {
        examine::examine(config, &self.place).await
    }

    /// Ends all servers that run, side by side, each within a few seconds.
    pub async fn close(&self) {
        let servers: Vec<Arc<Server>> = self.servers().drain().map(|(_, server)| server).collect();
        join_all(servers.iter().map(|server| server.close())).await;
    }

    fn server(&self, config: &ServerConfig) -> Arc<Server> {
        let mut servers = self.servers();
        let server = servers
            .entry(config.fingerprint())
            .or_insert_with(|| Arc::new(Server::new(config.clone(), self.place.clone())));
        server.clone()
    }

    /// No code of ours panics while it holds the lock, so a poisoned one is as good as any.
    fn servers(&self) -> MutexGuard<'_, HashMap<Hash, Arc<Server>>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many there are.
impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Servers({})", self.servers().len())
    }
}
