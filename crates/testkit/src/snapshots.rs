//! Snapshots as a store keeps them, in small pieces.

use inspan_core::{
    State,
    snapshot::{self, FOLD_VERSION, Pieces, Reading, Written},
};

/// Small enough that a short log has several.
const PIECE_BYTES: usize = 150;

/// The last snapshot of a session.
#[derive(Debug, Default)]
pub struct Snapshots {
    rest: Vec<u8>,
    kept: Vec<Vec<u8>>,
    pieces: Pieces,
}

impl Snapshots {
    /// Keeps a snapshot of `state`, which grew from that of the last one.
    ///
    /// # Errors
    /// It can't be written, or another state is read again.
    pub fn keep(&mut self, state: &State) -> Result<(), String> {
        let Written { rest, new, pieces } = snapshot::write(state, self.pieces, PIECE_BYTES)
            .ok_or_else(|| format!("{state:?} can't be written"))?;
        (self.rest, self.pieces) = (rest, pieces);
        self.kept.extend(new);
        match self.read(state) {
            Some(read) if read == (state.clone(), pieces) => Ok(()),
            read => Err(format!("a snapshot of {state:?} is {read:?}")),
        }
    }

    fn read(&self, state: &State) -> Option<(State, Pieces)> {
        let mut reading = Reading::begin(FOLD_VERSION, state.head, &self.rest)?;
        if reading.count() as usize != self.kept.len() {
            return None;
        }
        self.kept.iter().try_for_each(|piece| reading.add(piece))?;
        reading.finish()
    }
}
