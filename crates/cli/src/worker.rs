//! `inspan worker`: drives the sessions of a database that are due, each by one of all workers.

use std::{
    cell::RefCell,
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use inspan_core::{
    Event, State,
    event::Stop,
    store::{Archive, SessionFilter, SessionId, Store, StoreError},
    stored::Standing,
};
use inspan_engine::{
    Command, Session, SessionError, SystemClock, Update, clock::Clock, session::fold,
};
use tokio::task::AbortHandle;

use crate::{
    args::{AskArg, DriveArgs, WorkerArgs},
    config::Config,
    exit::Failure,
    home::Home,
    interrupts::Interrupts,
    out::{BAD, DIM, NOTE, Out, styled},
    setup::{Prepared, prepare},
    sweep::sweep,
};

/// How long a worker waits before it looks for due sessions again, when nobody tells it of any.
const LOOK_MS_MAX: u64 = 1_000;

/// Notices that are remembered, so that none is said twice; after that they may be.
const NOTICES_TOLD_MAX: usize = 1_000;

/// How long a session that could not be driven is left alone.
const FAILED_MS_MAX: u64 = 60_000;

/// What became of a session.
enum Driven {
    Ended(Stop),
    /// Another process was faster.
    Taken,
}

/// Drives due sessions until it is told to end; with `--once`, until there are none.
pub(crate) async fn work(home: &Home, args: &WorkerArgs) -> Result<u8, Failure> {
    let config = Config::load(&home.folder, home.environment.clone())?;
    let out = Out::new(config.mask.clone());
    let store = home.store().await?;
    let mut interrupts = Interrupts::new()?;
    sweep(&config, &*store, &out).await;
    let notices = Notices { out: &out, told: RefCell::default() };
    let mut running = FuturesUnordered::new();
    let mut driven: HashSet<SessionId> = HashSet::new();
    let mut failed: HashMap<SessionId, Instant> = HashMap::new();
    let mut has_failed = false;
    loop {
        let news = store.changed(None);
        failed.retain(|_, at| at.elapsed() < Duration::from_millis(FAILED_MS_MAX));
        let places = args.concurrency.saturating_sub(driven.len());
        // As many more as may have to be passed over.
        let looked_at = places + driven.len() + failed.len();
        let due = store.due(SystemClock.now_ms(), looked_at).await?;
        let due = due.into_iter().filter(|id| !driven.contains(id) && !failed.contains_key(id));
        let due: Vec<SessionId> = due.take(places).collect();
        for id in due {
            driven.insert(id.clone());
            running.push(one(home, &config, store.clone(), id, &notices));
        }
        if args.once && running.is_empty() {
            return Ok(u8::from(has_failed));
        }
        tokio::select! {
            Some((id, done)) = running.next() => {
                driven.remove(&id);
                match done {
                    Ok(Driven::Ended(stop)) => {
                        let told = format!("session {id}: {}", stop.as_str());
                        out.progress(&format!("{}\n", styled(DIM, &told)));
                    }
                    Ok(Driven::Taken) => {}
                    Err(failure) => {
                        has_failed = true;
                        let told = out.shown(&failure.to_string());
                        let head = styled(BAD, "error:");
                        out.progress(&format!("{head} session {id}: {told}\n"));
                        failed.insert(id, Instant::now());
                    }
                }
            }
            () = news => {}
            () = tokio::time::sleep(Duration::from_millis(LOOK_MS_MAX)) => {}
            // What was handed to the store is written when it is closed; the rest is left to
            // whoever takes over.
            _ = interrupts.next() => return Ok(0),
        }
    }
}

async fn one(
    home: &Home,
    config: &Config,
    store: Arc<dyn Archive>,
    id: SessionId,
    notices: &Notices<'_>,
) -> (SessionId, Result<Driven, Failure>) {
    let done = drive(home, config, store, &id, notices).await;
    (id, done)
}

/// Drives a session to the end of its turn, with the agent that its log names.
async fn drive(
    home: &Home,
    config: &Config,
    store: Arc<dyn Archive>,
    id: &SessionId,
    told: &Notices<'_>,
) -> Result<Driven, Failure> {
    let before: State = fold(&*store, id).await?;
    if before.turn.is_none() && before.parked.is_none() {
        // Another worker may have come to its end since it was listed.
        let rows = store.sessions(&SessionFilter::prefix(id.as_str(), 1)).await?;
        if rows.iter().all(|row| row.id != *id || row.standing == Standing::Idle) {
            return Ok(Driven::Taken);
        }
        return Err(Failure::Usage(format!(
            "its log has no open turn, though it is listed so: inspan verify {id}"
        )));
    }
    let store: Arc<dyn Store> = store;
    let prepared = prepare(home, config, store, &later(), Some(&before)).await?;
    let Prepared { setup, notices, .. } = prepared;
    notices.iter().for_each(|notice| told.tell(id, notice));
    let (session, ended) = match Session::resume(setup, id.clone()).await {
        Err(SessionError::Store(StoreError::InUse(_))) => return Ok(Driven::Taken),
        resumed => resumed?,
    };
    let _driver = Driver(ended.abort_handle());
    if before.turn.is_none() {
        session.submit(Command::Wake).await;
    }
    let mut state = before;
    let mut updates = session.updates(state.head.seq);
    while let Some(update) = updates.next().await? {
        let Update::Entry(entry) = update else { continue };
        state.apply(&entry);
        if let (Event::TurnEnded(end), true) = (&entry.event, state.turn.is_none()) {
            drop(session);
            // Its claim is free when it is gone.
            ended.await.unwrap_or(Ok(()))?;
            return Ok(Driven::Ended(end.stop));
        }
    }
    match ended.await {
        Ok(Err(error)) => Err(error.into()),
        Ok(Ok(())) => Ok(Driven::Taken),
        // It must not be tried again at once.
        Err(why) => Err(Failure::Usage(format!("what drove it broke down: {why}"))),
    }
}

/// What a person should know of sessions: said once, however often one is driven.
struct Notices<'a> {
    out: &'a Out,
    told: RefCell<BTreeSet<(SessionId, String)>>,
}

impl Notices<'_> {
    fn tell(&self, id: &SessionId, notice: &str) {
        let mut told = self.told.borrow_mut();
        if told.len() >= NOTICES_TOLD_MAX {
            told.clear();
        }
        if told.insert((id.clone(), notice.to_owned())) {
            let notice = self.out.shown(notice);
            self.out.progress(&format!("  {} session {id}: {notice}\n", styled(NOTE, "!")));
        }
    }
}

/// Nobody is at a worker: questions wait for `inspan answer`.
fn later() -> DriveArgs {
    DriveArgs { ask: Some(AskArg::Later), ..DriveArgs::default() }
}

/// A driver that ends at once when whoever waits for it goes.
struct Driver(AbortHandle);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}
