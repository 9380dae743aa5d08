//! The one task that writes. What has queued while a commit was under way goes into the next one
//! together, so that many sessions share the price of making it durable.

use std::sync::Arc;

use inspan_core::{
    event::{Entry, Head},
    store::{SessionId, StoreError},
};
use sqlx::{Connection, SqliteConnection};
use tokio::sync::{mpsc, oneshot};

use super::{fault, open::Place, rows};

/// Writes that wait at most; one more is refused.
const QUEUE_MAX: usize = 16_384;

/// Writes in one commit at most.
const GROUP_MAX: usize = 256;

/// What the writer is asked. Every answer is the session's epoch, `None` for no such session.
#[derive(Debug)]
pub(super) enum Ask {
    /// Append entries to a log.
    Append { session: SessionId, epoch: u64, after: Head, entries: Arc<[Entry]> },
    /// Raise the epoch.
    RaiseEpoch(SessionId),
    /// Only look.
    Epoch(SessionId),
}

type Answer = Result<Option<u64>, StoreError>;

#[derive(Debug)]
enum Job {
    Ask(Ask, oneshot::Sender<Answer>),
    Close,
}

/// The way to the writer.
#[derive(Clone, Debug)]
pub(super) struct Writer {
    place: Arc<Place>,
    jobs: mpsc::Sender<Job>,
}

impl Writer {
    /// The way to a writer on `connection`, and the writer itself, which must be run. It ends, and
    /// closes its connection, when it is told to or when nobody can ask any more; before that it
    /// writes what has queued.
    pub(super) fn new(
        place: Arc<Place>,
        connection: SqliteConnection,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (jobs, queue) = mpsc::channel(QUEUE_MAX);
        let run = run(place.clone(), connection, queue);
        (Self { place, jobs }, run)
    }

    /// Asks. The question has its place in the queue when this returns, whether or not anybody
    /// waits for the answer.
    pub(super) fn ask(&self, ask: Ask) -> impl Future<Output = Answer> + Send + 'static {
        let (done, answer) = oneshot::channel();
        let sent = self.jobs.try_send(Job::Ask(ask, done));
        let what = self.place.clone();
        async move {
            let refused = |why: &str| {
                let what = what.file.display().to_string();
                Err(StoreError::Other { what, why: why.into() })
            };
            match sent {
                Ok(()) => answer.await.unwrap_or_else(|_| refused(fault::CLOSED)),
                Err(mpsc::error::TrySendError::Full(_)) => refused("too many writes are waiting"),
                Err(mpsc::error::TrySendError::Closed(_)) => refused(fault::CLOSED),
            }
        }
    }

    /// Tells the writer to end after what has queued.
    pub(super) async fn close(&self) {
        // An error means that it has ended already.
        let _ = self.jobs.send(Job::Close).await;
    }
}

async fn run(place: Arc<Place>, mut connection: SqliteConnection, mut jobs: mpsc::Receiver<Job>) {
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
        for (done, answer) in
            answers.into_iter().zip(carry_out(&place, &mut connection, &asks).await)
        {
            // Whoever asked may have gone on without waiting.
            let _ = done.send(answer);
        }
    }
    // All is durable by now; closing only folds the log of the database into its file.
    let _ = connection.close().await;
}

/// The answers to `asks`, in their order. When a group fails as a whole, each of it is tried
/// alone, so that what fits is not lost with what does not.
async fn carry_out(place: &Place, connection: &mut SqliteConnection, asks: &[Ask]) -> Vec<Answer> {
    match commit(connection, asks).await {
        Ok(answers) => answers,
        Err(error) if asks.len() == 1 || fault::is_busy(&error) => {
            asks.iter().map(|_| Err(place.fault(&error))).collect()
        }
        Err(_) => {
            let mut answers = Vec::new();
            for ask in asks {
                match commit(connection, std::slice::from_ref(ask)).await {
                    Ok(one) => answers.extend(one),
                    Err(error) => answers.push(Err(place.fault(&error))),
                }
            }
            answers
        }
    }
}

/// One transaction. The outer error means that nothing of it was written.
async fn commit(connection: &mut SqliteConnection, asks: &[Ask]) -> sqlx::Result<Vec<Answer>> {
    sqlx::query("BEGIN IMMEDIATE").execute(&mut *connection).await?;
    let answers = answer_all(connection, asks).await;
    if answers.is_err() {
        // SQLite has rolled back by itself after some errors; then this says so, and no more.
        let _ = sqlx::query("ROLLBACK").execute(connection).await;
    }
    answers
}

