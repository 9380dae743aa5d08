//! Those that write. What has queued while a commit was under way goes into the next one together,
//! so that many sessions share the price of making it durable.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use inspan_core::{
    event::{Entry, Head},
    store::{ANSWERS_LEFT_MAX, AnswerLeft, NewPieces, SessionId, Snapshot, StoreError},
    stored::forked_from,
};
use sqlx::Connection as _;
use tokio::sync::{mpsc, oneshot};

use super::{
    answers,
    dialect::{self, Connection, Place},
    rows::{self, Known, Moving, Placed},
    snapshots,
    texts::Words,
};
use crate::CLOSED;

/// Writes that wait at most for each connection; one more is refused.
pub(crate) const QUEUE_MAX: usize = 16_384;

/// Writes in one commit at most.
const GROUP_MAX: usize = 256;

/// What the writer is asked. The answer says what is known of the session then; `None` for no such
/// session.
#[derive(Debug)]
pub(crate) enum Ask {
    /// Append entries to a log.
    Append { session: SessionId, epoch: u64, after: Head, entries: Arc<[Entry]> },
    /// Raise the epoch.
    RaiseEpoch(SessionId),
    /// Only look.
    Known(SessionId),
    /// Keep a snapshot.
    KeepSnapshot { session: SessionId, epoch: u64, snapshot: Snapshot, pieces: NewPieces },
    /// Remove the session, or hide it.
    Remove(SessionId),
    /// Leave an answer.
    LeaveAnswer(SessionId, AnswerLeft),
}

impl Ask {
    fn session(&self) -> &SessionId {
        match self {
            Self::Append { session, .. }
            | Self::RaiseEpoch(session)
            | Self::Known(session)
            | Self::KeepSnapshot { session, .. }
            | Self::Remove(session)
            | Self::LeaveAnswer(session, _) => session,
        }
    }
}

type Answer = Result<Option<Known>, StoreError>;

#[derive(Debug)]
enum Job {
    Ask(Ask, oneshot::Sender<Answer>),
    Close,
}

/// The way to the writers. Each session has one of them, so that its writes keep their order.
#[derive(Clone, Debug)]
pub(crate) struct Writer {
    place: Arc<Place>,
    jobs: Arc<[mpsc::Sender<Job>]>,
}

impl Writer {
    /// The way to a writer on each of `connections`, and the writers themselves, which must be
    /// run; a connection that is not there is made when it is first needed. They end, and close
    /// their connections, when they are told to or when nobody can ask any more; before that they
    /// write what has queued.
    pub(crate) fn new(
        place: &Arc<Place>,
        connections: Vec<Option<Connection>>,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (mut jobs, mut runs) = (Vec::new(), Vec::new());
        for connection in connections {
            let (sender, queue) = mpsc::channel(QUEUE_MAX);
            jobs.push(sender);
            runs.push(run(place.clone(), connection, queue));
        }
        let run = async move {
            let runs: Vec<_> = runs.into_iter().map(tokio::spawn).collect();
            for run in runs {
                // It ends with nothing to tell: every failure was told to whoever asked.
                let _ = run.await;
            }
        };
        (Self { place: place.clone(), jobs: jobs.into() }, run)
    }

    /// Asks. The question has its place in the queue when this returns, whether or not anybody
    /// waits for the answer.
    pub(crate) fn ask(&self, ask: Ask) -> impl Future<Output = Answer> + Send + 'static {
        let (done, answer) = oneshot::channel();
        let jobs = self.jobs.get(share(ask.session(), self.jobs.len()));
        let sent = jobs.map(|jobs| jobs.try_send(Job::Ask(ask, done)));
        let place = self.place.clone();
        async move {
            let refused =
                |why: &str| Err(StoreError::Other { what: place.to_string(), why: why.into() });
            match sent {
                Some(Ok(())) => answer.await.unwrap_or_else(|_| refused(CLOSED)),
                Some(Err(mpsc::error::TrySendError::Full(_))) => {
                    refused("too many writes are waiting")
                }
                Some(Err(mpsc::error::TrySendError::Closed(_))) | None => refused(CLOSED),
            }
        }
    }

    /// Tells the writers to end after what has queued.
    pub(crate) async fn close(&self) {
        for jobs in self.jobs.iter() {
            // An error means that it has ended already.
            let _ = jobs.send(Job::Close).await;
        }
    }
}

