//! A folder with a server of its own for each test, and calls of its tools.

use std::{fs, path::Path, sync::Arc};

use inspan_core::{
    blobs::Blobs,
    message::{CallId, ToolResult},
    store::SessionId,
    tool::{Invocation, Tool, ToolError},
};
use inspan_mcp::{
    Link, Offer, Options, Pictures, ProgramLink, Protocol, ServerConfig, Servers, Timeouts,
};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Where a test plays. It is gone when it is dropped, and with it what runs there.
pub(crate) struct World {
    pub(crate) folder: TempDir,
    pub(crate) servers: Servers,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(Timeouts::default())
    }

    pub(crate) fn with(timeouts: Timeouts) -> Self {
        let folder = TempDir::new().unwrap();
        let options = Self::options(&folder, timeouts);
        Self { folder, servers: Servers::new(options) }
    }

    fn options(folder: &TempDir, timeouts: Timeouts) -> Options {
        let cache = Some(folder.path().join("cache"));
        Options { cache, timeouts, ..Options::default() }
    }

    /// Other servers with the same cache, as those of a later process.
    pub(crate) fn later(&self) -> Servers {
        Servers::new(Self::options(&self.folder, Timeouts::default()))
    }

    /// The program `argv` as a server that works in this folder.
    pub(crate) fn program(&self, name: &str, argv: &[&str]) -> ServerConfig {
        let environment = std::env::vars_os().collect();
        self.config(
            name,
            Link::Program(ProgramLink {
                argv: argv.iter().map(|word| (*word).to_owned()).collect(),
                folder: self.folder.path().to_owned(),
                env: Default::default(),
                environment,
            }),
        )
    }

    pub(crate) fn config(&self, name: &str, link: Link) -> ServerConfig {
        ServerConfig {
            name: name.to_owned(),
            link,
            protocol: Protocol::Auto,
            include: None,
            exclude: Vec::new(),
            timeout_ms_max: 20_000,
            effects: Default::default(),
            ask: Default::default(),
        }
    }

    /// The bad server with these habits.
    pub(crate) fn bad(&self, habits: &[&str]) -> ServerConfig {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/bad.py");
        self.program("bad", &[&["python3", script], habits].concat())
    }

    /// The tools of a server about which there is nothing to say.
    pub(crate) async fn tools(&self, config: &ServerConfig) -> Tools {
        let offer = self.servers.offer(std::slice::from_ref(config), None).await.unwrap();
        assert_eq!(offer.notices, Vec::<String>::new());
        Tools(offer.tools)
    }

    /// What is said of a server that can't be used.
    pub(crate) async fn notice(&self, config: &ServerConfig) -> String {
        let Offer { tools, notices, .. } =
            self.servers.offer(std::slice::from_ref(config), None).await.unwrap();
        assert_eq!((tools.len(), notices.len()), (0, 1), "{notices:?}");
        notices.concat()
    }

    /// What the bad server wrote down.
    pub(crate) fn journal(&self) -> Vec<String> {
        let text = fs::read_to_string(self.folder.path().join("journal")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

/// The tools of a server.
pub(crate) struct Tools(pub(crate) Vec<Arc<dyn Tool>>);

impl Tools {
    pub(crate) fn names(&self) -> Vec<String> {
        self.0.iter().map(|tool| tool.spec().name.clone()).collect()
    }

    pub(crate) fn get(&self, name: &str) -> &Arc<dyn Tool> {
        let tool = self.0.iter().find(|tool| tool.spec().name == name);
        tool.unwrap_or_else(|| panic!("{name}: {:?}", self.names()))
    }

    pub(crate) async fn run(&self, name: &str, arguments: Value) -> Result<ToolResult, ToolError> {
        let tool = self.get(name);
        let arguments = tool.check(arguments).unwrap();
        tool.run(call(arguments)).await
    }

    /// The text of a call that succeeds.
    pub(crate) async fn text(&self, name: &str, arguments: Value) -> String {
        self.run(name, arguments).await.unwrap().to_text()
    }

    /// The message of a call that fails.
    pub(crate) async fn error(&self, name: &str) -> String {
        self.run(name, json!({})).await.unwrap_err().message
    }
}

pub(crate) fn call(arguments: Value) -> Invocation {
    Invocation {
        session: SessionId::try_from("s-1".to_owned()).unwrap(),
        call: CallId::new(3, 0),
        key: "s-1/3/0".to_owned(),
        attempt: 1,
        arguments,
        shared: Default::default(),
    }
}

/// Pictures are kept in memory; PNG is the only type there is.
pub(crate) fn pictures(blobs: Arc<dyn Blobs>) -> Pictures {
    Pictures { blobs, media_type: |bytes| bytes.starts_with(b"\x89PNG").then_some("image/png") }
}

/// Whether a process of this number runs, and is not only waiting to be forgotten.
pub(crate) fn runs(pid: &str) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(pid).join("stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}
