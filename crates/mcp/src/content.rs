//! What a tool of a server gave, in our words. Read from JSON piece by piece: a piece that is
//! unknown here becomes text, and the others are what they are.

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::STANDARD};
use inspan_core::{
    blobs::Blobs,
    message::{Content, ImageRef, ToolResult},
    tool::ToolError,
};
use serde_json::Value;

/// Bytes of one picture.
const PICTURE_BYTES_MAX: usize = 12 * 1024 * 1024;

/// Where pictures are kept, and how their type is told.
#[derive(Clone)]
pub struct Pictures {
    /// Where they are kept.
    pub blobs: Arc<dyn Blobs>,
    /// The media type of a picture by its bytes; `None` for what models can't be shown.
    pub media_type: fn(&[u8]) -> Option<&'static str>,
}

/// The result of a call as the model reads it. Structured content is what the call established, where
/// that is more than what the text says.
///
/// # Errors
/// The tool says that it failed, or its answer is of a kind that is none here.
pub(crate) async fn result(
    value: &Value,
    pictures: Option<&Pictures>,
) -> Result<ToolResult, ToolError> {
    match value.get("resultType").and_then(Value::as_str) {
        None | Some("complete") => {}
        Some(other) => {
            return Err(ToolError::new(format!(
                "the server answered with `{other}`, which is not supported"
            )));
        }
    }
    let structured = value.get("structuredContent").filter(|value| !value.is_null()).cloned();
    let mut content = Vec::new();
    for piece in value.get("content").and_then(Value::as_array).into_iter().flatten() {
        content.push(piece_of(piece, pictures).await);
    }
    if let (true, Some(structured)) = (content.is_empty(), &structured) {
        content.push(Content::text(structured.to_string()));
    }
    // What the text says already need not be read twice.
    let evidence = structured.filter(|structured| !says_the_same(&content, structured));
    let result = ToolResult { content, evidence, ..ToolResult::default() };
    if value.get("isError").and_then(Value::as_bool) != Some(true) {
        return Ok(result);
    }
    let message = match result.to_text() {
        text if text.trim().is_empty() => "the tool failed and did not say why".to_owned(),
        text => text,
    };
    Err(ToolError { message, evidence: result.evidence })
}

/// Whether the text is the structured content over again: its JSON, or that of the one value that a
/// server wraps because it must be an object.
fn says_the_same(content: &[Content], structured: &Value) -> bool {
    let [Content::Text { text }] = content else { return false };
    let wrapped = structured.as_object().filter(|fields| fields.len() == 1);
    let wrapped = wrapped.and_then(|fields| fields.get("result"));
    if wrapped.and_then(Value::as_str) == Some(text) {
        return true;
    }
    let said = serde_json::from_str::<Value>(text).ok();
    said.is_some_and(|said| said == *structured || wrapped == Some(&said))
}

pub(crate) async fn piece_of(piece: &Value, pictures: Option<&Pictures>) -> Content {
    let text = |name: &str| piece.get(name).and_then(Value::as_str);
    match text("type") {
        Some("text") => Content::text(text("text").unwrap_or_default()),
        Some("image") => {
            binary("a picture", text("mimeType"), text("data").unwrap_or_default(), pictures).await
        }
        Some("audio") => {
            binary("a sound", text("mimeType"), text("data").unwrap_or_default(), None).await
        }
        Some("resource") => resource(piece.get("resource").unwrap_or(&Value::Null), pictures).await,
        Some("resource_link") => link(piece),
        _ => Content::text(piece.to_string()),
    }
}

pub(crate) async fn resource(resource: &Value, pictures: Option<&Pictures>) -> Content {
    let text = |name: &str| resource.get(name).and_then(Value::as_str);
    let uri = text("uri").unwrap_or("a resource");
    match (text("text"), text("blob")) {
        (Some(words), _) => Content::text(format!("{uri}:\n{words}")),
        (None, Some(blob)) => binary(uri, text("mimeType"), blob, pictures).await,
        (None, None) => Content::text(resource.to_string()),
    }
}

fn link(link: &Value) -> Content {
    let text = |name: &str| link.get(name).and_then(Value::as_str);
    let name = text("title").or_else(|| text("name")).unwrap_or("a resource");
    let about = text("description").map_or(String::new(), |about| format!(": {about}"));
    Content::text(format!("[{name}, at {}{about}]", text("uri").unwrap_or("no address")))
}

/// Bytes in base64: a picture that can be shown, or a note that they are there.
async fn binary(
    what: &str,
    media_type: Option<&str>,
    base64: &str,
    pictures: Option<&Pictures>,
) -> Content {
    let kind = media_type.unwrap_or("unknown type");
    let note = |why: &str| Content::text(format!("[{what} ({kind}): {why}]"));
    if base64.len() / 4 * 3 > PICTURE_BYTES_MAX {
        return note("too large to be shown");
    }
    let Ok(bytes) = STANDARD.decode(base64.trim_ascii()) else {
        return note("its bytes can't be read");
    };
    let length = bytes.len();
    let shown = pictures.and_then(|p| Some((p, (p.media_type)(&bytes)?)));
    let Some((pictures, media_type)) = shown else {
        return note(&format!("{length} bytes that can't be shown"));
    };
    match pictures.blobs.put(bytes.into()).await {
        Ok(hash) => Content::Image(ImageRef {
            hash,
            media_type: media_type.to_owned(),
            size_bytes: length as u64,
        }),
        Err(error) => note(&format!("it can't be kept: {error}")),
    }
}

#[cfg(test)]
#[path = "tests/content.rs"]
mod tests;
