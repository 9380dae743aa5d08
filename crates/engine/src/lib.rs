//! Runs sessions: the driver, and the tools that are part of Inspan.
//!
//! [`Session`] is what a client holds: it submits [`Command`]s and reads [`Update`]s. Behind it one
//! task, the driver, asks [`inspan_core::decide()`] what is next, appends the fact that something
//! starts, *then* starts it, and appends the fact that it ended. It is the only writer of its log.
//!
//! Nothing here knows a provider, a database or a protocol; nothing prints.

pub mod catalogue;
pub mod clock;
mod driver;
mod effects;
mod folded;
mod judge;
pub mod outside;
mod request;
pub mod session;
pub mod tools;
pub mod updates;

pub use catalogue::{Catalogue, News};
pub use clock::{Clock, SystemClock};
pub use judge::near_names;
pub use session::{Command, Fallback, Session, SessionError, Setup};
pub use updates::{Update, Updates};
