//! Anthropic's stream: blocks that grow one after the other, each with its end, and an end of all.

use std::collections::BTreeMap;

use inspan_core::{
    message::{Reasoning, ReplyPart, ReplyStop, Usage},
    provider::{Delta, ModelEvent},
};
use serde_json::{Map, Value};

use crate::{
    call::{GrowingCall, settle},
    failure::Failure,
    sse::{Decode, empty_reply, ended_early, object},
};

/// The state of a stream. Only `message_stop` ends it; pings and unknown events give nothing.
pub(super) struct Decoder {
    output_tokens_max: u64,
    /// The blocks that grow, by the server's index.
    open: BTreeMap<u64, Block>,
    /// Calls whose end has come.
    calls: Vec<GrowingCall>,
    /// How many parts have begun.
    parts: usize,
    /// Whether there is text or a call in the reply.
    filled: bool,
    /// Whether there is reasoning in it.
    reasoned: bool,
    stop: ReplyStop,
    output_tokens: Option<u64>,
}

enum Block {
    Text { part: usize, text: String },
    Reasoning { part: usize, block: Map<String, Value> },
    Call { call: GrowingCall, input: Value },
}

impl Decode for Decoder {
    fn event(&mut self, data: &str, out: &mut Vec<ModelEvent>) -> Result<(), Failure> {
        let mut event = object(data)?;
        let index = event["index"].as_u64().unwrap_or_default();
        match event["type"].as_str().unwrap_or_default() {
            "message_start" => {
                let message = &event["message"];
                out.push(ModelEvent::Started {
                    model: text(message, "model").to_owned(),
                    provider_id: text(message, "id").to_owned(),
                });
                // What it says of the output is only a beginning.
                let usage = Usage { output: None, reasoning: None, ..usage(&message["usage"]) };
                out.push(ModelEvent::Counted(usage));
            }
            "content_block_start" => {
                self.finish_block(index, out);
                self.start(index, event["content_block"].take(), out);
            }
            "content_block_delta" => self.grow(index, &event["delta"], out),
            "content_block_stop" => self.finish_block(index, out),
            "message_delta" => {
                if let Some(reason) = event["delta"]["stop_reason"].as_str() {
                    self.stop = stop(reason);
                }
                let usage = usage(&event["usage"]);
                self.output_tokens = usage.output.or(self.output_tokens);
                out.push(ModelEvent::Counted(usage));
            }
            "message_stop" => self.finish(out)?,
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, _: &mut Vec<ModelEvent>) -> Result<(), Failure> {
        Err(ended_early())
    }
}

impl Decoder {
    pub(super) fn new(output_tokens_max: u32) -> Self {
        Self {
            output_tokens_max: output_tokens_max.into(),
            open: BTreeMap::new(),
            calls: Vec::new(),
            parts: 0,
            filled: false,
            reasoned: false,
            stop: ReplyStop::End,
            output_tokens: None,
        }
    }

    fn start(&mut self, index: u64, block: Value, out: &mut Vec<ModelEvent>) {
        let part = self.parts;
        let kind = text(&block, "type").to_owned();
        let started = match (kind.as_str(), block) {
            ("text", block) => {
                let text = text(&block, "text").to_owned();
                push_delta(part, Delta::Text(text.clone()), out);
                Block::Text { part, text }
            }
            ("thinking" | "redacted_thinking", Value::Object(block)) => {
                let thinking = block.get("thinking").and_then(Value::as_str).unwrap_or_default();
                push_delta(part, Delta::Reasoning(thinking.to_owned()), out);
                Block::Reasoning { part, block }
            }
            ("tool_use", mut block) => {
                let name = text(&block, "name").to_owned();
                let provider_id = block["id"].as_str().map(str::to_owned);
                let begun =
                    Delta::CallStarted { name: name.clone(), provider_id: provider_id.clone() };
                push_delta(part, begun, out);
                self.filled = true;
                let call = GrowingCall { part, provider_id, name, ..GrowingCall::default() };
                Block::Call { call, input: block["input"].take() }
            }
            // A kind of block that was not asked for.
            _ => return,
        };
        self.parts += 1;
        self.open.insert(index, started);
    }

