//! Logs in an SQLite database: one writer task, a few readers, a lock file for each session.
//!
//! A commit is durable when its future says so (`synchronous=FULL`). Readers see the last commit
//! and never hold up the writer (WAL).

mod fault;
mod lock;
mod open;
mod rows;
mod writer;

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use inspan_core::{
    event::{Entry, Head},
    gate::BoxFuture,
    store::{Blobs, Claim, SessionId, SessionRow, Store, StoreError},
};
use sqlx::sqlite::{SqlitePool, SqlitePoolOptions};
use tokio::task::JoinHandle;

use crate::{Files, check_order};
use lock::Lock;
use open::Place;
use writer::{Ask, Writer};

/// Connections that read at the same time at most; each is opened when it is first needed.
const READERS_MAX: u32 = 4;

/// Logs in an SQLite database. Beside the file `PATH` there are the folder `PATH.locks` and, as soon
/// as there are blobs, `PATH.blobs`.
///
/// When it is dropped, what has queued is still written, as long as its runtime runs;
/// [`Sqlite::close`] waits for it.
#[derive(Debug)]
pub struct Sqlite {
    place: Arc<Place>,
    writer: Writer,
    readers: SqlitePool,
    running: Mutex<Option<JoinHandle<()>>>,
}

impl Sqlite {
    /// Opens the database at `path`; makes it, and the folders above it, where there is none.
    /// Must be called inside a tokio runtime. A database that is up to date is not written to.
    ///
    /// # Errors
    /// [`StoreError::Newer`], [`StoreError::Damaged`] or [`StoreError::NotWritable`], each with
    /// the file and what to do; nothing was changed then.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let place = Arc::new(Place::new(path.as_ref())?);
        let connection = open::open(&place).await?;
        let readers = SqlitePoolOptions::new()
            .max_connections(READERS_MAX)
            .test_before_acquire(false)
            .idle_timeout(None)
            .max_lifetime(None)
            .connect_lazy_with(place.options().read_only(true));
        let (writer, run) = Writer::new(place.clone(), connection);
        let running = Mutex::new(Some(tokio::spawn(run)));
        Ok(Self { place, writer, readers, running })
    }

    /// Writes what has queued and closes the database. Later calls fail.
    pub async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(running) = running {
            // It ends with nothing to tell: every failed write was told to whoever asked for it.
            let _ = running.await;
        }
    }
}

impl Store for Sqlite {
    fn create(&self, session: &SessionId) -> BoxFuture<'static, Result<Claim, StoreError>> {
        let (place, writer, session) = (self.place.clone(), self.writer.clone(), session.clone());
        Box::pin(async move {
            if writer.ask(Ask::Epoch(session.clone())).await?.is_some() {
                return Err(StoreError::SessionExists(session));
            }
            let guard = Box::new(Lock::take(&place.locks, &session)?);
            Ok(Claim { session, epoch: 1, guard })
        })
    }

    fn claim(&self, session: &SessionId) -> BoxFuture<'static, Result<Claim, StoreError>> {
        let (place, writer, session) = (self.place.clone(), self.writer.clone(), session.clone());
        Box::pin(async move {
            // Looked for first, so that a mistyped name leaves no lock file behind.
            let missing = || StoreError::NoSession(session.clone());
            writer.ask(Ask::Epoch(session.clone())).await?.ok_or_else(missing)?;
            let guard = Box::new(Lock::take(&place.locks, &session)?);
            let epoch = writer.ask(Ask::RaiseEpoch(session.clone())).await?.ok_or_else(missing)?;
            Ok(Claim { session, epoch, guard })
        })
    }

    fn append(
        &self,
        claim: &Claim,
        after: Head,
        entries: Arc<[Entry]>,
    ) -> BoxFuture<'static, Result<(), StoreError>> {
        let session = claim.session.clone();
        if let Err(error) = check_order(&session, after, &entries) {
            return Box::pin(std::future::ready(Err(error)));
        }
        let answer = self.writer.ask(Ask::Append { session, epoch: claim.epoch, after, entries });
        Box::pin(async move { answer.await.map(drop) })
    }

    fn read(
        &self,
        session: &SessionId,
        after: u64,
        count_max: usize,
    ) -> BoxFuture<'static, Result<Vec<Entry>, StoreError>> {
        let (place, readers, session) = (self.place.clone(), self.readers.clone(), session.clone());
        Box::pin(async move {
            let fault = |error| place.fault(&error);
            let mut reader = readers.acquire().await.map_err(fault)?;
            let page = rows::read(&mut reader, &session, after, count_max).await.map_err(fault)?;
            if page.is_empty() && rows::epoch(&mut reader, &session).await.map_err(fault)?.is_none()
            {
                return Err(StoreError::NoSession(session));
            }
            Ok(page)
        })
    }

    fn sessions(
        &self,
        prefix: &str,
        count_max: usize,
    ) -> BoxFuture<'static, Result<Vec<SessionRow>, StoreError>> {
        let (place, readers, prefix) =
            (self.place.clone(), self.readers.clone(), prefix.to_owned());
        Box::pin(async move {
            let fault = |error| place.fault(&error);
            let mut reader = readers.acquire().await.map_err(fault)?;
            rows::list(&mut reader, &prefix, count_max).await.map_err(fault)
        })
    }

    fn blobs(&self) -> Option<Arc<dyn Blobs>> {
        let mut folder = self.place.file.clone().into_os_string();
        folder.push(".blobs");
        Some(Arc::new(Files::new(folder)))
    }
}
