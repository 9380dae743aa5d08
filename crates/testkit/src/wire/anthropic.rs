//! Anthropic Messages: one message a segment, content as blocks.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Asked, check_answers, check_name, check_text};

#[derive(Deserialize)]
#[serde(tag = "role", rename_all = "lowercase", deny_unknown_fields)]
enum Message {
    User { content: Content<UserBlock> },
    Assistant { content: Content<AssistantBlock> },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Content<Block> {
    Text(String),
    Blocks(Vec<Block>),
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum UserBlock {
    Text {
        text: String,
    },
    Image {
        source: Source,
    },
    ToolResult {
        tool_use_id: String,
        content: Content<ResultBlock>,
        #[serde(default, rename = "is_error")]
        _is_error: bool,
    },
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum ResultBlock {
    Text { text: String },
    Image { source: Source },
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum AssistantBlock {
    Text {
        text: String,
    },
    Thinking {
        #[serde(rename = "thinking")]
        _thinking: String,
        signature: String,
    },
    RedactedThinking {
        data: String,
    },
    ToolUse {
        id: String,
        name: String,
        #[serde(rename = "input")]
        _input: Map<String, Value>,
    },
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum Source {
    Base64 { media_type: String, data: String },
}

pub(super) fn read(segment: &[u8], unanswered: &[String], first: bool) -> Result<Asked, String> {
    match serde_json::from_slice(segment).map_err(|e| e.to_string())? {
        Message::User { content } => read_user(&content, unanswered),
        Message::Assistant { .. } if first => Err("the first message is not the user's".to_owned()),
        Message::Assistant { .. } if !unanswered.is_empty() => {
            Err(format!("{unanswered:?} are not answered in the message after them"))
        }
        Message::Assistant { content } => read_assistant(&content),
    }
}

fn read_user(content: &Content<UserBlock>, unanswered: &[String]) -> Result<Asked, String> {
    let blocks = match content {
        Content::Text(text) => {
            check_text(text)?;
            return check_answers(&[], unanswered).map(|()| Asked::new());
        }
        Content::Blocks(blocks) if blocks.is_empty() => return Err("no content".to_owned()),
        Content::Blocks(blocks) => blocks,
    };
    let mut answers = Vec::new();
    for (index, block) in blocks.iter().enumerate() {
        match block {
            UserBlock::Text { text } => check_text(text)?,
            UserBlock::Image { source } => check_source(source)?,
            UserBlock::ToolResult { .. } if index > answers.len() => {
                return Err("a result stands after other content".to_owned());
            }
            UserBlock::ToolResult { tool_use_id, content, .. } => {
                answers.push(tool_use_id.as_str());
                read_result(content)?;
            }
        }
    }
    check_answers(&answers, unanswered).map(|()| Asked::new())
}

fn read_result(content: &Content<ResultBlock>) -> Result<(), String> {
    match content {
        Content::Text(text) => check_text(text),
        Content::Blocks(blocks) if blocks.is_empty() => Err("an empty result".to_owned()),
        Content::Blocks(blocks) => blocks.iter().try_for_each(|block| match block {
            ResultBlock::Text { text } => check_text(text),
            ResultBlock::Image { source } => check_source(source),
        }),
    }
}

fn read_assistant(content: &Content<AssistantBlock>) -> Result<Asked, String> {
    let blocks = match content {
        Content::Text(text) => return check_text(text).map(|()| Asked::new()),
        Content::Blocks(blocks) => blocks,
    };
    let mut asked = Asked::new();
    for block in blocks {
        match block {
            AssistantBlock::Text { text } => check_text(text)?,
            AssistantBlock::Thinking { signature: proof, .. }
            | AssistantBlock::RedactedThinking { data: proof } => check_text(proof)?,
            AssistantBlock::ToolUse { id, name, .. } => {
                check_name("identifier", id)?;
                check_name("tool", name)?;
                asked.push(id.clone());
            }
        }
    }
    match blocks.last() {
        None => Err("no content".to_owned()),
        Some(AssistantBlock::Thinking { .. } | AssistantBlock::RedactedThinking { .. }) => {
            Err("the message ends with thinking".to_owned())
        }
        Some(AssistantBlock::Text { .. } | AssistantBlock::ToolUse { .. }) => Ok(asked),
    }
}

fn check_source(source: &Source) -> Result<(), String> {
    let Source::Base64 { media_type, data } = source;
    let known = ["image/png", "image/jpeg", "image/gif", "image/webp"];
    if known.contains(&media_type.as_str()) && !data.is_empty() {
        Ok(())
    } else {
        Err(format!("a picture of {} bytes as {media_type}", data.len()))
    }
}
