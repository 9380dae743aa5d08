//! The stream of a response: items that grow one after the other, each with its end, and an end of
//! all.

use std::collections::BTreeMap;

use inspan_core::{
    message::{Reasoning, ReplyPart, ReplyStop, Usage},
    provider::{Delta, ModelEvent},
};
use serde_json::{Value, value::RawValue};

use crate::{
    call::{GrowingCall, settle},
    failure::Failure,
    sse::{Decode, empty_reply, ended_early, object},
};

/// The state of a stream. Only the end of the response ends it; unknown events give nothing.
pub(super) struct Decoder {
    output_tokens_max: u64,
    /// The items that grow, by the server's index.
    open: BTreeMap<u64, Item>,
    /// Calls whose end has come.
    calls: Vec<GrowingCall>,
    /// How many parts have begun.
    parts: usize,
    started: bool,
    /// Whether there is text or a call in the reply.
    filled: bool,
    /// Whether there is reasoning in it.
    reasoned: bool,
    refused: bool,
}

enum Item {
    Text { part: usize, text: String },
    Reasoning { part: usize, text: String },
    Call(GrowingCall),
}

impl Decode for Decoder {
    fn event(&mut self, data: &str, out: &mut Vec<ModelEvent>) -> Result<(), Failure> {
        if data.trim() == "[DONE]" {
            return Ok(());
        }
        let event = object(data)?;
        let index = event["output_index"].as_u64().unwrap_or_default();
        match text(&event, "type") {
            "response.created" | "response.in_progress" => self.begin(&event["response"], out),
            "response.output_item.added" => self.start(index, &event["item"], out),
            "response.output_text.delta" => self.write(index, text(&event, "delta"), out),
            "response.refusal.delta" => {
                self.refused = true;
                self.write(index, text(&event, "delta"), out);
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.think(index, text(&event, "delta"), out);
            }
            "response.reasoning_summary_part.added" if event["summary_index"] != 0 => {
                self.think(index, "\n\n", out);
            }
            "response.function_call_arguments.delta" => {
                self.argue(index, text(&event, "delta"), out);
            }
            "response.output_item.done" => {
                self.finish_item(index, &event["item"], field(data, "item"), out);
            }
            "response.completed" | "response.incomplete" => {
                self.finish(&event["response"], out)?;
            }
            "response.failed" | "response.cancelled" => return Err(failed(&event["response"])),
            "" if event["object"] == "response" => self.take_whole(&event, data, out)?,
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
            started: false,
            filled: false,
            reasoned: false,
            refused: false,
        }
    }

    fn begin(&mut self, response: &Value, out: &mut Vec<ModelEvent>) {
        if !self.started {
            self.started = true;
            out.push(ModelEvent::Started {
                model: text(response, "model").to_owned(),
                provider_id: text(response, "id").to_owned(),
            });
        }
    }

    fn start(&mut self, index: u64, item: &Value, out: &mut Vec<ModelEvent>) {
        let part = self.parts;
        let started = match text(item, "type") {
            "message" => Item::Text { part, text: String::new() },
            "reasoning" => Item::Reasoning { part, text: String::new() },
            "function_call" => {
                self.filled = true;
                let name = text(item, "name").to_owned();
                let provider_id = item["call_id"].as_str().map(str::to_owned);
                let begun =
                    Delta::CallStarted { name: name.clone(), provider_id: provider_id.clone() };
                out.push(ModelEvent::Delta { part, delta: begun });
                Item::Call(GrowingCall { part, provider_id, name, ..GrowingCall::default() })
            }
            // A kind of item that was not asked for.
            _ => return,
        };
        self.parts += 1;
        self.open.insert(index, started);
    }

    fn write(&mut self, index: u64, more: &str, out: &mut Vec<ModelEvent>) {
        if let Some(Item::Text { part, text }) = self.open.get_mut(&index) {
            text.push_str(more);
            push_delta(*part, Delta::Text(more.to_owned()), out);
        }
    }

    fn think(&mut self, index: u64, more: &str, out: &mut Vec<ModelEvent>) {
        if let Some(Item::Reasoning { part, text }) = self.open.get_mut(&index) {
            text.push_str(more);
            push_delta(*part, Delta::Reasoning(more.to_owned()), out);
        }
    }

    fn argue(&mut self, index: u64, more: &str, out: &mut Vec<ModelEvent>) {
        if let Some(Item::Call(call)) = self.open.get_mut(&index) {
            call.arguments.push_str(more);
            push_delta(call.part, Delta::Arguments(more.to_owned()), out);
        }
    }

