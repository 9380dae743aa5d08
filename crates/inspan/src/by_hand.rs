//! The parts of the loop as plain values, for those who write it themselves.

use std::{any::Any, sync::Arc};

use futures_util::StreamExt;
use inspan_core::{
    arguments,
    message::{Content, How, Reply, ToolCall, ToolResult},
    prompt::{CallResult, Message, Segment, UserMessage, for_issuer},
    provider::{ErrorClass, ModelError, ModelEvent, NoImages, Provider, ReplyBuilder, Request},
    shared::Shared,
    state::sendable,
    store::SessionId,
    tool::{Invocation, Tool, ToolError, ToolSpec},
    words,
};
use inspan_engine::near_names;
use uuid::Uuid;

/// What a model is asked: a plain value, in no provider's words.
///
/// Providers want the first message to be the user's, and every call answered in the message after
/// it; whoever fills this by hand sees to that.
#[derive(Clone, Debug, PartialEq)]
pub struct Conversation {
    /// The system prompt; empty for none.
    pub system: String,
    /// The tools that the model is told of.
    pub tools: Vec<Arc<ToolSpec>>,
    /// What was said.
    pub messages: Vec<Message>,
    /// The limit on the reply's tokens.
    pub output_tokens_max: u32,
}

impl Default for Conversation {
    fn default() -> Self {
        Self {
            system: String::new(),
            tools: Vec::new(),
            messages: Vec::new(),
            output_tokens_max: inspan_core::budget::Limits::call().output_tokens_max,
        }
    }
}

impl Conversation {
    /// A conversation that begins with this prompt.
    pub fn new(prompt: impl Into<String>) -> Self {
        let mut conversation = Self::default();
        conversation.push_user(prompt);
        conversation
    }

    /// Tells the model of these tools.
    pub fn tools(mut self, tools: &Tools) -> Self {
        self.tools.extend(tools.tools.iter().map(|tool| tool.spec()));
        self
    }

    /// Adds what the user says: to the results that stand last, if there are any.
    pub fn push_user(&mut self, text: impl Into<String>) {
        self.last_user(|message| message.content.push(Content::text(text)));
    }

    /// Adds what the model said. Half calls and blank text are left out.
    pub fn push_reply(&mut self, reply: Reply) {
        self.messages.push(Message::Assistant(sendable(reply)));
    }

    /// Adds the results of the reply's calls, in the order of the calls.
    pub fn push_results(&mut self, results: impl IntoIterator<Item = CallResult>) {
        self.last_user(|message| message.results.extend(results));
    }

    /// Changes the user's message that stands last, or begins one.
    fn last_user(&mut self, change: impl FnOnce(&mut UserMessage)) {
        if let Some(Message::User(message)) = self.messages.last_mut() {
            return change(message);
        }
        let mut message = UserMessage::default();
        change(&mut message);
        self.messages.push(Message::User(message));
    }
}

/// Asks the model once: no loop, no log, no further attempt. The calls of the reply get
/// identifiers that are unique in the conversation.
///
/// # Errors
/// The call failed; [`ErrorClass::is_passing`] says whether it is worth another attempt.
pub async fn chat(
    provider: &(impl Provider + ?Sized),
    conversation: &Conversation,
) -> Result<Reply, ModelError> {
    let mut tools = conversation.tools.clone();
    tools.sort_by(|a, b| a.name.cmp(&b.name));
    let issuer = provider.issuer();
    let render = |segment: Segment<'_>| Arc::from(provider.render(segment, &NoImages));
    let message = |message| render(Segment::Message(&for_issuer(message, issuer)));
    let request = Request {
        tools: render(Segment::Tools(&tools)),
        system: render(Segment::System(&conversation.system)),
        messages: Arc::new(conversation.messages.iter().map(message).collect()),
        output_tokens_max: conversation.output_tokens_max,
    };
    let mut built = ReplyBuilder::default();
    let mut events = provider.stream(request);
    while let Some(event) = events.next().await {
        built.apply(&event);
        match event {
            ModelEvent::Finished(stop) => {
                let number = conversation.messages.len() as u64 + 1;
                return Ok(built.finish(stop, issuer, number));
            }
            ModelEvent::Failed(error) => return Err(error),
            _ => {}
        }
    }
    Err(ModelError {
        class: ErrorClass::Network,
        message: "the provider's stream ended without saying so".to_owned(),
        retry_after_ms: None,
        refused: None,
    })
}

/// The tools of a loop that is written by hand, and what they are lent.
#[derive(Clone, Default)]
pub struct Tools {
    tools: Vec<Arc<dyn Tool>>,
    shared: Shared,
}

impl Tools {
    /// One tool; [`Tools::and`] adds more.
    pub fn new(tool: impl Tool + 'static) -> Self {
        Self::default().and(tool)
    }

    /// One more tool.
    pub fn and(mut self, tool: impl Tool + 'static) -> Self {
        self.tools.push(Arc::new(tool));
        self
    }

    /// Lends a value to them, which they find by its type:
    /// [`Context::shared`](crate::Context::shared).
    pub fn shared<T: Any + Send + Sync>(mut self, value: T) -> Self {
        self.shared.insert(value);
        self
    }

    /// Finds the tool of a call, checks the arguments and runs it, without gates and without a
    /// limit on its time. What is wrong with the call is its result, for the model.
    pub async fn run(&self, call: &ToolCall) -> CallResult {
        let not_run = |how: How, text: &str| CallResult {
            call: call.id.clone(),
            name: call.name.clone(),
            how,
            result: ToolResult::text(text),
        };
        let Some(tool) = self.tools.iter().find(|tool| tool.spec().name == call.name) else {
            let names: Vec<String> =
                self.tools.iter().map(|tool| tool.spec().name.clone()).collect();
            let near = near_names(&call.name, names.iter());
            return not_run(How::UnknownTool, &words::unknown_tool(&call.name, &near));
        };
        let Some(arguments) = arguments::read(&call.arguments) else {
            return not_run(How::BadArguments, words::UNREADABLE);
        };
        let arguments = match tool.check(arguments) {
            Ok(arguments) => arguments,
            Err(why) => return not_run(How::BadArguments, &words::bad_arguments(&why)),
        };
        // There is no session; its number keeps the keys of two conversations apart.
        let session = SessionId::from_u128(Uuid::now_v7().as_u128());
        let invocation = Invocation {
            key: format!("{session}/{}", call.id),
            session,
            call: call.id.clone(),
            attempt: 1,
            arguments,
            shared: self.shared.clone(),
        };
        result_of(call, tool.run(invocation).await)
    }
}

/// What the model is told of a call that ran.
pub fn result_of(call: &ToolCall, outcome: Result<ToolResult, ToolError>) -> CallResult {
    let (how, mut result) = match outcome {
        Ok(result) => (How::Ok, result),
        Err(error) => {
            let text = ToolResult::text(format!("Failed: {}", error.message));
            (How::Failed, ToolResult { evidence: error.evidence, ..text })
        }
    };
    if result.content.is_empty() {
        result.content.push(Content::text(words::NO_OUTPUT));
    }
    CallResult { call: call.id.clone(), name: call.name.clone(), how, result }
}
