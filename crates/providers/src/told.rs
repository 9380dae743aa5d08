//! What both wires make of a message in the same way. The words are those of the core.

use base64::{Engine, engine::general_purpose::STANDARD};
use inspan_core::{
    message::{ImageRef, ResultState, ToolResult},
    provider::Images,
    words,
};

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
pub(crate) fn picture(image: &ImageRef, images: &dyn Images) -> Result<String, String> {
    if !MEDIA_TYPES.contains(&image.media_type.as_str()) {
        return Err(words::image_refused(&image.media_type));
    }
    match images.image(&image.hash) {
        Some(bytes) => Ok(STANDARD.encode(bytes)),
        None => Err(words::IMAGE_LOST.to_owned()),
    }
}

/// What follows the content of a result: the job that goes on, and what was established.
pub(crate) fn footnotes(result: &ToolResult) -> impl Iterator<Item = String> {
    let job = match &result.state {
        ResultState::Accepted(job) => Some(words::accepted(job)),
        // A call is not answered with what comes later.
        ResultState::Finished | ResultState::Later(_) => None,
    };
    job.into_iter().chain(result.evidence.as_ref().map(words::evidence))
}
