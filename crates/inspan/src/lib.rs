//! tour
extern crate self as inspan;

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
mod agent;
mod answer;
mod by_hand;
mod context;
mod done;
mod error;
mod gates;
mod schema;
mod session;
#[cfg(feature = "testing")]
pub mod testing;
mod turn;

pub use agent::Agent;
pub use by_hand::{Conversation, chat, result_of, run_call};
pub use context::{Cancellation, Context};
pub use done::{Done, Step, StepKind};
pub use error::Error;
pub use gates::{IntoGate, IntoVerdict};
pub use inspan_core::{
    budget::{Limits, Price},
    effects::{Effects, Repeat},
    event::{Entry, Event, PermissionAsked, Stop},
    gate::{BoxFuture, Choice, Gate, GateCall, Verdict},
    mask::Mask,
    message::{CallId, Content, How, Reply, ReplyPart, ReplyStop, ToolCall, ToolResult, Usage},
    prompt::{CallResult, Message},
    provider::{BoxStream, Delta, ErrorClass, ModelError, Provider},
    shared::Shared,
    store::{SessionId, Store, StoreError},
    tool::{Invocation, Tool, ToolError, ToolSpec},
};
pub use inspan_engine::Update;
pub use inspan_macros::tool;
pub use inspan_store::Memory;
#[cfg(feature = "sqlite")]
pub use inspan_store::Sqlite;
pub use session::Session;

pub use schemars;
pub use serde;