/// Which of `count` writers has a session.
fn share(session: &SessionId, count: usize) -> usize {
    let mut hasher = DefaultHasher::new();
    session.hash(&mut hasher);
    usize::try_from(hasher.finish() % count.max(1) as u64).unwrap_or(0)
}

async fn run(place: Arc<Place>, mut connection: Option<Connection>, mut jobs: mpsc::Receiver<Job>) {
    let mut queued = Vec::new();
    while jobs.recv_many(&mut queued, GROUP_MAX).await > 0 {
        let (mut asks, mut answers) = (Vec::new(), Vec::new());
        for job in queued.drain(..) {
            match job {
                Job::Ask(ask, done) => {
                    asks.push(ask);
                    answers.push(done);
                }
                Job::Close => jobs.close(),
            }
        }
        let said = carry_out(&place, &mut connection, &asks).await;
        for (done, answer) in answers.into_iter().zip(said) {
            // Whoever asked may have gone on without waiting.
            let _ = done.send(answer);
        }
        if let Some(connection) = &mut connection {
            dialect::tell(connection, asks.iter().filter_map(changed)).await;
        }
    }
    if let Some(connection) = connection {
        // All is durable by now; closing adds nothing to it.
        let _ = connection.close().await;
    }
}

fn changed(ask: &Ask) -> Option<&SessionId> {
    match ask {
        Ask::Append { session, .. } | Ask::LeaveAnswer(session, _) => Some(session),
        Ask::RaiseEpoch(_) | Ask::Known(_) | Ask::KeepSnapshot { .. } | Ask::Remove(_) => None,
    }
}

/// The answers to `asks`, in their order. When a group fails as a whole, each of it is tried
/// alone, so that what fits is not lost with what does not.
async fn carry_out(
    place: &Place,
    connection: &mut Option<Connection>,
    asks: &[Ask],
) -> Vec<Answer> {
    match attempt(place, connection, asks, false).await {
        Ok(answers) => answers,
        Err(error) if dialect::is_final(&error, asks.len()) => {
            asks.iter().map(|_| Err(place.fault(&error))).collect()
        }
        Err(_) => one_by_one(place, connection, asks).await,
    }
}

/// A database that is away for one is away for those after it, and is not waited for again.
async fn one_by_one(
    place: &Place,
    connection: &mut Option<Connection>,
    asks: &[Ask],
) -> Vec<Answer> {
    let mut answers = Vec::with_capacity(asks.len());
    let mut away = None;
    for ask in asks {
        if let Some(away) = &away {
            answers.push(Err(StoreError::clone(away)));
            continue;
        }
        match attempt(place, connection, std::slice::from_ref(ask), true).await {
            Ok(one) => answers.extend(one),
            Err(error) => {
                let fault = place.fault(&error);
                away = dialect::is_lost(&error).then(|| fault.clone());
                answers.push(Err(fault));
            }
        }
    }
    answers
}

/// One transaction, and another one without the words where those are damaged. The error means that
/// nothing of it was written, or, where the connection was lost at its end, that nobody knows; then
/// `again` finds it out.
async fn attempt(
    place: &Place,
    connection: &mut Option<Connection>,
    asks: &[Ask],
    again: bool,
) -> sqlx::Result<Vec<Answer>> {
    let answers = attempt_once(place, connection, asks, again, Words::Kept).await;
    if !answers.as_ref().is_err_and(dialect::is_damage) {
        return answers;
    }
    // A search's table may keep what it is told until the commit, so the error says not whose it is.
    let answers = attempt_once(place, connection, asks, again, Words::Left).await;
    if answers.is_ok() {
        place.say_words_are_damaged();
    }
    answers
}

async fn attempt_once(
    place: &Place,
    connection: &mut Option<Connection>,
    asks: &[Ask],
    again: bool,
    words: Words,
) -> sqlx::Result<Vec<Answer>> {
    let mut open = match connection.take() {
        Some(open) => open,
        None => place.connect_again().await?,
    };
    let answers = dialect::in_time(commit(&mut open, asks, again, words)).await;
    if !answers.as_ref().is_err_and(dialect::is_lost) {
        *connection = Some(open);
    }
    answers
}

