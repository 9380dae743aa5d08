//! A session as its clients hold it.

use std::{collections::HashMap, sync::Arc};

use inspan_core::{
    State,
    event::{Event, ModelRef, SessionConfigured, SessionStarted},
    gate::{Asking, Choice, Gate},
    mask::Mask,
    message::{CallId, Content, Labels, ToolResult},
    pictures::Fit,
    provider::Provider,
    recover::recover,
    shared::Shared,
    store::{AnswerLeft, Blobs, Claim, SessionFilter, SessionId, Store, StoreError},
    tool::{Tool, ToolError},
};
use tokio::{
    sync::{broadcast, mpsc, oneshot},
    task::JoinHandle,
};

use crate::{
    catalogue::Catalogue,
    clock::Clock,
    driver::{Driver, Start},
    folded, outside,
    tools::open_result::OpenResult,
    updates::{UPDATES_WAITING_MAX, Update, Updates},
};

pub use crate::folded::{Folded, fold, log};

/// Commands that wait for the driver.
const COMMANDS_WAITING_MAX: usize = 64;

/// What a session runs with: the implementations, and what the log says of them.
#[derive(Clone)]
pub struct Setup {
    /// Where the log is kept.
    pub store: Arc<dyn Store>,
    /// Where pictures are kept; without it they are told as lost.
    pub blobs: Option<Arc<dyn Blobs>>,
    /// Makes pictures as small as the model's provider wants them; without it they are sent as they
    /// are.
    pub pictures: Option<Arc<dyn Fit>>,
    /// Whether the whole of a result that is too long for the log is kept there, too. The tools then
    /// get [`OpenResult`], with which the model reads it.
    pub keeps_results: bool,
    /// The model.
    pub provider: Arc<dyn Provider>,
    /// Who answers in the model's place when its server fails for good, one after the other.
    pub fallbacks: Vec<Fallback>,
    /// The tools, each name once.
    pub tools: Vec<Arc<dyn Tool>>,
    /// Where the tools come from, if they may change while the session goes on.
    pub catalogue: Option<Arc<dyn Catalogue>>,
    /// The gates; all must agree.
    pub gates: Vec<Arc<dyn Gate>>,
    /// What tools and gates are lent.
    pub shared: Shared,
    /// Time and chance.
    pub clock: Arc<dyn Clock>,
    /// Masks what tools and providers say before it is appended.
    pub mask: Mask,
    /// When a question to a person is answered. Without anybody, asking means no.
    pub asking: Asking,
    /// The working directory, as the log names it; empty for that of the session so far.
    pub workdir: String,
    /// What the log says the session runs with. Tools, gates and fallbacks are filled in from the above.
    pub config: SessionConfigured,
}

/// A model that answers in another's place.
#[derive(Clone)]
pub struct Fallback {
    /// What the log says of it.
    pub model: ModelRef,
    /// The model.
    pub provider: Arc<dyn Provider>,
}

impl Setup {
    /// Where the whole of a long result goes.
    pub(crate) fn spills(&self) -> Option<Arc<dyn Blobs>> {
        self.blobs.clone().filter(|_| self.keeps_results)
    }

    /// Fills in tools, gates and fallbacks.
    ///
    /// # Errors
    /// When two tools have one name.
    fn resolve(&mut self) -> Result<(), SessionError> {
        if let (Some(blobs), false) = (self.spills(), self.tools.is_empty()) {
            self.tools.push(Arc::new(OpenResult::new(self.store.clone(), blobs)));
        }
        let mut specs: Vec<_> = self.tools.iter().map(|tool| tool.spec()).collect();
        specs.sort_by(|a, b| a.name.cmp(&b.name));
        if let Some(pair) = specs.windows(2).find(|pair| pair[0].name == pair[1].name) {
            return Err(SessionError::ToolTwice(pair[0].name.clone()));
        }
        self.config.tools = specs;
        self.config.gates = self.gates.iter().map(|gate| gate.name().to_owned()).collect();
        self.config.fallbacks = self.fallbacks.iter().map(|one| one.model.clone()).collect();
        let mut models = std::iter::once(&self.config.model).chain(&self.config.fallbacks);
        match models.find(|model| model.price.is_none()) {
            Some(model) if self.config.limits.cost_max_nano_usd.is_some() => {
                Err(SessionError::NoPrice(model.url.clone()))
            }
            _ => Ok(()),
        }
    }
}

