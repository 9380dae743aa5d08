//! Where calls are taken. Each runs as a turn of a session, so that arguments, gates, effects,
//! limits, masking and the log are the engine's, and there is no other way to a tool.
//!
//! A session that serves tools takes one call after the other; as many sessions are open as calls
//! run at once. A call of a whole agent is a session of its own.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use inspan_core::{
    Entry, Event, State,
    event::Stop,
    gate::Asking,
    message::{CallId, Content, Labels},
    store::{SessionId, StoreError},
};
use inspan_engine::{Command, Session, SessionError, Setup, Update, Updates};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch},
    time::{Instant, interval, sleep_until, timeout},
};
use uuid::Uuid;

use crate::{
    Inquiry, inquiries,
    serve::{
        caller::{self, Caller, Wanted},
        lent::Beats,
        result::Outcome,
        running::{Answer, Happening, Question, Running, Teller, sides},
    },
};

/// Calls that run at once, of tools that only read or of whole agents. One that waits for a person
/// does not count.
pub(crate) const CALLS_AT_ONCE_MAX: usize = 16;

/// Calls of tools that may change anything: one of them runs, the others are ready to. They have
/// places of their own, so that none that only reads waits for them.
pub(crate) const CHANGES_AT_ONCE_MAX: usize = 4;

/// Calls that run, wait for a person or wait for their turn; what comes beyond is refused.
pub(crate) const CALLS_TAKEN_MAX: usize = 256;

/// Calls of one session; the next ones begin another, so that no log grows for ever.
const SESSION_CALLS_MAX: u32 = 64;

/// Time in which a person must answer, in milliseconds; then the call is cancelled.
pub(crate) const QUESTION_MS_MAX: u64 = 10 * 60 * 1000;

/// How often a client that wants to know hears that a call is under way.
const BEAT: Duration = Duration::from_secs(5);

/// Time in which calls end when the server stops, in milliseconds.
const STOP_MS_MAX: u64 = 10_000;

/// What is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Each tool of the setup.
    Tools,
    /// The whole agent.
    Agent,
}

/// What a client wants.
pub(crate) struct Call {
    pub(crate) wanted: Wanted,
    /// What the log says was said: who called what, or what the agent is told.
    pub(crate) prompt: String,
    /// Whether the client can ask a person.
    pub(crate) can_ask: bool,
}

/// Where calls are taken.
pub(crate) struct Desk {
    setup: Setup,
    kind: Kind,
    /// Sessions that wait for their next call.
    idle: Mutex<Vec<Open>>,
    /// One for each call that may be here.
    places: Arc<Semaphore>,
    /// One for each call that may run.
    slots: Arc<Semaphore>,
    /// The same for calls that may change anything.
    changes: Arc<Semaphore>,
    stopping: watch::Sender<bool>,
}

/// A session, and what it takes to follow it.
struct Open {
    session: Session,
    updates: Updates,
    caller: Arc<Caller>,
    beats: Beats,
    /// What its tools want to be told, where somebody can be asked.
    inquiries: Option<mpsc::Receiver<Inquiry>>,
    asking: Asking,
    calls: u32,
}

