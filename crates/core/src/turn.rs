//! A turn that is open, and the calls of its last reply: where they stand.

use std::{borrow::Cow, collections::BTreeSet, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    budget::{Limit, Spent},
    effects::Repeat,
    event::{ModelFailed, Parked, PromptCut, RoundStarted, ToolStarted},
    hash::Hash,
    message::{ReplyStop, ToolCall},
    prompt::CallResult,
    tool::ToolSpec,
};

/// A turn that is open.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// Its number, from 1.
    pub number: u32,
    /// What it spent.
    pub spent: Spent,
    /// Where it stands.
    pub phase: Phase,
    /// The number of the round, from 1; 0 before the first.
    pub round: u32,
    /// The attempt of the model call that was made last.
    pub attempt: u32,
    /// The limit on the tokens of the reply that was asked for last.
    pub output_tokens_max: u32,
    /// Failures of model calls in a row.
    pub failures: u32,
    /// Model calls since the last reply whose process ended in the middle of them.
    pub interruptions: u32,
    /// Repairs of the projection since the last reply.
    pub repairs: u32,
    /// The model that answers: 0 for the session's own, else the fallback of this number, from 1.
    pub fallback: u32,
    /// The server read less of the last request than was sent, and nobody was told yet.
    pub cut_prompt: Option<PromptCut>,
    /// Replies cut at their token limit in a row.
    pub cuts: u32,
    /// The last reply was cut, and had calls.
    pub cut_in_call: bool,
    /// A person wants it to stop.
    pub cancelled: bool,
    /// A further prompt came, and no request has carried it yet.
    pub unread: bool,
    /// The limit whose closing call was made.
    pub closing: Option<Limit>,
    /// The limits that the model was told are near.
    pub told: BTreeSet<Limit>,
    /// What it has answered so far; see [`crate::State::answer`].
    pub answer: String,
    /// The rounds so far, for finding loops; `None` for one that never repeats.
    pub signatures: Vec<Option<Hash>>,
    pub(crate) active_ms: u64,
    pub(crate) since_ms: i64,
}

impl Turn {
    pub(crate) fn new(number: u32, at_ms: i64) -> Self {
        Self {
            number,
            spent: Spent::default(),
            phase: Phase::Ready,
            round: 0,
            attempt: 0,
            output_tokens_max: 0,
            failures: 0,
            interruptions: 0,
            repairs: 0,
            fallback: 0,
            cut_prompt: None,
            cuts: 0,
            cut_in_call: false,
            cancelled: false,
            unread: false,
            closing: None,
            told: BTreeSet::new(),
            answer: String::new(),
            signatures: Vec::new(),
            active_ms: 0,
            since_ms: at_ms,
        }
    }

    /// Milliseconds in which a process drove this turn, as of `now_ms`.
    pub fn time_ms(&self, now_ms: i64) -> u64 {
        let driven_ms = u64::try_from(now_ms.saturating_sub(self.since_ms)).unwrap_or(0);
        self.active_ms.saturating_add(driven_ms)
    }

    /// When its time will be over, in milliseconds since 1970.
    pub fn deadline_ms(&self, time_ms_max: u64) -> i64 {
        let left = time_ms_max.saturating_sub(self.active_ms);
        self.since_ms.saturating_add(i64::try_from(left).unwrap_or(i64::MAX))
    }

    /// How many times the last rounds, taken one, two or three at a time, came in a row.
    pub fn repeats(&self) -> u32 {
        (1..=3).map(|period| repeats(&self.signatures, period)).max().unwrap_or(0)
    }
}

fn repeats(signatures: &[Option<Hash>], period: usize) -> u32 {
    let mut blocks = signatures.rchunks_exact(period);
    match blocks.next() {
        Some(last) if last.iter().all(Option::is_some) => {
            1 + blocks.take_while(|block| *block == last).count() as u32
        }
        _ => 0,
    }
}

/// Where a turn stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Phase {
    /// Nothing is under way.
    Ready,
    /// A model call is under way.
    Asking(RoundStarted),
    /// The model answered; its calls may be open.
    Replied(ReplyStop),
    /// The model call failed; the time is that of the failure.
    Failed {
        /// The failure.
        failed: ModelFailed,
        /// When, in milliseconds since 1970.
        at_ms: i64,
    },
    /// It waits for something outside.
    Parked(Parked),
}