    fn grow(&mut self, index: u64, delta: &Value, out: &mut Vec<ModelEvent>) {
        let kind = text(delta, "type");
        match (self.open.get_mut(&index), kind) {
            (Some(Block::Text { part, text: all }), "text_delta") => {
                let more = text(delta, "text");
                all.push_str(more);
                push_delta(*part, Delta::Text(more.to_owned()), out);
            }
            (Some(Block::Reasoning { part, block }), "thinking_delta") => {
                let more = text(delta, "thinking");
                append(block, "thinking", more);
                push_delta(*part, Delta::Reasoning(more.to_owned()), out);
            }
            (Some(Block::Reasoning { block, .. }), "signature_delta") => {
                append(block, "signature", text(delta, "signature"));
            }
            (Some(Block::Call { call, .. }), "input_json_delta") => {
                let more = text(delta, "partial_json");
                call.arguments.push_str(more);
                push_delta(call.part, Delta::Arguments(more.to_owned()), out);
            }
            _ => {}
        }
    }

    fn finish_block(&mut self, index: u64, out: &mut Vec<ModelEvent>) {
        let (part, content) = match self.open.remove(&index) {
            None => return,
            Some(Block::Text { text, .. }) if text.is_empty() => return,
            Some(Block::Text { part, text }) => {
                self.filled |= !text.trim().is_empty();
                (part, ReplyPart::Text { text })
            }
            Some(Block::Reasoning { part, block }) => {
                self.reasoned = true;
                (part, ReplyPart::Reasoning(reasoning(block)))
            }
            Some(Block::Call { mut call, input }) => {
                let given = input.as_object().is_some_and(|input| !input.is_empty());
                if given && call.arguments.is_empty() {
                    call.arguments = input.to_string();
                }
                call.finish_if_whole(out);
                return self.calls.push(call);
            }
        };
        out.push(ModelEvent::PartFinished { part, content });
    }

    fn finish(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), Failure> {
        while let Some((&index, _)) = self.open.first_key_value() {
            self.finish_block(index, out);
        }
        let had_room = self.output_tokens.is_some_and(|tokens| tokens < self.output_tokens_max);
        let stop = settle(&mut self.calls, self.stop.clone(), had_room, out);
        if !self.filled && stop == ReplyStop::End {
            return Err(empty_reply(self.reasoned));
        }
        out.push(ModelEvent::Finished(stop));
        Ok(())
    }
}

/// The block as it must be sent back: what the server began with, and what it added.
fn reasoning(block: Map<String, Value>) -> Reasoning {
    let field = |name: &str| block.get(name).and_then(Value::as_str).unwrap_or_default();
    let signed = block.contains_key("data") || !field("signature").is_empty();
    let text = field("thinking").to_owned();
    // The API takes no block without a signature, and servers without signatures want none back.
    let raw = if signed { Value::Object(block).to_string() } else { String::new() };
    Reasoning { text, raw, signed }
}

fn stop(reason: &str) -> ReplyStop {
    match reason {
        "max_tokens" | "model_context_window_exceeded" => ReplyStop::Length,
        "pause_turn" => ReplyStop::Paused,
        "refusal" => ReplyStop::Refusal,
        // `end_turn`, `tool_use`, `stop_sequence`, and what is not known yet.
        _ => ReplyStop::End,
    }
}

/// Tiers that are missing or `null` say nothing new.
fn usage(usage: &Value) -> Usage {
    Usage {
        input: usage["input_tokens"].as_u64(),
        cache_read: usage["cache_read_input_tokens"].as_u64(),
        cache_write: usage["cache_creation_input_tokens"].as_u64(),
        output: usage["output_tokens"].as_u64(),
        reasoning: usage["output_tokens_details"]["thinking_tokens"].as_u64(),
        estimated: false,
    }
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

fn append(block: &mut Map<String, Value>, field: &str, more: &str) {
    match block.get_mut(field) {
        Some(Value::String(text)) => text.push_str(more),
        _ => drop(block.insert(field.to_owned(), more.into())),
    }
}

fn push_delta(part: usize, delta: Delta, out: &mut Vec<ModelEvent>) {
    let says_nothing = match &delta {
        Delta::Text(text) | Delta::Reasoning(text) | Delta::Arguments(text) => text.is_empty(),
        Delta::CallStarted { .. } => false,
    };
    if !says_nothing {
        out.push(ModelEvent::Delta { part, delta });
    }
}
