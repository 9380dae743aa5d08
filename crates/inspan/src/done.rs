//! What comes of a turn.

use std::{collections::HashMap, fmt};

use inspan_core::{
    Entry, Event,
    event::{ModelFailed, ModelReplied, Stop, ToolFinished, TurnEnded},
    message::{CallId, Reply, ReplyStop, Usage},
    store::SessionId,
};

use crate::error::Error;

/// A turn that has ended. [`Done::answer`] gives its answer, or an error that says why there is
/// none.
#[derive(Clone, Debug, PartialEq)]
pub struct Done {
    /// The answer: the text of the last reply.
    pub text: String,
    /// Why the turn ended. Everything but [`Stop::End`] means that the answer may be missing or
    /// unfinished; it is no error, because the session can go on.
    pub stop: Stop,
    /// More about the stop, for people; may be empty.
    pub detail: String,
    /// What was done, in the order in which it ended.
    pub steps: Vec<Step>,
    /// The tokens of all model calls, by tier. A tier is `None` when no call told it.
    pub usage: Usage,
    /// What they cost, in thousand-millionths of a US dollar; `None` without a price.
    pub cost_nano_usd: Option<u64>,
    /// The session, to go on with: see [`Agent::resume`](crate::Agent::resume).
    pub session: SessionId,
}

impl Done {
    /// The answer of a turn that ended with one.
    ///
    /// # Errors
    /// [`Error::Stopped`]: it ended in another way, which the error tells.
    pub fn answer(self) -> Result<String, Error> {
        match self.stop {
            Stop::End => Ok(self.text),
            stop => Err(Error::Stopped { stop, detail: self.detail }),
        }
    }

    /// The tool calls among the steps.
    pub fn tools(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().filter(|step| step.kind == StepKind::Tool)
    }
}

/// One model call or one tool call. Printed, it is one line without times, to be read and to be
/// asserted on: `weather({"city":"Lisbon"}) ok: 21 °C`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Which of the two.
    pub kind: StepKind,
    /// The model's URL, or the tool's name.
    pub name: String,
    /// `ok`, or how else it ended: a tool call as [`How`](crate::How) has it, a model call with
    /// its stop or the class of its failure.
    pub how: &'static str,
    /// The arguments of a tool call, as the model wrote them; empty for a model call.
    pub arguments: String,
    /// What the model wrote, or what it was told.
    pub text: String,
    /// The tokens of a model call.
    pub usage: Usage,
    /// What it cost, in thousand-millionths of a US dollar.
    pub cost_nano_usd: Option<u64>,
    /// How long it took, in milliseconds.
    pub ms: u64,
}

/// What a step was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// A model call.
    Model,
    /// A tool call.
    Tool,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, how, arguments, text, .. } = self;
        match self.kind {
            StepKind::Model if text.is_empty() => write!(f, "{name} {how}"),
            StepKind::Model => write!(f, "{name} {how}: {text}"),
            StepKind::Tool => write!(f, "{name}({arguments}) {how}: {text}"),
        }
    }
}

/// A turn as far as it has come.
pub(crate) struct SoFar {
    /// The URL of the model that answers.
    model_url: String,
    text: String,
    steps: Vec<Step>,
    arguments: HashMap<CallId, String>,
}

impl SoFar {
    pub(crate) fn new(model: &str) -> Self {
        let model_url = model.to_owned();
        Self { model_url, text: String::new(), steps: Vec::new(), arguments: HashMap::new() }
    }

    pub(crate) fn take(&mut self, entry: &Entry) {
        match &entry.event {
            Event::ModelReplied(e) => self.replied(e),
            Event::ModelFailed(e) => self.failed(e),
            Event::ToolFinished(e) => self.tool(e),
            Event::ModelSwitched(e) => self.model_url.clone_from(&e.model),
            _ => {}
        }
    }

    pub(crate) fn done(self, ended: &TurnEnded, session: &SessionId) -> Done {
        let models = self.steps.iter().filter(|step| step.kind == StepKind::Model);
        let mut costs = models.clone().map(|step| step.cost_nano_usd);
        let usage = models.map(|step| step.usage).fold(Usage::default(), sum);
        Done {
            text: self.text,
            stop: ended.stop,
            detail: ended.detail.clone(),
            usage,
            cost_nano_usd: costs.try_fold(0, |sum: u64, cost| Some(sum.saturating_add(cost?))),
            steps: self.steps,
            session: session.clone(),
        }
    }

    fn replied(&mut self, replied: &ModelReplied) {
        let reply = &replied.reply;
        let how = match reply.stop {
            ReplyStop::End => "ok",
            ReplyStop::Length => "length",
            ReplyStop::Broken => "broken",
            ReplyStop::Cancelled => "cancelled",
            ReplyStop::Paused => "paused",
            ReplyStop::Refusal => "refusal",
        };
        self.model(reply, how, replied.cost_nano_usd, replied.ms);
    }

    fn failed(&mut self, failed: &ModelFailed) {
        let how = failed.class.as_str();
        match &failed.partial {
            Some(partial) => {
                let partial = Reply { usage: failed.usage, ..partial.clone() };
                self.model(&partial, how, failed.cost_nano_usd, failed.ms);
            }
            None => self.steps.push(Step {
                kind: StepKind::Model,
                name: self.model_url.clone(),
                how,
                arguments: String::new(),
                text: failed.message.clone(),
                usage: failed.usage,
                cost_nano_usd: failed.cost_nano_usd,
                ms: failed.ms,
            }),
        }
    }

    fn model(&mut self, reply: &Reply, how: &'static str, cost_nano_usd: Option<u64>, ms: u64) {
        self.text = reply.text();
        let calls = reply.calls().map(|call| (call.id.clone(), call.arguments.clone()));
        self.arguments.extend(calls);
        self.steps.push(Step {
            kind: StepKind::Model,
            name: self.model_url.clone(),
            how,
            arguments: String::new(),
            text: reply.text(),
            usage: reply.usage,
            cost_nano_usd,
            ms,
        });
    }

    fn tool(&mut self, finished: &ToolFinished) {
        self.steps.push(Step {
            kind: StepKind::Tool,
            name: finished.name.clone(),
            how: finished.how.as_str(),
            arguments: self.arguments.remove(&finished.call).unwrap_or_default(),
            text: finished.result.to_text(),
            usage: Usage::default(),
            cost_nano_usd: None,
            ms: finished.ms,
        });
    }
}

fn sum(a: Usage, b: Usage) -> Usage {
    let tier = |a: Option<u64>, b: Option<u64>| match (a, b) {
        (Some(a), Some(b)) => Some(a.saturating_add(b)),
        (one, other) => one.or(other),
    };
    Usage {
        input: tier(a.input, b.input),
        cache_read: tier(a.cache_read, b.cache_read),
        cache_write: tier(a.cache_write, b.cache_write),
        output: tier(a.output, b.output),
        reasoning: tier(a.reasoning, b.reasoning),
        estimated: a.estimated || b.estimated,
    }
}
