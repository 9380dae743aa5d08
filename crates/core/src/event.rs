//! The whole vocabulary of the log. An event is a fact of the session, past tense, never changed.
//!
//! An [`Entry`] is an event with its place in the log. Its body is JSON text, kept byte for byte
//! as it was written; each entry carries the hash of its own bytes chained to the one before.
//! A kind that this version does not know, or a body that it can't read, becomes
//! [`Event::Unknown`]: it folds to nothing and is kept.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use crate::{
    budget::{Limit, Limits, Price},
    columns::Columns,
    effects::{Effects, Repeat},
    gate::{AnsweredBy, Choice, Verdict},
    hash::Hash,
    message::{CallId, Content, How, Labels, Reply, ToolResult, Usage},
    provider::{ErrorClass, Refused},
    repair::Repair,
    store::SessionId,
    tool::ToolSpec,
};

/// The version of the log's format that this build writes, for ever: from here on an event only gains
/// fields that may be missing, or there is a new kind of event. Version 0 was before the first release.
pub const FORMAT_VERSION: u32 = 1;

/// Why a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// The model answered.
    End,
    /// The reply was cut at its token limit, twice.
    Length,
    /// The model or its provider declined.
    Refusal,
    /// The limit on rounds.
    Rounds,
    /// The limit on tokens.
    Tokens,
    /// The limit on cost.
    Cost,
    /// The limit on time.
    Time,
    /// The limit on tool calls.
    Calls,
    /// The same rounds over and over.
    Loop,
    /// The person cancelled.
    Cancelled,
    /// It waits for something outside, and goes on when that has come.
    Parked,
    /// The provider failed for good.
    Failed,
}

impl Stop {
    /// All stops.
    pub const ALL: [Self; 12] = [
        Self::End,
        Self::Length,
        Self::Refusal,
        Self::Rounds,
        Self::Tokens,
        Self::Cost,
        Self::Time,
        Self::Calls,
        Self::Loop,
        Self::Cancelled,
        Self::Parked,
        Self::Failed,
    ];

    /// The word in the log, the trace and the JSON output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::End => "end",
            Self::Length => "length",
            Self::Refusal => "refusal",
            Self::Rounds => "rounds",
            Self::Tokens => "tokens",
            Self::Cost => "cost",
            Self::Time => "time",
            Self::Calls => "calls",
            Self::Loop => "loop",
            Self::Cancelled => "cancelled",
            Self::Parked => "parked",
            Self::Failed => "failed",
        }
    }
}

/// A session began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionStarted {
    /// The session.
    pub session: SessionId,
    /// The version of Inspan that began it.
    pub inspan: String,
    /// The version of the log's format.
    pub format: u32,
    /// The working directory.
    pub workdir: String,
}

/// Where an agent was defined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentRef {
    /// Its name.
    pub name: String,
    /// The folder; empty for one made in code.
    pub path: String,
    /// The hash of everything in the folder that defines it.
    pub hash: Hash,
}

/// The model of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelRef {
    /// As the person names it: `anthropic://claude-sonnet-5-5`.
    pub url: String,
    /// Its window in tokens, if anybody knows.
    pub window_tokens_max: Option<u64>,
    /// The most tokens that one reply of it can have, if anybody knows.
    #[serde(default)]
    pub output_tokens_max: Option<u32>,
    /// Its price, if anybody knows.
    pub price: Option<Price>,
    /// Its server may read less of a prompt than was sent, without a word.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cuts_silently: bool,
}

