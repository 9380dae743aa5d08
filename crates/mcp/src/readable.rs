//! What a server offers to be read: resources, by their addresses, and prompts, by their names.

use futures_util::join;
use inspan_core::message::Content;
use serde_json::{Map, Value};

use crate::{
    Pictures,
    call::{Asked, List},
    catalogue::shown,
    connection::Connection,
    content,
};

/// Resources of one server that are known, and as many prompts.
const LISTED_MAX: usize = 1_000;
/// Pages of such a list.
const PAGES_MAX: usize = 20;
/// Characters of what is said of one.
const ABOUT_CHARS_MAX: usize = 500;
/// Bytes of the text of one resource or prompt that is read.
const TEXT_BYTES_MAX: usize = 256 * 1024;

/// What a server offers to be read. There may be more than it lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readable {
    /// The resources, and forms of addresses (`{…}` stands for something).
    pub resources: Vec<ResourceListed>,
    /// The prompts.
    pub prompts: Vec<PromptListed>,
}

/// A resource, or many of one form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceListed {
    /// Its address, or the form of their addresses.
    pub uri: String,
    /// What it is called.
    pub name: String,
    /// What it is; may be empty.
    pub about: String,
}

/// A prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptListed {
    /// Its name.
    pub name: String,
    /// What it is for; may be empty.
    pub about: String,
    /// Its arguments, and whether each must be given.
    pub arguments: Vec<(String, bool)>,
}

impl Readable {
    /// What the server lists. A list that it does not give is empty: what it offers can be read all
    /// the same.
    pub(crate) async fn of(connection: &Connection) -> Self {
        let mut readable = Self::default();
        if connection.has_resources {
            let (resources, templates) = join!(
                listed(connection, List::Resources, "resources"),
                listed(connection, List::Templates, "resourceTemplates"),
            );
            readable.resources = resources
                .iter()
                .filter_map(|value| resource(value, "uri"))
                .chain(templates.iter().filter_map(|value| resource(value, "uriTemplate")))
                .take(LISTED_MAX)
                .collect();
        }
        if connection.has_prompts {
            let prompts = listed(connection, List::Prompts, "prompts").await;
            readable.prompts = prompts.iter().filter_map(prompt).collect();
        }
        readable
    }
}

async fn listed(connection: &Connection, list: List, key: &str) -> Vec<Value> {
    let (mut found, mut from) = (Vec::new(), None);
    for _ in 0..PAGES_MAX {
        let Ok(mut page) = connection.page(list, from.clone()).await else { break };
        if let Some(Value::Array(more)) = page.get_mut(key).map(Value::take) {
            found.extend(more);
        }
        let next = page.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
        if next.is_none() || next == from || found.len() >= LISTED_MAX {
            break;
        }
        from = next;
    }
    found.truncate(LISTED_MAX);
    found
}

fn text(value: &Value, name: &str) -> Option<String> {
    let text = value.get(name).and_then(Value::as_str)?;
    Some(text.chars().take(ABOUT_CHARS_MAX).collect())
}

fn resource(value: &Value, uri: &str) -> Option<ResourceListed> {
    let uri = value.get(uri).and_then(Value::as_str)?.to_owned();
    let name = text(value, "title").or_else(|| text(value, "name")).unwrap_or_default();
    Some(ResourceListed { uri, name, about: text(value, "description").unwrap_or_default() })
}

fn prompt(value: &Value) -> Option<PromptListed> {
    let argument = |argument: &Value| {
        let is_required = argument.get("required").and_then(Value::as_bool).unwrap_or(false);
        Some((argument.get("name").and_then(Value::as_str)?.to_owned(), is_required))
    };
    let arguments = value.get("arguments").and_then(Value::as_array);
    let arguments = arguments.into_iter().flatten().filter_map(argument).collect();
    let name = value.get("name").and_then(Value::as_str)?.to_owned();
    let about = text(value, "description").or_else(|| text(value, "title")).unwrap_or_default();
    Some(PromptListed { name, about, arguments })
}

/// What is to be read of a server.
#[derive(Clone, Debug, PartialEq)]
pub enum Wanted {
    /// A resource by its address.
    Resource(String),
    /// A prompt by its name, with its arguments.
    Prompt(String, Map<String, Value>),
}

impl Wanted {
    pub(crate) fn asked(&self) -> Asked<'_> {
        match self {
            Self::Resource(uri) => Asked::Resource { uri },
            Self::Prompt(name, arguments) => Asked::Prompt { name, arguments },
        }
    }

    /// What it is, in an error.
    pub(crate) fn named(&self) -> String {
        match self {
            Self::Resource(uri) => format!("resource `{}`", shown(uri)),
            Self::Prompt(name, _) => format!("prompt `{}`", shown(name)),
        }
    }

    /// What was read, piece by piece: see [`content`].
    pub(crate) async fn content(
        &self,
        answer: &Value,
        pictures: Option<&Pictures>,
    ) -> Result<Vec<Content>, String> {
        let list = |name: &str| answer.get(name).and_then(Value::as_array).into_iter().flatten();
        let mut content = Vec::new();
        match self {
            Self::Resource(_) => {
                for piece in list("contents") {
                    content.push(content::resource(piece, pictures).await);
                }
            }
            Self::Prompt(..) => {
                for message in list("messages") {
                    let piece = message.get("content").unwrap_or(&Value::Null);
                    let piece = content::piece_of(piece, pictures).await;
                    content.push(match (message.get("role").and_then(Value::as_str), piece) {
                        (Some("assistant"), Content::Text { text }) => {
                            Content::text(format!("You said before:\n{text}"))
                        }
                        (_, piece) => piece,
                    });
                }
            }
        }
        let bytes = content.iter().map(|piece| match piece {
            Content::Text { text } => text.len(),
            Content::Image(_) => 0,
        });
        match bytes.sum::<usize>() {
            _ if content.is_empty() => Err("it is empty".to_owned()),
            bytes if bytes > TEXT_BYTES_MAX => {
                Err(format!("it has {bytes} bytes, and at most {TEXT_BYTES_MAX} are read"))
            }
            _ => Ok(content),
        }
    }
}
