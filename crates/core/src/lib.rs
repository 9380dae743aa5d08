//! What happened, what it means, what is next.
//!
//! A session is an append-only log of [`event`]s. [`state`] is its fold, [`decide()`] says what is
//! next, [`prompt`] is what the model reads. Everything here is a pure function of its arguments:
//! time, identifiers and randomness come in as values, and nothing here opens, waits or fails.
//!
//! Reading order, about an hour: [`message`], [`event`], [`state`] with [`turn`], [`mod@decide`],
//! [`gate`], [`effects`], [`budget`], [`prompt`], then the small traits in [`provider`], [`tool`] and
//! [`store`].

mod account;
pub mod arguments;
pub mod blobs;
pub mod budget;
pub mod columns;
pub mod decide;
pub mod effects;
pub mod event;
pub mod found;
pub mod gate;
pub mod hash;
pub mod mask;
pub mod message;
pub mod pictures;
pub mod prompt;
pub mod provider;
pub mod recover;
pub mod repair;
pub mod shared;
pub mod snapshot;
pub mod state;
pub mod store;
pub mod stored;
pub mod tool;
pub mod turn;
pub mod words;

pub use decide::{Action, Policy, decide};
pub use event::{Entry, Event};
pub use state::State;
