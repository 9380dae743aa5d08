//! Where logs are kept. One writer for each session; many readers.

use std::{any::Any, fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    event::{Entry, Head},
    gate::BoxFuture,
};

pub use crate::blobs::Blobs;

/// The identifier of a session: 1 to 64 of `a-z`, `0-9` and `-`, so that it can name a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SessionId(String);

impl SessionId {
    /// The identifier that is this number, in the form of a UUID.
    pub fn from_u128(number: u128) -> Self {
        let part = |shift: u32, digits: usize| {
            let mask = (1_u128 << (4 * digits)) - 1;
            format!("{:0digits$x}", (number >> shift) & mask)
        };
        let parts = [part(96, 8), part(80, 4), part(64, 4), part(48, 4), part(0, 12)];
        Self(parts.join("-"))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for SessionId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let fits = (1..=64).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        if fits {
            Ok(Self(text))
        } else {
            Err(format!("`{text}` is no session id: 1 to 64 of a-z, 0-9 and -"))
        }
    }
}

impl From<SessionId> for String {
    fn from(id: SessionId) -> Self {
        id.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Entries that are read at once from a store.
pub const ENTRIES_READ_MAX: usize = 256;

/// The right to write one session. Dropping it gives the right back.
pub struct Claim {
    /// The session.
    pub session: SessionId,
    /// Grows with every claim; a write with an older one is refused.
    pub epoch: u64,
    /// What holds the claim, such as a locked file.
    pub guard: Box<dyn Any + Send + Sync>,
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claim")
            .field("session", &self.session)
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}

/// What went wrong with a log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// There is no such session.
    #[error("there is no session {0}")]
    NoSession(SessionId),
    /// There is one already.
    #[error("there is a session {0} already")]
    SessionExists(SessionId),
    /// Another process (or another part of this one) writes it.
    #[error("session {0} is in use: another process, or another part of this one, drives it")]
    InUse(SessionId),
    /// The log has moved on, or the claim is an older one: nothing was written.
    #[error("the log of session {session} has moved on after entry {after}: nothing was written")]
    Moved {
        /// The session.
        session: SessionId,
        /// What the writer took for its last entry.
        after: u64,
    },
    /// The database was made by a newer Inspan.
    #[error("{what} was written by a newer version of Inspan: nothing was changed")]
    Newer {
        /// Which file or database, and its version.
        what: String,
    },
    /// The database is not one of ours, or damaged.
    #[error("{what} can't be read as a log: {why}")]
    Damaged {
        /// Which file or database.
        what: String,
        /// What was wrong.
        why: String,
    },
    /// A blob is not what was put: its bytes have another hash. It counts as lost.
    #[error(
        "{what} is not what was written, so it counts as lost: remove it, and add it again if you \
         have it"
    )]
    BlobDamaged {
        /// Which file or object.
        what: String,
    },
    /// No write is possible: a full or read-only disk, a permission.
    #[error("{what} can't be written: {why}")]
    NotWritable {
        /// Which file or database.
        what: String,
        /// What the system said, and what to do.
        why: String,
    },
    /// Anything else that the database or the system said.
    #[error("{what}: {why}")]
    Other {
        /// During what.
        what: String,
        /// What it said.
        why: String,
    },
}

/// A session in a list: read from the typed columns, never from bodies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRow {
    /// The session.
    pub id: SessionId,
    /// Its first entry, in milliseconds since 1970.
    pub started_ms: i64,
    /// Its last entry, in milliseconds since 1970.
    pub updated_ms: i64,
    /// The number of its entries.
    pub entries: u64,
    /// The number of its turns.
    pub turns: u32,
    /// The beginning of its first prompt.
    pub title: String,
    /// Why its last turn ended; `None` while one is open (or was, when its process died).
    pub stop: Option<String>,
    /// Tokens over all tiers.
    pub tokens: u64,
    /// Cost in thousand-millionths of a US dollar.
    pub cost_nano_usd: u64,
}

/// Where logs are kept.
pub trait Store: Send + Sync {
    /// Claims a new session. It exists for others from its first entry on.
    fn create(&self, session: &SessionId) -> BoxFuture<'static, Result<Claim, StoreError>>;

    /// Claims a session that exists.
    fn claim(&self, session: &SessionId) -> BoxFuture<'static, Result<Claim, StoreError>>;

    /// Appends `entries`, all or none, if the log's head is `after` and `claim` is the newest. The
    /// write is under way when this returns, in the order of the calls; the future tells when it
    /// is durable, and may be dropped without harm.
    fn append(
        &self,
        claim: &Claim,
        after: Head,
        entries: Arc<[Entry]>,
    ) -> BoxFuture<'static, Result<(), StoreError>>;

    /// The entries after sequence number `after`, at most `count_max` of them, in order.
    fn read(
        &self,
        session: &SessionId,
        after: u64,
        count_max: usize,
    ) -> BoxFuture<'static, Result<Vec<Entry>, StoreError>>;

    /// The sessions, those changed last first. `prefix` keeps those whose identifier begins so.
    fn sessions(
        &self,
        prefix: &str,
        count_max: usize,
    ) -> BoxFuture<'static, Result<Vec<SessionRow>, StoreError>>;

    /// Where the blobs that these logs name are kept when nobody says otherwise; `None` when no
    /// place goes with them.
    fn blobs(&self) -> Option<Arc<dyn Blobs>> {
        None
    }
}

impl<S: Store + ?Sized> Store for Arc<S> {
    fn create(&self, session: &SessionId) -> BoxFuture<'static, Result<Claim, StoreError>> {
        (**self).create(session)
    }

    fn claim(&self, session: &SessionId) -> BoxFuture<'static, Result<Claim, StoreError>> {
        (**self).claim(session)
    }

    fn append(
        &self,
        claim: &Claim,
        after: Head,
        entries: Arc<[Entry]>,
    ) -> BoxFuture<'static, Result<(), StoreError>> {
        (**self).append(claim, after, entries)
    }

    fn read(
        &self,
        session: &SessionId,
        after: u64,
        count_max: usize,
    ) -> BoxFuture<'static, Result<Vec<Entry>, StoreError>> {
        (**self).read(session, after, count_max)
    }

    fn sessions(
        &self,
        prefix: &str,
        count_max: usize,
    ) -> BoxFuture<'static, Result<Vec<SessionRow>, StoreError>> {
        (**self).sessions(prefix, count_max)
    }

    fn blobs(&self) -> Option<Arc<dyn Blobs>> {
        (**self).blobs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_identifiers() {
        let number = 0x0192_0a3b_4c5d_7e6f_8123_4567_89ab_cdef;
        let id = SessionId::from_u128(number);
        assert_eq!(id.as_str(), "01920a3b-4c5d-7e6f-8123-456789abcdef");
        assert_eq!(SessionId::try_from(id.to_string()), Ok(id));
    }
}
