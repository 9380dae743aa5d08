//! Which part of a request a server refused, as far as its words tell: what a repair of the
//! projection leaves out. Words that fit nothing here name no part.

use inspan_core::provider::Refused;
use serde_json::Value;

/// A part, as the server names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// It is told whole.
    Told(Refused),
    /// A tool by its place in the request, from 0.
    ToolAt(usize),
}

impl Part {
    /// The part by name. `tools` are those of the request, as they were sent; a tool that is not
    /// among them was not refused.
    pub(crate) fn named(self, tools: &[u8]) -> Option<Refused> {
        let names = || {
            let tools: Vec<Value> = serde_json::from_slice(tools).unwrap_or_default();
            tools.into_iter().filter_map(|tool| {
                let name = tool["name"].as_str().or(tool["function"]["name"].as_str());
                name.map(str::to_owned)
            })
        };
        match self {
            Self::ToolAt(at) => names().nth(at).map(|name| Refused::Tool { name }),
            Self::Told(Refused::Tool { name }) => {
                names().find(|known| *known == name).map(|name| Refused::Tool { name })
            }
            Self::Told(part) => Some(part),
        }
    }
}

/// The part that `text`, the server's sentence, is about; `words` are its types, codes and
/// parameters in lower case. The size of the whole is [`size`].
pub(crate) fn part(text: &str, words: &str) -> Option<Part> {
    let lower = text.to_lowercase();
    let tells = |texts: &[&str]| texts.iter().any(|known| lower.contains(known));
    if tells(REASONING_TEXTS) || words.contains("invalid_encrypted_content") {
        return Some(Part::Told(Refused::Reasoning));
    }
    if tells(CALLS_TEXTS) {
        return Some(Part::Told(Refused::Calls));
    }
    if tells(NO_IMAGES_TEXTS) {
        return Some(Part::Told(Refused::Images { count_max: Some(0) }));
    }
    if tells(IMAGES_TEXTS) || IMAGES_WORDS.iter().any(|known| words.contains(known)) {
        let count_max = lower.contains("image").then(|| number(&lower, COUNTS)).flatten();
        let count_max = count_max.and_then(|count| u32::try_from(count).ok());
        return Some(Part::Told(Refused::Images { count_max }));
    }
    tool(text, &lower).or_else(|| tool_at(words))
}

/// The window in tokens, if the words tell it. It is never the size of what was sent.
pub(crate) fn size(text: &str, error: &Value) -> Refused {
    let told = error["n_ctx"].as_u64();
    let tokens_max = told.or_else(|| number(&text.to_lowercase(), WINDOWS));
    Refused::Size { tokens_max: tokens_max.filter(|tokens| *tokens > 0) }
}

/// A tool by its name in quotes, or by its place.
fn tool(text: &str, lower: &str) -> Option<Part> {
    let quoted = |before: &str, quote: char, after: &str| {
        let start = lower.find(before)? + before.len();
        // A text whose lower case has another length can't be cut in the same places.
        let rest = text.get(start..).filter(|_| text.len() == lower.len())?;
        let (name, rest) = rest.split_once(quote)?;
        rest.trim_start().to_lowercase().starts_with(after).then(|| name.to_owned())
    };
    let name = quoted("invalid schema for function '", '\'', "")
        .or_else(|| quoted("because `", '`', "functiondeclaration"))
        .or_else(|| quoted("invalid function name: '", '\'', ""));
    match name {
        Some(name) => Some(Part::Told(Refused::Tool { name })),
        None => tool_at(lower),
    }
}

/// `tools.3.…`, `tools[3]…` and `function_declarations[3]…`. Only what is said of a part of the
/// tool is a refusal of it.
fn tool_at(text: &str) -> Option<Part> {
    // Gemini has one entry of tools, with all functions in it, so that place is looked for first.
    ["function_declarations[", "tools[", "tools."].iter().find_map(|before| {
        text.match_indices(before).find_map(|(start, _)| {
            let rest = text.get(start + before.len()..)?;
            let end = rest.find(|c: char| !c.is_ascii_digit())?;
            let (digits, rest) = rest.split_at(end);
            let rest = rest.strip_prefix(']').unwrap_or(rest);
            let at = digits.parse().ok().filter(|_| rest.starts_with('.') || rest.starts_with(':'));
            at.map(Part::ToolAt)
        })
    })
}

