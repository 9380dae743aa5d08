//! Where logs are kept: [`Memory`] for tests and for programs that embed Inspan, [`Sqlite`] for
//! everything that outlives its process (feature `sqlite`). Both pass the same contract suite,
//! `tests/contract`. What an entry means is the core's business: here it is a row.
//!
//! Blobs are kept beside them: see [`Files`] (feature `files`) and `S3` (feature
//! `s3`).

#[cfg(feature = "files")]
mod blobs;
#[cfg(feature = "files")]
mod disk;
mod memory;
#[cfg(feature = "sqlite")]
mod sqlite;

#[cfg(feature = "files")]
pub use blobs::{Files, Swept, Told, Watched, sweep};
#[cfg(feature = "s3")]
pub use blobs::{S3, S3Place};
pub use memory::Memory;
#[cfg(feature = "sqlite")]
pub use sqlite::Sqlite;

use inspan_core::{
    event::{Entry, Head},
    store::{SessionId, StoreError},
};

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
