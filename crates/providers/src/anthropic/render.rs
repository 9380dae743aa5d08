//! Segments as Anthropic reads them.

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::STANDARD};
use inspan_core::{
    arguments,
    message::{Content, How, ImageRef, Reply, ReplyPart, ToolCall},
    prompt::{CallResult, Message, Segment, UserMessage},
    provider::Images,
    tool::ToolSpec,
    words,
};
use serde_json::{Map, Value, json};

use crate::{
    splice::quoted,
    told::{self, worth_sending},
};

/// The canonical JSON of a segment; empty for no tools and for no system prompt. The system
/// prompt is one block, without the list around it.
pub(super) fn segment(segment: Segment<'_>, images: &dyn Images) -> String {
    match segment {
        Segment::Tools([]) => String::new(),
        Segment::Tools(tools) => tools_list(tools),
        Segment::System(text) => text_block(text).unwrap_or_default(),
        Segment::Message(Message::User(user)) => message("user", &user_blocks(user, images)),
        Segment::Message(Message::Assistant(reply)) => message("assistant", &reply_blocks(reply)),
    }
}

fn tools_list(tools: &[Arc<ToolSpec>]) -> String {
    let tool = |tool: &Arc<ToolSpec>| {
        let mut value = json!({"name": tool.name});
        if worth_sending(&tool.description) {
            value["description"] = json!(tool.description);
        }
        value["input_schema"] = tool.input.clone();
        value
    };
    Value::Array(tools.iter().map(tool).collect()).to_string()
}

fn message(role: &str, blocks: &[String]) -> String {
    format!(r#"{{"role":"{role}","content":[{}]}}"#, blocks.join(","))
}

fn user_blocks(user: &UserMessage, images: &dyn Images) -> Vec<String> {
    let mut blocks: Vec<String> =
        user.results.iter().map(|result| result_block(result, images)).collect();
    blocks.extend(content_blocks(&user.content, images));
    if blocks.is_empty() {
        blocks.extend(text_block(told::NO_CONTENT));
    }
    blocks
}

fn result_block(answer: &CallResult, images: &dyn Images) -> String {
    let mut blocks = content_blocks(&answer.result.content, images);
    if blocks.is_empty() {
        blocks.extend(text_block(told::NO_OUTPUT));
    }
    blocks.extend(told::footnotes(&answer.result).iter().filter_map(|note| text_block(note)));
    let error = if answer.how == How::Ok { "" } else { r#","is_error":true"# };
    format!(
        r#"{{"type":"tool_result","tool_use_id":{},"content":[{}]{error}}}"#,
        quoted(&answer.call.0),
        blocks.join(",")
    )
}

fn content_blocks(content: &[Content], images: &dyn Images) -> Vec<String> {
    let block = |content: &Content| match content {
        Content::Text { text } => text_block(text),
        Content::Image(image) => image_block(image, images),
    };
    content.iter().filter_map(block).collect()
}

/// Nothing for white space, which the API refuses.
fn text_block(text: &str) -> Option<String> {
    worth_sending(text).then(|| json!({"type": "text", "text": text}).to_string())
}

fn image_block(image: &ImageRef, images: &dyn Images) -> Option<String> {
    if let Some(refused) = told::image_refused(&image.media_type) {
        return text_block(&refused);
    }
    let Some(bytes) = images.image(&image.hash) else { return text_block(told::IMAGE_LOST) };
    let source = json!({"type": "base64", "media_type": image.media_type,
        "data": STANDARD.encode(bytes)});
    Some(json!({"type": "image", "source": source}).to_string())
}

fn reply_blocks(reply: &Reply) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut ends_in_reasoning = true;
    for part in &reply.parts {
        let (block, is_reasoning) = match part {
            ReplyPart::Text { text } => (text_block(text), false),
            ReplyPart::Reasoning(r) => (Some(r.raw.clone()).filter(|raw| !raw.is_empty()), true),
            ReplyPart::Call(call) => (call.complete.then(|| call_block(call)), false),
        };
        if let Some(block) = block {
            blocks.push(block);
            ends_in_reasoning = is_reasoning;
        }
    }
    // The API refuses an empty reply, and one that ends in reasoning.
    if ends_in_reasoning {
        let told = if reply.stop.is_cut() { words::REPLY_CUT } else { told::NO_ANSWER };
        blocks.extend(text_block(told));
    }
    blocks
}

fn call_block(call: &ToolCall) -> String {
    // What can be read as it stands keeps its bytes: numbers are not rounded.
    let raw = call.arguments.trim();
    let input = match serde_json::from_str::<Map<String, Value>>(raw) {
        Ok(_) => raw.to_owned(),
        Err(_) => arguments::projected(&call.arguments).to_string(),
    };
    format!(
        r#"{{"type":"tool_use","id":{},"name":{},"input":{input}}}"#,
        quoted(&call.id.0),
        quoted(&call.name)
    )
}
