//! A scripted model: plays answers in their order and remembers what it was asked.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use futures_util::{StreamExt, stream};
use inspan_core::{
    message::{CallId, Reasoning, ReplyPart, ReplyStop, ToolCall, Usage},
    prompt::{Message, Segment},
    provider::{
        BoxStream, Delta, ErrorClass, Images, ModelError, ModelEvent, Provider, Refused, Request,
    },
};
use serde_json::{Value, json};

/// One answer of the script.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    events: Vec<ModelEvent>,
    parts: usize,
    hangs: bool,
}

impl Answer {
    /// An answer that says nothing yet; [`Answer::ends`], [`Answer::fails`] or [`Answer::hangs`]
    /// completes it.
    pub fn new() -> Self {
        Self::default()
    }

    /// Text that ends the turn.
    pub fn text(text: &str) -> Self {
        Self::new().says(text).ends(ReplyStop::End)
    }

    /// Calls of tools: names and arguments.
    pub fn calls(calls: &[(&str, Value)]) -> Self {
        let answer = Self::new();
        calls
            .iter()
            .fold(answer, |answer, (name, arguments)| answer.asks(name, &arguments.to_string()))
            .ends(ReplyStop::End)
    }

    /// A failure before anything was said.
    pub fn failure(class: ErrorClass) -> Self {
        Self::new().fails(class, None)
    }

    /// Adds text.
    pub fn says(mut self, text: &str) -> Self {
        let part = self.next_part();
        self.events.push(ModelEvent::Delta { part, delta: Delta::Text(text.to_owned()) });
        let content = ReplyPart::Text { text: text.to_owned() };
        self.events.push(ModelEvent::PartFinished { part, content });
        self
    }

    /// Adds reasoning; signed if `raw` is not empty.
    pub fn reasons(mut self, text: &str, raw: &str) -> Self {
        let part = self.next_part();
        self.events.push(ModelEvent::Delta { part, delta: Delta::Reasoning(text.to_owned()) });
        let (text, raw, signed) = (text.to_owned(), raw.to_owned(), !raw.is_empty());
        let content = ReplyPart::Reasoning(Reasoning { text, raw, signed });
        self.events.push(ModelEvent::PartFinished { part, content });
        self
    }

    /// Adds a call whose arguments are this text.
    pub fn asks(mut self, name: &str, arguments: &str) -> Self {
        let part = self.next_part();
        let (name, provider_id) = (name.to_owned(), Some("same".to_owned()));
        let delta = Delta::CallStarted { name: name.clone(), provider_id: provider_id.clone() };
        self.events.push(ModelEvent::Delta { part, delta });
        let delta = Delta::Arguments(arguments.to_owned());
        self.events.push(ModelEvent::Delta { part, delta });
        let call = ToolCall {
            id: CallId::default(),
            provider_id,
            name,
            arguments: arguments.to_owned(),
            complete: true,
        };
        let content = ReplyPart::Call(call);
        self.events.push(ModelEvent::PartFinished { part, content });
        self
    }

    /// Adds a call that is cut in the middle.
    pub fn asks_half(mut self, name: &str, arguments: &str) -> Self {
        let part = self.next_part();
        let delta = Delta::CallStarted { name: name.to_owned(), provider_id: None };
        self.events.push(ModelEvent::Delta { part, delta });
        let delta = Delta::Arguments(arguments.to_owned());
        self.events.push(ModelEvent::Delta { part, delta });
        self
    }

    /// Adds a count of tokens.
    pub fn counts(mut self, input: u64, output: u64) -> Self {
        let usage = Usage { input: Some(input), output: Some(output), ..Usage::default() };
        self.events.push(ModelEvent::Counted(usage));
        self
    }

    /// Ends the answer.
    pub fn ends(mut self, stop: ReplyStop) -> Self {
        self.events.push(ModelEvent::Finished(stop));
        self
    }

    /// Ends the answer with a failure.
    pub fn fails(mut self, class: ErrorClass, retry_after_ms: Option<u64>) -> Self {
        let message = format!("scripted {}", class.as_str());
        self.events.push(ModelEvent::Failed(ModelError {
            class,
            message,
            retry_after_ms,
            refused: None,
        }));
        self
    }

    /// Refuses this part of the request.
    pub fn refuses(mut self, refused: Refused) -> Self {
        let class = match refused {
            Refused::Size { .. } => ErrorClass::TooLong,
            _ => ErrorClass::BadRequest,
        };
        self.events.push(ModelEvent::Failed(ModelError {
            class,
            message: "scripted refusal".to_owned(),
            retry_after_ms: None,
            refused: Some(refused),
        }));
        self
    }

    /// Falls silent instead of ending.
    pub fn hangs(mut self) -> Self {
        self.hangs = true;
        self
    }

    fn next_part(&mut self) -> usize {
        self.parts += 1;
        self.parts - 1
    }
}

/// A model that plays a script. A request beyond its end fails with
/// [`ErrorClass::BadRequest`].
#[derive(Debug)]
pub struct ScriptedModel {
    issuer: String,
    answers: Mutex<VecDeque<Answer>>,
    requests: Mutex<Vec<Vec<String>>>,
}

impl ScriptedModel {
    /// A model with these answers.
    pub fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        Self {
            issuer: "scripted://model".to_owned(),
            answers: Mutex::new(answers.into_iter().collect()),
            requests: Mutex::default(),
        }
    }

    /// The messages of each request so far, in the short form of [`short`].
    pub fn requests(&self) -> Vec<Vec<String>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Provider for ScriptedModel {
    fn issuer(&self) -> &str {
        &self.issuer
    }

    fn render(&self, segment: Segment<'_>, _: &dyn Images) -> Vec<u8> {
        match segment {
            Segment::Tools(tools) => {
                let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
                names.join(",").into_bytes()
            }
            Segment::System(text) => text.as_bytes().to_vec(),
            Segment::Message(message) => short(message).into_bytes(),
        }
    }

    fn stream(&self, request: Request) -> BoxStream<ModelEvent> {
        let messages = request
            .messages
            .iter()
            .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
            .collect();
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).push(messages);
        let answer = self.answers.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let answer = answer.unwrap_or_else(|| Answer::failure(ErrorClass::BadRequest));
        let events = stream::iter(answer.events);
        if answer.hangs { events.chain(stream::pending()).boxed() } else { events.boxed() }
    }
}

/// A message in one line, for asserting on: `user: …`, `assistant: … echo({…})`,
/// `echo ok: …` for a result.
pub fn short(message: &Message) -> String {
    let mut parts = Vec::new();
    match message {
        Message::User(user) => {
            for result in &user.results {
                let how = result.how.as_str();
                parts.push(format!("{} {how}: {}", result.name, result.result.to_text()));
            }
            for content in &user.content {
                let text = serde_json::to_value(content).unwrap_or_default();
                parts.push(format!("user: {}", text.get("text").unwrap_or(&json!("[image]"))));
            }
        }
        Message::Assistant(reply) => {
            for part in &reply.parts {
                parts.push(match part {
                    ReplyPart::Text { text } => format!("assistant: {text}"),
                    ReplyPart::Reasoning(reasoning) => format!("reasoning: {}", reasoning.text),
                    ReplyPart::Call(call) => format!("call: {}({})", call.name, call.arguments),
                });
            }
        }
    }
    parts.join(" | ")
}
