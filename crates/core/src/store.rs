//! Where logs are kept. One writer for each session; many readers.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    event::{Entry, Head, Stop},
    gate::{BoxFuture, Choice},
    hash::Hash,
    message::CallId,
    stored::Standing,
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
    pub guard: Box<dyn Guard>,
}

/// What holds a claim until it is dropped.
pub trait Guard: Send + Sync {
    /// Resolves when the right to write was lost: another process may have it now, and nothing
    /// must be begun any more. Never resolves for a claim that can't be lost.
    fn lost(&self) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

/// Holds nothing.
impl Guard for () {}

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
    /// A fork goes on from an entry that is not there: nothing was written.
    #[error("session {session} has no such entry {seq}: nothing was written")]
    NoEntry {
        /// The session that was to be forked.
        session: SessionId,
        /// The entry.
        seq: u64,
    },
    /// The database, or the log, was made by a newer Inspan.
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
    /// The number of its last entry.
    pub head_seq: u64,
    /// Its hash.
    pub head_hash: Hash,
    /// The number of its own entries; those before the place where it was forked are its parent's.
    pub entries: u64,
    /// The number of its turns.
    pub turns: u32,
    /// The beginning of its first prompt.
    pub title: String,
    /// The name of its agent; may be empty.
    pub agent: String,
    /// Its working directory.
    pub workdir: String,
    /// How it stands.
    pub standing: Standing,
    /// When to go on with a parked turn, in milliseconds since 1970, if anybody knows.
    pub wake_ms: Option<i64>,
    /// Why its last turn ended; `None` while one is open (or was, when its process died).
    pub stop: Option<String>,
    /// The session that it was forked from, and the last entry that they share.
    pub parent: Option<(SessionId, u64)>,
    /// Tokens over all tiers that its own entries spent.
    pub tokens: u64,
    /// Their cost in thousand-millionths of a US dollar.
    pub cost_nano_usd: u64,
}

/// Which sessions a list has. What is `None` keeps all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionFilter {
    /// Those whose identifier begins so.
    pub prefix: String,
    /// Those of the agent of this name.
    pub agent: Option<String>,
    /// Those that work in this directory.
    pub workdir: Option<String>,
    /// Those that stand so.
    pub standing: Option<Standing>,
    /// Those whose last turn ended so.
    pub stop: Option<Stop>,
    /// Those changed at this time or later, in milliseconds since 1970.
    pub since_ms: Option<i64>,
    /// Those changed before this time, in milliseconds since 1970.
    pub until_ms: Option<i64>,
    /// Those in which a search finds these words; see [`Archive::search`].
    pub words: Option<String>,
    /// How many at most.
    pub count_max: usize,
}

impl SessionFilter {
    /// All sessions, at most `count_max`.
    pub fn all(count_max: usize) -> Self {
        Self { count_max, ..Self::default() }
    }

    /// Those whose identifier begins with `prefix`, at most `count_max`.
    pub fn prefix(prefix: &str, count_max: usize) -> Self {
        Self { prefix: prefix.to_owned(), count_max, ..Self::default() }
    }
}

/// The fold of a log up to an entry, in a form that only its maker knows. It may be thrown away at
/// any time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The last entry of the fold.
    pub seq: u64,
    /// The version of the form.
    pub version: u32,
    /// The fold without its pieces.
    pub bytes: Arc<[u8]>,
}

/// Pieces of a fold that are kept with a snapshot. They are numbered from 0 on, and the next
/// snapshots have them, too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewPieces {
    /// How many of those that are there already go on to count; the others are thrown away.
    pub before: u32,
    /// The next ones.
    pub bytes: Vec<Arc<[u8]>>,
}

/// Answers that are left for one session at most; further ones are refused until some are taken.
pub const ANSWERS_LEFT_MAX: usize = 256;

/// A person's answer that is left for whoever drives the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerLeft {
    /// The call that was asked about.
    pub call: CallId,
    /// The answer.
    pub choice: Choice,
    /// Why, for the model; may be empty.
    pub why: String,
}

/// Where logs are kept: what a driver and its clients need.
pub trait Store: Send + Sync {
    /// Claims a new session. It exists for others from its first entry on.
    fn create(&self, session: &SessionId) -> BoxFuture<'static, Result<Claim, StoreError>>;

    /// Claims a session that exists.
    fn claim(&self, session: &SessionId) -> BoxFuture<'static, Result<Claim, StoreError>>;

    /// Appends `entries`, all or none, if the log's head is `after` and `claim` is the newest. The
    /// write is under way when this returns, in the order of the calls; the future tells when it
    /// is durable, and may be dropped without harm.
    ///
    /// The first append of a new session makes a fork of another, if its first entry says so: then
    /// `after` is the place in the other one's log, which is read before the fork's own entries.
    fn append(
        &self,
        claim: &Claim,
        after: Head,
        entries: Arc<[Entry]>,
    ) -> BoxFuture<'static, Result<(), StoreError>>;

    /// The entries after sequence number `after`, at most `count_max` of them, in order. Those of
    /// a fork begin with the ones that it shares with its parent.
    fn read(
        &self,
        session: &SessionId,
        after: u64,
        count_max: usize,
    ) -> BoxFuture<'static, Result<Vec<Entry>, StoreError>>;

    /// The sessions that `filter` keeps, those changed last first.
    fn sessions(
        &self,
        filter: &SessionFilter,
    ) -> BoxFuture<'static, Result<Vec<SessionRow>, StoreError>>;

