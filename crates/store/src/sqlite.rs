//! Logs in an SQLite database: one writer task, a few readers, a lock file for each session.
//!
//! A commit is durable when its future says so (`synchronous=FULL`). Readers see the last commit
//! and never hold up the writer (WAL).

mod dialect;
mod fault;
mod fill;
mod lock;
mod open;
#[path = "sql/mod.rs"]
mod sql;

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use inspan_core::{
    event::{Entry, Head},
    gate::BoxFuture,
    hash::Hash,
    store::{
        AnswerLeft, Archive, Blobs, Claim, Found, NewPieces, SessionFilter, SessionId, SessionRow,
        Snapshot, Store, StoreError, Wrong,
    },
};
use sqlx::sqlite::SqlitePoolOptions;
use tokio::task::JoinHandle;

use crate::Files;
use lock::Lock;
use open::Place;
use sql::{Log, Writer};

/// Connections that read at the same time at most; each is opened when it is first needed.
const READERS_MAX: u32 = 4;

/// Sessions looked at for those that nobody holds.
const DUE_LOOKED_AT_MAX: usize = 1_000;

/// Logs in an SQLite database. Beside the file `PATH` there are the folder `PATH.locks` and, as soon
/// as there are blobs, `PATH.blobs`.
///
/// When it is dropped, what has queued is still written, as long as its runtime runs;
/// [`Sqlite::close`] waits for it.
#[derive(Debug)]
pub struct Sqlite {
    log: Log,
    running: Mutex<Option<JoinHandle<()>>>,
}

impl Sqlite {
    /// Opens the database at `path`; makes it, and the folders above it, where there is none.
    /// Must be called inside a tokio runtime. A database that is up to date is not written to; one
    /// that may not be written can be read, and says so when something is to be written.
    ///
    /// # Errors
    /// [`StoreError::Newer`], [`StoreError::Damaged`] or [`StoreError::NotWritable`], each with
    /// the file and what to do; nothing was changed then.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let place = Place::new(path.as_ref())?;
        let (place, connection) = match open::open(&place).await {
            Ok(connection) => (place, connection),
            Err(error) if fault::is_about_rights(&error) => {
                open::open_to_read(&place).await.ok_or(error)?
            }
            Err(error) => return Err(error),
        };
        let place = Arc::new(place);
        let readers = SqlitePoolOptions::new()
            .max_connections(READERS_MAX)
            .test_before_acquire(false)
            .idle_timeout(None)
            .max_lifetime(None)
            .connect_lazy_with(place.options().read_only(true));
        let (writer, run) = Writer::new(&place, vec![Some(connection)]);
        let running = Mutex::new(Some(tokio::spawn(run)));
        Ok(Self { log: Log { place, writer, readers }, running })
    }

    /// What a person should be told of this database, once: that a part of it is damaged which the
    /// logs do without, and that it was made anew.
    pub fn notice(&self) -> Option<&'static str> {
        self.log.place.notice()
    }

    /// Writes what has queued and closes the database. Later calls fail.
    pub async fn close(&self) {
        self.log.readers.close().await;
        self.log.writer.close().await;
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(running) = running {
            // It ends with nothing to tell: every failed write was told to whoever asked for it.
            let _ = running.await;
        }
    }
}

