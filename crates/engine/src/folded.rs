//! Stored logs: their entries, and the states that they fold to. A long one is not folded again from
//! its beginning where a snapshot of it was kept.

use futures_util::{StreamExt, stream};
use inspan_core::{
    Entry, State,
    snapshot::{self, FOLD_VERSION, PIECE_BYTES, Pieces, Reading, Written},
    store::{ENTRIES_READ_MAX, NewPieces, SessionId, Snapshot, Store, StoreError},
};

use crate::session::cant_go_on;

/// Entries from one snapshot to the next at least.
const SNAPSHOT_ENTRIES_MIN: u64 = 256;

/// Pieces of a snapshot that are read while one is put to the others.
const PIECES_AHEAD: usize = 2;

/// The whole log of a session.
///
/// # Errors
/// What the store says.
pub async fn log(store: &dyn Store, id: &SessionId) -> Result<Vec<Entry>, StoreError> {
    let mut log: Vec<Entry> = Vec::new();
    loop {
        let after = log.last().map_or(0, |entry| entry.seq);
        let more = store.read(id, after, ENTRIES_READ_MAX).await?;
        let is_last = more.len() < ENTRIES_READ_MAX;
        log.extend(more);
        if is_last {
            return Ok(log);
        }
    }
}

/// The state of a stored log.
///
/// # Errors
/// What the store says; [`StoreError::Damaged`] when an entry is missing.
pub async fn fold(store: &dyn Store, id: &SessionId) -> Result<State, StoreError> {
    Ok(Folded::read(store, id, |_, _| {}).await?.state)
}

/// The state after entry `seq`, or at the end of a log that is shorter.
pub(crate) async fn fold_to(
    store: &dyn Store,
    id: &SessionId,
    seq: u64,
) -> Result<State, StoreError> {
    let latest = latest(store, id).await?;
    let mut folded = if latest.state.head.seq <= seq { latest } else { Folded::default() };
    folded.read_on(store, id, seq, |_, _| {}).await?;
    Ok(folded.state)
}

/// A state, and how much of it was in a snapshot.
#[derive(Clone, Debug, Default)]
pub struct Folded {
    /// The state.
    pub state: State,
    /// The snapshot that it was made from.
    pub(crate) snapshot: SnapshotKept,
}

impl Folded {
    /// Folds a stored log. `see` is called with each entry that is read, and the state before it:
    /// those of a snapshot are not read.
    ///
    /// # Errors
    /// What the store says; [`StoreError::Damaged`] when an entry is missing.
    pub async fn read(
        store: &dyn Store,
        id: &SessionId,
        see: impl FnMut(&State, &Entry) + Send,
    ) -> Result<Self, StoreError> {
        let mut folded = latest(store, id).await?;
        folded.read_on(store, id, u64::MAX, see).await?;
        Ok(folded)
    }

    /// Goes on to entry `seq`, or to the end of a log that is shorter.
    pub(crate) async fn read_on(
        &mut self,
        store: &dyn Store,
        id: &SessionId,
        seq: u64,
        mut see: impl FnMut(&State, &Entry) + Send,
    ) -> Result<(), StoreError> {
        let state = &mut self.state;
        while state.head.seq < seq {
            let entries: Vec<Entry> = store.read(id, state.head.seq, ENTRIES_READ_MAX).await?;
            for entry in entries.iter().take_while(|entry| entry.seq <= seq) {
                if entry.seq != state.head.seq + 1 {
                    let why = format!("entry {} is missing", state.head.seq + 1);
                    return Err(cant_go_on(id, &why, state.head.seq));
                }
                see(state, entry);
                state.apply(entry);
            }
            if entries.len() < ENTRIES_READ_MAX {
                break;
            }
        }
        Ok(())
    }
}

/// The state of the last snapshot, if this build can read it and it is one of this log; else the
/// one before the first entry.
pub(crate) async fn latest(store: &dyn Store, id: &SessionId) -> Result<Folded, StoreError> {
    // A snapshot that can't be read is none: the log is read in its place, and says what is wrong.
    let kept = store.snapshot(id).await.ok().flatten();
    let Some(Snapshot { seq, version, bytes }) = kept else {
        return Ok(Folded::default());
    };
    let before = seq.saturating_sub(1);
    let entry = store.read(id, before, 1).await?.into_iter().find(|entry| entry.seq == seq);
    let begun = entry.and_then(|entry| Reading::begin(version, entry.head(), &bytes));
    let Some(mut reading) = begun else { return Ok(Folded::default()) };
    let numbers = 0..reading.count();
    let mut pieces =
        stream::iter(numbers.map(|n| store.snapshot_piece(id, n))).buffered(PIECES_AHEAD);
    while let Some(piece) = pieces.next().await {
        if piece?.and_then(|piece| reading.add(&piece)).is_none() {
            return Ok(Folded::default());
        }
    }
    let folded = |(state, pieces)| Folded { state, snapshot: SnapshotKept { seq, pieces } };
    Ok(reading.finish().map_or_else(Folded::default, folded))
}

/// A snapshot that the store has.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SnapshotKept {
    /// Its last entry; 0 for none.
    seq: u64,
    /// How much of it is in pieces.
    pieces: Pieces,
}

impl SnapshotKept {
    /// The snapshot after this one, when it is time for it: it is taken for kept.
    pub(crate) fn next(&mut self, state: &State) -> Option<(Snapshot, NewPieces)> {
        let (seq, before) = (state.head.seq, self.pieces.count);
        if seq.saturating_sub(self.seq) < SNAPSHOT_ENTRIES_MIN {
            return None;
        }
        let Written { rest, new, pieces } = snapshot::write(state, self.pieces, PIECE_BYTES)?;
        *self = Self { seq, pieces };
        let bytes = new.into_iter().map(Into::into).collect();
        let snapshot = Snapshot { seq, version: FOLD_VERSION, bytes: rest.into() };
        Some((snapshot, NewPieces { before, bytes }))
    }
}
