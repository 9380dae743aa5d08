//! What keeps servers from being used at all.

/// Why the tools of the servers can't be offered, or a server can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum McpError {
    /// Two tools would have the same name for the model.
    #[error(
        "the tools `{first}` and `{second}` of MCP servers would both be called `{name}`: exclude \
         one of them, or call one of the servers otherwise"
    )]
    NameTwice {
        /// The name.
        name: String,
        /// The one, as SERVER/TOOL.
        first: String,
        /// The other.
        second: String,
    },
    /// The server can't be started, reached or understood.
    #[error("the MCP server `{server}` can't be used: {why}")]
    Unusable {
        /// Its name.
        server: String,
        /// What happened, with the last words of a program.
        why: String,
    },
    /// A resource or a prompt can't be read.
    #[error("the {what} of the MCP server `{server}` can't be read: {why}")]
    NotRead {
        /// The server.
        server: String,
        /// What was to be read.
        what: String,
        /// Why not.
        why: String,
    },
    /// There is no login at the server.
    #[error("no login at the MCP server `{server}`: {why}")]
    NoLogin {
        /// The server.
        server: String,
        /// Why not.
        why: String,
    },
}
