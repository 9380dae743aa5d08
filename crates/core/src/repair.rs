//! What a provider refused is left out of what the model reads; the log stays as it is.
//!
//! A repair holds for the messages that were there when it was made. It is kept when the next
//! request is answered, and forgotten when the turn ends without that.

use std::{borrow::Cow, collections::BTreeSet, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    budget::{REPAIRS_MAX, SHRINK_TEXT_BYTES, tokens_estimate},
    event::ModelFailed,
    hash::Hash,
    message::{Content, ReplyPart, ToolResult},
    pictures::{pictures_of, too_many},
    prompt::{CallResult, Message, Said, UserMessage, open_message},
    provider::{ErrorClass, Refused},
    state::{Context, State, part_size, size_of},
    tool::ToolSpec,
    turn::Phase,
    words,
};

/// One change of what the model reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "repair", rename_all = "snake_case")]
pub enum Repair {
    /// A note stands for each of these pictures, wherever they are.
    DropImages {
        /// The pictures.
        images: BTreeSet<Hash>,
    },
    /// The reasoning so far is left out.
    DropReasoning,
    /// This tool is no longer told.
    SetToolAside {
        /// Its name.
        name: String,
    },
    /// Texts so far that are longer lose their middle.
    Shrink {
        /// Bytes that stay of each.
        text_bytes_max: usize,
    },
    /// The calls so far and their results are told in text.
    WriteOutCalls,
    /// A word stands for each text, picture and block of reasoning of the first messages.
    LeaveOutOld {
        /// The number of these messages.
        messages: usize,
    },
}

impl Repair {
    /// What is left out, in words for people.
    pub fn words(&self) -> String {
        match self {
            Self::DropImages { images } if images.len() == 1 => "a picture is left out".to_owned(),
            Self::DropImages { images } => format!("{} pictures are left out", images.len()),
            Self::DropReasoning => "earlier reasoning is left out".to_owned(),
            Self::SetToolAside { name } => format!("the tool `{name}` is set aside"),
            Self::Shrink { text_bytes_max } => {
                format!("texts of more than {text_bytes_max} bytes are cut in their middle")
            }
            Self::WriteOutCalls => "earlier calls are told in text".to_owned(),
            Self::LeaveOutOld { messages } => format!("the first {messages} messages are left out"),
        }
    }
}

/// All that is left out or changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repairs {
    images: BTreeSet<Hash>,
    tools: BTreeSet<String>,
    /// Messages before this one have no reasoning.
    reasoning_before: usize,
    /// Messages before this one have their calls in text.
    calls_before: usize,
    /// Messages before the first number have texts of the second at most.
    shrunk: Vec<(usize, usize)>,
    /// Messages before this one have no texts.
    left_out_before: usize,
}

impl Repairs {
    /// Adds a repair of the first `messages`.
    fn add(&mut self, repair: &Repair, messages: usize) {
        match repair {
            Repair::DropImages { images } => self.images.extend(images),
            Repair::DropReasoning => self.reasoning_before = messages,
            Repair::SetToolAside { name } => self.tools.extend([name.clone()]),
            Repair::Shrink { text_bytes_max } => self.shrunk.push((messages, *text_bytes_max)),
            Repair::WriteOutCalls => self.calls_before = messages,
            Repair::LeaveOutOld { messages } => self.left_out_before = *messages,
        }
    }

    /// Tools that are others now may be told again.
    pub(crate) fn tools_changed(&mut self, is_other: impl Fn(&str) -> bool) {
        self.tools.retain(|name| !is_other(name));
    }

    /// The tools that are told.
    pub fn tools<'a>(&self, tools: &'a [Arc<ToolSpec>]) -> Cow<'a, [Arc<ToolSpec>]> {
        if self.tools.is_empty() {
            return Cow::Borrowed(tools);
        }
        tools.iter().filter(|tool| !self.tools.contains(&tool.name)).cloned().collect()
    }

    /// The message at `index` as it is sent.
    pub fn message<'a>(&self, index: usize, message: &'a Message) -> Cow<'a, Message> {
        let text_bytes_max = self
            .shrunk
            .iter()
            .filter(|(before, _)| index < *before)
            .map(|(_, text_bytes_max)| *text_bytes_max)
            .min();
        let one = One {
            images: &self.images,
            is_left_out: index < self.left_out_before,
            has_reasoning: index >= self.reasoning_before.max(self.left_out_before),
            has_calls: index >= self.calls_before,
            text_bytes_max: text_bytes_max.unwrap_or(usize::MAX),
        };
        match message {
            _ if one.changes_nothing() => Cow::Borrowed(message),
            Message::User(user) => Cow::Owned(Message::User(one.user(user))),
            Message::Assistant(said) => Cow::Owned(Message::Assistant(one.said(said))),
        }
    }
}

/// What is left of one message.
struct One<'a> {
    images: &'a BTreeSet<Hash>,
    is_left_out: bool,
    has_reasoning: bool,
    has_calls: bool,
    text_bytes_max: usize,
}

