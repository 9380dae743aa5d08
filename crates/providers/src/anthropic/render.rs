//! Segments as Anthropic reads them.

use std::{borrow::Cow, sync::Arc};

use inspan_core::{
    found::{FIND_TOOLS, FOUND_NAMES},
    message::{Content, How, ImageRef, ReplyPart, ToolCall},
    pictures::PictureLimits,
    prompt::{CallResult, Message, Said, Segment, UserMessage},
    provider::Images,
    tool::ToolSpec,
};
use serde::Serialize;
use serde_json::{Value, json, value::RawValue};

use crate::{
    quirks::Quirks,
    told::{self, worth_sending},
};

/// The canonical JSON of a segment; empty for no tools and for no system prompt. The system
/// prompt is one block, without the list around it.
pub(super) fn segment(segment: Segment<'_>, images: &dyn Images, quirks: &Quirks) -> String {
    match segment {
        Segment::Tools([]) => String::new(),
        Segment::Tools(tools) => tools_list(tools, &[], quirks),
        Segment::System(text) if worth_sending(text) => json(&Block::text(text)),
        Segment::System(_) => String::new(),
        Segment::Message(Message::User(user)) => {
            let content = user_blocks(user, images, quirks);
            json(&Sent { role: "user", content })
        }
        Segment::Message(Message::Assistant(reply)) => {
            json(&Sent { role: "assistant", content: reply_blocks(reply) })
        }
    }
}

/// A message. It borrows its text, so that a long one is copied once, to where it is sent from.
#[derive(Serialize)]
struct Sent<'a> {
    role: &'static str,
    content: Vec<Block<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block<'a> {
    Text {
        text: Cow<'a, str>,
    },
    Image {
        source: Source<'a>,
    },
    ToolResult {
        tool_use_id: &'a str,
        content: Vec<Block<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        is_error: Option<bool>,
    },
    /// A tool of the request that the model reads from here on.
    ToolReference {
        tool_name: &'a str,
    },
    ToolUse {
        id: &'a str,
        name: &'a str,
        input: Box<RawValue>,
    },
    /// Made by the provider, and sent back byte for byte.
    #[serde(untagged)]
    Own(&'a RawValue),
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "base64")]
struct Source<'a> {
    media_type: &'a str,
    data: String,
}

impl<'a> Block<'a> {
    fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::Text { text: text.into() }
    }
}

/// Text and what was JSON before: there is nothing in it that can't be written.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// The tools, and those that the model only reads when a result refers to them.
pub(super) fn tools_list(
    told: &[Arc<ToolSpec>],
    deferred: &[Arc<ToolSpec>],
    quirks: &Quirks,
) -> String {
    let tool = |tool: &Arc<ToolSpec>| {
        let mut value = json!({"name": tool.name});
        if worth_sending(&tool.description) {
            value["description"] = json!(tool.description);
        }
        value["input_schema"] = told::schema(tool, quirks);
        value
    };
    let deferred = deferred.iter().map(|deferred| {
        let mut value = tool(deferred);
        value["defer_loading"] = json!(true);
        value
    });
    Value::Array(told.iter().map(tool).chain(deferred).collect()).to_string()
}

fn user_blocks<'a>(user: &'a UserMessage, images: &dyn Images, quirks: &Quirks) -> Vec<Block<'a>> {
    let results = user.results.iter().map(|answer| result_block(answer, images, quirks));
    results.chain(content_blocks(&user.content, images, quirks.pictures)).collect()
}

fn result_block<'a>(answer: &'a CallResult, images: &dyn Images, quirks: &Quirks) -> Block<'a> {
    let found = found_names(answer).filter(|_| quirks.deferred_tools);
    let found: Vec<_> = found.map(|tool_name| Block::ToolReference { tool_name }).collect();
    let notes = told::footnotes(answer).map(Block::text);
    Block::ToolResult {
        tool_use_id: &answer.call.0,
        content: match found.is_empty() {
            true => content_blocks(&answer.result.content, images, quirks.pictures)
                .chain(notes)
                .collect(),
            false => found,
        },
        is_error: (answer.how != How::Ok).then_some(true),
    }
}

/// The tools that a search found.
fn found_names(answer: &CallResult) -> impl Iterator<Item = &str> {
    let evidence = answer.result.evidence.as_ref().filter(|_| answer.name == FIND_TOOLS);
    let names = evidence.and_then(|evidence| evidence[FOUND_NAMES].as_array());
    names.into_iter().flatten().filter_map(Value::as_str)
}

fn content_blocks<'a>(
    content: &'a [Content],
    images: &dyn Images,
    pictures: PictureLimits,
) -> impl Iterator<Item = Block<'a>> {
    content.iter().map(move |content| match content {
        Content::Text { text } => Block::text(text),
        Content::Image(image) => image_block(image, images, pictures),
    })
}

fn image_block<'a>(image: &'a ImageRef, images: &dyn Images, pictures: PictureLimits) -> Block<'a> {
    match told::picture(image, images, pictures) {
        Ok(data) => Block::Image { source: Source { media_type: &image.media_type, data } },
        Err(told) => Block::text(told),
    }
}

fn reply_blocks<'a>(reply: &'a Said) -> Vec<Block<'a>> {
    let block = |part: &'a ReplyPart| match part {
        ReplyPart::Text { text } => Some(Block::text(text)),
        // The API takes no reasoning that it has not signed; what is no JSON was not its own.
        ReplyPart::Reasoning(r) => serde_json::from_str(&r.raw).ok().map(Block::Own),
        ReplyPart::Call(call) => Some(call_block(call)),
    };
    reply.parts.iter().filter_map(block).collect()
}

fn call_block(call: &ToolCall) -> Block<'_> {
    let input = RawValue::from_string(told::arguments(call).into_owned());
    Block::ToolUse { id: &call.id.0, name: &call.name, input: input.unwrap_or_default() }
}