    /// Where the blobs that these logs name are kept when nobody says otherwise; `None` when no
    /// place goes with them.
    fn blobs(&self) -> Option<Arc<dyn Blobs>> {
        None
    }
    /// Resolves when this session (`None`: any) may have changed. A hint and no promise: it may
    /// come without a change, or not at all, so whoever waits looks from time to time as well.
    fn changed(&self, session: Option<&SessionId>) -> BoxFuture<'static, ()> {
        let _ = session;
        Box::pin(std::future::pending())
    }

    /// Leaves an answer for whoever drives the session, which needs no claim: the log is not written,
    /// its driver does that. It stands until the log has an answer about that call; of several about
    /// one call the first one stands.
    fn leave_answer(
        &self,
        session: &SessionId,
        answer: AnswerLeft,
    ) -> BoxFuture<'static, Result<(), StoreError>> {
        let (what, call) = (format!("session {session}"), answer.call);
        let why = format!("this store keeps no answers for others: the one about {call} is lost");
        Box::pin(std::future::ready(Err(StoreError::Other { what, why })))
    }

    /// The answers that were left and that the log does not have, in the order of their calls: at
    /// most [`ANSWERS_LEFT_MAX`].
    fn answers_left(
        &self,
        session: &SessionId,
    ) -> BoxFuture<'static, Result<Vec<AnswerLeft>, StoreError>> {
        let _ = session;
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Keeps a snapshot in the place of the session's last one, together with its new pieces. What
    /// is kept nowhere is read from the log again.
    fn keep_snapshot(
        &self,
        claim: &Claim,
        snapshot: Snapshot,
        pieces: NewPieces,
    ) -> BoxFuture<'static, Result<(), StoreError>> {
        let _ = (claim, snapshot, pieces);
        Box::pin(std::future::ready(Ok(())))
    }

    /// The snapshot that was kept last, if it is still there.
    fn snapshot(
        &self,
        session: &SessionId,
    ) -> BoxFuture<'static, Result<Option<Snapshot>, StoreError>> {
        let _ = session;
        Box::pin(std::future::ready(Ok(None)))
    }

    /// A piece that was kept with a snapshot, if it is still there.
    fn snapshot_piece(
        &self,
        session: &SessionId,
        number: u32,
    ) -> BoxFuture<'static, Result<Option<Arc<[u8]>>, StoreError>> {
        let _ = (session, number);
        Box::pin(std::future::ready(Ok(None)))
    }
}

/// An entry that a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The session.
    pub session: SessionId,
    /// The entry.
    pub entry: Entry,
}

/// A column that is not what its entry says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The entry; 0 for the session's own row.
    pub seq: u64,
    /// The column.
    pub column: &'static str,
    /// What stands there.
    pub found: String,
    /// What must stand there.
    pub expected: String,
}

/// Sessions as things: what the command does with them beside driving one.
pub trait Archive: Store {
    /// The prompts, answers and results of tools in which `words` are found, the newest first, at
    /// most `count_max`. Words stand for themselves, `"several words"` for their sequence, and
    /// `-word` for what must not be there. Nothing that is written can be wrong.
    fn search(
        &self,
        words: &str,
        count_max: usize,
    ) -> BoxFuture<'static, Result<Vec<Found>, StoreError>>;

    /// Removes a session that nobody drives. One that has forks is hidden, and goes with the last
    /// of them.
    fn remove(&self, session: &SessionId) -> BoxFuture<'static, Result<(), StoreError>>;

    /// Those of `hashes` that no entry names.
    fn unreferenced(&self, hashes: &[Hash]) -> BoxFuture<'static, Result<Vec<Hash>, StoreError>>;

    /// When this store was made, in milliseconds since 1970, rounded up to a second; `None` when
    /// it keeps nothing for later. Blobs in its place that were put before may be named by a store
    /// that was there before it.
    fn made_ms(&self) -> BoxFuture<'static, Result<Option<i64>, StoreError>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Sessions that can be driven now, the longest waiting first: nobody holds them, and a turn
    /// is open, or parked until a time that is not after `now_ms`, or waits for calls and was left an
    /// answer. At most `count_max`.
    fn due(
        &self,
        now_ms: i64,
        count_max: usize,
    ) -> BoxFuture<'static, Result<Vec<SessionId>, StoreError>>;

    /// The typed columns of a session that are not what its entries say.
    fn check(&self, session: &SessionId) -> BoxFuture<'static, Result<Vec<Wrong>, StoreError>>;
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
        filter: &SessionFilter,
    ) -> BoxFuture<'static, Result<Vec<SessionRow>, StoreError>> {
        (**self).sessions(filter)
    }

    fn changed(&self, session: Option<&SessionId>) -> BoxFuture<'static, ()> {
        (**self).changed(session)
    }

    fn leave_answer(
        &self,
        session: &SessionId,
        answer: AnswerLeft,
    ) -> BoxFuture<'static, Result<(), StoreError>> {
        (**self).leave_answer(session, answer)
    }

    fn answers_left(
        &self,
        session: &SessionId,
    ) -> BoxFuture<'static, Result<Vec<AnswerLeft>, StoreError>> {
        (**self).answers_left(session)
    }

    fn keep_snapshot(
        &self,
        claim: &Claim,
        snapshot: Snapshot,
        pieces: NewPieces,
    ) -> BoxFuture<'static, Result<(), StoreError>> {
        (**self).keep_snapshot(claim, snapshot, pieces)
    }

    fn snapshot(
        &self,
        session: &SessionId,
    ) -> BoxFuture<'static, Result<Option<Snapshot>, StoreError>> {
        (**self).snapshot(session)
    }

    fn snapshot_piece(
        &self,
        session: &SessionId,
        number: u32,
    ) -> BoxFuture<'static, Result<Option<Arc<[u8]>>, StoreError>> {
        (**self).snapshot_piece(session, number)
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
