//! What both databases promise in the same way: the writer for what is written, a pool for what is
//! read.

use std::sync::Arc;

use inspan_core::{
    event::{Entry, FORMAT_VERSION, Head},
    gate::BoxFuture,
    hash::Hash,
    store::{
        AnswerLeft, Claim, Found, NewPieces, SessionFilter, SessionId, SessionRow, Snapshot,
        StoreError, Wrong,
    },
};

use super::{
    answers, check,
    dialect::{self, Connection, Place, Pool},
    lineage, lists,
    rows::{self, Known},
    snapshots, texts,
    writer::{Ask, Writer},
};
use crate::check_order;

/// The way to the logs of a database.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    pub(crate) place: Arc<Place>,
    pub(crate) writer: Writer,
    pub(crate) readers: Pool,
}

/// Asks one question through a connection of the pool, its error in the store's words.
macro_rules! read {
    ($log:expr, |$reader:ident| $question:expr) => {{
        let log = $log;
        let reader = log.readers.acquire().await;
        let mut $reader = reader.map_err(|error| log.place.fault(&error))?;
        $question.await.map_err(|error| log.place.fault(&error))
    }};
}

impl Log {
    /// Refuses a session that is there already.
    pub(crate) async fn check_new(&self, session: &SessionId) -> Result<(), StoreError> {
        match self.writer.ask(Ask::Known(session.clone())).await? {
            Some(_) => Err(StoreError::SessionExists(session.clone())),
            None => Ok(()),
        }
    }

    /// Refuses a session that is not there, and one that a newer version wrote.
    pub(crate) async fn check_known(&self, session: &SessionId) -> Result<(), StoreError> {
        let format = self.check_there(session).await?.format;
        if format > u64::from(FORMAT_VERSION) {
            let what = format!("session {session} (format {format} of {FORMAT_VERSION})");
            return Err(StoreError::Newer { what });
        }
        Ok(())
    }

    /// Refuses a session that is not there.
    pub(crate) async fn check_there(&self, session: &SessionId) -> Result<Known, StoreError> {
        let known = self.writer.ask(Ask::Known(session.clone())).await?;
        let missing = || StoreError::NoSession(session.clone());
        known.filter(|known| !known.is_removed).ok_or_else(missing)
    }

    /// Raises the epoch of a session and gives the new one.
    pub(crate) async fn raise_epoch(&self, session: &SessionId) -> Result<u64, StoreError> {
        let known = self.writer.ask(Ask::RaiseEpoch(session.clone())).await?;
        known.map(|known| known.epoch).ok_or_else(|| StoreError::NoSession(session.clone()))
    }

    /// Removes a session, whose claim whoever calls this must hold.
    pub(crate) async fn remove(&self, session: &SessionId) -> Result<(), StoreError> {
        self.writer.ask(Ask::Remove(session.clone())).await.map(drop)
    }

    pub(crate) fn append(
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

    pub(crate) fn keep_snapshot(
        &self,
        claim: &Claim,
        snapshot: Snapshot,
        pieces: NewPieces,
    ) -> BoxFuture<'static, Result<(), StoreError>> {
        let (session, epoch) = (claim.session.clone(), claim.epoch);
        let answer = self.writer.ask(Ask::KeepSnapshot { session, epoch, snapshot, pieces });
        Box::pin(async move { answer.await.map(drop) })
    }

    pub(crate) async fn read(
        self,
        session: SessionId,
        after: u64,
        count_max: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        let page = read!(&self, |reader| lineage::read(&mut reader, &session, after, count_max));
        page.map_err(|error| of_session(&session, error))?.ok_or(StoreError::NoSession(session))
    }

    pub(crate) async fn sessions(
        self,
        filter: SessionFilter,
    ) -> Result<Vec<SessionRow>, StoreError> {
        match filter.words {
            None => read!(&self, |reader| lists::list(&mut reader, &filter)),
            Some(_) => self.search_in(async |reader| lists::list(reader, &filter).await).await,
        }
    }

    pub(crate) async fn due(
        &self,
        now_ms: i64,
        count_max: usize,
    ) -> Result<Vec<SessionId>, StoreError> {
        read!(self, |reader| lists::due(&mut reader, now_ms, count_max))
    }

    pub(crate) async fn search(
        self,
        words: String,
        count_max: usize,
    ) -> Result<Vec<Found>, StoreError> {
        self.search_in(async |reader| texts::search(reader, &words, count_max).await).await
    }

    /// Asks a question that looks through the words.
    async fn search_in<T>(
        &self,
        question: impl AsyncFnOnce(&mut Connection) -> sqlx::Result<T>,
    ) -> Result<T, StoreError> {
        let mut reader = self.readers.acquire().await.map_err(|error| self.place.fault(&error))?;
        match question(&mut reader).await {
            Ok(found) => Ok(found),
            Err(error) => Err(match dialect::search_fault(&self.place, &error).await {
                Some(fault) => fault,
                None => self.place.fault(&error),
            }),
        }
    }

    pub(crate) async fn snapshot(self, session: SessionId) -> Result<Option<Snapshot>, StoreError> {
        read!(&self, |reader| snapshots::read(&mut reader, &session))
    }

    pub(crate) async fn snapshot_piece(
        self,
        session: SessionId,
        number: u32,
    ) -> Result<Option<Arc<[u8]>>, StoreError> {
        read!(&self, |reader| snapshots::read_piece(&mut reader, &session, number))
    }

    pub(crate) async fn leave_answer(
        self,
        session: SessionId,
        answer: AnswerLeft,
    ) -> Result<(), StoreError> {
        self.writer.ask(Ask::LeaveAnswer(session, answer)).await.map(drop)
    }

    pub(crate) async fn answers_left(
        self,
        session: SessionId,
    ) -> Result<Vec<AnswerLeft>, StoreError> {
        read!(&self, |reader| answers::left(&mut reader, &session))
    }

    pub(crate) async fn unreferenced(self, hashes: Vec<Hash>) -> Result<Vec<Hash>, StoreError> {
        read!(&self, |reader| rows::unreferenced(&mut reader, &hashes))
    }

    pub(crate) async fn made_ms(self) -> Result<Option<i64>, StoreError> {
        read!(&self, |reader| rows::made_ms(&mut reader))
    }

    pub(crate) async fn check(self, session: SessionId) -> Result<Vec<Wrong>, StoreError> {
        let wrong = read!(&self, |reader| check::check(&mut reader, &session));
        wrong.map_err(|error| of_session(&session, error))
    }
}

/// Damage in what is read of one session is that session's.
fn of_session(session: &SessionId, error: StoreError) -> StoreError {
    match error {
        StoreError::Damaged { what, why } => {
            StoreError::Damaged { what: format!("session {session} in {what}"), why }
        }
        other => other,
    }
}
