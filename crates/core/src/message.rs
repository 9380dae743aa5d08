//! What a model reads and writes, in no provider's words.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{budget::COUNTED_OVER_TOKENS_MAX, hash::Hash};

/// The identifier of a tool call, given by Inspan and unique in a session:
/// `call_<seq of its reply>_<index>`. What the provider called it is metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallId(pub String);

impl CallId {
    /// The identifier of the `index`-th call of the reply that is entry `seq`.
    pub fn new(seq: u64, index: usize) -> Self {
        Self(format!("call_{seq}_{index}"))
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A picture in the blob store; the bytes are read only when a request is built.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageRef {
    /// SHA-256 of the bytes.
    pub hash: Hash,
    /// `image/png`, `image/jpeg`, `image/gif` or `image/webp`.
    pub media_type: String,
    /// Size of the encoded picture in bytes.
    pub size_bytes: u64,
}

/// The whole text of a result that was too long for the log, in the blob store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlobRef {
    /// SHA-256 of the bytes, which are masked text.
    pub hash: Hash,
    /// Their number.
    pub size_bytes: u64,
    /// Its lines, as `open_result` counts them: what is very long is several.
    pub lines: u64,
}

/// A piece of a prompt or of a tool result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", try_from = "Fields")]
pub enum Content {
    /// Plain text.
    Text {
        /// The text.
        text: String,
    },
    /// A picture.
    Image(ImageRef),
}

impl Content {
    /// Text as content.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }
}

/// What a model wrote, in its order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", try_from = "Fields")]
pub enum ReplyPart {
    /// Text for the person.
    Text {
        /// The text.
        text: String,
    },
    /// Reasoning, opaque to us.
    Reasoning(Reasoning),
    /// A request to run a tool.
    Call(ToolCall),
}

/// A reasoning block: readable text for people, and the provider's own block, byte for byte, for
/// the provider that made it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reasoning {
    /// What can be shown; may be empty.
    pub text: String,
    /// The block as JSON text exactly as it must be sent back; empty when it need not be.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub raw: String,
    /// Whether the provider signed it. Signed reasoning is kept when a reply is cut.
    #[serde(default)]
    pub signed: bool,
}

/// A request of the model to run a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Our identifier.
    pub id: CallId,
    /// The provider's identifier, if it gave one; never used to pair anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// The tool's name as the model wrote it.
    pub name: String,
    /// The arguments as received, meant to be a JSON object.
    pub arguments: String,
    /// False for half a call: the reply ended in the middle of it. It never runs and is never
    /// sent back.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub complete: bool,
}

/// The fields of everything that has a `type`, so that it is read in one go: serde's own way keeps
/// all of it aside until it has seen which type it is, and long logs are read often.
#[derive(Deserialize)]
struct Fields {
    #[serde(rename = "type")]
    kind: Kind,
    text: Option<String>,
    hash: Option<Hash>,
    media_type: Option<String>,
    size_bytes: Option<u64>,
    #[serde(default)]
    raw: String,
    #[serde(default)]
    signed: bool,
    id: Option<CallId>,
    provider_id: Option<String>,
    name: Option<String>,
    arguments: Option<String>,
    #[serde(default = "yes")]
    complete: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Text,
    Image,
    Reasoning,
    Call,
}

impl TryFrom<Fields> for Content {
    type Error = &'static str;

    fn try_from(fields: Fields) -> Result<Self, Self::Error> {
        match fields.kind {
            Kind::Text => Ok(Self::Text { text: fields.text.ok_or(NO_TEXT)? }),
            Kind::Image => Ok(Self::Image(ImageRef {
                hash: fields.hash.ok_or("a picture has a `hash`")?,
                media_type: fields.media_type.ok_or("a picture has a `media_type`")?,
                size_bytes: fields.size_bytes.ok_or("a picture has `size_bytes`")?,
            })),
            Kind::Reasoning | Kind::Call => Err("content is of type `text` or `image`"),
        }
    }
}

impl TryFrom<Fields> for ReplyPart {
    type Error = &'static str;

    fn try_from(fields: Fields) -> Result<Self, Self::Error> {
        match fields.kind {
            Kind::Text => Ok(Self::Text { text: fields.text.ok_or(NO_TEXT)? }),
            Kind::Reasoning => Ok(Self::Reasoning(Reasoning {
                text: fields.text.ok_or(NO_TEXT)?,
                raw: fields.raw,
                signed: fields.signed,
            })),
            Kind::Call => Ok(Self::Call(ToolCall {
                id: fields.id.ok_or("a call has an `id`")?,
                provider_id: fields.provider_id,
                name: fields.name.ok_or("a call has a `name`")?,
                arguments: fields.arguments.ok_or("a call has `arguments`")?,
                complete: fields.complete,
            })),
            Kind::Image => Err("a part of a reply is of type `text`, `reasoning` or `call`"),
        }
    }
}

/// Why text and reasoning can't be read.
const NO_TEXT: &str = "text and reasoning have a `text`";

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape serde asks for")]
fn is_true(value: &bool) -> bool {
    *value
}

/// Why a model stopped writing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplyStop {
    /// It was done, or asks for its tools.
    End,
    /// The token limit or the window was reached: the reply is cut.
    Length,
    /// The stream broke and no further attempt was left: the reply is cut.
    Broken,
    /// The person cancelled: the reply is cut.
    Cancelled,
    /// The provider paused and wants the same conversation sent again.
    Paused,
    /// The model or its provider declined to answer.
    Refusal,
}

impl ReplyStop {
    /// Whether the end of the reply is missing, so that nothing in it may run.
    pub fn is_cut(&self) -> bool {
        matches!(self, Self::Length | Self::Broken | Self::Cancelled)
    }
}

