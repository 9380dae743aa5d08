//! How the command ends: a code for programs, and words for people.

use std::process::ExitCode;

use inspan_core::{event::Stop, store::StoreError};
use inspan_engine::{SessionError, outside::OutsideError};
use inspan_evals::RecordingError;
use inspan_mcp::{McpError, serve::ServeError};
use inspan_providers::ProviderError;

use crate::config::ConfigError;

/// What keeps the command from doing its work. Each kind has its exit code.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The command line makes no sense.
    #[error("{0}")]
    Usage(String),
    /// A file of the configuration, or of the agent.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The model can't be asked.
    #[error(transparent)]
    Provider(#[from] ProviderError),
    /// The session can't begin or go on.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The recording can't be played.
    #[error("{path}: {why}")]
    Recording {
        /// The file.
        path: String,
        /// What is wrong with it.
        why: RecordingError,
    },
    /// The log can't be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The tools of servers can't be offered.
    #[error(transparent)]
    Mcp(#[from] McpError),
    /// Nothing is served, or no longer.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// What came from outside was not taken.
    #[error(transparent)]
    Outside(#[from] OutsideError),
    /// Somebody else drives the session, and does not give it back.
    #[error("{0}")]
    InUse(String),
    /// A log is not what was written.
    #[error("{0}")]
    Verify(String),
    /// A file can't be read or written.
    #[error("{what}: {why}")]
    File {
        /// Which, and what for.
        what: String,
        /// What the system said.
        why: std::io::Error,
    },
}

impl Failure {
    /// 1 for the store and the system, 2 for what the person must set right.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Store(StoreError::NoSession(_)) => 2,
            Self::Store(_)
            | Self::Outside(OutsideError::Store(_))
            | Self::Session(SessionError::Store(_))
            | Self::InUse(_)
            | Self::Verify(_)
            | Self::Serve(
                ServeError::NotUnderstood(_) | ServeError::System { .. } | ServeError::Broken(_),
            )
            | Self::File { .. } => 1,
            Self::Usage(_)
            | Self::Outside(_)
            | Self::Mcp(_)
            | Self::Serve(ServeError::ToolTwice(_) | ServeError::Open(_))
            | Self::Config(_)
            | Self::Provider(_)
            | Self::Session(SessionError::ToolTwice(_) | SessionError::NoPrice(_))
            | Self::Recording { .. } => 2,
        }
    }
}

/// The exit code of a turn: its stop, or 3 when a question counted as answered with no because
/// nobody could answer.
pub(crate) fn code_of(stop: Stop, was_denied: bool) -> u8 {
    match stop {
        Stop::End if was_denied => 3,
        Stop::End => 0,
        Stop::Length
        | Stop::Rounds
        | Stop::Tokens
        | Stop::Cost
        | Stop::Time
        | Stop::Calls
        | Stop::Loop => 4,
        Stop::Failed => 5,
        Stop::Parked => 6,
        Stop::Refusal => 7,
        Stop::Cancelled => 130,
    }
}

/// The code as the process gives it.
pub(crate) fn exit(code: u8) -> ExitCode {
    ExitCode::from(code)
}
