//! A state as bytes, so that a long log need not be folded again from its beginning.
//!
//! A snapshot is a cache and never the truth: it holds what the fold of the same entries gives, can
//! be thrown away at any time, and is not read by a build whose fold is another one.
//!
//! Sealed messages never change, and they are most of a long state. So they stand in pieces that are
//! written once: the next snapshot adds the pieces that are new, and no long state is ever in memory
//! as bytes, too.
//!
//! Every byte is covered by a hash: a snapshot that changed on its disk is none.

use std::{mem, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::Deserializer;

use crate::{event::Head, hash::Hash, prompt::Message, state::State};

/// The version of the fold. It grows with every change after which a log may fold to another state,
/// or a state has another form; older snapshots are then left aside.
pub const FOLD_VERSION: u32 = 3;

/// Bytes from which on messages are a piece, where a store keeps them.
pub const PIECE_BYTES: usize = 64 << 10;

/// How much of a state stands in pieces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pieces {
    /// How many pieces there are.
    pub count: u32,
    /// How many messages are in them.
    pub messages: usize,
    /// The hash of the last one and of the hash before it.
    pub hash: Hash,
}

impl Pieces {
    /// With one more, of messages up to the `messages`-th.
    fn with(self, piece: &[u8], messages: usize) -> Option<Self> {
        let hash = Hash::of(&[&self.hash.0, piece]);
        Some(Self { count: self.count.checked_add(1)?, messages, hash })
    }
}

/// A state as bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The hash of what follows, and the state without the messages of its pieces.
    pub rest: Vec<u8>,
    /// The pieces that were not there before, in their order.
    pub new: Vec<Vec<u8>>,
    /// With these, all pieces.
    pub pieces: Pieces,
}

#[derive(Serialize, Deserialize)]
struct Rest {
    pieces: Pieces,
    state: State,
}

/// The bytes of `state`, of which `pieces` are written already. A piece has `piece_bytes` at least:
/// the number of the messages before it, and its messages. `None` when it can't be written, which no
/// state of a log is known for.
pub fn write(state: &State, mut pieces: Pieces, piece_bytes: usize) -> Option<Written> {
    let mut new = Vec::new();
    let mut piece = pieces.messages.to_string().into_bytes();
    for (index, message) in state.messages.iter().enumerate().skip(pieces.messages) {
        serde_json::to_writer(&mut piece, message).ok()?;
        if piece.len() >= piece_bytes {
            pieces = pieces.with(&piece, index + 1)?;
            new.push(mem::replace(&mut piece, pieces.messages.to_string().into_bytes()));
        }
    }
    let last = state.messages.get(pieces.messages..)?.to_vec();
    let state = State { messages: last, ..state.clone() };
    let rest = serde_json::to_vec(&Rest { pieces, state }).ok()?;
    let rest = [&Hash::of_bytes(&rest).0[..], &rest].concat();
    Some(Written { rest, new, pieces })
}

/// A state that is put together again.
#[derive(Debug)]
pub struct Reading {
    state: State,
    /// The messages after those of the pieces.
    last: Vec<Arc<Message>>,
    pieces: Pieces,
    /// What was read of them.
    read: Pieces,
}

impl Reading {
    /// Begins with what a build with fold `version` wrote as [`Written::rest`], if it is the state
    /// after the entry at `head`. `None` for everything else: then the log is folded.
    pub fn begin(version: u32, head: Head, rest: &[u8]) -> Option<Self> {
        let (hash, rest) = rest.split_first_chunk().filter(|_| version == FOLD_VERSION)?;
        let is_whole = Hash(*hash) == Hash::of_bytes(rest);
        let Rest { pieces, mut state }: Rest =
            is_whole.then(|| serde_json::from_slice(rest).ok())??;
        let last = mem::take(&mut state.messages);
        // They are counted as they come back.
        state.pictures = 0;
        (state.head == head).then_some(Self { state, last, pieces, read: Pieces::default() })
    }

    /// How many pieces are wanted.
    pub fn count(&self) -> u32 {
        self.pieces.count
    }

    /// Takes the next piece; `None` when it is another one, or damaged.
    pub fn add(&mut self, bytes: &[u8]) -> Option<()> {
        let mut piece = Deserializer::from_slice(bytes);
        if usize::deserialize(&mut piece).ok()? != self.state.messages.len() {
            return None;
        }
        for message in piece.into_iter::<Message>() {
            self.state.add_message(message.ok()?);
        }
        self.read = self.read.with(bytes, self.state.messages.len())?;
        Some(())
    }

    /// The state; `None` when a piece is missing or another one.
    pub fn finish(mut self) -> Option<(State, Pieces)> {
        for message in mem::take(&mut self.last) {
            self.state.add_message(Arc::unwrap_or_clone(message));
        }
        (self.read == self.pieces).then_some((self.state, self.pieces))
    }
}
