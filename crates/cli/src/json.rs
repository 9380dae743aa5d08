//! `--json`: one update a line, for programs.

use std::collections::BTreeMap;

use inspan_core::{Entry, event::TurnEnded, provider::Delta};
use serde_json::{Value, json, value::RawValue};

use crate::{
    out::Out,
    progress::{Spending, Words},
};

/// The first line: the session, before its first request.
pub(crate) fn session(id: &str) -> String {
    line(&json!({ "update": "session", "id": id }))
}

/// An entry of the log.
pub(crate) fn entry(entry: &Entry) -> String {
    let entry =
        RawValue::from_string(entry.to_line()).unwrap_or_else(|_| RawValue::NULL.to_owned());
    format!("{{\"update\":\"entry\",\"entry\":{entry}}}\n")
}

/// The answer that is still arriving, in whole words: the halves of a secret are none that a mask
/// knows.
#[derive(Default)]
pub(crate) struct Deltas(BTreeMap<(usize, &'static str), Words>);

impl Deltas {
    /// What can be shown when this piece has come; empty when nothing can.
    pub(crate) fn push(&mut self, part: usize, delta: &Delta, out: &Out) -> String {
        let (kind, text) = match delta {
            Delta::Text(text) => ("text", text),
            Delta::Reasoning(text) => ("reasoning", text),
            Delta::CallStarted { name, .. } => return piece(part, "call", name),
            Delta::Arguments(text) => ("arguments", text),
        };
        piece(part, kind, &self.0.entry((part, kind)).or_default().push(text, out))
    }

    /// What waited for the end of its word. The answer has ended, or failed.
    pub(crate) fn rest(&mut self) -> String {
        let parts = std::mem::take(&mut self.0);
        parts
            .into_iter()
            .map(|((part, kind), mut words)| piece(part, kind, &words.rest()))
            .collect()
    }
}

fn piece(part: usize, kind: &str, text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    line(&json!({ "update": "delta", "part": part, "kind": kind, "text": text }))
}

/// The last line of a turn.
pub(crate) fn done(
    id: &str,
    ended: &TurnEnded,
    answer: &str,
    denied: &[String],
    spending: &Spending,
    exit_code: u8,
) -> String {
    line(&json!({
        "update": "done",
        "session": id,
        "stop": ended.stop,
        "detail": ended.detail,
        "answer": answer,
        "denied": denied,
        "rounds": spending.rounds,
        "calls": spending.calls,
        "tokens": {
            "input": spending.input,
            "cache_read": spending.cache_read,
            "cache_write": spending.cache_write,
            "output": spending.output,
            "incomplete": spending.is_incomplete,
        },
        "cost_nano_usd": spending.cost_nano_usd,
        "ms": spending.ms,
        "exit_code": exit_code,
    }))
}

/// What kept the command from its work.
pub(crate) fn error(message: &str, exit_code: u8) -> String {
    line(&json!({ "update": "error", "message": message, "exit_code": exit_code }))
}

/// A value as a line.
pub(crate) fn line(value: &Value) -> String {
    format!("{value}\n")
}
