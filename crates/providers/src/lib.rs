//! Model APIs over HTTP to a stream of model events.
//!
//! [`connect`] turns a model's URL (`anthropic://claude-…`) and the configured [`Server`]s into a
//! [`Provider`](inspan_core::provider::Provider). The path of one call, top-down:
//!
//! 1. `render` of a wire (`anthropic`, `openai`, `responses`) makes the bytes of each segment, once, and
//!    its `body` splices them to a request whose `messages` are last, so that it only grows; in
//!    what servers differ is data: `quirks` and `servers`;
//! 2. `endpoint` reads the key, sends the request and takes the answer apart;
//! 3. `sse` gives the events of the stream to the wire's decoder, a state machine without I/O;
//! 4. `limits` watches the time on what comes out: model events, not bytes;
//! 5. `failure` says what kind of failure it was, in words for people, and `refused` which part
//!    of the request it was about.
//!
//! Nothing here tries again, keeps a history, reads the environment (except [`KeySource::env`])
//! or writes a file. A key is in no value that can be printed.

mod anthropic;
mod call;
mod endpoint;
mod failure;
mod http;
mod key;
mod known;
mod limits;
mod openai;
mod quirks;
mod raw;
mod refused;
mod responses;
mod retry;
mod schema;
mod server;
mod servers;
mod settings;
#[cfg(test)]
mod shown;
mod splice;
mod sse;
mod told;

pub use anthropic::AnthropicMessages;
pub use key::{KeyError, KeySource, Lookup, environment};
pub use known::{KnownModel, known};
pub use limits::Timeouts;
pub use openai::OpenAiChat;
pub use quirks::{AfterResults, CallIds, NoContent, Quirks, ReasoningField};
pub use raw::{Raw, RawPiece};
pub use responses::OpenAiResponses;
pub use server::{ProviderError, Server, Wire, built_in, connect};
pub use settings::{Effort, Settings, SettingsError};
pub use sse::{EVENT_BYTES_MAX, REPLY_BYTES_MAX};