async fn commit(
    connection: &mut Connection,
    asks: &[Ask],
    again: bool,
    words: Words,
) -> sqlx::Result<Vec<Answer>> {
    sqlx::raw_sql(dialect::BEGIN).execute(&mut *connection).await?;
    let answers = answer_all(connection, asks, again, words).await;
    if answers.as_ref().is_err_and(|error| !dialect::is_lost(error)) {
        // A database that has rolled back by itself says so here, and no more.
        let _ = sqlx::raw_sql("ROLLBACK").execute(connection).await;
    }
    answers
}

/// The entries of a group are written together at its end, but before anything that reads or
/// removes entries.
async fn answer_all(
    connection: &mut Connection,
    asks: &[Ask],
    again: bool,
    words: Words,
) -> sqlx::Result<Vec<Answer>> {
    let mut answers = Vec::with_capacity(asks.len());
    let mut placed: Vec<Placed<'_>> = Vec::new();
    for ask in asks {
        if !matches!(ask, Ask::Append { entries, .. } if !is_fork(entries)) {
            rows::insert(connection, &placed, words).await?;
            placed.clear();
        }
        answers.push(match ask {
            Ask::Append { session, epoch, after, entries } => {
                let head = (*epoch, *after);
                let moved = append(connection, session, head, entries, again).await?;
                if moved == Ok(true) {
                    placed.extend(entries.iter().map(|entry| (session, entry)));
                }
                moved.map(|_| None)
            }
            Ask::RaiseEpoch(session) => {
                rows::raise_epoch(connection, session).await?;
                Ok(rows::known(connection, session).await?.filter(|known| !known.is_removed))
            }
            Ask::Known(session) => Ok(rows::known(connection, session).await?),
            Ask::KeepSnapshot { session, epoch, snapshot, pieces } => {
                snapshots::keep(connection, (session, *epoch), snapshot, pieces).await?;
                Ok(None)
            }
            Ask::Remove(session) => match rows::remove(connection, session, words).await? {
                true => Ok(None),
                false if again => Ok(None),
                false => Err(StoreError::NoSession(session.clone())),
            },
            Ask::LeaveAnswer(session, answer) => {
                match answers::leave(connection, session, answer).await? {
                    true => Ok(None),
                    false => Err(not_left(connection, session).await?),
                }
            }
        });
    }
    rows::insert(connection, &placed, words).await?;
    sqlx::raw_sql("COMMIT").execute(connection).await?;
    Ok(answers)
}

/// Why an answer could not be left.
async fn not_left(connection: &mut Connection, session: &SessionId) -> sqlx::Result<StoreError> {
    let known = rows::known(connection, session).await?;
    Ok(match known.filter(|known| !known.is_removed) {
        None => StoreError::NoSession(session.clone()),
        Some(_) => StoreError::Other {
            what: format!("session {session}"),
            why: format!("{ANSWERS_LEFT_MAX} answers wait for it already: nothing was recorded"),
        },
    })
}

fn is_fork(entries: &[Entry]) -> bool {
    entries.first().is_some_and(|first| forked_from(&first.event).is_some())
}

/// Moving the head comes first and can be refused; so a refused append leaves nothing to undo, and
/// its neighbours in the transaction stand. `again` says that this was tried before, perhaps with
/// success: a head that is where it was to go was moved by that attempt, and false says that the
/// entries are written.
async fn append(
    connection: &mut Connection,
    session: &SessionId,
    (epoch, after): (u64, Head),
    entries: &[Entry],
    again: bool,
) -> sqlx::Result<Result<bool, StoreError>> {
    Ok(match rows::move_head(connection, session, epoch, after, entries).await? {
        Moving::Moved => Ok(true),
        Moving::NoEntry => {
            let parent = entries.first().and_then(|first| forked_from(&first.event));
            let session = parent.map_or(session, |(parent, _)| parent).clone();
            Err(StoreError::NoEntry { session, seq: after.seq })
        }
        Moving::Refused => {
            let known = if again { rows::known(connection, session).await? } else { None };
            let written = entries.last().map(Entry::head);
            match known {
                Some(known) if known.epoch == epoch && Some(known.head) == written => Ok(false),
                _ => Err(StoreError::Moved { session: session.clone(), after: after.seq }),
            }
        }
    })
}