/// What the session runs with from here on. Written at its start and at each change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionConfigured {
    /// The agent's folder.
    pub agent: Option<AgentRef>,
    /// The model.
    pub model: ModelRef,
    /// The models that answer in its place, one after the other, when its server fails for good.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallbacks: Vec<ModelRef>,
    /// The system prompt, resolved; empty for none.
    pub system: String,
    /// The tools, sorted by name.
    pub tools: Vec<Arc<ToolSpec>>,
    /// The tools that the model is not told of before it finds them, and where each comes from: see
    /// [`crate::found`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub found: BTreeMap<String, String>,
    /// The names of the gates, in the order in which they judge.
    pub gates: Vec<String>,
    /// Why a person is asked before each call of a tool, by its name, where the agent says so.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub asks: BTreeMap<String, String>,
    /// The limits of each turn.
    pub limits: Limits,
    /// The sandbox level obtained; `none` until there is one.
    pub sandbox: String,
    /// The working directory, in a session that left the one in which it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workdir: Option<String>,
}

impl SessionConfigured {
    /// The tool of this name.
    pub fn tool(&self, name: &str) -> Option<&Arc<ToolSpec>> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// Bytes of what stands before the messages.
    pub(crate) fn head_bytes(&self) -> usize {
        let told = self.tools.iter().filter(|tool| !self.found.contains_key(&tool.name));
        self.system.len() + told.map(|tool| tool.told_bytes()).sum::<usize>()
    }
}

/// Tools came, changed or went while a session goes on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CatalogueChanged {
    /// Those that came.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub came: Vec<Arc<ToolSpec>>,
    /// Those that were there before and are declared otherwise, as they are now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<Arc<ToolSpec>>,
    /// The names of those that went.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub went: Vec<String>,
    /// Those that came or changed that the model is not told of before it finds them, and where each
    /// comes from.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub found: BTreeMap<String, String>,
    /// Why a person is asked before a call of one that came or changed, by its name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub asks: BTreeMap<String, String>,
    /// What a person should know of it, masked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
}

impl CatalogueChanged {
    /// What makes `now` of `before`; empty when that is nothing.
    pub fn between(before: &[Arc<ToolSpec>], now: &[Arc<ToolSpec>]) -> Self {
        let in_list = |tools: &[Arc<ToolSpec>], name: &str| {
            tools.iter().find(|tool| tool.name == name).cloned()
        };
        let mut change = Self::default();
        for tool in now {
            match in_list(before, &tool.name) {
                None => change.came.push(tool.clone()),
                Some(known) if known != *tool => change.changed.push(tool.clone()),
                Some(_) => {}
            }
        }
        let gone = before.iter().filter(|tool| in_list(now, &tool.name).is_none());
        change.went = gone.map(|tool| tool.name.clone()).collect();
        change
    }

    /// Whether nothing is other than before.
    pub fn is_empty(&self) -> bool {
        self.came.is_empty() && self.changed.is_empty() && self.went.is_empty()
    }

    /// What it adds to a request, about.
    pub(crate) fn bytes(&self) -> usize {
        let all = self.came.iter().chain(&self.changed);
        let told = all.filter(|tool| !self.found.contains_key(&tool.name));
        told.map(|tool| tool.told_bytes()).sum()
    }
}

/// A person (or a program in their place) said something.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PromptSubmitted {
    /// What was said.
    pub content: Vec<Content>,
    /// Where it comes from.
    #[serde(default)]
    pub labels: Labels,
}

/// A model call was announced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoundStarted {
    /// The number of the round in its turn, from 1; further attempts and the closing call keep it.
    pub round: u32,
    /// 1 for the first attempt.
    pub attempt: u32,
    /// The limit for which this is the closing call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closing: Option<Limit>,
    /// The limit on the reply's tokens.
    pub output_tokens_max: u32,
    /// What the request is estimated to hold, in tokens.
    pub input_tokens_estimate: u64,
}

/// A model call ended with a reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelReplied {
    /// The reply.
    pub reply: Reply,
    /// What it cost in thousand-millionths of a US dollar; unknown without a price.
    pub cost_nano_usd: Option<u64>,
    /// From the request to the first piece, in milliseconds.
    pub first_ms: u64,
    /// From the request to the end, in milliseconds.
    pub ms: u64,
}