/// What keeps a session from starting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// The log can't be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Two tools have one name.
    #[error("two tools are called `{0}`: rename one, or leave it out")]
    ToolTwice(String),
    /// A cost limit needs a price.
    #[error(
        "a cost limit needs the price of {0}: set it (`models` in config.yaml, `.price(…)` in a program), or leave out the limit"
    )]
    NoPrice(String),
}

/// What a client asks for.
#[derive(Clone, Debug)]
pub enum Command {
    /// Say something: opens a turn, or is taken at the next round of the open one.
    Prompt(Vec<Content>, Labels),
    /// Answer the question about a call.
    Answer {
        /// The call.
        call: CallId,
        /// The answer.
        choice: Choice,
        /// Why, for the model; may be empty.
        why: String,
    },
    /// The result of a call whose work went on elsewhere, from whoever did it. For a call that was
    /// answered already it is news, once.
    Deliver {
        /// The call.
        call: CallId,
        /// What came of it.
        outcome: Result<ToolResult, ToolError>,
    },
    /// Stop the open turn at once: what runs is aborted.
    Cancel,
    /// Stop the open turn at the next safe point: a call that can't be run again comes to its own
    /// end first. A [`Command::Cancel`] meanwhile aborts it.
    CancelSafely,
    /// Go on with a parked turn.
    Wake,
}

/// A command on its way to the driver.
pub(crate) struct Submitted {
    pub(crate) command: Command,
    /// Hears the number of the entry that a prompt became.
    pub(crate) receipt: Option<oneshot::Sender<u64>>,
}

/// A running session. Clones are further handles of the same; when all are gone, the driver
/// finishes the open turn and ends.
#[derive(Clone)]
pub struct Session {
    id: SessionId,
    store: Arc<dyn Store>,
    commands: mpsc::Sender<Submitted>,
    /// Weak, so that updates end with the driver, whose store may fail while handles are held.
    updates: broadcast::WeakSender<Arc<Update>>,
}

/// The driver's end: the store's failure, if that is why.
pub type Ended = JoinHandle<Result<(), StoreError>>;

