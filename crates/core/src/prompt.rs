//! What the model reads: the projection of a state, as a row of segments.

use std::sync::Arc;

use crate::{
    message::{CallId, Content, How, Reply, ToolResult},
    tool::ToolSpec,
};

/// A part of a request that is rendered once.
#[derive(Clone, Copy, Debug)]
pub enum Segment<'a> {
    /// The tools, sorted by name.
    Tools(&'a [Arc<ToolSpec>]),
    /// The system prompt.
    System(&'a str),
    /// A message. Reasoning of another issuer is no longer in it.
    Message(&'a Message),
}

/// A message that is sealed: it was part of a request and never changes.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// Results of the calls of the reply before it, in the order of the calls, then prompts and
    /// notes. Never empty.
    User(UserMessage),
    /// A reply that can be sent: whole calls only, no empty text, never empty.
    Assistant(Reply),
}

/// See [`Message::User`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UserMessage {
    /// Results, in the order of the calls.
    pub results: Vec<CallResult>,
    /// Prompts and notes.
    pub content: Vec<Content>,
}

/// The answer to one call.
#[derive(Clone, Debug, PartialEq)]
pub struct CallResult {
    /// The call.
    pub call: CallId,
    /// The tool, as the model named it.
    pub name: String,
    /// How it came to this.
    pub how: How,
    /// What the model is told.
    pub result: ToolResult,
}