/// Tokens of one model call by tier. `None` is unknown, which is not zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Input tokens that were neither read from nor written to a cache.
    pub input: Option<u64>,
    /// Input tokens read from the provider's cache.
    pub cache_read: Option<u64>,
    /// Input tokens written to the provider's cache.
    pub cache_write: Option<u64>,
    /// Output tokens, reasoning included.
    pub output: Option<u64>,
    /// The part of `output` that was reasoning.
    pub reasoning: Option<u64>,
    /// True when Inspan estimated the figures because the provider never said.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
}

impl Usage {
    /// All tokens read, over the three input tiers.
    pub fn input_total(&self) -> u64 {
        [self.input, self.cache_read, self.cache_write]
            .into_iter()
            .flatten()
            .fold(0, u64::saturating_add)
    }

    /// Whether it can be a count of a request of about so many tokens: some servers say anything.
    pub fn is_plausible(&self, input_tokens_estimate: u64) -> bool {
        let most = input_tokens_estimate.saturating_mul(8).saturating_add(COUNTED_OVER_TOKENS_MAX);
        self.total() <= most
    }

    /// All tokens over all tiers; reasoning is part of the output.
    pub fn total(&self) -> u64 {
        self.input_total().saturating_add(self.output.unwrap_or(0))
    }
}

/// One answer of a model, as received.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// What it wrote, in order.
    pub parts: Vec<ReplyPart>,
    /// Why it stopped.
    pub stop: ReplyStop,
    /// What it cost in tokens.
    pub usage: Usage,
    /// Who made it (see [`crate::provider::Provider::issuer`]): reasoning goes back to no other.
    pub issuer: String,
    /// The model's name as the provider gave it in the reply; empty when it gave none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// The provider's identifier of the reply, for its support; empty when it gave none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub provider_id: String,
}

impl Reply {
    /// The text of the reply, its parts joined.
    pub fn text(&self) -> String {
        text_of(&self.parts)
    }

    /// The whole calls of the reply, in order; half calls are left out.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        calls_of(&self.parts)
    }
}

/// The text among `parts`, joined.
pub(crate) fn text_of(parts: &[ReplyPart]) -> String {
    let mut all = String::new();
    for part in parts {
        if let ReplyPart::Text { text } = part {
            all.push_str(text);
        }
    }
    all
}

/// The whole calls among `parts`.
pub(crate) fn calls_of(parts: &[ReplyPart]) -> impl Iterator<Item = &ToolCall> {
    parts.iter().filter_map(|part| match part {
        ReplyPart::Call(call) if call.complete => Some(call),
        _ => None,
    })
}

/// Whether an operation is over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultState {
    /// It is over.
    #[default]
    Finished,
    /// It was accepted and goes on elsewhere under this job identifier: this answers the call.
    Accepted(String),
    /// It goes on elsewhere, and the call waits for its result, however long that takes. The rest
    /// of the result is not told.
    Later(Job),
}

/// Work that goes on outside of any process of ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Its identifier, for whoever delivers the result.
    pub id: String,
    /// When the tool is to be probed for the result, in milliseconds from now; `None` when it comes
    /// by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_after_ms: Option<u64>,
}

/// What a tool gave.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    /// What the model reads.
    pub content: Vec<Content>,
    /// What the operation established: a revision, source identifiers, an exit status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Value>,
    /// Finished, or accepted as a job.
    #[serde(default)]
    pub state: ResultState,
    /// Where all of it is, when `content` holds only its beginning and end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spilled: Option<BlobRef>,
}

impl ToolResult {
    /// A finished result of plain text without evidence.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![Content::text(text)], ..Self::default() }
    }

    /// The text of the content, joined by new lines.
    pub fn to_text(&self) -> String {
        let texts: Vec<&str> = self
            .content
            .iter()
            .filter_map(|content| match content {
                Content::Text { text } => Some(text.as_str()),
                Content::Image(_) => None,
            })
            .collect();
        texts.join("\n")
    }
}

/// How a tool call came to its result. The words of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// It ran.
    Ok,
    /// It ran and failed.
    Failed,
    /// No tool has that name.
    UnknownTool,
    /// The arguments are missing, unreadable or of the wrong kind.
    BadArguments,
    /// A gate or a person refused.
    Refused,
    /// The reply was cut, or a limit was reached before it.
    NotRun,
    /// It ran past its time.
    TimedOut,
    /// The person cancelled.
    Cancelled,
    /// The process died in it; nobody knows.
    Unknown,
}

impl How {
    /// All ways, in the order of the table of answers.
    pub const ALL: [Self; 9] = [
        Self::Ok,
        Self::Failed,
        Self::UnknownTool,
        Self::BadArguments,
        Self::Refused,
        Self::NotRun,
        Self::TimedOut,
        Self::Cancelled,
        Self::Unknown,
    ];

    /// The word in the log and the trace.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::UnknownTool => "unknown_tool",
            Self::BadArguments => "bad_arguments",
            Self::Refused => "refused",
            Self::NotRun => "not_run",
            Self::TimedOut => "timed_out",
            Self::Cancelled => "cancelled",
            Self::Unknown => "unknown",
        }
    }
}

/// Whether content can carry a stranger's instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// The person's own words, or a program of theirs.
    #[default]
    Trusted,
    /// From outside: data, never instructions.
    Untrusted,
}

/// Whether content belongs to the person.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Privacy {
    /// Anyone may read it.
    #[default]
    Public,
    /// It must not leave without being asked.
    Private,
}

/// Where content comes from, as far as safety cares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Labels {
    /// Whether it can carry a stranger's instructions.
    pub trust: Trust,
    /// Whether it belongs to the person.
    pub privacy: Privacy,
}
