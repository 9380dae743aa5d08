//! Segments as items of a response's input. One of ours may be several of them, joined by commas.

use std::sync::Arc;

use inspan_core::{
    message::{Content, ReplyPart},
    prompt::{CallResult, Message, Said, Segment, UserMessage},
    provider::Images,
    tool::ToolSpec,
    words,
};
use serde_json::{Value, json};

use crate::{
    quirks::Quirks,
    splice::quoted,
    told::{self, worth_sending},
};

/// The canonical JSON of a segment; empty for no tools and for no system prompt, which is a text
/// here.
pub(super) fn segment(segment: Segment<'_>, images: &dyn Images, quirks: &Quirks) -> String {
    match segment {
        Segment::Tools([]) => String::new(),
        Segment::Tools(tools) => tools_list(tools, quirks),
        Segment::System(text) if worth_sending(text) => quoted(text),
        Segment::System(_) => String::new(),
        Segment::Message(Message::User(user)) => user_items(user, images, quirks).join(","),
        Segment::Message(Message::Assistant(reply)) => reply_items(reply).join(","),
    }
}

fn tools_list(tools: &[Arc<ToolSpec>], quirks: &Quirks) -> String {
    let tool = |tool: &Arc<ToolSpec>| {
        let mut value = json!({"type": "function", "name": tool.name});
        if worth_sending(&tool.description) {
            value["description"] = json!(tool.description);
        }
        let mut schema = told::schema(tool, quirks);
        if let Value::Object(fields) = &mut schema {
            fields.entry("properties").or_insert_with(|| json!({}));
        }
        value["parameters"] = schema;
        // What is not said is strict here, and few schemas are.
        value["strict"] = false.into();
        value
    };
    Value::Array(tools.iter().map(tool).collect()).to_string()
}

/// An item for each result, then one of the user if anything is left to say.
fn user_items(user: &UserMessage, images: &dyn Images, quirks: &Quirks) -> Vec<String> {
    let mut items: Vec<String> = user.results.iter().map(result_item).collect();
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
    if !parts.is_empty() {
        items.push(json!({"type": "message", "role": "user", "content": parts}).to_string());
    }
    items
}

/// The result as text. There is no mark for a failure; the text says it.
fn result_item(answer: &CallResult) -> String {
    let content = answer.result.content.iter().map(|content| match content {
        Content::Text { text } => text.clone(),
        Content::Image(_) => words::IMAGE_FOLLOWS.to_owned(),
    });
    let lines: Vec<String> = content.chain(told::footnotes(answer)).collect();
    json!({"type": "function_call_output", "call_id": answer.call.0, "output": lines.join("\n")})
        .to_string()
}

fn content_part(content: &Content, images: &dyn Images, quirks: &Quirks) -> Value {
    match content {
        Content::Text { text } => text_part(text),
        Content::Image(image) => match told::picture(image, images, quirks.pictures) {
            Ok(data) => {
                let url = format!("data:{};base64,{data}", image.media_type);
                json!({"type": "input_image", "detail": "auto", "image_url": url})
            }
            Err(told) => text_part(&told),
        },
    }
}

fn text_part(text: &str) -> Value {
    json!({"type": "input_text", "text": text})
}

fn reply_items(reply: &Said) -> Vec<String> {
    let item = |part: &ReplyPart| match part {
        ReplyPart::Text { text } => Some(
            json!({"type": "message", "role": "assistant",
                "content": [{"type": "output_text", "text": text}]})
            .to_string(),
        ),
        // What is not encrypted can't be given back to a server that keeps nothing.
        ReplyPart::Reasoning(r) => Some(r.raw.clone()).filter(|raw| !raw.is_empty()),
        ReplyPart::Call(call) => Some(
            json!({"type": "function_call", "call_id": call.id.0, "name": call.name,
                "arguments": told::arguments(call)})
            .to_string(),
        ),
    };
    reply.parts.iter().filter_map(item).collect()
}
