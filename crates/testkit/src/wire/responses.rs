//! OpenAI Responses: a segment is one or several items, joined by commas.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Asked, check_answers, check_name, check_text};

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum Item {
    Message {
        role: Role,
        content: Vec<Part>,
    },
    Reasoning {
        #[serde(rename = "summary")]
        _summary: Vec<Value>,
        #[serde(default, rename = "content")]
        _content: Vec<Value>,
        encrypted_content: String,
    },
    FunctionCall {
        call_id: String,
        name: String,
        arguments: String,
    },
    FunctionCallOutput {
        call_id: String,
        output: String,
    },
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Role {
    User,
    Assistant,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum Part {
    InputText {
        text: String,
    },
    InputImage {
        #[serde(rename = "detail")]
        _detail: String,
        image_url: String,
    },
    OutputText {
        text: String,
    },
}

pub(super) fn read(segment: &[u8], unanswered: &[String], first: bool) -> Result<Asked, String> {
    let list = [b"[", segment, b"]"].concat();
    let items: Vec<Item> = serde_json::from_slice(&list).map_err(|e| e.to_string())?;
    let is_reply = |item: &Item| match item {
        Item::Message { role, .. } => *role == Role::Assistant,
        Item::Reasoning { .. } | Item::FunctionCall { .. } => true,
        Item::FunctionCallOutput { .. } => false,
    };
    match items.first() {
        None => Err("no item".to_owned()),
        Some(item) if is_reply(item) && first => Err("a reply first".to_owned()),
        Some(item) if !items.iter().all(|other| is_reply(other) == is_reply(item)) => {
            Err("a reply beside other items".to_owned())
        }
        Some(item) if is_reply(item) => {
            check_answers(&[], unanswered)?;
            read_reply(&items)
        }
        Some(_) => read_user(&items, unanswered).map(|()| Asked::new()),
    }
}

fn read_user(items: &[Item], unanswered: &[String]) -> Result<(), String> {
    let mut answers = Vec::new();
    for (index, item) in items.iter().enumerate() {
        match item {
            Item::FunctionCallOutput { .. } if index > answers.len() => {
                return Err("a result stands after another item".to_owned());
            }
            Item::FunctionCallOutput { call_id, output } => {
                check_text(output)?;
                answers.push(call_id.as_str());
            }
            Item::Message { content, .. } if content.is_empty() => {
                return Err("no content".to_owned());
            }
            Item::Message { content, .. } => content.iter().try_for_each(check_input)?,
            Item::Reasoning { .. } | Item::FunctionCall { .. } => {}
        }
    }
    check_answers(&answers, unanswered)
}

fn read_reply(items: &[Item]) -> Result<Asked, String> {
    let mut asked = Asked::new();
    for item in items {
        match item {
            Item::Message { content, .. } => {
                for part in content {
                    let Part::OutputText { text } = part else {
                        return Err("input in a reply".to_owned());
                    };
                    check_text(text)?;
                }
            }
            Item::Reasoning { encrypted_content, .. } => check_text(encrypted_content)?,
            Item::FunctionCall { call_id, name, arguments } => {
                check_name("identifier", call_id)?;
                check_name("tool", name)?;
                serde_json::from_str::<Map<String, Value>>(arguments)
                    .map_err(|e| format!("the arguments are no object: {e}"))?;
                asked.push(call_id.clone());
            }
            Item::FunctionCallOutput { .. } => {}
        }
    }
    match items.last() {
        Some(Item::Reasoning { .. }) => Err("the reply ends with reasoning".to_owned()),
        _ => Ok(asked),
    }
}

fn check_input(part: &Part) -> Result<(), String> {
    match part {
        Part::InputText { text } => check_text(text),
        Part::InputImage { image_url, .. } if image_url.starts_with("data:image/") => Ok(()),
        Part::InputImage { .. } => Err("a picture that is none".to_owned()),
        Part::OutputText { .. } => Err("output of the user".to_owned()),
    }
}
