//! OpenAI's stream, and its dialects: pieces of parts in any order and shape.

use inspan_core::{
    message::{Reasoning, ReplyPart, ReplyStop, Usage},
    provider::{Delta, ModelEvent},
};
use serde_json::Value;

use super::details::Details;
use crate::{
    call::{GrowingCall, settle},
    failure::Failure,
    sse::{Decode, empty_reply, ended_early, object},
};

/// The state of a stream. It ends with `[DONE]`, or, because many servers leave that out, when
/// the body ends after a `finish_reason`. A body that just ends was cut.
pub(super) struct Decoder {
    output_tokens_max: u64,
    started: bool,
    /// How many parts have begun.
    parts: usize,
    /// The text or reasoning that grows.
    prose: Option<Prose>,
    /// All calls so far, each with the server's index.
    calls: Vec<(Option<u64>, GrowingCall)>,
    /// The reasoning in blocks, and the number of its part; `None` where nobody wants it back.
    details: Option<(Details, Option<usize>)>,
    /// Whether there is text or a call in the reply.
    filled: bool,
    /// Whether there is reasoning in it.
    reasoned: bool,
    refused: bool,
    /// The server's word for the end, once it came.
    reason: Option<String>,
    usage: Usage,
}

struct Prose {
    part: usize,
    is_text: bool,
    text: String,
}

/// A piece of a call, as it came.
struct CallPiece {
    index: Option<u64>,
    id: Option<String>,
    name: Option<String>,
    arguments: String,
    /// Whether other pieces of the same event came before it.
    follows: bool,
}

impl Decode for Decoder {
    fn event(&mut self, data: &str, out: &mut Vec<ModelEvent>) -> Result<(), Failure> {
        if data.trim() == "[DONE]" {
            return self.finish(out);
        }
        let chunk = object(data)?;
        self.begin(&chunk, out);
        let first = |choice: &&Value| choice["index"].as_u64().unwrap_or_default() == 0;
        if let Some(choice) = chunk["choices"].as_array().and_then(|c| c.iter().find(first)) {
            // Servers that do not stream put all of it in `message`.
            let delta = if choice["delta"].is_object() { "delta" } else { "message" };
            self.grow(&choice[delta], out);
            self.reason = filled(&choice["finish_reason"]).or(self.reason.take());
            // Moonshot counts here.
            self.count(&choice["usage"], out);
        }
        self.count(&chunk["usage"], out);
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), Failure> {
        if self.reason.is_some() { self.finish(out) } else { Err(ended_early()) }
    }
}

impl Decoder {
    pub(super) fn new(output_tokens_max: u32) -> Self {
        Self {
            output_tokens_max: output_tokens_max.into(),
            started: false,
            parts: 0,
            prose: None,
            calls: Vec::new(),
            details: None,
            filled: false,
            reasoned: false,
            refused: false,
            reason: None,
            usage: Usage::default(),
        }
    }

    /// Keeps `reasoning_details` as well.
    pub(super) fn with_details(self) -> Self {
        Self { details: Some(Default::default()), ..self }
    }

    fn begin(&mut self, chunk: &Value, out: &mut Vec<ModelEvent>) {
        if !self.started && chunk["choices"].is_array() {
            self.started = true;
            out.push(ModelEvent::Started {
                model: filled(&chunk["model"]).unwrap_or_default(),
                provider_id: filled(&chunk["id"]).unwrap_or_default(),
            });
        }
    }