async fn answer_all(connection: &mut SqliteConnection, asks: &[Ask]) -> sqlx::Result<Vec<Answer>> {
    let mut answers = Vec::with_capacity(asks.len());
    for ask in asks {
        answers.push(match ask {
            Ask::Append { session, epoch, after, entries } => {
                append(connection, session, *epoch, *after, entries).await?
            }
            Ask::RaiseEpoch(session) => Ok(rows::raise_epoch(connection, session).await?),
            Ask::Epoch(session) => Ok(rows::epoch(connection, session).await?),
        });
    }
    sqlx::query("COMMIT").execute(connection).await?;
    Ok(answers)
}

/// Moving the head comes first and can be refused; so a refused append leaves nothing to undo, and
/// its neighbours in the transaction stand.
async fn append(
    connection: &mut SqliteConnection,
    session: &SessionId,
    epoch: u64,
    after: Head,
    entries: &[Entry],
) -> sqlx::Result<Answer> {
    if !rows::move_head(connection, session, epoch, after, entries).await? {
        return Ok(Err(StoreError::Moved { session: session.clone(), after: after.seq }));
    }
    rows::insert(connection, session, entries).await?;
    Ok(Ok(Some(epoch)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use inspan_core::event::{CancelRequested, PromptSubmitted};
    use inspan_core::message::{Content, Labels};

    use super::*;

    /// The first append of a session: one short entry, and one with `size` characters.
    fn first(name: &str, size: usize) -> Ask {
        let content = vec![Content::text("x".repeat(size))];
        let short = Entry::next(Head::default(), 1, 0, 0, CancelRequested {}.into());
        let prompt = PromptSubmitted { content, labels: Labels::default() };
        let long = Entry::next(short.head(), 2, 1, 0, prompt.into());
        let session = SessionId::try_from(name.to_owned()).unwrap();
        Ask::Append { session, epoch: 1, after: Head::default(), entries: [short, long].into() }
    }

    /// A disk that is full for one write has room for another, before it and after it, in the
    /// same group; and nothing is left of the one that failed.
    #[tokio::test]
    async fn what_fits_is_written_beside_what_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let place = Arc::new(Place::new(&folder.path().join("log.db")).unwrap());
        let mut connection = super::super::open::open(&place).await.unwrap();
        sqlx::query("PRAGMA max_page_count = 40").execute(&mut connection).await.unwrap();
        let (writer, run) = Writer::new(place.clone(), connection);
        let asks = [first("a", 10), first("b", 1_000_000), first("c", 10), first("a", 10)];
        let group: Vec<_> = asks.into_iter().map(|ask| writer.ask(ask)).collect();
        let run = tokio::spawn(run);
        let mut said = Vec::new();
        for answer in group {
            said.push(answer.await.map_err(|error| without(&place.file, &error)));
        }
        let full = "FILE can't be written: the disk is full: make room, then go on".to_owned();
        let moved = "the log of session a has moved on after entry 0: nothing was written";
        assert_eq!(said, [Ok(Some(1)), Err(full), Ok(Some(1)), Err(moved.to_owned())]);
        for (name, expected) in [("a", Some(1)), ("b", None), ("c", Some(1))] {
            let session = SessionId::try_from(name.to_owned()).unwrap();
            assert_eq!(writer.ask(Ask::Epoch(session)).await, Ok(expected), "{name}");
        }
        drop(writer);
        run.await.unwrap();
        let mut connection = super::super::open::open(&place).await.unwrap();
        let left: Vec<(String, i64)> =
            sqlx::query_as("SELECT session_id, seq FROM entries ORDER BY session_id, seq")
                .fetch_all(&mut connection)
                .await
                .unwrap();
        let left: Vec<(&str, i64)> = left.iter().map(|(id, seq)| (id.as_str(), *seq)).collect();
        assert_eq!(left, [("a", 1), ("a", 2), ("c", 1), ("c", 2)]);
        connection.close().await.unwrap();
    }

    /// One write more than the queue holds is refused at once; the others are written.
    #[tokio::test]
    async fn the_queue_has_an_end() {
        let folder = tempfile::tempdir().unwrap();
        let place = Arc::new(Place::new(&folder.path().join("log.db")).unwrap());
        let connection = super::super::open::open(&place).await.unwrap();
        let (writer, run) = Writer::new(place.clone(), connection);
        let session = SessionId::try_from("a".to_owned()).unwrap();
        let first = writer.ask(first("a", 10));
        for _ in 1..QUEUE_MAX {
            drop(writer.ask(Ask::Epoch(session.clone())));
        }
        let refused = writer.ask(Ask::Epoch(session)).await.unwrap_err();
        assert_eq!(without(&place.file, &refused), "FILE: too many writes are waiting");
        drop(writer);
        run.await;
        assert_eq!(first.await, Ok(Some(1)));
    }

    fn without(file: &Path, error: &StoreError) -> String {
        error.to_string().replace(&file.display().to_string(), "FILE")
    }
}
