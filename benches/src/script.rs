//! What the model says: whole HTTP answers, as Anthropic streams them.

use serde_json::{Value, json};

/// Answers that call `tool` once in each of so many rounds, and a last one in words. Every call
/// has arguments of its own, so that the rounds are no loop.
pub(crate) fn rounds(count: usize, tool: &str) -> Vec<Vec<u8>> {
    (1..=count).map(|round| call(round, tool)).chain([words("That is all.")]).collect()
}

/// Answers for so many sessions at once, after one that says a word: each calls the tool `meet`,
/// and when all are in it, each says a word.
pub(crate) fn meetings(count: usize) -> Vec<Vec<u8>> {
    let calls = (1..=count).map(|session| call(session, "meet"));
    let words = || words("That is all.");
    std::iter::once(words()).chain(calls).chain((0..count).map(|_| words())).collect()
}

fn call(round: usize, tool: &str) -> Vec<u8> {
    let arguments = json!({ "text": format!("the words of round {round}") }).to_string();
    let block = json!({ "type": "tool_use", "id": format!("toolu_{round}"), "name": tool,
        "input": {} });
    let delta = json!({ "type": "input_json_delta", "partial_json": arguments });
    answer(&block, &delta, "tool_use")
}

fn words(text: &str) -> Vec<u8> {
    let block = json!({ "type": "text", "text": "" });
    answer(&block, &json!({ "type": "text_delta", "text": text }), "end_turn")
}

fn answer(block: &Value, delta: &Value, stop: &str) -> Vec<u8> {
    let message = json!({ "id": "msg_1", "type": "message", "role": "assistant", "model": "m",
        "content": [], "usage": { "input_tokens": 100, "output_tokens": 1 } });
    let events = [
        json!({ "type": "message_start", "message": message }),
        json!({ "type": "content_block_start", "index": 0, "content_block": block }),
        json!({ "type": "content_block_delta", "index": 0, "delta": delta }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": stop },
            "usage": { "output_tokens": 20 } }),
        json!({ "type": "message_stop" }),
    ];
    let body: String = events.iter().map(event).collect();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
        transfer-encoding: chunked\r\n\r\n";
    format!("{head}{:x}\r\n{body}\r\n0\r\n\r\n", body.len()).into_bytes()
}

fn event(event: &Value) -> String {
    format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default())
}