/// A model call ended without one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelFailed {
    /// What kind of failure.
    pub class: ErrorClass,
    /// What the provider said, masked.
    pub message: String,
    /// When to try again, in milliseconds since 1970; none: no further attempt.
    pub retry_at_ms: Option<i64>,
    /// What of the request was refused, if it was that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Refused>,
    /// What is charged for it: an estimate when the process died in it.
    #[serde(default)]
    pub usage: Usage,
    /// The cost of `usage`, in thousand-millionths of a US dollar.
    #[serde(default)]
    pub cost_nano_usd: Option<u64>,
    /// From the request to the end, in milliseconds.
    pub ms: u64,
    /// What had arrived, when no further attempt is made: its text stays, nothing of it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<Reply>,
}

/// What the model reads was changed, because its provider refused it or takes no more; the model is
/// asked with that.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProjectionRepaired {
    /// What is left out or changed from here on.
    #[serde(flatten)]
    pub repair: Repair,
    /// What the provider said, masked; or what it takes.
    pub why: String,
}

/// A server read less of a request than was sent, and did not say so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptCut {
    /// What was sent, in tokens: what was counted before, else an estimate.
    pub sent_tokens: u64,
    /// What the server counted: from here on taken for the model's window.
    pub read_tokens: u64,
}

/// Another model answers for the rest of the turn: the next of the fallbacks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelSwitched {
    /// The URL of the model that is asked from here on.
    pub model: String,
    /// How the one before it failed, masked.
    pub why: String,
}

/// The gates judged a call whose tool was found and whose arguments are in order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GateJudged {
    /// The call.
    pub call: CallId,
    /// The gate that decided; empty when none had anything to say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub gate: String,
    /// Its verdict.
    pub verdict: Verdict,
    /// The arguments as checked, when they differ from those received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Value>,
}

/// A person was asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PermissionAsked {
    /// The call.
    pub call: CallId,
    /// The tool.
    pub name: String,
    /// Why it is asked.
    pub why: String,
    /// The whole arguments as they would run.
    pub arguments: Value,
    /// Their hash, so that an answer belongs to nothing else.
    pub arguments_hash: Hash,
    /// What can be answered.
    pub choices: Vec<Choice>,
}

/// The question was answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PermissionAnswered {
    /// The call.
    pub call: CallId,
    /// The answer.
    pub choice: Choice,
    /// Who answered.
    pub by: AnsweredBy,
    /// Why, for the model; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// A tool was announced. Holds what recovery needs, so that it never reads today's agent folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolStarted {
    /// The call.
    pub call: CallId,
    /// The tool.
    pub name: String,
    /// What it may do.
    pub effects: Effects,
    /// How safe it is to run again.
    pub repeat: Repeat,
    /// The idempotency key: the same for all attempts.
    pub key: String,
    /// The hash of the arguments that run.
    pub arguments_hash: Hash,
    /// 1 for the first attempt.
    pub attempt: u32,
}

/// A call was answered: the only fact that does so.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolFinished {
    /// The call.
    pub call: CallId,
    /// The tool, as the model named it.
    pub name: String,
    /// How it came to this.
    pub how: How,
    /// What the model is told.
    pub result: ToolResult,
    /// Where the result comes from.
    #[serde(default)]
    pub labels: Labels,
    /// From its start, in milliseconds; 0 when it did not run.
    pub ms: u64,
}

/// The model was told, once in a turn, that a limit is near.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LimitNeared {
    /// The limit.
    pub limit: Limit,
    /// What is spent, in the limit's unit.
    pub spent: u64,
    /// The limit, in its unit.
    pub max: u64,
}

/// A tool has taken its work elsewhere: the call waits for its [`ToolFinished`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolDeferred {
    /// The call.
    pub call: CallId,
    /// The tool.
    pub name: String,
    /// The identifier of the work, for whoever delivers the result; masked.
    pub job: String,
    /// When the tool is to be probed for the result, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_at_ms: Option<i64>,
}

