//! Tools from anywhere: Model Context Protocol.
//!
//! [`Servers`] keeps the servers that a process has to do with: it starts each of them at its first
//! use, talks to it in the revision that it knows, starts it again when it ended, and closes all of
//! them in order. [`Servers::offer`] gives their tools as ordinary [`inspan_core::tool::Tool`]s,
//! mostly from a catalogue that was kept, without starting anything.
//!
//! The other direction is [`serve`]: an agent's tools, or a whole agent, for clients.
//!
//! The wire types are those of `rmcp` and stay in here. Whether a call may run at all is the gates'
//! business, and how long, the driver's. Nothing here reads the environment.

mod authorized;
mod call;
mod catalogue;
mod child;
mod config;
mod connection;
mod content;
mod ear;
mod error;
mod examine;
mod http;
mod inquiry;
mod kept;
mod launch;
mod leftovers;
mod login;
mod readable;
pub mod serve;
mod server;
mod servers;
mod tool;

pub use config::{Declared, HttpLink, Link, OAuthClient, ProgramLink, Protocol, ServerConfig};
pub use content::Pictures;
pub use error::McpError;
pub use examine::{Grade, Report};
pub use inquiry::{Choice, Field, Inquiries, Inquiry, Kind, Reply, Wants, inquiries};
pub use launch::launch;
pub use readable::{PromptListed, Readable, ResourceListed, Wanted};
pub use servers::{Offer, Options, Servers, Timeouts};
