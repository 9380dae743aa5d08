//! What keeps tools from being served.

/// Why nothing is served, or no longer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServeError {
    /// Two tools have one name.
    #[error("two tools are called `{0}`: rename one, or leave it out")]
    ToolTwice(String),
    /// What came first was nothing of the protocol.
    #[error("the client was not understood: {0}")]
    NotUnderstood(String),
    /// It would be open to everybody.
    #[error("{0} is open to others: set a token, or listen at 127.0.0.1")]
    Open(String),
    /// The system does not let us.
    #[error("{what}: {why}")]
    System {
        /// What was wanted.
        what: String,
        /// What the system said.
        why: String,
    },
    /// A fault of Inspan itself.
    #[error("what served the client broke down: {0}")]
    Broken(String),
}
