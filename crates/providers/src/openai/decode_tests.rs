//! Recorded streams in many dialects, cut at every byte, to events.

use super::decode::Decoder;
use crate::{
    shown::{recorded, shown},
    sse::tests::{events_of, every_byte},
};

#[test]
fn recorded_streams() {
    recorded("openai_", |sse| {
        if sse.contains(r#""error""#) {
            return every_byte(sse, usize::MAX, || Decoder::new(100).with_details());
        }
        // A stream is whole once the event with the reason for its end is.
        let reason = sse.rfind("\"finish_reason\":\"").unwrap_or(sse.len());
        let event_end = sse.split_at(reason).1.find("\n\n").map(|end| reason + end + 2);
        every_byte(sse, event_end.unwrap_or(usize::MAX), || Decoder::new(100).with_details())
    });
}

/// The last event of a stream of these chunks; a word is a reason for the end.
fn last(chunks: &[&str]) -> String {
    let data = |chunk: &&str| match chunk.chars().all(|c| c.is_ascii_lowercase() || c == '_') {
        true => format!("data: {{\"choices\":[{{\"finish_reason\":\"{chunk}\"}}]}}\n\n"),
        false => format!("data: {chunk}\n\n"),
    };
    let sse: String = chunks.iter().map(data).collect();
    let events = shown(&events_of([sse.as_bytes()], Decoder::new(100).with_details()));
    events.lines().last().unwrap_or_default().to_owned()
}

#[test]
fn ends_of_a_reply() {
    let text = r#"{"choices":[{"delta":{"content":"a"}}]}"#;
    let empty = "failed Network: sent an empty reply";
    let thought = r#"{"choices":[{"delta":{"reasoning_content":"Hm."}}]}"#;
    let no_answer = "failed Network: sent reasoning, but no answer after it";
    let early = "failed Network: ended the stream before the answer was whole";
    let table = [
        (vec![text, "stop", "[DONE]"], "finished End"),
        (vec![text, "stop"], "finished End"),
        (vec![text, "[DONE]"], "finished End"),
        (vec![text], early),
        (vec![], early),
        (vec![text, "length"], "finished Length"),
        (vec![text, "content_filter"], "finished Refusal"),
        (vec!["content_filter"], "finished Refusal"),
        (vec![text, "something_new"], "finished End"),
        (vec![text, "error"], "failed Network: broke off its answer with an error"),
        (vec!["stop", "[DONE]"], empty),
        (vec!["[DONE]"], empty),
        (vec![r#"{"choices":[{"delta":{"content":" \n"}}]}"#, "stop"], empty),
        (vec!["length"], "finished Length"),
        (vec![thought, "stop", "[DONE]"], no_answer),
        (vec![thought, "length"], "finished Length"),
        (vec![thought, text, "stop"], "finished End"),
        (vec!["7", "[]", "true", "{}", text, "stop"], "finished End"),
    ];
    for (chunks, expected) in table {
        assert_eq!(last(&chunks), expected, "{chunks:?}");
    }
}

#[test]
fn what_is_not_json_waits_for_the_end() {
    let piece = |index: usize, head: &str, arguments: &str| {
        let arguments = serde_json::Value::from(arguments);
        format!(
            "data: {{\"choices\":[{{\"delta\":{{\"tool_calls\":[{{\"index\":{index},{head}\
             \"function\":{{\"name\":\"f\",\"arguments\":{arguments}}}}}]}}}}]}}\n\n"
        )
    };
    // A text in such quotes is no JSON, and this `}` is not its end.
    let sse = [
        piece(0, r#""id":"x","#, "{\"a\":'}"),
        piece(1, r#""id":"y","#, "{}"),
        piece(0, r#""id":"x","#, "'}"),
        "data: {\"choices\":[{\"finish_reason\":\"tool_calls\"}]}\n\n".to_owned(),
    ];
    let events = shown(&events_of([sse.concat().as_bytes()], Decoder::new(100).with_details()));
    let whole: Vec<&str> = events.lines().filter(|line| !line.contains('…')).collect();
    assert_eq!(whole, ["started  ", r#"0 call f x {"a":'}'}"#, "1 call f y {}", "finished End"]);
}
