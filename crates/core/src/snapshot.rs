//! A state as bytes, so that a long log need not be folded again from its beginning.
//!
//! A snapshot is a cache and never the truth: it holds what the fold of the same entries gives, can
//! be thrown away at any time, and is not read by a build whose fold is another one.

use crate::{event::Head, state::State};

/// The version of the fold. It grows with every change after which a log may fold to another state,
/// or a state has another form; older snapshots are then left aside.
pub const FOLD_VERSION: u32 = 1;

/// The bytes of `state`; `None` when it can't be written, which no state of a log is known for.
pub fn write(state: &State) -> Option<Vec<u8>> {
    serde_json::to_vec(state).ok()
}

/// The state that was written as `bytes` by a build with fold `version`, if it is the one after
/// the entry at `head`. `None` for everything else: then the log is folded.
pub fn read(version: u32, head: Head, bytes: &[u8]) -> Option<State> {
    let state: State = (version == FOLD_VERSION).then(|| serde_json::from_slice(bytes).ok())??;
    (state.head == head).then_some(state)
}
