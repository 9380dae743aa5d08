//! Segments as OpenAI reads them. One of ours may be several of its messages, joined by commas.

use std::sync::Arc;

use inspan_core::{
    arguments,
    message::{Content, ImageRef, Reply, ReplyPart, ToolCall},
    prompt::{CallResult, Message, Segment, UserMessage},
    provider::Images,
    tool::ToolSpec,
    words,
};
use serde_json::{Map, Value, json};

use crate::{
    server::ReasoningField,
    told::{self, worth_sending},
};

/// The canonical JSON of a segment; empty for no tools and for no system prompt. `echo` is the
/// field in which the server wants its reasoning back.
pub(super) fn segment(
    segment: Segment<'_>,
    images: &dyn Images,
    echo: Option<ReasoningField>,
) -> String {
    match segment {
        Segment::Tools([]) => String::new(),
        Segment::Tools(tools) => tools_list(tools),
        Segment::System(text) if worth_sending(text) => {
            json!({"role": "system", "content": text}).to_string()
        }
        Segment::System(_) => String::new(),
        Segment::Message(Message::User(user)) => user_messages(user, images),
        Segment::Message(Message::Assistant(reply)) => reply_message(reply, echo),
    }
}

fn tools_list(tools: &[Arc<ToolSpec>]) -> String {
    let tool = |tool: &Arc<ToolSpec>| {
        let mut function = json!({"name": tool.name});
        if worth_sending(&tool.description) {
            function["description"] = json!(tool.description);
        }
        function["parameters"] = parameters(&tool.input);
        json!({"type": "function", "function": function})
    };
    Value::Array(tools.iter().map(tool).collect()).to_string()
}

/// The schema; OpenAI refuses an object without `properties`.
fn parameters(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Value::Object(fields) = &mut schema {
        fields.entry("properties").or_insert_with(|| json!({}));
    }
    schema
}

/// A `tool` message for each result, then one of the user if anything is left to say.
fn user_messages(user: &UserMessage, images: &dyn Images) -> String {
    let mut messages: Vec<String> = user.results.iter().map(result_message).collect();
    let mut parts = Vec::new();
    for answer in &user.results {
        let pictures = answer.result.content.iter().filter(|c| matches!(c, Content::Image(_)));
        let pictures: Vec<Value> = pictures.map(|c| content_part(c, images)).collect();
        if !pictures.is_empty() {
            parts.push(text_part(&words::image_of(&answer.call)));
            parts.extend(pictures);
        }
    }
    parts.extend(user.content.iter().map(|content| content_part(content, images)));
    if !parts.is_empty() {
        messages.push(json!({"role": "user", "content": simplified(parts)}).to_string());
    }
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
fn result_message(answer: &CallResult) -> String {
    let content = answer.result.content.iter().map(|content| match content {
        Content::Text { text } => text.clone(),
        Content::Image(_) => words::IMAGE_FOLLOWS.to_owned(),
    });
    let lines: Vec<String> = content.chain(told::footnotes(&answer.result)).collect();
    json!({"role": "tool", "tool_call_id": answer.call.0, "content": lines.join("\n")}).to_string()
}

fn content_part(content: &Content, images: &dyn Images) -> Value {
    match content {
        Content::Text { text } => text_part(text),
        Content::Image(image) => image_part(image, images),
    }
}

fn text_part(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn image_part(image: &ImageRef, images: &dyn Images) -> Value {
    match told::picture(image, images) {
        Ok(data) => {
            let url = format!("data:{};base64,{data}", image.media_type);
            json!({"type": "image_url", "image_url": {"url": url}})
        }
        Err(told) => text_part(&told),
    }
}

fn reply_message(reply: &Reply, echo: Option<ReasoningField>) -> String {
    let mut message = json!({"role": "assistant"});
    let calls: Vec<Value> = reply.calls().map(call).collect();
    let text = reply.text();
    message["content"] = if text.is_empty() { Value::Null } else { text.into() };
    if let Some(field) = echo {
        let reasoning = reply.parts.iter().filter_map(|part| match part {
            ReplyPart::Reasoning(reasoning) => Some(reasoning.text.as_str()),
            _ => None,
        });
        let reasoning: String = reasoning.collect();
        if !reasoning.is_empty() {
            message[field.name()] = reasoning.into();
        }
    }
    if !calls.is_empty() {
        message["tool_calls"] = Value::Array(calls);
    }
    message.to_string()
}

fn call(call: &ToolCall) -> Value {
    // Some servers parse the arguments of old calls, so they must be an object; what is one
    // keeps its bytes.
    let arguments = match serde_json::from_str::<Map<String, Value>>(&call.arguments) {
        Ok(_) => call.arguments.clone(),
        Err(_) => arguments::projected(&call.arguments).to_string(),
    };
    json!({"id": call.id.0, "type": "function",
        "function": {"name": call.name, "arguments": arguments}})
}