    /// What came in pieces counts; what did not come so is taken from the whole. `raw` is the item
    /// as it was sent.
    fn finish_item(
        &mut self,
        index: u64,
        item: &Value,
        raw: Option<&RawValue>,
        out: &mut Vec<ModelEvent>,
    ) {
        if !self.open.contains_key(&index) {
            self.start(index, item, out);
        }
        let (part, content) = match self.open.remove(&index) {
            None => return,
            Some(Item::Text { part, text: streamed }) => {
                let text = if streamed.is_empty() { self.text_of(item) } else { streamed };
                if text.is_empty() {
                    return;
                }
                self.filled |= !text.trim().is_empty();
                (part, ReplyPart::Text { text })
            }
            Some(Item::Reasoning { part, text }) => {
                self.reasoned = true;
                (part, ReplyPart::Reasoning(reasoning(item, raw, text)))
            }
            Some(Item::Call(mut call)) => {
                let whole = text(item, "arguments");
                if !whole.is_empty() {
                    call.arguments = whole.to_owned();
                }
                call.finish_if_whole(out);
                return self.calls.push(call);
            }
        };
        out.push(ModelEvent::PartFinished { part, content });
    }

    fn text_of(&mut self, item: &Value) -> String {
        let parts = item["content"].as_array().map(Vec::as_slice).unwrap_or_default();
        self.refused |= parts.iter().any(|part| part["refusal"].is_string());
        parts.iter().map(|part| text(part, "text").to_owned() + text(part, "refusal")).collect()
    }

    /// The answer of a server that does not stream.
    fn take_whole(
        &mut self,
        response: &Value,
        data: &str,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), Failure> {
        self.begin(response, out);
        let raws: Vec<&RawValue> = field(data, "output")
            .and_then(|output| serde_json::from_str(output.get()).ok())
            .unwrap_or_default();
        let items = response["output"].as_array().map(Vec::as_slice).unwrap_or_default();
        for (index, item) in (0..).zip(items) {
            let raw = usize::try_from(index).ok().and_then(|at| raws.get(at)).copied();
            self.finish_item(index, item, raw, out);
        }
        match text(response, "status") {
            "failed" | "cancelled" => Err(failed(response)),
            _ => self.finish(response, out),
        }
    }

    fn finish(&mut self, response: &Value, out: &mut Vec<ModelEvent>) -> Result<(), Failure> {
        while let Some((&index, _)) = self.open.first_key_value() {
            self.finish_item(index, &Value::Null, None, out);
        }
        let usage = usage(&response["usage"]);
        if usage != Usage::default() {
            out.push(ModelEvent::Counted(usage));
        }
        let stop = match text(&response["incomplete_details"], "reason") {
            "content_filter" => ReplyStop::Refusal,
            _ if text(response, "status") == "incomplete" => ReplyStop::Length,
            _ if self.refused => ReplyStop::Refusal,
            _ => ReplyStop::End,
        };
        let had_room = usage.output.is_some_and(|tokens| tokens < self.output_tokens_max);
        let stop = settle(&mut self.calls, stop, had_room, out);
        if !self.filled && stop == ReplyStop::End {
            return Err(empty_reply(self.reasoned));
        }
        out.push(ModelEvent::Finished(stop));
        Ok(())
    }
}

/// Reasoning as it must be sent back. Its identifier goes: one binds it to items that the server
/// would have to keep. All else keeps its bytes, above all what is encrypted.
fn reasoning(item: &Value, raw: Option<&RawValue>, streamed: String) -> Reasoning {
    let signed = !text(item, "encrypted_content").is_empty();
    let kept = |name: &str| {
        let value = field(raw?.get(), name).filter(|value| value.get() != "null")?;
        Some(format!(r#","{name}":{}"#, value.get()))
    };
    let fields: String =
        ["summary", "content", "encrypted_content"].into_iter().filter_map(kept).collect();
    let raw = if signed { format!(r#"{{"type":"reasoning"{fields}}}"#) } else { String::new() };
    let parts = item["summary"].as_array().into_iter().chain(item["content"].as_array());
    let told = parts.flatten().map(|part| text(part, "text")).collect::<Vec<_>>().join("\n\n");
    Reasoning { text: if streamed.is_empty() { told } else { streamed }, raw, signed }
}

/// Why a response failed.
fn failed(response: &Value) -> Failure {
    Failure::in_object(response).unwrap_or_else(|| Failure::network("gave up on its answer"))
}

/// Tokens by tier. The wire's input includes what was read from and written to the cache.
fn usage(usage: &Value) -> Usage {
    let details = &usage["input_tokens_details"];
    let cache_read = details["cached_tokens"].as_u64();
    let cache_write = details["cache_write_tokens"].as_u64();
    let cached = cache_read.unwrap_or(0).saturating_add(cache_write.unwrap_or(0));
    Usage {
        input: usage["input_tokens"].as_u64().map(|all| all.saturating_sub(cached)),
        cache_read,
        cache_write,
        output: usage["output_tokens"].as_u64(),
        reasoning: usage["output_tokens_details"]["reasoning_tokens"].as_u64(),
        estimated: false,
    }
}

/// A field of an object as it was sent.
fn field<'a>(json: &'a str, name: &str) -> Option<&'a RawValue> {
    let mut fields: BTreeMap<String, &RawValue> = serde_json::from_str(json).ok()?;
    fields.remove(name)
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
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
