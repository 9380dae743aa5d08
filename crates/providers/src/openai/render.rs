//! Segments as OpenAI reads them. One of ours may be several of its messages, joined by commas.

use std::sync::Arc;

use inspan_core::{
    message::{Content, ImageRef, ReplyPart, ToolCall},
    prompt::{CallResult, Message, Said, Segment, UserMessage},
    provider::Images,
    tool::ToolSpec,
    words,
};
use serde_json::{Value, json};

use super::details;
use crate::{
    quirks::{AfterResults, NoContent, Quirks, ReasoningField},
    told::{self, worth_sending},
};

/// The canonical JSON of a segment; empty for no tools and for no system prompt.
pub(super) fn segment(segment: Segment<'_>, images: &dyn Images, quirks: &Quirks) -> String {
    match segment {
        Segment::Tools([]) => String::new(),
        Segment::Tools(tools) => tools_list(tools, quirks),
        Segment::System(text) if worth_sending(text) => {
            json!({"role": "system", "content": text}).to_string()
        }
        Segment::System(_) => String::new(),
        Segment::Message(Message::User(user)) => user_messages(user, images, quirks),
        Segment::Message(Message::Assistant(reply)) => reply_message(reply, quirks),
    }
}

/// The segments of a request, with a short reply between two of the user. It follows from the
/// segments before it, so a request with it only grows, too.
pub(super) fn alternating<'a>(
    segments: impl Iterator<Item = &'a Arc<[u8]>>,
) -> impl Iterator<Item = Arc<[u8]>> {
    let is_users = |segment: &[u8]| {
        segment.starts_with(br#"{"role":"user""#) || segment.starts_with(br#"{"role":"tool""#)
    };
    let mut after_user = false;
    segments.filter(|segment| !segment.is_empty()).flat_map(move |segment| {
        let bridge = (after_user && is_users(segment)).then(|| Arc::from(BRIDGE));
        after_user = is_users(segment);
        bridge.into_iter().chain([segment.clone()])
    })
}

/// [`words::NO_REPLY`] as a message.
const BRIDGE: &[u8] = br#"{"role":"assistant","content":"[no reply]"}"#;

fn tools_list(tools: &[Arc<ToolSpec>], quirks: &Quirks) -> String {
    let tool = |tool: &Arc<ToolSpec>| {
        let mut function = json!({"name": tool.name});
        if worth_sending(&tool.description) {
            function["description"] = json!(tool.description);
        }
        function["parameters"] = parameters(told::schema(tool, quirks));
        json!({"type": "function", "function": function})
    };
    Value::Array(tools.iter().map(tool).collect()).to_string()
}

/// The schema; OpenAI refuses an object without `properties`.
fn parameters(mut schema: Value) -> Value {
    if let Value::Object(fields) = &mut schema {
        fields.entry("properties").or_insert_with(|| json!({}));
    }
    schema
}

/// A `tool` message for each result, then what is left to say: in a message of the user, or in the
/// last result.
fn user_messages(user: &UserMessage, images: &dyn Images, quirks: &Quirks) -> String {
    let mut parts = Vec::new();
    for answer in &user.results {
        let pictures = answer.result.content.iter().filter(|c| matches!(c, Content::Image(_)));
        let pictures: Vec<Value> = pictures.map(|c| content_part(c, images, quirks)).collect();
        if !pictures.is_empty() {
            parts.push(text_part(&words::image_of(&answer.call)));
            parts.extend(pictures);
        }
    }
    parts.extend(user.content.iter().map(|content| content_part(content, images, quirks)));
    let mut messages: Vec<Value> =
        user.results.iter().map(|answer| result_message(answer, quirks)).collect();
    match (messages.last_mut(), quirks.after_results) {
        _ if parts.is_empty() => {}
        (Some(result), AfterResults::Joined) => {
            let text = result["content"].as_str().map(text_part);
            result["content"] = simplified(text.into_iter().chain(parts).collect());
        }
        (Some(_), AfterResults::Separate) | (None, _) => {
            messages.push(json!({"role": "user", "content": simplified(parts)}));
        }
    }
    let messages: Vec<String> = messages.iter().map(Value::to_string).collect();
    messages.join(",")
}

/// Texts alone become one string, which servers without pictures understand too.
fn simplified(parts: Vec<Value>) -> Value {
    let texts: Option<Vec<&str>> = parts.iter().map(|part| part["text"].as_str()).collect();
    match texts {
        Some(texts) => Value::from(texts.join("\n\n")),
        None => Value::Array(parts),
    }
}

/// The result as text. The wire has no mark for a failure; the text says it.
fn result_message(answer: &CallResult, quirks: &Quirks) -> Value {
    let content = answer.result.content.iter().map(|content| match content {
        Content::Text { text } => text.clone(),
        Content::Image(_) => words::IMAGE_FOLLOWS.to_owned(),
    });
    let lines: Vec<String> = content.chain(told::footnotes(answer)).collect();
    let id = quirks.call_ids.sent(&answer.call);
    json!({"role": "tool", "tool_call_id": id, "content": lines.join("\n")})
}

fn content_part(content: &Content, images: &dyn Images, quirks: &Quirks) -> Value {
    match content {
        Content::Text { text } => text_part(text),
        Content::Image(image) => image_part(image, images, quirks),
    }
}

fn text_part(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn image_part(image: &ImageRef, images: &dyn Images, quirks: &Quirks) -> Value {
    match told::picture(image, images, quirks.pictures) {
        Ok(data) => {
            let url = format!("data:{};base64,{data}", image.media_type);
            json!({"type": "image_url", "image_url": {"url": url}})
        }
        Err(told) => text_part(&told),
    }
}

fn reply_message(reply: &Said, quirks: &Quirks) -> String {
    let mut message = json!({"role": "assistant"});
    let calls: Vec<Value> = reply.calls().map(|one| call(one, quirks)).collect();
    let text = reply.text();
    match quirks.no_content {
        _ if !text.is_empty() => message["content"] = text.into(),
        NoContent::Null => message["content"] = Value::Null,
        NoContent::Empty => message["content"] = "".into(),
        NoContent::Missing => {}
    }
    let details = match quirks.reasoning_echo {
        Some(ReasoningField::ReasoningDetails) => details::sent(reply, quirks.call_ids),
        Some(ReasoningField::ReasoningContent | ReasoningField::Reasoning) | None => None,
    };
    if let Some(details) = details {
        message[ReasoningField::ReasoningDetails.name()] = details;
    } else if let Some(field) = quirks.reasoning_echo {
        let reasoning = reply.parts.iter().filter_map(|part| match part {
            ReplyPart::Reasoning(reasoning) => Some(reasoning.text.as_str()),
            _ => None,
        });
        let reasoning: String = reasoning.collect();
        if !reasoning.is_empty() || (quirks.reasoning_needed && !calls.is_empty()) {
            message[field.text_name()] = reasoning.into();
        }
    }
    if !calls.is_empty() {
        message["tool_calls"] = Value::Array(calls);
    }
    message.to_string()
}

fn call(call: &ToolCall, quirks: &Quirks) -> Value {
    json!({"id": quirks.call_ids.sent(&call.id), "type": "function",
        "function": {"name": call.name, "arguments": told::arguments(call)}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_reply_stands_between_two_messages_of_the_user() {
        let bridge = json!({"role": "assistant", "content": words::NO_REPLY}).to_string();
        assert_eq!(BRIDGE, bridge.as_bytes());
        let message = |role: &str| json!({"role": role, "content": "x"}).to_string();
        let [system, user, tool, reply] = ["system", "user", "tool", "assistant"].map(message);
        let table = [
            (vec![&system, &user], vec![&system, &user]),
            (vec![&system, &user, &user], vec![&system, &user, &bridge, &user]),
            (vec![&user, &reply, &tool, &reply], vec![&user, &reply, &tool, &reply]),
            (vec![&user, &reply, &tool, &user], vec![&user, &reply, &tool, &bridge, &user]),
            (vec![], vec![]),
        ];
        for (segments, expected) in table {
            let segments: Vec<Arc<[u8]>> =
                segments.iter().map(|text| Arc::from(text.as_bytes())).collect();
            let sent = alternating(segments.iter());
            let expected: Vec<Arc<[u8]>> =
                expected.iter().map(|text| Arc::from(text.as_bytes())).collect();
            assert_eq!(sent.collect::<Vec<_>>(), expected);
        }
    }
}
