//! Where logs are kept: [`Memory`] for tests and for programs that embed Inspan, [`Sqlite`] for
//! everything that outlives its process (feature `sqlite`).
//!
//! Both implement [`Store`](inspan_core::store::Store) and [`Blobs`](inspan_core::store::Blobs) and
//! pass the same contract suite, `tests/contract.rs`. What an entry means is the core's business:
//! here it is a row.

mod memory;
#[cfg(feature = "sqlite")]
mod sqlite;

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