impl Store for Sqlite {
    fn create(&self, session: &SessionId) -> BoxFuture<'static, Result<Claim, StoreError>> {
        let (log, session) = (self.log.clone(), session.clone());
        Box::pin(async move {
            log.place.check_writable()?;
            log.check_new(&session).await?;
            let guard = Box::new(Lock::claim(&log.place.locks, &session).await?);
            Ok(Claim { session, epoch: 1, guard })
        })
    }

    fn claim(&self, session: &SessionId) -> BoxFuture<'static, Result<Claim, StoreError>> {
        let (log, session) = (self.log.clone(), session.clone());
        Box::pin(async move {
            // Looked for first, so that a mistyped name leaves no lock file behind.
            log.place.check_writable()?;
            log.check_known(&session).await?;
            let guard = Box::new(Lock::claim(&log.place.locks, &session).await?);
            let epoch = log.raise_epoch(&session).await?;
            Ok(Claim { session, epoch, guard })
        })
    }

    fn append(
        &self,
        claim: &Claim,
        after: Head,
        entries: Arc<[Entry]>,
    ) -> BoxFuture<'static, Result<(), StoreError>> {
        self.log.append(claim, after, entries)
    }

    fn read(
        &self,
        session: &SessionId,
        after: u64,
        count_max: usize,
    ) -> BoxFuture<'static, Result<Vec<Entry>, StoreError>> {
        Box::pin(self.log.clone().read(session.clone(), after, count_max))
    }

    fn sessions(
        &self,
        filter: &SessionFilter,
    ) -> BoxFuture<'static, Result<Vec<SessionRow>, StoreError>> {
        Box::pin(self.log.clone().sessions(filter.clone()))
    }

    fn keep_snapshot(
        &self,
        claim: &Claim,
        snapshot: Snapshot,
        pieces: NewPieces,
    ) -> BoxFuture<'static, Result<(), StoreError>> {
        self.log.keep_snapshot(claim, snapshot, pieces)
    }

    fn snapshot(
        &self,
        session: &SessionId,
    ) -> BoxFuture<'static, Result<Option<Snapshot>, StoreError>> {
        Box::pin(self.log.clone().snapshot(session.clone()))
    }

    fn snapshot_piece(
        &self,
        session: &SessionId,
        number: u32,
    ) -> BoxFuture<'static, Result<Option<Arc<[u8]>>, StoreError>> {
        Box::pin(self.log.clone().snapshot_piece(session.clone(), number))
    }

    fn leave_answer(
        &self,
        session: &SessionId,
        answer: AnswerLeft,
    ) -> BoxFuture<'static, Result<(), StoreError>> {
        Box::pin(self.log.clone().leave_answer(session.clone(), answer))
    }

    fn answers_left(
        &self,
        session: &SessionId,
    ) -> BoxFuture<'static, Result<Vec<AnswerLeft>, StoreError>> {
        Box::pin(self.log.clone().answers_left(session.clone()))
    }

    fn blobs(&self) -> Option<Arc<dyn Blobs>> {
        let mut folder = self.log.place.file.clone().into_os_string();
        folder.push(".blobs");
        Some(Arc::new(Files::new(folder)))
    }
}

impl Archive for Sqlite {
    fn search(
        &self,
        words: &str,
        count_max: usize,
    ) -> BoxFuture<'static, Result<Vec<Found>, StoreError>> {
        Box::pin(self.log.clone().search(words.to_owned(), count_max))
    }

    fn remove(&self, session: &SessionId) -> BoxFuture<'static, Result<(), StoreError>> {
        let (log, session) = (self.log.clone(), session.clone());
        Box::pin(async move {
            log.place.check_writable()?;
            log.check_there(&session).await?;
            let _lock = Lock::claim(&log.place.locks, &session).await?;
            log.remove(&session).await
        })
    }

    fn unreferenced(&self, hashes: &[Hash]) -> BoxFuture<'static, Result<Vec<Hash>, StoreError>> {
        Box::pin(self.log.clone().unreferenced(hashes.to_vec()))
    }

    fn made_ms(&self) -> BoxFuture<'static, Result<Option<i64>, StoreError>> {
        Box::pin(self.log.clone().made_ms())
    }

    fn due(
        &self,
        now_ms: i64,
        count_max: usize,
    ) -> BoxFuture<'static, Result<Vec<SessionId>, StoreError>> {
        let log = self.log.clone();
        Box::pin(async move {
            let due = log.due(now_ms, DUE_LOOKED_AT_MAX).await?;
            let is_free = |session: &SessionId| Lock::is_free(&log.place.locks, session);
            Ok(due.into_iter().filter(is_free).take(count_max).collect())
        })
    }

    fn check(&self, session: &SessionId) -> BoxFuture<'static, Result<Vec<Wrong>, StoreError>> {
        Box::pin(self.log.clone().check(session.clone()))
    }
}

#[cfg(test)]
mod tests;