impl Session {
    /// Begins a new session. Its first entries are durable when this returns. Must be called in a
    /// tokio runtime.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub async fn start(mut setup: Setup, id: SessionId) -> Result<(Self, Ended), SessionError> {
        setup.resolve()?;
        let claim = setup.store.create(&id).await?;
        let started = SessionStarted {
            session: id.clone(),
            inspan: env!("CARGO_PKG_VERSION").to_owned(),
            format: inspan_core::event::FORMAT_VERSION,
            workdir: setup.workdir.clone(),
        };
        let first = vec![started.into(), setup.config.clone().into()];
        Self::run(setup, claim, Folded::default(), first).await
    }

    /// Goes on with a session that exists. What a dead process left open is closed or run again,
    /// and an open turn goes on by itself.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub async fn resume(mut setup: Setup, id: SessionId) -> Result<(Self, Ended), SessionError> {
        setup.resolve()?;
        let claim = setup.store.claim(&id).await?;
        let folded = folded::latest(&*setup.store, &id).await?;
        Self::go_on(setup, claim, folded).await
    }

    /// [`Session::resume`] for whoever has folded the log already, as it was then: only what came
    /// since is read.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub async fn resume_after(
        mut setup: Setup,
        id: SessionId,
        folded: Folded,
    ) -> Result<(Self, Ended), SessionError> {
        setup.resolve()?;
        let claim = setup.store.claim(&id).await?;
        Self::go_on(setup, claim, folded).await
    }

    async fn go_on(
        mut setup: Setup,
        claim: Claim,
        mut folded: Folded,
    ) -> Result<(Self, Ended), SessionError> {
        let id = claim.session.clone();
        folded.read_on(&*setup.store, &id, u64::MAX, |_, _| {}).await?;
        let Folded { state, snapshot } = folded;
        check_end(&*setup.store, &id, &state).await?;
        #[cfg(feature = "command")]
        if state.turn.is_some() {
            let open = state.calls.iter().filter(|open| !open.is_answered());
            let open = open.map(|open| open.call.id.clone()).collect();
            crate::tools::command::reap(&id, open).await;
        }
        let moved = state.config.as_ref().and_then(|config| config.workdir.clone());
        let here = Some(setup.workdir.clone()).filter(|here| !here.is_empty());
        let is_moved = |here: &String| moved.is_some() || *here != state.workdir();
        setup.config.workdir = here.filter(is_moved).or_else(|| moved.clone());
        let mut first = recover(&state, setup.clock.now_ms());
        if state.config.as_deref() != Some(&setup.config) {
            first.push(setup.config.clone().into());
        }
        if state.is_asking_a_person() {
            for AnswerLeft { call, choice, why } in setup.store.answers_left(&id).await? {
                first.extend(outside::answered(&state, &call, choice, why).ok());
            }
        }
        Self::run(setup, claim, Folded { state, snapshot }, first).await
    }

    async fn run(
        setup: Setup,
        claim: Claim,
        folded: Folded,
        first: Vec<Event>,
    ) -> Result<(Self, Ended), SessionError> {
        let (commands, received) = mpsc::channel(COMMANDS_WAITING_MAX);
        let (updates, _) = broadcast::channel(UPDATES_WAITING_MAX);
        let session = Self {
            id: claim.session.clone(),
            store: setup.store.clone(),
            commands,
            updates: updates.downgrade(),
        };
        let tools: HashMap<String, Arc<dyn Tool>> =
            setup.tools.iter().map(|tool| (tool.spec().name.clone(), tool.clone())).collect();
        let mut driver =
            Driver::new(Start { setup, claim, folded, tools, commands: received, updates });
        driver.append(first).await?;
        Ok((session, tokio::spawn(async move { driver.drive().await })))
    }

    /// The session's identifier.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// Hands a command to the driver. Answers to closed questions and the like change nothing.
    /// False when the driver is gone.
    pub async fn submit(&self, command: Command) -> bool {
        self.commands.send(Submitted { command, receipt: None }).await.is_ok()
    }

    /// Hands a prompt to the driver and gives the number of the entry that it became; `None` when
    /// the driver is gone.
    pub async fn prompt(&self, content: Vec<Content>, labels: Labels) -> Option<u64> {
        let (receipt, received) = oneshot::channel();
        let command = Command::Prompt(content, labels);
        self.commands.send(Submitted { command, receipt: Some(receipt) }).await.ok()?;
        received.await.ok()
    }

    /// Hands over a command without waiting. False when the driver is gone, or too many wait.
    pub fn try_submit(&self, command: Command) -> bool {
        self.commands.try_send(Submitted { command, receipt: None }).is_ok()
    }

    /// The updates after sequence number `after`; 0 for all.
    pub fn updates(&self, after: u64) -> Updates {
        let live = match self.updates.upgrade() {
            Some(updates) => updates.subscribe(),
            None => broadcast::channel(1).1,
        };
        Updates::new(self.store.clone(), self.id.clone(), after, live)
    }
}

/// Refuses a log that does not end where its store says: nothing could be appended to it.
async fn check_end(store: &dyn Store, id: &SessionId, state: &State) -> Result<(), StoreError> {
    let rows = store.sessions(&SessionFilter::prefix(id.as_str(), 1)).await?;
    let Some(row) = rows.into_iter().find(|row| row.id == *id) else { return Ok(()) };
    let (written, head) = (row.head_seq, state.head);
    if written > head.seq {
        let why =
            format!("its last entries are missing: {written} were written, {} are there", head.seq);
        return Err(cant_go_on(id, &why, head.seq));
    }
    if written < head.seq {
        let why = format!("its row in the table says {written} entries, {} are there", head.seq);
        return Err(cant_go_on(id, &why, head.seq));
    }
    if row.head_hash != head.hash {
        let why = format!("entry {} is not the one that was written last", head.seq);
        return Err(cant_go_on(id, &why, head.seq.saturating_sub(1)));
    }
    Ok(())
}

/// The log of a session is damaged in a way that nothing can be appended to, and whole up to entry
/// `whole`.
pub(crate) fn cant_go_on(id: &SessionId, why: &str, whole: u64) -> StoreError {
    let how = match whole {
        0 => "no entry before that can be gone on from".to_owned(),
        whole => format!("`inspan fork {id} --at {whole}` goes on from entry {whole}"),
    };
    StoreError::Damaged { what: format!("session {id}"), why: format!("{why}; {how}") }
}