impl Desk {
    pub(crate) fn new(setup: Setup, kind: Kind) -> Self {
        Self {
            setup,
            kind,
            idle: Mutex::default(),
            places: Arc::new(Semaphore::new(CALLS_TAKEN_MAX)),
            slots: Arc::new(Semaphore::new(CALLS_AT_ONCE_MAX)),
            changes: Arc::new(Semaphore::new(CHANGES_AT_ONCE_MAX)),
            stopping: watch::Sender::new(false),
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) fn setup(&self) -> &Setup {
        &self.setup
    }

    /// Takes a call. Must be called in a tokio runtime.
    pub(crate) fn take(self: &Arc<Self>, call: Call) -> Running {
        let (running, teller) = sides();
        let refuse = |why: &str| teller.tell(Happening::Ended(Outcome::failed(why)));
        match self.places.clone().try_acquire_owned() {
            _ if *self.stopping.borrow() => refuse("Not run: the server is being stopped."),
            Err(_) => refuse("Not run: too many calls at once; try again when some have ended."),
            Ok(place) => {
                let desk = self.clone();
                tokio::spawn(async move {
                    let _place = place;
                    // In a box, so that a call that waits is small.
                    Box::pin(desk.work(call, teller)).await;
                });
            }
        }
        running
    }

    /// Takes no more calls, cancels those that are here and waits for their ends.
    pub(crate) async fn stop(&self) {
        self.stopping.send_replace(true);
        let all = self.places.acquire_many(u32::try_from(CALLS_TAKEN_MAX).unwrap_or(u32::MAX));
        // What takes longer is settled when its session goes on.
        let _ = timeout(Duration::from_millis(STOP_MS_MAX), all).await;
        self.idle().clear();
    }

    async fn work(self: Arc<Self>, call: Call, mut teller: Teller) {
        let mut stopping = self.stopping.subscribe();
        let slot = tokio::select! {
            slot = self.slots_for(&call).acquire_owned() => slot.ok(),
            _ = teller.answer() => return,
            _ = stopping.wait_for(|stopping| *stopping) => {
                let why = "Not run: the server is being stopped.";
                return teller.tell(Happening::Ended(Outcome::failed(why)));
            }
        };
        let open = match self.open(call.can_ask).await {
            Ok(open) => open,
            Err(error) => return teller.tell(Happening::Ended(self.broken(&error.to_string()))),
        };
        let id = open.session.id().clone();
        let followed = Turn::new(&self, open, slot).run(call, &mut teller, stopping).await;
        match followed {
            Ok(open) => self.keep(open),
            Err(error) => {
                let outcome = self.broken(&error.to_string()).in_session(id.as_str());
                teller.tell(Happening::Ended(outcome));
            }
        }
    }

    fn slots_for(&self, call: &Call) -> Arc<Semaphore> {
        let specs = self.setup.tools.iter().map(|tool| tool.spec());
        let mut wanted = specs.filter(|spec| spec.name == call.wanted.name);
        let may_change = self.kind == Kind::Tools && wanted.any(|spec| !spec.side_by_side());
        if may_change { self.changes.clone() } else { self.slots.clone() }
    }

    /// A session for a call: one that waits, or a new one.
    async fn open(&self, can_ask: bool) -> Result<Open, SessionError> {
        let asking = if can_ask { Asking::Now } else { Asking::Never };
        let waiting = {
            let mut idle = self.idle();
            let found = idle.iter().position(|open| open.asking == asking);
            found.map(|at| idle.swap_remove(at))
        };
        if let Some(open) = waiting {
            return Ok(open);
        }
        let (caller, beats) = (Arc::new(Caller::default()), Beats::default());
        let mut setup = self.setup.clone();
        setup.asking = asking;
        setup.shared.insert(beats.clone());
        let inquiries = can_ask.then(|| {
            let (person, inquiries) = inquiries();
            setup.shared.insert(person);
            inquiries
        });
        if self.kind == Kind::Tools {
            setup.provider = caller.clone();
            setup.config.model = caller::caller_ref();
        }
        let id = SessionId::from_u128(Uuid::now_v7().as_u128());
        let (session, _) = Box::pin(Session::start(setup, id)).await?;
        let updates = session.updates(0);
        Ok(Open { session, updates, caller, beats, inquiries, asking, calls: 0 })
    }

    /// Keeps a session for a later call.
    fn keep(&self, open: Option<Open>) {
        let Some(open) = open.filter(|open| open.calls < SESSION_CALLS_MAX) else { return };
        if self.kind == Kind::Tools && !*self.stopping.borrow() {
            open.caller.set(None);
            self.idle().push(open);
        }
    }

    fn broken(&self, why: &str) -> Outcome {
        Outcome::failed(format!("Failed: {}", self.setup.mask.text(why)))
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Open>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The turn of one call, from its prompt to its end.
struct Turn<'a> {
    desk: &'a Desk,
    open: Open,
    /// Given back while a person is asked.
    slot: Option<OwnedSemaphorePermit>,
    /// The fold of the log, which has the answer of an agent.
    state: State,
    /// What is asked, and until when.
    asked: Vec<(CallId, Instant)>,
    is_told: bool,
}

impl<'a> Turn<'a> {
    fn new(desk: &'a Desk, open: Open, slot: Option<OwnedSemaphorePermit>) -> Self {
        let state = State::default();
        Self { desk, open, slot, state, asked: Vec::new(), is_told: false }
    }

    /// Runs it to its end. Gives the session back when it can take another call.
    async fn run(
        mut self,
        call: Call,
        teller: &mut Teller,
        mut stopping: watch::Receiver<bool>,
    ) -> Result<Option<Open>, StoreError> {
        self.open.calls += 1;
        if self.desk.kind == Kind::Tools {
            self.open.caller.set(Some(call.wanted));
        }
        let prompt = Command::Prompt(vec![Content::text(call.prompt)], Labels::default());
        self.open.session.submit(prompt).await;
        let mut beats = self.open.beats.listen();
        let began = Instant::now();
        let mut seconds = interval(BEAT);
        seconds.reset();
        let mut is_stopping = false;
        loop {
            let until = self.asked.iter().map(|(_, until)| *until).min();
            let command = tokio::select! {
                biased;
                update = self.open.updates.next() => match update? {
                    Some(Update::Entry(entry)) => match self.take(&entry, teller) {
                        Some(is_whole) => return Ok(is_whole.then_some(self.open)),
                        None => continue,
                    },
                    Some(Update::Delta { .. }) => continue,
                    None => return Err(gone()),
                },
                answer = teller.answer() => match answer {
                    Some(Answer { call, choice, why }) => Command::Answer { call, choice, why },
                    None => Command::Cancel,
                },
                _ = stopping.wait_for(|stopping| *stopping), if !is_stopping => {
                    is_stopping = true;
                    Command::Cancel
                }
                () = at(until) => {
                    self.asked.clear();
                    Command::Cancel
                }
                inquiry = next(&mut self.open.inquiries) => {
                    self.slot = None;
                    teller.tell(Happening::Asked(Question::Inquiry(inquiry)));
                    continue;
                }
                _ = beats.changed() => {
                    teller.progress("it gets on".to_owned());
                    continue;
                }
                _ = seconds.tick() => {
                    teller.progress(format!("under way for {} s", began.elapsed().as_secs()));
                    continue;
                }
            };
            self.open.session.submit(command).await;
        }
    }

    /// Takes an entry. At the end of the turn: whether the session can take another.
    fn take(&mut self, entry: &Entry, teller: &Teller) -> Option<bool> {
        if self.desk.kind == Kind::Agent {
            self.state.apply(entry);
        }
        match &entry.event {
            Event::RoundStarted(e) if self.desk.kind == Kind::Agent => {
                teller.progress(format!("round {}", e.round));
            }
            Event::ToolStarted(e) => teller.progress(format!("{} runs", e.name)),
            Event::PermissionAsked(e) => {
                self.slot = None;
                let until = Instant::now() + Duration::from_millis(QUESTION_MS_MAX);
                self.asked.push((e.call.clone(), until));
                teller.tell(Happening::Asked(Question::Permission(e.clone())));
            }
            Event::PermissionAnswered(e) => self.asked.retain(|(call, _)| *call != e.call),
            Event::ToolFinished(e) => {
                self.asked.retain(|(call, _)| *call != e.call);
                match self.desk.kind {
                    Kind::Agent => teller.progress(format!("{}: {}", e.name, e.how.as_str())),
                    Kind::Tools => {
                        let session = self.open.session.id().as_str();
                        let outcome = Outcome::of_tool(e.how, e.result.clone(), session);
                        self.end(outcome, teller);
                    }
                }
            }
            Event::TurnEnded(e) => {
                let mask = &self.desk.setup.mask;
                let (answer, detail) = (mask.text(&self.state.answer), mask.text(&e.detail));
                let session = self.open.session.id().as_str();
                let outcome = Outcome::of_turn(e.stop, &detail, &answer, session);
                self.end(outcome, teller);
                return Some(e.stop != Stop::Parked);
            }
            _ => {}
        }
        None
    }

    fn end(&mut self, outcome: Outcome, teller: &Teller) {
        if !std::mem::replace(&mut self.is_told, true) {
            teller.tell(Happening::Ended(outcome));
        }
    }
}

/// What a tool of the session wants to be told next.
async fn next(inquiries: &mut Option<mpsc::Receiver<Inquiry>>) -> Inquiry {
    let inquiry = match inquiries {
        Some(inquiries) => inquiries.recv().await,
        None => None,
    };
    match inquiry {
        Some(inquiry) => inquiry,
        None => std::future::pending().await,
    }
}

async fn at(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => std::future::pending().await,
    }
}

fn gone() -> StoreError {
    StoreError::Other {
        what: "the session's driver".to_owned(),
        why: "it ended before the turn did".to_owned(),
    }
}