/// A turn waits for something outside: for its model's server, or for these calls. Its process may
/// end meanwhile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parked {
    /// What for, in words.
    pub why: String,
    /// When to go on, in milliseconds since 1970, if anybody knows.
    pub until_ms: Option<i64>,
    /// The calls that wait for a person or for their job; none when it waits for a server. The
    /// first of them that is answered wakes the turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CallId>,
}

/// A session began as a fork of another one: what stands before this entry is the parent's. Calls
/// that were open there are not known here, and are answered so.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionForked {
    /// The session that begins here.
    pub session: SessionId,
    /// The session whose log it goes on from.
    pub parent: SessionId,
    /// The last entry of the parent that belongs to it.
    pub seq: u64,
    /// The hash of that entry.
    pub hash: Hash,
    /// The version of Inspan that forked it.
    pub inspan: String,
}

/// A turn goes on: after it was parked, or after the process that drove it died.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Woken {
    /// Why.
    pub why: WokenWhy,
}

/// Why a turn goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WokenWhy {
    /// The process that drove it is gone.
    Interrupted,
    /// It was parked, and what it waited for has come, or a person says so.
    Unparked,
}

/// A person wants the turn to stop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CancelRequested {}

/// A turn ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnEnded {
    /// Why.
    pub stop: Stop,
    /// More about it, for people; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// A prompt waits that came too late for this turn: the next one is open from here on. The fold
    /// knows it without; this is for who lists sessions and reads no more of their log.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unread: bool,
}

/// An event that this version can't read: kept as it is, folded to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// Its kind.
    pub kind: String,
    /// The version of its form.
    pub version: u32,
}

macro_rules! events {
    ($($kind:ident),* $(,)?) => {
        /// A fact of the session.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Event {
            $(#[doc = concat!("See [`", stringify!($kind), "`](struct@", stringify!($kind), ").")]
            $kind($kind),)*
            /// Written by a newer version, or damaged.
            Unknown(Unknown),
        }

        impl Event {
            /// The kinds that this version knows.
            pub const KINDS: &'static [&'static str] = &[$(stringify!($kind)),*];

            /// The kind, as it stands in the log.
            pub fn kind(&self) -> &str {
                match self {
                    $(Self::$kind(_) => stringify!($kind),)*
                    Self::Unknown(unknown) => &unknown.kind,
                }
            }

            /// The body as JSON text, keys in the order of their declaration. `None` for an
            /// unknown event, whose body stands only in its entry.
            fn encode(&self) -> Option<String> {
                match self {
                    $(Self::$kind(body) => serde_json::to_string(body).ok(),)*
                    Self::Unknown(_) => None,
                }
            }

            fn decode(kind: &str, version: u32, body: &str) -> Self {
                let known = if version > FORMAT_VERSION {
                    None
                } else {
                    match kind {
                        $(stringify!($kind) => serde_json::from_str(body).ok().map(Self::$kind),)*
                        _ => None,
                    }
                };
                known.unwrap_or_else(|| Self::Unknown(Unknown { kind: kind.to_owned(), version }))
            }
        }

        $(impl From<$kind> for Event {
            fn from(body: $kind) -> Self {
                Self::$kind(body)
            }
        })*
    };
}

events! {
    SessionStarted,
    SessionConfigured,
    PromptSubmitted,
    RoundStarted,
    ModelReplied,
    ModelFailed,
    ProjectionRepaired,
    PromptCut,
    ModelSwitched,
    GateJudged,
    PermissionAsked,
    PermissionAnswered,
    ToolStarted,
    ToolFinished,
    ToolDeferred,
    LimitNeared,
    Parked,
    Woken,
    CancelRequested,
    TurnEnded,
    SessionForked,
    CatalogueChanged,
}

/// The last place of a log: what the next entry follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The sequence number; 0 before the first entry.
    pub seq: u64,
    /// The hash of that entry; zeros before the first.
    pub hash: Hash,
}