impl One<'_> {
    fn changes_nothing(&self) -> bool {
        self.images.is_empty()
            && !self.is_left_out
            && self.has_reasoning
            && self.has_calls
            && self.text_bytes_max == usize::MAX
    }

    fn user(&self, user: &UserMessage) -> UserMessage {
        let mut results: Vec<CallResult> =
            user.results.iter().map(|one| self.result(one)).collect();
        let mut content = Vec::new();
        if !self.has_calls {
            for one in std::mem::take(&mut results) {
                content.push(Content::Text { text: words::result_in_text(&one) });
                let is_image = |content: &Content| matches!(content, Content::Image(_));
                content.extend(one.result.content.into_iter().filter(is_image));
            }
        }
        content.extend(user.content.iter().map(|one| self.content(one)));
        UserMessage { results, content }
    }

    fn result(&self, one: &CallResult) -> CallResult {
        let fits = |value: &serde_json::Value| {
            !self.is_left_out && value.to_string().len() <= self.text_bytes_max
        };
        let result = ToolResult {
            content: one.result.content.iter().map(|content| self.content(content)).collect(),
            evidence: one.result.evidence.clone().filter(fits),
            state: one.result.state.clone(),
            spilled: one.result.spilled.clone(),
        };
        CallResult { result, ..one.clone() }
    }

    fn content(&self, content: &Content) -> Content {
        match content {
            Content::Text { text } => Content::Text { text: self.text(text) },
            Content::Image(image) if self.is_left_out || self.images.contains(&image.hash) => {
                Content::text(words::IMAGE_LEFT_OUT)
            }
            Content::Image(image) => Content::Image(image.clone()),
        }
    }

    fn text(&self, text: &str) -> String {
        match self.is_left_out && text.len() > words::LEFT_OUT.len() {
            true => words::LEFT_OUT.to_owned(),
            false => shrunk(text, self.text_bytes_max),
        }
    }

    /// Never empty: where all of a reply was reasoning, a text stands for it.
    fn said(&self, said: &Said) -> Said {
        let mut parts: Vec<ReplyPart> = said
            .parts
            .iter()
            .filter_map(|part| match part {
                ReplyPart::Text { text } => Some(ReplyPart::Text { text: self.text(text) }),
                ReplyPart::Reasoning(_) if !self.has_reasoning => None,
                ReplyPart::Reasoning(reasoning) => Some(ReplyPart::Reasoning(reasoning.clone())),
                ReplyPart::Call(call) => {
                    let mut call = call.clone();
                    let left_out = words::arguments_left_out(call.arguments.len());
                    let is_too_long = call.arguments.len() > self.text_bytes_max;
                    if is_too_long || self.is_left_out && left_out.len() < call.arguments.len() {
                        call.arguments = left_out;
                    }
                    Some(if self.has_calls {
                        ReplyPart::Call(call)
                    } else {
                        ReplyPart::Text { text: words::call_in_text(&call) }
                    })
                }
            })
            .collect();
        if parts.is_empty() {
            parts.push(ReplyPart::Text { text: words::NO_TEXT.to_owned() });
        }
        Said { parts, ..said.clone() }
    }
}

/// The head and the tail of a text that is too long, two to one.
fn shrunk(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let head_end = text.floor_char_boundary(bytes_max / 3 * 2);
    let tail_start = text.ceil_char_boundary(text.len() - bytes_max / 3);
    let (head, rest) = text.split_at(head_end);
    let (left_out, tail) = rest.split_at(tail_start.saturating_sub(head_end));
    format!("{head}{}{tail}", words::shrunk(left_out.len()))
}

/// The pictures to leave out of the next request, where it would hold more than `count_max`: the
/// rule is that of [`too_many`]. `None` when it holds no more.
pub fn pictures_within(state: &State, count_max: u32) -> Option<Repair> {
    let open = open_message(state);
    // This is asked before each request, and most sessions have few pictures or none.
    let open_count = open.as_ref().map_or(0, |message| pictures_of(message).count());
    if state.pictures + open_count <= count_max as usize {
        return None;
    }
    let messages = state.messages.iter().map(|message| &**message).chain(open.as_ref());
    let shown = messages.enumerate().map(|(at, message)| state.repairs.message(at, message));
    let shown: Vec<Cow<'_, Message>> = shown.collect();
    let images = too_many(shown.iter().map(|message| &**message), count_max);
    (!images.is_empty()).then_some(Repair::DropImages { images })
}

/// What to leave out after `failed`, or `None` when there is nothing that could help.
pub(crate) fn next(state: &State, failed: &ModelFailed) -> Option<Repair> {
    let is_refusal = matches!(failed.class, ErrorClass::BadRequest | ErrorClass::TooLong);
    let repairs = state.turn.as_ref()?.repairs;
    if !is_refusal || repairs >= REPAIRS_MAX || failed.partial.is_some() {
        return None;
    }
    let before = size(state, &state.repairs);
    let is_size = is_of_size(failed);
    candidates(state, failed).into_iter().find(|repair| {
        let mut repairs = state.repairs.clone();
        repairs.add(repair, state.messages.len());
        if is_size {
            // What saves less than a tenth is not worth a request.
            size(state, &repairs) < before - before / 10
        } else {
            differs(state, &repairs)
        }
    })
}

