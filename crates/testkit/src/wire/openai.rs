//! OpenAI Chat Completions: a segment is one or several messages, joined by commas.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Asked, check_answers, check_name, check_text};

#[derive(Deserialize)]
#[serde(tag = "role", rename_all = "lowercase", deny_unknown_fields)]
enum Message {
    User {
        content: Content,
    },
    Assistant {
        #[serde(default)]
        content: Option<Content>,
        #[serde(default, rename = "reasoning_content")]
        _reasoning_content: Option<String>,
        #[serde(default)]
        tool_calls: Option<Vec<Call>>,
    },
    Tool {
        tool_call_id: String,
        content: Content,
    },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum Part {
    Text { text: String },
    ImageUrl { image_url: ImageUrl },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ImageUrl {
    url: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    id: String,
    #[serde(rename = "type")]
    kind: String,
    function: Function,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Function {
    name: String,
    arguments: String,
}

pub(super) fn read(segment: &[u8], unanswered: &[String], first: bool) -> Result<Asked, String> {
    let list = [b"[", segment, b"]"].concat();
    let messages: Vec<Message> = serde_json::from_slice(&list).map_err(|e| e.to_string())?;
    let mut asked = Asked::new();
    let mut answers = Vec::new();
    let mut spoken = false;
    for message in &messages {
        match message {
            Message::Tool { .. } if spoken => {
                return Err("a tool's message stands after another one".to_owned());
            }
            Message::Tool { tool_call_id, content } => {
                answers.push(tool_call_id.as_str());
                check_content(content, false)?;
            }
            Message::User { content } => {
                spoken = true;
                check_content(content, true)?;
            }
            Message::Assistant { .. } if first || messages.len() > 1 => {
                return Err("a reply first, or beside other messages".to_owned());
            }
            Message::Assistant { content, tool_calls, .. } => {
                asked = read_assistant(content.as_ref(), tool_calls.as_deref())?;
            }
        }
    }
    if messages.is_empty() {
        return Err("no message".to_owned());
    }
    check_answers(&answers, unanswered).map(|()| asked)
}

fn read_assistant(content: Option<&Content>, calls: Option<&[Call]>) -> Result<Asked, String> {
    if let Some(content) = content {
        check_content(content, false)?;
    }
    match calls {
        None if content.is_none() => Err("neither content nor calls".to_owned()),
        None => Ok(Asked::new()),
        Some([]) => Err("an empty list of calls".to_owned()),
        Some(calls) => calls.iter().map(read_call).collect(),
    }
}

fn read_call(call: &Call) -> Result<String, String> {
    check_name("identifier", &call.id)?;
    check_name("tool", &call.function.name)?;
    if call.kind != "function" {
        return Err(format!("a call of the type {:?}", call.kind));
    }
    serde_json::from_str::<Map<String, Value>>(&call.function.arguments)
        .map(|_| call.id.clone())
        .map_err(|e| format!("the arguments are no object: {e}"))
}

fn check_content(content: &Content, images: bool) -> Result<(), String> {
    match content {
        Content::Text(text) => check_text(text),
        Content::Parts(parts) if parts.is_empty() => Err("no content".to_owned()),
        Content::Parts(parts) => parts.iter().try_for_each(|part| match part {
            Part::Text { text } => check_text(text),
            Part::ImageUrl { image_url } if images && image_url.url.starts_with("data:image/") => {
                Ok(())
            }
            Part::ImageUrl { .. } => Err("a picture where none can be".to_owned()),
        }),
    }
}
