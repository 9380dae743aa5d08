//! Segments as Anthropic reads them.

use std::sync::Arc;

use inspan_core::{
    message::{Content, How, ImageRef, Reply, ReplyPart, ToolCall},
    pictures::PictureLimits,
    prompt::{CallResult, Message, Segment, UserMessage},
    provider::Images,
    tool::ToolSpec,
};
use serde_json::{Value, json};

use crate::{
    quirks::Quirks,
    splice::quoted,
    told::{self, worth_sending},
};

/// The canonical JSON of a segment; empty for no tools and for no system prompt. The system
/// prompt is one block, without the list around it.
pub(super) fn segment(segment: Segment<'_>, images: &dyn Images, quirks: &Quirks) -> String {
    match segment {
        Segment::Tools([]) => String::new(),
        Segment::Tools(tools) => tools_list(tools, quirks),
        Segment::System(text) if worth_sending(text) => text_block(text),
        Segment::System(_) => String::new(),
        Segment::Message(Message::User(user)) => {
            message("user", &user_blocks(user, images, quirks.pictures))
        }
        Segment::Message(Message::Assistant(reply)) => message("assistant", &reply_blocks(reply)),
    }
}

fn tools_list(tools: &[Arc<ToolSpec>], quirks: &Quirks) -> String {
    let tool = |tool: &Arc<ToolSpec>| {
        let mut value = json!({"name": tool.name});
        if worth_sending(&tool.description) {
            value["description"] = json!(tool.description);
        }
        value["input_schema"] = told::schema(tool, quirks);
        value
    };
    Value::Array(tools.iter().map(tool).collect()).to_string()
}

fn message(role: &str, blocks: &[String]) -> String {
    format!(r#"{{"role":"{role}","content":[{}]}}"#, blocks.join(","))
}

fn user_blocks(user: &UserMessage, images: &dyn Images, pictures: PictureLimits) -> Vec<String> {
    let results = user.results.iter().map(|answer| result_block(answer, images, pictures));
    results.chain(content_blocks(&user.content, images, pictures)).collect()
}

fn result_block(answer: &CallResult, images: &dyn Images, pictures: PictureLimits) -> String {
    let notes = told::footnotes(&answer.result).map(|note| text_block(&note));
    let blocks: Vec<String> =
        content_blocks(&answer.result.content, images, pictures).chain(notes).collect();
    let error = if answer.how == How::Ok { "" } else { r#","is_error":true"# };
    format!(
        r#"{{"type":"tool_result","tool_use_id":{},"content":[{}]{error}}}"#,
        quoted(&answer.call.0),
        blocks.join(",")
    )
}

fn content_blocks(
    content: &[Content],
    images: &dyn Images,
    pictures: PictureLimits,
) -> impl Iterator<Item = String> {
    content.iter().map(move |content| match content {
        Content::Text { text } => text_block(text),
        Content::Image(image) => image_block(image, images, pictures),
    })
}

fn text_block(text: &str) -> String {
    json!({"type": "text", "text": text}).to_string()
}

fn image_block(image: &ImageRef, images: &dyn Images, pictures: PictureLimits) -> String {
    let data = match told::picture(image, images, pictures) {
        Ok(data) => data,
        Err(told) => return text_block(&told),
    };
    let source = json!({"type": "base64", "media_type": image.media_type, "data": data});
    json!({"type": "image", "source": source}).to_string()
}

fn reply_blocks(reply: &Reply) -> Vec<String> {
    let block = |part: &ReplyPart| match part {
        ReplyPart::Text { text } => Some(text_block(text)),
        // The API takes no reasoning that it has not signed.
        ReplyPart::Reasoning(r) => Some(r.raw.clone()).filter(|raw| !raw.is_empty()),
        ReplyPart::Call(call) => Some(call_block(call)),
    };
    reply.parts.iter().filter_map(block).collect()
}

fn call_block(call: &ToolCall) -> String {
    format!(
        r#"{{"type":"tool_use","id":{},"name":{},"input":{}}}"#,
        quoted(&call.id.0),
        quoted(&call.name),
        told::arguments(call)
    )
}
