//! Runs sessions in this process: the engine, SQLite, a provider, and a tool of ours.

use std::{
    error::Error,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use inspan_core::{
    Entry, Event,
    budget::Limits,
    effects::{Effects, Repeat},
    event::{Head, ModelRef, SessionConfigured},
    gate::{Asking, BoxFuture},
    mask::Mask,
    message::{Content, Labels, ToolResult},
    store::{Claim, SessionFilter, SessionId, SessionRow, Store, StoreError},
    tool::{Invocation, Tool, ToolError, ToolSpec},
};
use inspan_engine::{Command, Session, Setup, SystemClock, Update};
use inspan_providers::{KeySource, Quirks, Server as ModelServer, Timeouts, Wire, connect};
use inspan_store::Sqlite;
use serde_json::Value;

use crate::{
    script,
    server::{Exchange, Server},
};

/// One session.
pub(crate) struct Run {
    /// What the server saw.
    pub(crate) exchanges: Vec<Exchange>,
    /// From handing entries to the store until they were durable, in order.
    pub(crate) commits: Vec<Duration>,
}

/// Runs so many rounds with a tool of this repeat class, its log in a database in `folder`. The
/// model takes `think` for each reply.
///
/// # Errors
/// The session failed.
pub(crate) fn run(
    folder: &Path,
    repeat: Repeat,
    rounds: usize,
    think: Duration,
) -> Result<Run, Box<dyn Error>> {
    let server = Server::start(script::rounds(rounds, "note"), think, |_| {})?;
    let url = format!("http://{}", server.address());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let commits = runtime.block_on(drive(&folder.join("sessions.db"), &url, repeat))?;
    // With the runtime goes the connection that is kept for the next request.
    drop(runtime);
    let exchanges = server.finish()?;
    if exchanges.len() != rounds + 1 {
        return Err(format!("{} requests for {rounds} rounds", exchanges.len()).into());
    }
    Ok(Run { exchanges, commits })
}

async fn drive(path: &Path, url: &str, repeat: Repeat) -> Result<Vec<Duration>, Box<dyn Error>> {
    let store = Arc::new(Timed { inner: Sqlite::open(path).await?, commits: Arc::default() });
    let id = SessionId::try_from(format!("bench-{}", url.rsplit(':').next().unwrap_or_default()))?;
    let (session, ended) = Session::start(setup(store.clone(), url, repeat)?, id).await?;
    let mut updates = session.updates(0);
    session.submit(Command::Prompt(vec![Content::text("Go on.")], Labels::default())).await;
    while let Some(update) = updates.next().await? {
        if let Update::Entry(entry) = update
            && matches!(entry.event, Event::TurnEnded(_))
        {
            break;
        }
    }
    drop(session);
    ended.await??;
    store.inner.close().await;
    Ok(std::mem::take(&mut *store.commits.lock().unwrap_or_else(PoisonError::into_inner)))
}

fn setup(store: Arc<dyn Store>, url: &str, repeat: Repeat) -> Result<Setup, Box<dyn Error>> {
    let server = ModelServer {
        name: "here".to_owned(),
        wire: Wire::AnthropicMessages,
        base_url: url.to_owned(),
        key: KeySource::None,
        quirks: Quirks::at(Wire::AnthropicMessages, "https://api.anthropic.com"),
        timeouts: Timeouts::LOCAL,
        extra: Default::default(),
    };
    Ok(Setup {
        store,
        blobs: None,
        pictures: None,
        keeps_results: false,
        provider: connect("here://bench", &[server], None)?,
        fallbacks: Vec::new(),
        tools: vec![Arc::new(Note::new(repeat))],
        catalogue: None,
        gates: Vec::new(),
        shared: Default::default(),
        clock: Arc::new(SystemClock),
        mask: Mask::default(),
        asking: Asking::Never,
        workdir: "/".to_owned(),
        config: SessionConfigured {
            agent: None,
            model: ModelRef {
                url: "here://bench".to_owned(),
                window_tokens_max: None,
                output_tokens_max: None,
                price: None,
                cuts_silently: false,
            },
            fallbacks: Vec::new(),
            system: "Note everything with your tool.".to_owned(),
            tools: Vec::new(),
            found: Default::default(),
            gates: Vec::new(),
            asks: Default::default(),
            limits: Limits {
                rounds_max: 2_000,
                calls_max: 2_000,
                tokens_max: None,
                ..Limits::session()
            },
            sandbox: "none".to_owned(),
            workdir: None,
        },
    })
}

/// A tool that takes no time.
struct Note(Arc<ToolSpec>);

impl Note {
    fn new(repeat: Repeat) -> Self {
        let effects = Effects { writes: repeat != Repeat::Pure, ..Effects::NONE };
        let spec = ToolSpec { effects, repeat, ..ToolSpec::new("note", "Notes a text.") };
        Self(Arc::new(spec))
    }
}

impl Tool for Note {
    fn spec(&self) -> Arc<ToolSpec> {
        self.0.clone()
    }

    fn check(&self, arguments: Value) -> Result<Value, String> {
        Ok(arguments)
    }

    fn run(&self, call: Invocation) -> BoxFuture<'static, Result<ToolResult, ToolError>> {
        let text = call.arguments["text"].as_str().unwrap_or_default();
        Box::pin(std::future::ready(Ok(ToolResult::text(format!("noted: {text}")))))
    }
}

/// SQLite, and how long each append took to be durable.
struct Timed {
    inner: Sqlite,
    commits: Arc<Mutex<Vec<Duration>>>,
}

impl Store for Timed {
    fn create(&self, session: &SessionId) -> BoxFuture<'static, Result<Claim, StoreError>> {
        self.inner.create(session)
    }

    fn claim(&self, session: &SessionId) -> BoxFuture<'static, Result<Claim, StoreError>> {
        self.inner.claim(session)
    }

    fn append(
        &self,
        claim: &Claim,
        after: Head,
        entries: Arc<[Entry]>,
    ) -> BoxFuture<'static, Result<(), StoreError>> {
        let began = Instant::now();
        let append = self.inner.append(claim, after, entries);
        let commits = self.commits.clone();
        Box::pin(async move {
            append.await?;
            commits.lock().unwrap_or_else(PoisonError::into_inner).push(began.elapsed());
            Ok(())
        })
    }

    fn read(
        &self,
        session: &SessionId,
        after: u64,
        count_max: usize,
    ) -> BoxFuture<'static, Result<Vec<Entry>, StoreError>> {
        self.inner.read(session, after, count_max)
    }

    fn sessions(
        &self,
        filter: &SessionFilter,
    ) -> BoxFuture<'static, Result<Vec<SessionRow>, StoreError>> {
        self.inner.sessions(filter)
    }
}
