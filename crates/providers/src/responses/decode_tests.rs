//! Recorded streams, cut at every byte, to events.

use super::decode::Decoder;
use crate::{
    shown::{recorded, shown},
    sse::tests::{events_of, every_byte},
};

#[test]
fn recorded_streams() {
    recorded("responses_", |sse| {
        // The last event is the end, and nothing follows it.
        let fails = sse.contains("response.failed") || sse.contains("\"type\":\"error\"");
        every_byte(sse, if fails { usize::MAX } else { sse.len() }, || Decoder::new(100))
    });
}

#[test]
fn ends_of_a_reply() {
    let text = r#"{"type":"response.output_item.done","item":{"type":"message","content":[
        {"type":"output_text","text":"a"}]}}"#;
    let refusal = r#"{"type":"response.output_item.done","item":{"type":"message","content":[
        {"type":"refusal","refusal":"No."}]}}"#;
    let thought = r#"{"type":"response.output_item.done","item":{"type":"reasoning"}}"#;
    let done = r#"{"type":"response.completed","response":{"status":"completed"}}"#;
    let cut = r#"{"type":"response.incomplete","response":{"status":"incomplete",
        "incomplete_details":{"reason":"max_output_tokens"}}}"#;
    let filtered = r#"{"type":"response.incomplete","response":{"status":"incomplete",
        "incomplete_details":{"reason":"content_filter"}}}"#;
    let failed = r#"{"type":"response.failed","response":{"error":{"code":"server_error",
        "message":"broke"}}}"#;
    let table = [
        (vec![text, done], "finished End"),
        (vec![text, "[DONE]", done], "finished End"),
        (vec![refusal, done], "finished Refusal"),
        (vec![text, cut], "finished Length"),
        (vec![cut], "finished Length"),
        (vec![text, filtered], "finished Refusal"),
        (vec![done], "failed Network: sent an empty reply"),
        (vec![thought, done], "failed Network: sent reasoning, but no answer after it"),
        (vec![text], "failed Network: ended the stream before the answer was whole"),
        (vec![text, failed], "failed Overloaded: sent an error in its answer: broke"),
        (
            vec![r#"{"type":"response.failed","response":{"error":null}}"#],
            "failed Network: gave up on its answer",
        ),
        (
            vec![r#"{"type":"error","code":"rate_limit_exceeded","message":"slow"}"#],
            "failed RateLimited: sent an error in its answer: slow",
        ),
        (vec![r#"{"type":"response.something_new"}"#, "{}", "7", text, done], "finished End"),
    ];
    for (events, expected) in table {
        let sse: String =
            events.iter().map(|data| format!("data: {}\n\n", data.replace('\n', " "))).collect();
        let all = shown(&events_of([sse.as_bytes()], Decoder::new(100)));
        assert_eq!(all.lines().last(), Some(expected), "{events:?}");
    }
}
