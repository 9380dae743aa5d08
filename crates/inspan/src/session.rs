//! A session as a program holds it.

use std::{
    fmt,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use futures_util::stream;
use inspan_core::{
    State,
    message::{Content, Labels},
    provider::BoxStream,
    store::{SessionId, StoreError},
};
use inspan_engine::{Command, Update, session::Ended};

use crate::{
    done::Done,
    error::Error,
    turn::{Asker, Awaited, Follower},
};

/// One session: a log, and any number of turns.
///
/// All methods take `&self`, so that a prompt, a cancel and a stream of updates can go on at the
/// same time; put it into an `Arc` to share it between tasks. When it is dropped, the open turn is
/// still driven to its end in the background; [`Session::close`] waits for that.
pub struct Session {
    driven: inspan_engine::Session,
    ended: Mutex<Option<Ended>>,
    asker: Option<Asker>,
    model: String,
    /// The last entry that a turn's end told.
    seen: AtomicU64,
    left_open: Option<LeftOpen>,
}

/// A turn that an earlier process left open.
struct LeftOpen {
    number: u32,
    /// The last entry that the earlier process wrote.
    known: u64,
    is_parked: bool,
}

impl Session {
    /// `before` is the state of a session that goes on.
    pub(crate) fn new(
        (driven, ended): (inspan_engine::Session, Ended),
        asker: Option<Asker>,
        model: String,
        before: Option<&State>,
    ) -> Self {
        let known = before.map_or(0, |state| state.head.seq);
        let left_open = before.and_then(|state| {
            let turn = state.turn.as_ref().or(state.parked.as_ref())?;
            Some(LeftOpen { number: turn.number, known, is_parked: state.turn.is_none() })
        });
        Self {
            driven,
            ended: Mutex::new(Some(ended)),
            asker,
            model,
            seen: AtomicU64::new(known),
            left_open,
        }
    }

    /// The session's identifier, for [`Agent::resume`](crate::Agent::resume).
    pub fn id(&self) -> &SessionId {
        self.driven.id()
    }

    /// Says something and waits for the end of the turn. While another turn is open, the model
    /// reads it at its next round, and the end of that turn is waited for.
    ///
    /// Dropping the future cancels the turn.
    ///
    /// # Errors
    /// [`Error::Store`] or [`Error::Gone`]. A turn that ends in another way than with an answer is
    /// none: see [`Done::stop`].
    pub async fn say(&self, prompt: impl Into<String>) -> Result<Done, Error> {
        let updates = self.driven.updates(self.seen.load(Ordering::Acquire));
        let cancel = CancelWhenDropped(Some(&self.driven));
        let said = self.driven.prompt(vec![Content::text(prompt)], Labels::default()).await;
        cancel.not_any_more();
        match said {
            Some(seq) => self.follow(updates, Awaited::Prompt(seq)).await,
            None => Err(self.gone().await),
        }
    }

    /// Waits for the turn that was open or parked when the session was resumed; `None` when there
    /// was none. A parked turn goes on.
    ///
    /// Dropping the future cancels the turn.
    ///
    /// # Errors
    /// [`Error::Store`] or [`Error::Gone`].
    pub async fn go_on(&self) -> Result<Option<Done>, Error> {
        let Some(LeftOpen { number, known, is_parked }) = self.left_open else { return Ok(None) };
        if is_parked && !self.driven.submit(Command::Wake).await {
            return Err(self.gone().await);
        }
        let awaited = Awaited::Turn { number, known };
        self.follow(self.driven.updates(0), awaited).await.map(Some)
    }

    /// Stops the open turn. What runs is aborted, and the log says so.
    pub async fn cancel(&self) {
        self.driven.submit(Command::Cancel).await;
    }

    /// Stops the open turn at the next safe point: a call that can't be run again comes to its own
    /// end first. [`Session::cancel`] meanwhile aborts it.
    pub async fn cancel_safely(&self) {
        self.driven.submit(Command::CancelSafely).await;
    }

    /// What happens from now on: entries, each once and in order, and pieces of answers as they
    /// arrive. Ends with the session's driver. Whoever is slow misses pieces, but no entry.
    pub fn updates(&self) -> BoxStream<Result<Update, StoreError>> {
        self.updates_after(self.seen.load(Ordering::Acquire))
    }

    /// The same from the entry after `seq` on; 0 for the whole log.
    pub fn updates_after(&self, seq: u64) -> BoxStream<Result<Update, StoreError>> {
        let updates = self.driven.updates(seq);
        Box::pin(stream::try_unfold(updates, async |mut updates| {
            Ok(updates.next().await?.map(|update| (update, updates)))
        }))
    }

    /// Waits until the open turn has ended and the session is free for others to resume.
    ///
    /// # Errors
    /// What the store said when the log could not be written.
    pub async fn close(self) -> Result<(), Error> {
        let Self { driven, ended, .. } = self;
        drop(driven);
        match ended.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(ended) => Ok(ended.await.map_err(|_| Error::Gone)??),
            None => Ok(()),
        }
    }

    async fn follow(
        &self,
        updates: inspan_engine::Updates,
        awaited: Awaited,
    ) -> Result<Done, Error> {
        let cancel = CancelWhenDropped(Some(&self.driven));
        let asker = self.asker.as_ref();
        let follower = Follower::new(&self.driven, updates, asker, awaited, &self.model);
        let end = follower.run().await;
        cancel.not_any_more();
        match end? {
            Some((done, seq)) => {
                self.seen.fetch_max(seq, Ordering::AcqRel);
                Ok(done)
            }
            None => Err(self.gone().await),
        }
    }

    /// Why the driver is gone.
    async fn gone(&self) -> Error {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner).take();
        match ended {
            Some(ended) => match ended.await {
                Ok(Err(error)) => Error::Store(error),
                Ok(Ok(())) | Err(_) => Error::Gone,
            },
            None => Error::Gone,
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("id", self.id()).finish_non_exhaustive()
    }
}

/// Cancels the open turn when whoever waits for it no longer does.
struct CancelWhenDropped<'a>(Option<&'a inspan_engine::Session>);

impl CancelWhenDropped<'_> {
    fn not_any_more(mut self) {
        self.0 = None;
    }
}

impl Drop for CancelWhenDropped<'_> {
    fn drop(&mut self) {
        if let Some(session) = self.0 {
            session.try_submit(Command::Cancel);
        }
    }
}
