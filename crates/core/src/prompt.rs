//! What the model reads: the projection of a state, as a row of segments.

use std::{borrow::Cow, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    event::SessionConfigured,
    message::{
        CallId, Content, How, ReplyPart, ReplyStop, ToolCall, ToolResult, calls_of, text_of,
    },
    state::{State, result_of},
    tool::ToolSpec,
    words,
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Message {
    /// Results of the calls of the reply before it, in the order of the calls, then prompts and
    /// notes. Never empty.
    User(UserMessage),
    /// A reply that can be sent: whole calls only, no empty text, never empty.
    Assistant(Said),
}

impl Message {
    /// The same in no more memory than it needs: a long session holds many.
    pub(crate) fn packed(mut self) -> Self {
        match &mut self {
            Self::User(user) => {
                user.content.shrink_to_fit();
                user.results.shrink_to_fit();
                user.results.iter_mut().for_each(|one| one.result.content.shrink_to_fit());
            }
            Self::Assistant(said) => said.parts.shrink_to_fit(),
        }
        self
    }
}

/// See [`Message::User`]. Has no blank text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UserMessage {
    /// Results, in the order of the calls.
    pub results: Vec<CallResult>,
    /// Prompts and notes.
    pub content: Vec<Content>,
}

impl UserMessage {
    /// Stands where a log has no prompt before its first request or reply.
    pub(crate) fn no_prompt() -> Self {
        Self { results: Vec::new(), content: vec![Content::text(words::NO_PROMPT)] }
    }
}

/// What a model said, as it is read again. What it cost, and what the provider called it, stands in
/// the log alone: a long session holds many.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    /// Its parts, in order.
    pub parts: Vec<ReplyPart>,
    /// Why the model stopped.
    pub stop: ReplyStop,
    /// Who made it: see [`crate::message::Reply::issuer`].
    pub issuer: Arc<str>,
}

impl Said {
    /// Its text, the parts joined.
    pub fn text(&self) -> String {
        text_of(&self.parts)
    }

    /// Its calls, in order.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        calls_of(&self.parts)
    }
}

/// The answer to one call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallResult {
    /// The call.
    pub call: CallId,
    /// The tool, as the model named it.
    pub name: String,
    /// How it came to this.
    pub how: How,
    /// What the model is told; never empty, no blank text.
    pub result: ToolResult,
}

/// A request as the model will read it, before any provider's bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Projection<'a> {
    /// The tools, sorted by name.
    pub tools: Cow<'a, [Arc<ToolSpec>]>,
    /// Those that it is not told of before it finds them, sorted by name.
    pub found: Vec<Arc<ToolSpec>>,
    /// The system prompt; empty for none.
    pub system: &'a str,
    /// The messages: the first is the user's, every call has its result in the message after it.
    pub messages: Vec<Cow<'a, Arc<Message>>>,
}

/// What the model of `issuer` reads of `state`. Total: for every state it is a request that a
/// provider accepts. The message at an index never changes from one request to the next, but by a
/// repair ([`crate::repair`]): what comes while a request is under way is left for the next one.
pub fn project<'a>(state: &'a State, issuer: &str) -> Projection<'a> {
    project_after(state, issuer, 0)
}

/// [`project`] without the first `known` messages, which were taken from it before: so a long
/// session is not read again from its beginning for each request.
pub fn project_after<'a>(state: &'a State, issuer: &str, known: usize) -> Projection<'a> {
    let config = state.config.as_deref();
    let sealed = state.messages.get(known..).unwrap_or_default();
    let mut messages: Vec<_> = sealed
        .iter()
        .enumerate()
        .map(|(index, message)| match state.repairs.message(known + index, message) {
            Cow::Borrowed(same) => match for_issuer(same, issuer) {
                Cow::Borrowed(_) => Cow::Borrowed(message),
                Cow::Owned(message) => Cow::Owned(Arc::new(message)),
            },
            Cow::Owned(message) => Cow::Owned(Arc::new(for_issuer(&message, issuer).into_owned())),
        })
        .collect();
    let open = open_message(state).filter(|_| known <= state.messages.len());
    messages.extend(open.map(|open| Cow::Owned(Arc::new(open))));
    Projection {
        tools: config.map_or(Cow::Borrowed(&[]), |config| told_tools(state, config)),
        found: config.map_or_else(Vec::new, |config| found_tools(state, config)),
        system: config.map_or("", |config| &config.system),
        messages,
    }
}

/// The tools that the model is told of.
fn told_tools<'a>(state: &State, config: &'a SessionConfigured) -> Cow<'a, [Arc<ToolSpec>]> {
    let mut tools = state.repairs.tools(&config.tools);
    if !config.found.is_empty() {
        tools.to_mut().retain(|tool| !config.found.contains_key(&tool.name));
    }
    tools
}

/// The tools that it finds.
fn found_tools(state: &State, config: &SessionConfigured) -> Vec<Arc<ToolSpec>> {
    if config.found.is_empty() {
        return Vec::new();
    }
    let mut tools = state.repairs.tools(&config.tools).into_owned();
    tools.retain(|tool| config.found.contains_key(&tool.name));
    tools
}

/// The message after those that are sealed: what the next request carries.
pub(crate) fn open_message(state: &State) -> Option<Message> {
    let open = UserMessage {
        results: state.calls.iter().map(result_of).collect(),
        content: state.content.clone(),
    };
    let open = if open != UserMessage::default() && !state.is_asking() {
        open
    } else if state.messages.is_empty() {
        UserMessage::no_prompt()
    } else {
        return None;
    };
    Some(Message::User(open))
}

/// The message as the model of `issuer` may read it: reasoning goes back to nobody but its issuer.
pub fn for_issuer<'a>(message: &'a Message, issuer: &str) -> Cow<'a, Message> {
    let is_reasoning = |part: &ReplyPart| matches!(part, ReplyPart::Reasoning(_));
    match message {
        Message::Assistant(said)
            if *said.issuer != *issuer && said.parts.iter().any(is_reasoning) =>
        {
            let parts = said.parts.iter().filter(|part| !is_reasoning(part)).cloned().collect();
            Cow::Owned(Message::Assistant(Said { parts, ..said.clone() }))
        }
        message => Cow::Borrowed(message),
    }
}
