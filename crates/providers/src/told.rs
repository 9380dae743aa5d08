//! The words of the wires themselves that a model reads, the same on each. Changing one moves the
//! prefix of running sessions.

use inspan_core::message::{CallId, Content, ResultState, ToolResult};

/// Stands for a result without content.
pub(crate) const NO_OUTPUT: &str = "(no output)";
/// Stands for a prompt without content.
pub(crate) const NO_CONTENT: &str = "(empty message)";
/// Stands for a reply that was nothing but reasoning.
pub(crate) const NO_ANSWER: &str = "(no answer)";
/// Stands for a picture whose bytes are gone.
pub(crate) const IMAGE_LOST: &str = "[image lost]";
/// Stands, in a result that can't hold pictures, for one that follows.
pub(crate) const IMAGE_FOLLOWS: &str = "[image: in the next message]";

/// The kinds of picture that every wire takes.
const MEDIA_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// A text that is worth sending; providers refuse blocks of white space.
pub(crate) fn worth_sending(text: &str) -> bool {
    !text.trim().is_empty()
}

/// What is said of a picture that can't be sent.
pub(crate) fn image_refused(media_type: &str) -> Option<String> {
    let known = MEDIA_TYPES.contains(&media_type);
    (!known).then(|| format!("[image of type {media_type}: can't be shown]"))
}

/// What introduces a picture that belongs to a result before it.
pub(crate) fn image_of(call: &CallId) -> String {
    format!("[image from the result of {call}]")
}

/// What follows the content of a result: the job that goes on, and what was established.
pub(crate) fn footnotes(result: &ToolResult) -> Vec<String> {
    let mut notes = Vec::new();
    if let ResultState::Accepted(job) = &result.state {
        notes.push(format!("[accepted as job {job}: not finished yet]"));
    }
    if let Some(evidence) = &result.evidence {
        notes.push(format!("[evidence: {evidence}]"));
    }
    notes
}

/// Whether the content says anything at all.
pub(crate) fn is_empty(content: &[Content]) -> bool {
    !content.iter().any(|content| match content {
        Content::Text { text } => worth_sending(text),
        Content::Image(_) => true,
    })
}
