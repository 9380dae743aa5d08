//! What a tool is to the core: a declaration, a check and a run.

use std::{error::Error, fmt, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    budget,
    effects::{Effects, Repeat},
    gate::BoxFuture,
    message::{CallId, Job, ToolResult},
    shared::Shared,
    store::SessionId,
};

/// The declaration of a tool: what the model reads of it, and what the harness needs to know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// `[A-Za-z0-9_-]{1,64}`, the names that every provider takes.
    pub name: String,
    /// What it does and when to use it, for the model.
    pub description: String,
    /// JSON Schema of its arguments; its top is an object.
    pub input: Value,
    /// What it may do to the world.
    pub effects: Effects,
    /// How safe it is to run again.
    pub repeat: Repeat,
    /// Time limit of one call in milliseconds.
    pub timeout_ms_max: u64,
    /// True for a tool that is meant to be asked the same again and again: exempt from the
    /// loop stop.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub polls: bool,
    /// The argument that names what the call works on. Calls on different resources need no
    /// order between them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
}

/// Time limit of one tool call in milliseconds where its declaration has none.
pub const TIMEOUT_MS_DEFAULT: u64 = 120_000;

impl ToolSpec {
    /// A declaration that promises nothing: worst-case effects, repeat `once`, any object as
    /// arguments.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            input: serde_json::json!({ "type": "object" }),
            effects: Effects::default(),
            repeat: Repeat::default(),
            timeout_ms_max: TIMEOUT_MS_DEFAULT,
            polls: false,
            resource: None,
        }
    }

    /// The name of a call as every provider takes it back: models make up names with dots, with
    /// spaces and without anything.
    pub fn sendable_name(name: &str) -> String {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let name: String = name.chars().take(64).map(|c| if fits(c) { c } else { '_' }).collect();
        if name.is_empty() { "_".to_owned() } else { name }
    }

    /// What a request pays in tokens for telling a model of it.
    pub fn tokens_estimate(&self) -> u64 {
        budget::tokens_estimate(self.told_bytes())
    }

    /// The bytes that tell a model of it.
    pub(crate) fn told_bytes(&self) -> usize {
        self.name.len() + self.description.len() + self.input.to_string().len()
    }

    /// Whether calls of this tool run beside each other: they only read, and a second run does
    /// no harm.
    pub fn side_by_side(&self) -> bool {
        self.effects.only_reads() && self.repeat.is_repeatable()
    }
}

/// One run of one call.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// The session.
    pub session: SessionId,
    /// The call.
    pub call: CallId,
    /// The same for all attempts of one call, and for no other call.
    pub key: String,
    /// 1 for the first attempt.
    pub attempt: u32,
    /// The checked arguments, a JSON object.
    pub arguments: Value,
    /// What the embedding program lends to its tools.
    pub shared: Shared,
}

/// A tool that ran and failed, in words for the model.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolError {
    /// What went wrong and what to do instead.
    pub message: String,
    /// What was established all the same, such as an exit status.
    pub evidence: Option<Value>,
}

impl ToolError {
    /// A failure in words, without evidence.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), evidence: None }
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Lets `?` turn every error into a failed call; the model reads it with its causes. For this
/// reason [`ToolError`] is itself no [`Error`].
impl<E: Error> From<E> for ToolError {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            message.push_str(": ");
            message.push_str(&error.to_string());
            cause = error.source();
        }
        Self::new(message)
    }
}

/// What a tool knows of an earlier attempt.
#[derive(Clone, Debug, PartialEq)]
pub enum Probed {
    /// It happened.
    Done(ToolResult),
    /// It did not happen.
    Absent,
    /// It goes on, under this job.
    Pending(Job),
    /// It can't be told.
    Unknown,
}

/// A tool. Dropping the future of a run aborts it, with everything that it started.
pub trait Tool: Send + Sync {
    /// Its declaration; the same for the life of the value.
    fn spec(&self) -> Arc<ToolSpec>;

    /// Checks arguments before any gate sees them, and gives them as the tool will read them
    /// (`"3"` for an integer may become `3`, never with loss). The error names the path and what
    /// is expected there.
    fn check(&self, arguments: Value) -> Result<Value, String>;

    /// Runs one call. The time limit is the driver's. The future must not block its thread: it
    /// shares that with the driver, which could then neither cancel nor time it.
    fn run(&self, call: Invocation) -> BoxFuture<'static, Result<ToolResult, ToolError>>;

    /// Asks whether an attempt that a dead process left open happened, or whether a job is done.
    /// Only called for [`Repeat::Probe`].
    fn probe(&self, call: Invocation) -> BoxFuture<'static, Probed> {
        let _ = call;
        Box::pin(std::future::ready(Probed::Unknown))
    }
}

impl<T: Tool + ?Sized> Tool for Arc<T> {
    fn spec(&self) -> Arc<ToolSpec> {
        (**self).spec()
    }

    fn check(&self, arguments: Value) -> Result<Value, String> {
        (**self).check(arguments)
    }

    fn run(&self, call: Invocation) -> BoxFuture<'static, Result<ToolResult, ToolError>> {
        (**self).run(call)
    }

    fn probe(&self, call: Invocation) -> BoxFuture<'static, Probed> {
        (**self).probe(call)
    }
}
