//! Judgements before a tool runs. All gates must agree: one `Deny` refuses, one `Ask` asks.

use std::{future::Future, pin::Pin, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{message::CallId, shared::Shared, store::SessionId, tool::ToolSpec};

/// A future in a box, as trait objects need it.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What a gate says of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It may run.
    Allow,
    /// A person must say so; the reason is shown to them.
    Ask(String),
    /// It must not run; the reason is told to the model and is final.
    Deny(String),
}

/// The call that a gate judges; its arguments have passed the tool's own check.
#[derive(Clone, Debug)]
pub struct GateCall {
    /// The session.
    pub session: SessionId,
    /// The call.
    pub call: CallId,
    /// The tool, with its effects.
    pub tool: Arc<ToolSpec>,
    /// The checked arguments, a JSON object.
    pub arguments: Value,
    /// What the embedding program lends to its gates.
    pub shared: Shared,
}

/// A judgement before every tool call. It may read live state; one that fails refuses.
pub trait Gate: Send + Sync {
    /// Its name in the log.
    fn name(&self) -> &str;

    /// The judgement of `call`. An error counts as [`Verdict::Deny`] with its text.
    fn judge<'a>(&'a self, call: &'a GateCall) -> BoxFuture<'a, Result<Verdict, String>>;
}

impl<G: Gate + ?Sized> Gate for Arc<G> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn judge<'a>(&'a self, call: &'a GateCall) -> BoxFuture<'a, Result<Verdict, String>> {
        (**self).judge(call)
    }
}

/// When a question to a person is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Asking {
    /// Somebody is there.
    Now,
    /// Later: the turn parks meanwhile, and the process may end.
    Later,
    /// Never, which means no.
    #[default]
    Never,
}

/// What a person answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// This call may run.
    Once,
    /// This call and all later ones of this tool in this session may run.
    Session,
    /// It must not run.
    No,
}

impl Choice {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Once, Self::Session, Self::No];

    /// The word in the log and in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Session => "session",
            Self::No => "no",
        }
    }

    /// Reads what [`Choice::as_str`] gives; `None` for anything else.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|choice| choice.as_str() == word)
    }
}

/// Who answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnsweredBy {
    /// A person.
    Person,
    /// Nobody could answer, which means no.
    Nobody,
}