/// A call of the last reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpenCall {
    /// The call.
    pub call: ToolCall,
    /// The name of the tool that it means: see [`crate::found`].
    pub name: String,
    /// The tool's declaration when the call came; `None` when no tool has that name.
    pub tool: Option<Arc<ToolSpec>>,
    /// The arguments as they run: read, and later checked.
    pub arguments: Option<Value>,
    /// How often it was started.
    pub attempts: u32,
    /// Where it stands.
    pub status: CallStatus,
}

/// Where a call stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum CallStatus {
    /// Nothing has looked at it.
    New,
    /// A person must be asked, for this reason.
    AskNeeded(String),
    /// A person was asked.
    Asked(String),
    /// A gate or a person said no, for this reason.
    Refused(String),
    /// It may run.
    Allowed,
    /// It was started.
    Running(ToolStarted),
    /// It was started by a process that is gone, and its tool can be asked whether it happened.
    Probing(ToolStarted),
    /// Its work goes on elsewhere.
    Deferred {
        /// How it was started.
        started: ToolStarted,
        /// The identifier of the work.
        job: String,
        /// When to probe for the result, in milliseconds since 1970.
        probe_at_ms: Option<i64>,
    },
    /// It has its result.
    Answered(Box<CallResult>),
}

impl OpenCall {
    /// Whether it has its result.
    pub fn is_answered(&self) -> bool {
        matches!(self.status, CallStatus::Answered(_))
    }

    /// What becomes of it when a process takes its turn over.
    pub(crate) fn wake(&mut self, at_ms: i64) {
        let is_due = |probe_at_ms: Option<i64>| probe_at_ms.is_some_and(|due| due <= at_ms);
        let next = match &self.status {
            CallStatus::Running(started) => match started.repeat {
                Repeat::Pure | Repeat::Idempotent | Repeat::Keyed => CallStatus::Allowed,
                Repeat::Probe => CallStatus::Probing(started.clone()),
                Repeat::Once => return,
            },
            CallStatus::Deferred { started, job, probe_at_ms } if is_due(*probe_at_ms) => {
                match started.repeat {
                    Repeat::Probe => CallStatus::Probing(started.clone()),
                    // It can't be probed: its result comes by itself.
                    _ => CallStatus::Deferred {
                        started: started.clone(),
                        job: job.clone(),
                        probe_at_ms: None,
                    },
                }
            }
            _ => return,
        };
        self.status = next;
    }

    /// The arguments of the tool that it means, as far as they are known, for people.
    pub fn asked(&self) -> Cow<'_, str> {
        match &self.arguments {
            Some(arguments) if self.call.name != self.name => Cow::Owned(arguments.to_string()),
            _ => Cow::Borrowed(&self.call.arguments),
        }
    }

    /// Whether it waits for something that no process of ours does.
    pub fn waits_outside(&self) -> bool {
        matches!(self.status, CallStatus::Asked(_) | CallStatus::Deferred { .. })
    }

    /// The hash of the arguments as they run.
    pub fn arguments_hash(&self) -> Hash {
        match &self.arguments {
            Some(value) => Hash::of_bytes(value.to_string().as_bytes()),
            None => Hash::of_bytes(self.call.arguments.as_bytes()),
        }
    }

    /// What it works on, where its tool names an argument for that.
    pub fn resource(&self) -> Option<&Value> {
        let name = self.tool.as_ref()?.resource.as_ref()?;
        self.arguments.as_ref()?.get(name)
    }
}

/// One round as a hash of its calls and results; `None` when it has a tool that polls.
pub(crate) fn signature(calls: &[OpenCall]) -> Option<Hash> {
    let mut parts = Vec::new();
    for open in calls {
        if open.tool.as_ref().is_some_and(|tool| tool.polls) {
            return None;
        }
        if let CallStatus::Answered(answer) = &open.status {
            let result = serde_json::to_string(&answer.result).unwrap_or_default();
            parts.extend([open.call.name.clone(), open.call.arguments.clone(), result]);
        }
    }
    let parts: Vec<&[u8]> = parts.iter().map(String::as_bytes).collect();
    Some(Hash::of(&parts))
}