fn is_of_size(failed: &ModelFailed) -> bool {
    match &failed.refused {
        Some(refused) => matches!(refused, Refused::Size { .. }),
        None => failed.class == ErrorClass::TooLong,
    }
}

/// What may help, in the order in which it is tried.
fn candidates(state: &State, failed: &ModelFailed) -> Vec<Repair> {
    let all = images(&state.messages);
    let sent_first = state
        .messages
        .iter()
        .rposition(|message| matches!(**message, Message::Assistant(_)))
        .map_or(0, |index| index + 1);
    let new = images(state.messages.get(sent_first..).unwrap_or_default());
    let drop = |images: &[Hash]| Repair::DropImages { images: images.iter().copied().collect() };
    let was_answered = sent_first > 0;
    match &failed.refused {
        Some(Refused::Images { count_max }) => {
            let oldest = count_max.and_then(|max| pictures_within(state, max));
            oldest.into_iter().chain([drop(&new), drop(&all)]).collect()
        }
        Some(Refused::Reasoning) => vec![Repair::DropReasoning],
        Some(Refused::Tool { name }) => vec![Repair::SetToolAside { name: name.clone() }],
        Some(Refused::Calls) => vec![Repair::WriteOutCalls],
        None | Some(Refused::Size { .. }) if is_of_size(failed) => {
            let old: Vec<Hash> = all.iter().filter(|one| !new.contains(one)).copied().collect();
            let shrink = |text_bytes_max| Repair::Shrink { text_bytes_max };
            let [first, second, rest @ ..] = SHRINK_TEXT_BYTES;
            let mut all = vec![shrink(first), drop(&old), shrink(second), drop(&all)];
            all.extend(rest.map(shrink));
            // Many short texts: the oldest go, at last all but those that the model has not read.
            let count = state.messages.len().saturating_sub(1);
            let left_out = [count / 2, count / 4 * 3, count / 8 * 7, count];
            all.extend(left_out.map(|messages| Repair::LeaveOutOld { messages }));
            all
        }
        // It was never accepted with what it has: the fault lies elsewhere.
        Some(Refused::Unsaid) if !was_answered => vec![drop(&new)],
        Some(Refused::Unsaid) => {
            vec![Repair::DropReasoning, drop(&new), Repair::WriteOutCalls, drop(&all)]
        }
        // It was not the request.
        None | Some(Refused::Size { .. }) => Vec::new(),
    }
}

fn images(messages: &[Arc<Message>]) -> Vec<Hash> {
    let mut found = Vec::new();
    for message in messages {
        let Message::User(user) = &**message else { continue };
        let results = user.results.iter().flat_map(|one| &one.result.content);
        found.extend(results.chain(&user.content).filter_map(|content| match content {
            Content::Image(image) => Some(image.hash),
            Content::Text { .. } => None,
        }));
    }
    found
}

fn differs(state: &State, repairs: &Repairs) -> bool {
    let tools = state.config.as_ref().map_or(&[][..], |config| &config.tools);
    let mut messages = state.messages.iter().enumerate();
    repairs.tools(tools).len() != state.repairs.tools(tools).len()
        || messages.any(|(index, message)| {
            repairs.message(index, message) != state.repairs.message(index, message)
        })
}

/// Bytes of all messages that were sent.
fn size(state: &State, repairs: &Repairs) -> usize {
    let sizes = state.messages.iter().enumerate().map(|(index, message)| {
        match &*repairs.message(index, message) {
            Message::User(user) => {
                let results = user.results.iter().flat_map(|one| &one.result.content);
                results.chain(&user.content).map(size_of).sum()
            }
            Message::Assistant(reply) => reply.parts.iter().map(part_size).sum::<usize>(),
        }
    });
    sizes.sum()
}

impl State {
    /// From here on, what was refused is left out; the model is asked again.
    pub(crate) fn repair(&mut self, repair: &Repair) {
        // A reply whose calls are open keeps them: their results are still to come.
        let messages = self.messages.len().saturating_sub(usize::from(!self.calls.is_empty()));
        self.repairs.add(repair, messages);
        let unsent: usize = self.content.iter().map(size_of).sum();
        let head = self.config.as_ref().map_or(0, |config| config.head_bytes());
        let bytes = size(self, &self.repairs) + unsent + head;
        if tokens_estimate(bytes) < self.context.tokens_estimate() {
            self.context = Context { bytes, ..Context::default() };
        }
        // Tools are set aside one by one, and there are only so many.
        let counts = !matches!(repair, Repair::SetToolAside { .. });
        self.on_turn(|turn| {
            turn.repairs += u32::from(counts);
            if matches!(turn.phase, Phase::Failed { .. }) {
                turn.phase = Phase::Ready;
            }
        });
    }
}
