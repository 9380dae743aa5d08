//! Logs in a Postgres database: the same rows as in SQLite, for several processes and machines at
//! once. Who drives a session holds a lease on it, by the database's clock, which is renewed while
//! the claim is held and runs out when its process dies.

mod dialect;
mod fault;
mod leases;
mod news;
mod open;
#[path = "sql/mod.rs"]
#[expect(clippy::duplicate_mod, reason = "the same rows in another database")]
mod sql;

use std::sync::{Arc, Mutex, PoisonError};

use inspan_core::{
    event::{Entry, Head},
    gate::BoxFuture,
    hash::Hash,
    store::{
        AnswerLeft, Archive, Claim, Found, NewPieces, SessionFilter, SessionId, SessionRow,
        Snapshot, Store, StoreError, Wrong,
    },
};
use tokio::task::JoinHandle;

use leases::Leases;
use news::News;
use open::Place;
use sql::{Log, Writer};

/// Connections that read at the same time at most; each is opened when it is first needed.
const READERS_MAX: u32 = 4;

/// Connections that write at the same time at most, each the sessions that fall to it.
const WRITERS_MAX: usize = 4;

/// Logs in a Postgres database. A URL names it, as for every program that speaks to Postgres:
/// `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, with `?options=-csearch_path=SCHEMA` for a schema
/// of its own.
///
/// When it is dropped, what has queued is still written, as long as its runtime runs;
/// [`Postgres::close`] waits for it.
#[derive(Debug)]
pub struct Postgres {
    log: Log,
    leases: Leases,
    news: News,
    running: Mutex<Vec<JoinHandle<()>>>,
}

impl Postgres {
    /// Opens the database at `url`, and makes or brings up to date what belongs to Inspan in it.
    /// Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// [`StoreError::Newer`], [`StoreError::Damaged`], [`StoreError::NotWritable`], or what keeps
    /// the database from being reached. None says the password.
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        let place = Arc::new(Place::new(url)?);
        let connection = open::open(&place).await?;
        let (leases, keep) = Leases::new(&place, connection).await?;
        let readers = place.pool(READERS_MAX);
        let (writer, write) = Writer::new(&place, (0..WRITERS_MAX).map(|_| None).collect());
        let running = Mutex::new(vec![tokio::spawn(write), tokio::spawn(keep)]);
        let news = News::new(place.clone());
        Ok(Self { log: Log { place, writer, readers }, leases, news, running })
    }

    /// Writes what has queued, gives every claim back and closes the database. Later calls fail.
    pub async fn close(&self) {
        self.log.readers.close().await;
        self.log.writer.close().await;
        self.leases.close();
        let running =
            std::mem::take(&mut *self.running.lock().unwrap_or_else(PoisonError::into_inner));
        for running in running {
            // It ends with nothing to tell: every failed write was told to whoever asked for it.
            let _ = running.await;
        }
    }
}

impl Store for Postgres {
    fn create(&self, session: &SessionId) -> BoxFuture<'static, Result<Claim, StoreError>> {
        let (log, leases, session) = (self.log.clone(), self.leases.clone(), session.clone());
        Box::pin(async move {
            log.check_new(&session).await?;
            let guard = Box::new(leases.take(&session).await?);
            // Somebody may have begun it, and gone, in between.
            log.check_new(&session).await?;
            Ok(Claim { session, epoch: 1, guard })
        })
    }

    fn claim(&self, session: &SessionId) -> BoxFuture<'static, Result<Claim, StoreError>> {
        let (log, leases, session) = (self.log.clone(), self.leases.clone(), session.clone());
        Box::pin(async move {
            log.check_known(&session).await?;
            let guard = Box::new(leases.take(&session).await?);
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

    fn changed(&self, session: Option<&SessionId>) -> BoxFuture<'static, ()> {
        self.news.of(session)
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
}

impl Archive for Postgres {
    fn search(
        &self,
        words: &str,
        count_max: usize,
    ) -> BoxFuture<'static, Result<Vec<Found>, StoreError>> {
        Box::pin(self.log.clone().search(words.to_owned(), count_max))
    }

    fn remove(&self, session: &SessionId) -> BoxFuture<'static, Result<(), StoreError>> {
        let (log, leases, session) = (self.log.clone(), self.leases.clone(), session.clone());
        Box::pin(async move {
            log.check_there(&session).await?;
            let _lease = leases.take(&session).await?;
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
        Box::pin(async move { log.due(now_ms, count_max).await })
    }

    fn check(&self, session: &SessionId) -> BoxFuture<'static, Result<Vec<Wrong>, StoreError>> {
        Box::pin(self.log.clone().check(session.clone()))
    }
}