    fn grow(&mut self, delta: &Value, out: &mut Vec<ModelEvent>) {
        if let (Some((details, part)), Some(pieces)) =
            (&mut self.details, delta["reasoning_details"].as_array().filter(|all| !all.is_empty()))
        {
            part.get_or_insert_with(|| {
                self.parts += 1;
                self.parts - 1
            });
            self.reasoned = true;
            details.grow(pieces);
        }
        // Some servers send the same reasoning under both names.
        let reasoning = filled(&delta["reasoning_content"]).or_else(|| filled(&delta["reasoning"]));
        self.write(false, reasoning.unwrap_or_default(), out);
        match &delta["content"] {
            Value::String(text) => self.write(true, text.clone(), out),
            Value::Array(parts) => parts.iter().for_each(|part| self.write_part(part, out)),
            _ => {}
        }
        if let Some(refusal) = filled(&delta["refusal"]) {
            self.refused = true;
            self.write(true, refusal, out);
        }
        let calls = delta["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
        for (position, piece) in calls.iter().enumerate() {
            self.grow_call(CallPiece::of(piece, position > 0), out);
        }
    }

    fn write_part(&mut self, part: &Value, out: &mut Vec<ModelEvent>) {
        match &part["thinking"] {
            Value::Null => self.write(true, filled(&part["text"]).unwrap_or_default(), out),
            Value::Array(texts) => {
                for text in texts {
                    self.write(false, filled(&text["text"]).unwrap_or_default(), out);
                }
            }
            thinking => self.write(false, filled(thinking).unwrap_or_default(), out),
        }
    }

    /// More text or reasoning: to the part that grows, or to a new one.
    fn write(&mut self, is_text: bool, more: String, out: &mut Vec<ModelEvent>) {
        if more.is_empty() {
            return;
        }
        if self.prose.as_ref().is_some_and(|prose| prose.is_text != is_text) {
            self.finish_prose(out);
        }
        let says_something = if is_text { &mut self.filled } else { &mut self.reasoned };
        *says_something |= !more.trim().is_empty();
        let parts = &mut self.parts;
        let prose = self.prose.get_or_insert_with(|| {
            *parts += 1;
            Prose { part: *parts - 1, is_text, text: String::new() }
        });
        prose.text.push_str(&more);
        let delta = if is_text { Delta::Text(more) } else { Delta::Reasoning(more) };
        out.push(ModelEvent::Delta { part: prose.part, delta });
    }

    fn finish_prose(&mut self, out: &mut Vec<ModelEvent>) {
        let Some(Prose { part, is_text, text }) = self.prose.take() else { return };
        let content = match is_text {
            true => ReplyPart::Text { text },
            false => ReplyPart::Reasoning(Reasoning { text, ..Reasoning::default() }),
        };
        out.push(ModelEvent::PartFinished { part, content });
    }

    fn grow_call(&mut self, piece: CallPiece, out: &mut Vec<ModelEvent>) {
        let known = self.call_of(&piece);
        let at = known.unwrap_or_else(|| self.start_call(&piece, out));
        let (_, call) = &mut self.calls[at];
        if known.is_some() {
            if call.provider_id.is_none() {
                call.provider_id = piece.id;
            }
            if call.name.is_empty() {
                call.name = piece.name.unwrap_or_default();
            }
        }
        // A server that repeats the last call in its last piece says nothing new.
        let repeated = call.arguments == piece.arguments && call.is_whole();
        if !piece.arguments.is_empty() && !call.finished && !repeated {
            call.arguments.push_str(&piece.arguments);
            let delta = Delta::Arguments(piece.arguments);
            out.push(ModelEvent::Delta { part: call.part, delta });
        }
    }

    /// The call that this is a piece of; none when it begins one. Indices are missing or all the
    /// same on some servers, identifiers on others, and some send whole calls.
    fn call_of(&self, piece: &CallPiece) -> Option<usize> {
        let by_id = |(index, call): &(Option<u64>, GrowingCall)| {
            piece.id.is_some()
                && call.provider_id == piece.id
                && (piece.index.is_none() || *index == piece.index)
        };
        let by_index = |(index, _): &(Option<u64>, GrowingCall)| match piece.index {
            Some(_) => *index == piece.index,
            None => piece.id.is_none(),
        };
        let at = self.calls.iter().rposition(by_id);
        let at = at.or_else(|| self.calls.iter().rposition(by_index))?;
        let (_, call) = &self.calls[at];
        let other_id =
            piece.id.is_some() && call.provider_id.is_some() && piece.id != call.provider_id;
        let begins = piece.name.as_ref().is_some_and(|name| {
            let other_name = !call.name.is_empty() && call.name != *name;
            let whole_twice = !piece.arguments.is_empty() && call.is_whole();
            let repeated = piece.id.is_some() && call.arguments == piece.arguments;
            other_name || (whole_twice && !repeated) || (piece.follows && piece.index.is_none())
        });
        (!other_id && !begins).then_some(at)
    }

    fn start_call(&mut self, piece: &CallPiece, out: &mut Vec<ModelEvent>) -> usize {
        self.finish_prose(out);
        self.filled = true;
        for (_, call) in self.calls.iter_mut().filter(|(_, call)| !call.finished) {
            call.finish_if_whole(out);
        }
        let call = GrowingCall {
            part: self.parts,
            provider_id: piece.id.clone(),
            name: piece.name.clone().unwrap_or_default(),
            ..GrowingCall::default()
        };
        let (name, provider_id) = (call.name.clone(), call.provider_id.clone());
        let delta = Delta::CallStarted { name, provider_id };
        out.push(ModelEvent::Delta { part: self.parts, delta });
        self.parts += 1;
        self.calls.push((piece.index, call));
        self.calls.len() - 1
    }

    /// Some servers count with every chunk; only what is new is passed on.
    fn count(&mut self, told: &Value, out: &mut Vec<ModelEvent>) {
        if !told.is_object() {
            return;
        }
        let usage = usage(told);
        if usage != self.usage {
            self.usage = usage;
            out.push(ModelEvent::Counted(usage));
        }
    }

    fn finish(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), Failure> {
        self.finish_prose(out);
        if let Some((details, Some(part))) = self.details.take() {
            let content = ReplyPart::Reasoning(details.into_reasoning());
            out.push(ModelEvent::PartFinished { part, content });
        }
        let stop = match self.reason.as_deref() {
            Some("error") => return Err(Failure::network("broke off its answer with an error")),
            Some("length" | "max_tokens" | "model_length") => ReplyStop::Length,
            Some("content_filter") => ReplyStop::Refusal,
            _ if self.refused => ReplyStop::Refusal,
            // `stop` and `tool_calls` are not told apart: servers mix them up.
            _ => ReplyStop::End,
        };
        let had_room = self.usage.output.is_some_and(|tokens| tokens < self.output_tokens_max);
        let stop = settle(self.calls.iter_mut().map(|(_, call)| call), stop, had_room, out);
        if !self.filled && stop == ReplyStop::End {
            return Err(empty_reply(self.reasoned));
        }
        out.push(ModelEvent::Finished(stop));
        Ok(())
    }
}

impl CallPiece {
    fn of(piece: &Value, follows: bool) -> Self {
        let function = &piece["function"];
        Self {
            index: piece["index"].as_u64(),
            id: filled(&piece["id"]),
            name: filled(&function["name"]),
            arguments: match &function["arguments"] {
                Value::String(text) => text.clone(),
                Value::Null => String::new(),
                value => value.to_string(),
            },
            follows,
        }
    }
}

/// Tokens by tier. The wire's input includes what was read from and written to the cache.
fn usage(usage: &Value) -> Usage {
    let details = &usage["prompt_tokens_details"];
    let cache_read =
        [&details["cached_tokens"], &usage["prompt_cache_hit_tokens"], &usage["cached_tokens"]]
            .into_iter()
            .find_map(Value::as_u64);
    let cache_write = details["cache_write_tokens"].as_u64();
    let cached = cache_read.unwrap_or(0).saturating_add(cache_write.unwrap_or(0));
    Usage {
        input: usage["prompt_tokens"].as_u64().map(|all| all.saturating_sub(cached)),
        cache_read,
        cache_write,
        output: usage["completion_tokens"].as_u64(),
        reasoning: usage["completion_tokens_details"]["reasoning_tokens"].as_u64(),
        estimated: false,
    }
}

/// A text that is there and not empty.
fn filled(value: &Value) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}
