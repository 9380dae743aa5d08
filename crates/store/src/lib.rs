//! Where logs are kept: [`Memory`] for tests and for programs that embed Inspan, [`Sqlite`] for
//! everything that outlives its process (feature `sqlite`), [`Postgres`] for several machines at
//! once (feature `postgres`).
//!
//! All implement [`Store`](inspan_core::store::Store) and
//! [`Archive`](inspan_core::store::Archive), and pass the same contract suite, `tests/contract`.
//! What an entry means is the core's business: here it is a row.
//!
//! Blobs are kept beside them: see [`Files`] (feature `files`) and `S3` (feature `s3`).

#[cfg(feature = "files")]
mod blobs;
#[cfg(feature = "files")]
mod disk;
mod memory;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod ranking;
#[cfg(feature = "sqlite")]
mod sqlite;
mod words;

#[cfg(feature = "files")]
pub use blobs::{Files, Swept, Told, Watched, sweep};
#[cfg(feature = "s3")]
pub use blobs::{S3, S3Place};
pub use memory::Memory;
#[cfg(feature = "postgres")]
pub use postgres::Postgres;
#[cfg(feature = "sqlite")]
pub use ranking::{Ranking, Said};
#[cfg(feature = "sqlite")]
pub use sqlite::Sqlite;

use inspan_core::{
    event::{Entry, Head},
    store::{SessionId, StoreError},
};

/// Said to whoever asks after the store was closed.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
const CLOSED: &str = "the store is closed";

/// Refuses entries that leave gaps: a mistake of the program, told before anything is written.
fn check_order(session: &SessionId, after: Head, entries: &[Entry]) -> Result<(), StoreError> {
    let seqs = after.seq + 1..;
    match entries.iter().zip(seqs).find(|(entry, seq)| entry.seq != *seq) {
        None => Ok(()),
        Some((entry, seq)) => Err(StoreError::Other {
            what: format!("appending to session {session}"),
            why: format!("entry {} stands where entry {seq} must: nothing was written", entry.seq),
        }),
    }
}
