//! Recorded streams, cut at every byte, to events.

use super::decode::Decoder;
use crate::{
    shown::{recorded, shown},
    sse::tests::{events_of, every_byte},
};

#[test]
fn recorded_streams() {
    recorded("anthropic_", |sse| {
        let terminal = match sse.rfind("message_stop") {
            None => usize::MAX,
            // The blank line counts from its first character on.
            Some(_) if sse.ends_with("\r\n") => sse.len() - 1,
            Some(_) => sse.len(),
        };
        every_byte(sse, terminal, || Decoder::new(100))
    });
}

/// A stream of one text, with this stop reason and this text.
fn stopped(reason: &str, text: &str) -> String {
    let sse = format!(
        "data: {{\"type\":\"content_block_start\",\"index\":0,\
         \"content_block\":{{\"type\":\"text\",\"text\":\"{text}\"}}}}\n\n\
         data: {{\"type\":\"content_block_stop\",\"index\":0}}\n\n\
         data: {{\"type\":\"message_delta\",\"delta\":{{\"stop_reason\":{reason}}}}}\n\n\
         data: {{\"type\":\"message_stop\"}}\n\n"
    );
    last(&sse)
}

/// The last event of a stream.
fn last(sse: &str) -> String {
    let events = shown(&events_of([sse.as_bytes()], Decoder::new(100)));
    events.lines().last().unwrap_or_default().to_owned()
}

#[test]
fn stop_reasons() {
    let empty = "failed Network: sent an empty reply";
    let table = [
        ("\"end_turn\"", "a", "finished End"),
        ("\"stop_sequence\"", "a", "finished End"),
        ("\"tool_use\"", "a", "finished End"),
        ("\"max_tokens\"", "a", "finished Length"),
        ("\"model_context_window_exceeded\"", "a", "finished Length"),
        ("\"pause_turn\"", "a", "finished Paused"),
        ("\"refusal\"", "", "finished Refusal"),
        ("\"something_new\"", "a", "finished End"),
        ("null", "a", "finished End"),
        ("\"end_turn\"", "", empty),
        ("\"end_turn\"", " \\n", empty),
        ("\"max_tokens\"", "", "finished Length"),
    ];
    for (reason, text, expected) in table {
        assert_eq!(stopped(reason, text), expected, "{reason} {text}");
    }
}

#[test]
fn reasoning_alone_is_no_answer() {
    let none = "failed Network: sent reasoning, but no answer after it";
    let thinking = r#"{"type":"thinking","thinking":"Hm.","signature":"c2ln"}"#;
    let redacted = r#"{"type":"redacted_thinking","data":"b3Bh"}"#;
    let table = [
        (thinking, "end_turn", none),
        (redacted, "end_turn", none),
        (thinking, "max_tokens", "finished Length"),
        (thinking, "pause_turn", "finished Paused"),
        (thinking, "refusal", "finished Refusal"),
    ];
    for (block, reason, expected) in table {
        let sse = format!(
            "data: {{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{block}}}\n\n\
             data: {{\"type\":\"message_delta\",\"delta\":{{\"stop_reason\":\"{reason}\"}}}}\n\n\
             data: {{\"type\":\"message_stop\"}}\n\n"
        );
        assert_eq!(last(&sse), expected, "{block} {reason}");
    }
}