/// An event with its place in the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// From 1, without gaps.
    pub seq: u64,
    /// Milliseconds since 1970.
    pub at_ms: i64,
    /// The number of the turn it belongs to, from 1; 0 before the first.
    pub turn: u32,
    /// The number of the round in its turn, from 1; 0 before the first.
    pub round: u32,
    /// The version of the body's form.
    pub version: u32,
    /// The fact.
    pub event: Event,
    /// The body as written.
    pub body: Arc<str>,
    /// SHA-256 over the hash before it, `seq`, `at_ms`, kind, version and body.
    pub hash: Hash,
}

impl Entry {
    /// The entry that follows `head`. An [`Event::Unknown`] can't be written anew: its body is
    /// empty.
    pub fn next(head: Head, at_ms: i64, turn: u32, round: u32, event: Event) -> Self {
        let body: Arc<str> = event.encode().unwrap_or_default().into();
        let seq = head.seq.saturating_add(1);
        let hash = chain(&head.hash, seq, at_ms, event.kind(), FORMAT_VERSION, &body);
        Self { seq, at_ms, turn, round, version: FORMAT_VERSION, event, body, hash }
    }

    /// Reads a stored entry. Never fails: see [`Event::Unknown`].
    #[expect(clippy::too_many_arguments, reason = "one argument for each column")]
    pub fn read(
        seq: u64,
        at_ms: i64,
        turn: u32,
        round: u32,
        kind: &str,
        version: u32,
        body: Arc<str>,
        hash: Hash,
    ) -> Self {
        let event = Event::decode(kind, version, &body);
        Self { seq, at_ms, turn, round, version, event, body, hash }
    }

    /// The place of this entry.
    pub fn head(&self) -> Head {
        Head { seq: self.seq, hash: self.hash }
    }

    /// Whether this entry follows `head` and its bytes are those that were hashed.
    pub fn follows(&self, head: Head) -> bool {
        Some(self.seq) == head.seq.checked_add(1)
            && self.hash
                == chain(
                    &head.hash,
                    self.seq,
                    self.at_ms,
                    self.event.kind(),
                    self.version,
                    &self.body,
                )
    }

    /// The entry as one line of JSON without its line end: what `inspan run --record` writes.
    pub fn to_line(&self) -> String {
        let body = RawValue::from_string(self.body.to_string())
            .unwrap_or_else(|_| RawValue::NULL.to_owned());
        let line = Line {
            seq: self.seq,
            at_ms: self.at_ms,
            turn: self.turn,
            round: self.round,
            kind: self.event.kind().into(),
            version: self.version,
            hash: self.hash,
            body,
        };
        serde_json::to_string(&line).unwrap_or_default()
    }

    /// Reads a line that [`Entry::to_line`] wrote.
    ///
    /// # Errors
    /// What is wrong with the line, and where.
    pub fn from_line(line: &str) -> Result<Self, String> {
        let line: Line = serde_json::from_str(line).map_err(|e| e.to_string())?;
        let Line { seq, at_ms, turn, round, kind, version, hash, body } = line;
        Ok(Self::read(seq, at_ms, turn, round, &kind, version, body.get().into(), hash))
    }

    /// The typed columns that people query.
    pub fn columns(&self) -> Columns<'_> {
        Columns::of(&self.event)
    }
}

#[derive(Serialize, Deserialize)]
struct Line {
    seq: u64,
    at_ms: i64,
    turn: u32,
    round: u32,
    kind: String,
    #[serde(rename = "v")]
    version: u32,
    hash: Hash,
    body: Box<RawValue>,
}

fn chain(before: &Hash, seq: u64, at_ms: i64, kind: &str, version: u32, body: &str) -> Hash {
    Hash::of(&[
        &before.0,
        &seq.to_be_bytes(),
        &at_ms.to_be_bytes(),
        kind.as_bytes(),
        &version.to_be_bytes(),
        body.as_bytes(),
    ])
}
