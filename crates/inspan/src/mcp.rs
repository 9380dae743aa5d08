//! Tools and agents of a program, for other programs that speak the Model Context Protocol.
//!
//! ```no_run
//! use inspan::{mcp::without_model, tool};
//!
//! /// The current weather in a city, in °C.
//! #[tool(effects(reads_untrusted), repeat = pure)]
//! async fn weather(city: String) -> String {
//!     format!("17 °C and sunny in {city}")
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), inspan::mcp::ServeError> {
//!     let served = without_model().name("weather").tool(weather).serve_tools()?;
//!     served.stdio(std::future::pending()).await
//! }
//! ```
//!
//! Or as a route of a server of your own, at [`PATH`]:
//!
//! ```
//! # use inspan::{mcp::without_model, tool};
//! # /// Gives back its text.
//! # #[tool(effects(), repeat = pure)]
//! # fn echo(text: String) -> String { text }
//! use inspan::mcp::{Http, Token, axum::Router};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let served = without_model().tool(echo).serve_tools()?; let http = Http { token:
//! Some(Token::new("a-token-of-32-random-characters!")?), ..Http::default() }; let app: Router =
//! Router::new().merge(served.router(&http));
//! # Ok(()) }
//! ```
//!
//! A call is a turn of a session, in the agent's store: its gates, limits and mask are in force.
//! What a gate asks, the person at the client is asked; where the client can't, the answer is no.

use std::sync::Arc;

use inspan_mcp::serve::caller;
pub use inspan_mcp::serve::{Http, PATH, ServeError, Served, Token, axum};

use crate::Agent;

/// What an agent without a name is called there.
const NAMELESS: &str = "inspan";

/// An agent without a model: it has tools for others, gates before them, and nothing to say itself.
pub fn without_model() -> Agent {
    Agent::with_provider(caller())
}

/// How it is served.
impl Agent {
    /// Offers each of its tools to clients. A tool finds
    /// [`Context::shared`](crate::Context::shared) as in every session; [`Agent::ask_with`] is not
    /// asked.
    ///
    /// # Errors
    /// Two tools have one name.
    pub fn serve_tools(&self) -> Result<Arc<Served>, ServeError> {
        Served::tools(self.name_or(NAMELESS), self.setup())
    }

    /// Offers the agent itself as one tool of its name, which takes a prompt and gives the answer.
    /// `description` says what it is for, to whoever chooses among tools.
    pub fn serve(&self, description: impl Into<String>) -> Arc<Served> {
        Served::agent(self.name_or(NAMELESS), description, self.setup())
    }
}
