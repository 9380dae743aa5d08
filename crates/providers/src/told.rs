//! What the wires make of a message in the same way. The words are those of the core.

use std::{borrow::Cow, sync::Arc};

use base64::{Engine, engine::general_purpose::STANDARD};
use inspan_core::{
    arguments,
    found::FIND_TOOLS,
    message::{ImageRef, ResultState, ToolCall},
    pictures::PictureLimits,
    prompt::CallResult,
    provider::Images,
    tool::ToolSpec,
    words,
};
use serde_json::{Map, Value, json};

use crate::{quirks::Quirks, schema};

/// The kinds of picture that every wire takes.
const MEDIA_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// A system prompt or description that is worth sending; providers refuse white space. In
/// messages there is none.
pub(crate) fn worth_sending(text: &str) -> bool {
    !text.trim().is_empty()
}

/// The bytes of a picture in base64.
///
/// # Errors
/// It can't be sent: what stands for it.
pub(crate) fn picture(
    image: &ImageRef,
    images: &dyn Images,
    limits: PictureLimits,
) -> Result<String, String> {
    if limits.count_max == 0 {
        return Err(words::IMAGE_NOT_TAKEN.to_owned());
    }
    if !MEDIA_TYPES.contains(&image.media_type.as_str()) {
        return Err(words::image_refused(&image.media_type));
    }
    match images.image(&image.hash) {
        Some(bytes) => Ok(STANDARD.encode(bytes)),
        None => Err(words::IMAGE_LOST.to_owned()),
    }
}

/// What follows the content of a result: the job that goes on, and what was established.
pub(crate) fn footnotes(answer: &CallResult) -> impl Iterator<Item = String> {
    let result = &answer.result;
    // The text of a search has the names that it found.
    let evidence = result.evidence.as_ref().filter(|_| answer.name != FIND_TOOLS);
    let job = match &result.state {
        ResultState::Accepted(job) => Some(words::accepted(job)),
        // A call is not answered with what comes later.
        ResultState::Finished | ResultState::Later(_) => None,
    };
    job.into_iter().chain(evidence.map(words::evidence))
}

/// The schema of a tool as the server reads it. One that can't be sent was told before any request,
/// and stands here as any object.
pub(crate) fn schema(tool: &ToolSpec, quirks: &Quirks) -> Value {
    schema::compiled(&tool.input, quirks.plain_schemas)
        .unwrap_or_else(|_| json!({"type": "object"}))
}

/// The tools that the server can't be told of, each with the reason.
pub(crate) fn unfit_tools(tools: &[Arc<ToolSpec>], quirks: &Quirks) -> Vec<(String, String)> {
    let mut unfit = Vec::new();
    let mut count = 0;
    for tool in tools {
        let why = match schema::compiled(&tool.input, quirks.plain_schemas) {
            Err(why) => why,
            Ok(_) if count == quirks.tools_max => {
                format!("the server takes {} tools at most", quirks.tools_max)
            }
            Ok(_) => {
                count += 1;
                continue;
            }
        };
        unfit.push((tool.name.clone(), why));
    }
    unfit
}

/// The arguments of an old call as JSON of an object: servers read them. What can be read as it
/// stands keeps its bytes, so that numbers are not rounded.
pub(crate) fn arguments(call: &ToolCall) -> Cow<'_, str> {
    let raw = call.arguments.trim();
    let is_object = serde_json::from_str::<Map<String, Value>>(raw).is_ok();
    match is_object && arguments::read(raw).is_some() {
        true => Cow::Borrowed(raw),
        false => Cow::Owned(arguments::projected(&call.arguments).to_string()),
    }
}