/// The first number that stands right after one of `places`, or between its two halves.
fn number(lower: &str, places: &[(&str, &str)]) -> Option<u64> {
    places.iter().find_map(|(before, after)| {
        lower.match_indices(before).find_map(|(start, _)| {
            let rest = lower.get(start + before.len()..)?;
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != ',' && c != '_');
            let (digits, rest) = rest.split_at(end.unwrap_or(rest.len()));
            let digits: String = digits.chars().filter(char::is_ascii_digit).collect();
            digits.parse().ok().filter(|_| rest.trim_start().starts_with(after))
        })
    })
}

/// What stands before and after the window.
const WINDOWS: &[(&str, &str)] = &[
    ("maximum context length is ", "token"),
    ("maximum prompt length is ", ""),
    ("too large for model with ", "maximum context length"),
    ("context length of only ", "token"),
    ("context size (", "token"),
    ("exceeds the model's context length of ", ""),
    ("context window of ", "token"),
    ("model token limit: ", ""),
    ("tokens allowed (", ")"),
    ("tokens allowed ", ""),
    ("range of input length should be [1, ", "]"),
    ("while limit is ", ""),
    ("must be <= ", ""),
    // `… tokens > 200000 maximum`, and `… exceed context limit: 190000 + 32000 > 200000`.
    (" > ", "maximum"),
    (" > ", ""),
];

/// What stands before and after the most pictures of one request.
const COUNTS: &[(&str, &str)] = &[
    ("at most ", "image"),
    ("a maximum of ", "image"),
    ("maximum of ", "allowed"),
    ("images > ", ""),
    ("supports up to ", "image"),
    ("up to ", "image"),
    ("too many images: maximum is ", ""),
];

const IMAGES_WORDS: &[&str] =
    &["image_parse_error", "invalid_image", "image_too_large", "unsupported_image"];

const IMAGES_TEXTS: &[&str] = &[
    "image exceeds",
    "image dimensions exceed",
    "could not process image",
    "but the image appears to be",
    "images, exceeding",
    "images > ",
    "image(s) may be provided",
    "too many images",
    "unsupported image",
    "invalid image",
    "image: unknown format",
    "failed to load image",
    "failed to decode image",
    "cannot identify image file",
    "image length and width do not meet",
    "max bytes per data-uri item",
    "multimodal file size is too large",
    "does not represent a valid image",
];

/// The model takes no pictures at all.
const NO_IMAGES_TEXTS: &[&str] = &[
    "image input is not supported",
    "image input is not enabled",
    "support image input",
    "does not support image",
    "missing data required for image input",
    "unknown variant `image_url`",
    "is not a multimodal model",
    "content type 'image_url' is not supported",
];

/// Reasoning that the server does not take. One that it misses can't be left out, so texts of
/// that kind are not here.
const REASONING_TEXTS: &[&str] = &[
    "invalid `signature` in `thinking` block",
    "invalid signature in thinking block",
    "blocks in the latest assistant message cannot be modified",
    "expected `thinking` or `redacted_thinking`, but found",
    "final block in an assistant message cannot be `thinking`",
    "of type 'reasoning' was provided without its required following item",
    "without its required 'reasoning' item",
    "encrypted content could not be",
    "encrypted content for item",
    "thought signature is not valid",
    "corrupted thought signature",
    "'reasoning_content' is unsupported",
    "remove the reasoning_content",
    "reasoning_content`: extra inputs are not permitted",
    "].reasoning_content'",
    "].reasoning'",
];

const CALLS_TEXTS: &[&str] = &[
    "ids were found without `tool_result` blocks",
    "ids were found without tool_result blocks",
    "unexpected `tool_use_id` found in `tool_result`",
    "`tool_use` ids must be unique",
    "each tool_use must have a single result",
    "when previous message does not contain any tool_use",
    "must be followed by tool messages",
    "did not have response messages",
    "must be a response to a prece",
    "tool_call_id not found",
    "tool_call_id is not found",
    "duplicate value for 'tool_call_id'",
    "no tool call found for function call output",
    "no tool output found for function call",
    "tool call id was",
    "unexpected role 'tool' after role",
    "not the same number of function calls and responses",
    "number of function response parts is equal to the number of function call parts",
    "tool_calls[0].id': string too long",
];

#[cfg(test)]
mod tests;
