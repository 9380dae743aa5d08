//! Small logs made by hand.

use std::sync::Arc;

use inspan_core::{
    event::{
        CancelRequested, Entry, Event, Head, ModelFailed, ModelReplied, Parked, PermissionAnswered,
        PromptSubmitted, RoundStarted, SessionForked, SessionStarted, Stop, ToolFinished,
        TurnEnded, Woken, WokenWhy,
    },
    gate::{AnsweredBy, Choice},
    hash::Hash,
    message::{
        CallId, Content, How, ImageRef, Labels, Reply, ReplyPart, ReplyStop, ToolResult, Usage,
    },
    provider::ErrorClass,
    store::SessionId,
};

/// Where and when an event stands, and the event: milliseconds, turn, round.
pub(crate) type Line = (i64, u32, u32, Event);

pub(crate) fn id(text: &str) -> SessionId {
    SessionId::try_from(text.to_owned()).unwrap()
}

/// The entries that `lines` make after `head`.
pub(crate) fn chain(mut head: Head, lines: impl IntoIterator<Item = Line>) -> Arc<[Entry]> {
    lines
        .into_iter()
        .map(|(at_ms, turn, round, event)| {
            let entry = Entry::next(head, at_ms, turn, round, event);
            head = entry.head();
            entry
        })
        .collect()
}

pub(crate) fn head_of(entries: &[Entry]) -> Head {
    entries.last().map(Entry::head).unwrap_or_default()
}

/// `count` short entries after `head`.
pub(crate) fn some(head: Head, count: usize) -> Arc<[Entry]> {
    let line = |at_ms| (at_ms, 1, 1, cancelled());
    chain(head, (0..).map(line).take(count))
}

pub(crate) fn started() -> Event {
    SessionStarted {
        session: id("by-hand"),
        inspan: "0.1.0".into(),
        format: 1,
        workdir: "/home/ann".into(),
    }
    .into()
}

pub(crate) fn prompt(text: &str) -> Event {
    PromptSubmitted { content: vec![Content::text(text)], labels: Labels::default() }.into()
}

pub(crate) fn round(round: u32) -> Event {
    RoundStarted {
        round,
        attempt: 1,
        closing: None,
        output_tokens_max: 4096,
        input_tokens_estimate: 100,
    }
    .into()
}

/// A reply with tokens `[input, cache_read, cache_write, output, reasoning]`.
pub(crate) fn replied(text: &str, tokens: [u64; 5], cost_nano_usd: Option<u64>, ms: u64) -> Event {
    let [input, cache_read, cache_write, output, reasoning] = tokens.map(Some);
    let usage = Usage { input, cache_read, cache_write, output, reasoning, estimated: false };
    let reply = Reply {
        parts: vec![ReplyPart::Text { text: text.into() }],
        stop: ReplyStop::End,
        usage,
        issuer: "anthropic/claude".into(),
        model: String::new(),
        provider_id: String::new(),
    };
    ModelReplied { reply, cost_nano_usd, first_ms: 1, ms }.into()
}

pub(crate) fn failed(class: ErrorClass, ms: u64) -> Event {
    ModelFailed {
        class,
        partial: None,
        message: "no".into(),
        retry_at_ms: None,
        refused: None,
        usage: Usage::default(),
        cost_nano_usd: None,
        ms,
    }
    .into()
}

pub(crate) fn finished(name: &str, how: How, ms: u64) -> Event {
    ToolFinished {
        call: CallId::new(3, 0),
        name: name.into(),
        how,
        result: ToolResult::text("18 °C"),
        labels: Labels::default(),
        ms,
    }
    .into()
}

pub(crate) fn cancelled() -> Event {
    CancelRequested {}.into()
}

pub(crate) fn woken() -> Event {
    Woken { why: WokenWhy::Unparked }.into()
}

pub(crate) fn ended(stop: Stop) -> Event {
    TurnEnded { stop, detail: String::new(), unread: false }.into()
}

/// The end of a turn that a prompt came too late for.
pub(crate) fn ended_unread(stop: Stop) -> Event {
    TurnEnded { stop, detail: String::new(), unread: true }.into()
}

/// An entry of a version that this one does not know, with a body that no JSON writer of ours
/// would make.
pub(crate) fn foreign(head: Head) -> Entry {
    let body = "{ \"b\" : 1e400,\t\"a\":\"\\u00e9\u{1F980}\\u0000\" }".into();
    let hash = Hash::of_bytes(b"whatever the newer version says");
    Entry::read(head.seq + 1, -5, 1, 2, "DreamDreamt", 7, body, hash)
}

pub(crate) fn pictures(hashes: &[Hash]) -> Event {
    let picture = |hash: &Hash| {
        Content::Image(ImageRef { hash: *hash, media_type: "image/png".into(), size_bytes: 9 })
    };
    PromptSubmitted { content: hashes.iter().map(picture).collect(), labels: Labels::default() }
        .into()
}

pub(crate) fn parked(until_ms: Option<i64>, calls: &[CallId]) -> Event {
    Parked { why: "it waits".into(), until_ms, calls: calls.to_vec() }.into()
}

pub(crate) fn answered() -> Event {
    PermissionAnswered {
        call: CallId::new(3, 0),
        choice: Choice::Once,
        by: AnsweredBy::Person,
        why: String::new(),
    }
    .into()
}

/// The first entry of a fork of `parent` at `at`.
pub(crate) fn forked(parent: &str, at: Head, at_ms: i64) -> Entry {
    let event = SessionForked {
        session: id("by-hand"),
        parent: id(parent),
        seq: at.seq,
        hash: at.hash,
        inspan: "0.1.0".into(),
    };
    Entry::next(at, at_ms, 1, 1, event.into())
}
