//! What clients see of a session: its entries, each once and in order, and deltas as they come.

use std::{collections::VecDeque, sync::Arc};

use inspan_core::{
    Entry,
    provider::Delta,
    store::{ENTRIES_READ_MAX, SessionId, Store, StoreError},
};
use tokio::sync::broadcast::{self, error::RecvError};

/// Updates that wait for a slow client; one that falls further behind reads the log again.
pub const UPDATES_WAITING_MAX: usize = 128;

/// Updates are told through this. Each session has room for as many pointers as may wait.
pub(crate) type Tell = broadcast::Sender<Arc<Update>>;

/// A piece of what happens in a session.
#[derive(Clone, Debug)]
pub enum Update {
    /// An entry; it is durable.
    Entry(Arc<Entry>),
    /// A piece of an answer that is still arriving. Lossy: a client that falls behind, or comes
    /// later, does not get it.
    Delta {
        /// The number of the part of the reply.
        part: usize,
        /// What arrived.
        delta: Delta,
    },
}

/// The updates after a sequence number: first from the log, then live. Never misses an entry.
pub struct Updates {
    store: Arc<dyn Store>,
    session: SessionId,
    after: u64,
    read: VecDeque<Entry>,
    behind: bool,
    live: broadcast::Receiver<Arc<Update>>,
}

impl Updates {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        session: SessionId,
        after: u64,
        live: broadcast::Receiver<Arc<Update>>,
    ) -> Self {
        Self { store, session, after, read: VecDeque::new(), behind: true, live }
    }

    /// The next update; `None` when the session's driver is gone and everything was read.
    ///
    /// # Errors
    /// What the store says when the log can't be read.
    pub async fn next(&mut self) -> Result<Option<Update>, StoreError> {
        loop {
            if let Some(entry) = self.read.pop_front() {
                if self.read.is_empty() {
                    self.read = VecDeque::new();
                }
                self.after = entry.seq;
                return Ok(Some(Update::Entry(Arc::new(entry))));
            }
            if self.behind {
                let more = self.store.read(&self.session, self.after, ENTRIES_READ_MAX).await?;
                self.behind = more.len() == ENTRIES_READ_MAX;
                self.read.extend(more);
                continue;
            }
            let update = match self.live.recv().await {
                Ok(update) => Arc::unwrap_or_clone(update),
                Err(RecvError::Lagged(_)) => {
                    self.behind = true;
                    continue;
                }
                Err(RecvError::Closed) => return Ok(None),
            };
            match update {
                Update::Entry(entry) if entry.seq <= self.after => {}
                Update::Entry(entry) if entry.seq > self.after + 1 => self.behind = true,
                Update::Entry(entry) => {
                    self.after = entry.seq;
                    return Ok(Some(Update::Entry(entry)));
                }
                delta @ Update::Delta { .. } => return Ok(Some(delta)),
            }
        }
    }
}
