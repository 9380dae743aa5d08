//! What keeps an agent from running.

use std::fmt;

use inspan_core::{event::Stop, store::StoreError};
use inspan_engine::SessionError;

/// What kept an agent from running, or an answer from being what was asked for. A turn that ended
/// in another way than with an answer is none: see [`Done::stop`](crate::Done::stop).
///
/// Its `Debug` form is the text of its `Display`, so that a `main` that returns it says something
/// that can be read.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The model can't be asked at all.
    #[cfg(feature = "providers")]
    #[error(transparent)]
    Provider(#[from] inspan_providers::ProviderError),
    /// The session can't begin or go on.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The log can't be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What drives the session ended before its turn did: its runtime was shut down, or code of a
    /// store broke down. [`Agent::resume`](crate::Agent::resume) goes on from the log.
    #[error("the session's driver ended before its turn did")]
    Gone,
    /// [`ask`](crate::Agent::ask) came to another stop than an answer.
    #[error("no answer: the turn ended with `{}`{}", .stop.as_str(), after_colon(.detail))]
    Stopped {
        /// Why the turn ended.
        stop: Stop,
        /// More about it; may be empty.
        detail: String,
    },
    /// The answer is not what [`ask`](crate::Agent::ask) asked for, also after it was sent back.
    #[error("the answer does not fit: {why}")]
    Answer {
        /// The answer.
        text: String,
        /// What is wrong with it, with the path.
        why: String,
    },
    /// A recording can't be used.
    #[cfg(feature = "testing")]
    #[error("the recording {path}: {why}")]
    Recording {
        /// The file.
        path: String,
        /// What is wrong with it.
        why: String,
    },
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn after_colon(detail: &str) -> String {
    if detail.is_empty() { String::new() } else { format!(": {detail}") }
}
