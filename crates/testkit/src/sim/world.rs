//! What is outside of the driver: the model, the tools, the gates, the person. All of it lives on
//! when the process dies.

use std::{collections::BTreeMap, sync::Arc};

use fastrand::Rng;
use inspan_core::{
    budget::{Limits, Price},
    effects::{Effects, Repeat},
    event::{ModelRef, SessionConfigured, ToolStarted},
    gate::{Choice, Verdict},
    message::{
        CallId, Content, Job, Reasoning, ReplyPart, ReplyStop, ResultState, ToolCall, ToolResult,
        Usage,
    },
    provider::{ErrorClass, ModelError, Refused},
    tool::{Probed, ToolSpec},
    turn::OpenCall,
};
use serde_json::{Value, json};

use super::Shown;
use crate::wire::Api;

pub(super) struct World {
    pub(super) rng: Rng,
    /// Every answer is a short text, and nobody interrupts.
    pub(super) calm: bool,
    /// The session's model, as an index of the shown ones.
    pub(super) model: usize,
    /// The one that answers: it may be a fallback.
    pub(super) answering: usize,
    /// Tools that took their work elsewhere, and have not reported yet.
    pub(super) jobs: Vec<(CallId, String)>,
    apis: Vec<Api>,
    tools: Vec<Arc<ToolSpec>>,
    mood: Mood,
    asked: u64,
    witness: BTreeMap<String, Seen>,
    /// Work that goes on elsewhere, by its key.
    deferred: BTreeMap<String, String>,
}

/// How the model goes about it.
#[derive(Clone, Copy)]
enum Mood {
    Varied,
    /// The same calls over and over, in a cycle of this many rounds.
    Stuck(u64),
    Polls,
}

/// What the world saw of one call, whatever any log says.
#[derive(Default)]
struct Seen {
    starts: u32,
    done: u32,
}

pub(super) enum Answer {
    Reply(Vec<ReplyPart>, ReplyStop, Usage),
    Fails(ModelError, Vec<ReplyPart>),
}

/// A tool at work.
pub(super) struct Run {
    pub(super) started: ToolStarted,
    /// How long it takes in milliseconds.
    pub(super) ms: u64,
    pub(super) gives: Result<ToolResult, String>,
}

pub(super) const TOOL_MS_MAX: u64 = 1_000;

impl World {
    pub(super) fn new(seed: u64, shown: &[Shown<'_>]) -> Self {
        let mut rng = Rng::with_seed(seed);
        Self {
            model: rng.usize(..shown.len()),
            apis: shown.iter().map(|one| one.api).collect(),
            tools: tools(),
            answering: 0,
            calm: false,
            jobs: Vec::new(),
            mood: Mood::Varied,
            asked: 0,
            witness: BTreeMap::new(),
            deferred: BTreeMap::new(),
            rng,
        }
    }

    pub(super) fn one_in(&mut self, n: u32) -> bool {
        self.rng.u32(..n) == 0
    }

    /// What the session runs with from here on: in calm weather the usual limits, else some small
    /// ones.
    pub(super) fn config(&mut self) -> SessionConfigured {
        let price = Price { input: 100, output: 500, cache_read: 10, cache_write: 125 };
        let has_price = !self.one_in(4);
        let limits = if self.calm { Limits::session() } else { self.limits(has_price) };
        SessionConfigured {
            agent: None,
            model: self.model_ref(self.model, has_price.then_some(price)),
            fallbacks: if self.one_in(3) {
                let other = self.rng.usize(..self.apis.len());
                vec![self.model_ref(other, Some(price))]
            } else {
                Vec::new()
            },
            system: "Be brief.".to_owned(),
            tools: self.tools.clone(),
            found: Default::default(),
            gates: vec!["dice".to_owned()],
            asks: Default::default(),
            limits,
            sandbox: "none".to_owned(),
            workdir: None,
        }
    }

    /// All tools where one is missing, else all but the first.
    pub(super) fn other_tools(&self, now: &[Arc<ToolSpec>]) -> Vec<Arc<ToolSpec>> {
        let is_whole = now.len() == self.tools.len();
        self.tools.iter().skip(usize::from(is_whole)).cloned().collect()
    }

    fn model_ref(&self, model: usize, price: Option<Price>) -> ModelRef {
        ModelRef {
            url: Self::url_of(model),
            window_tokens_max: None,
            output_tokens_max: None,
            price,
            cuts_silently: true,
        }
    }

    fn url_of(model: usize) -> String {
        format!("model {model}")
    }

    /// The model of a URL, as an index of the shown ones.
    pub(super) fn number_of(url: &str) -> usize {
        url.strip_prefix("model ").and_then(|number| number.parse().ok()).unwrap_or(0)
    }

    fn limits(&mut self, has_price: bool) -> Limits {
        let small = |rng: &mut Rng| rng.u8(..5) == 0;
        let rng = &mut self.rng;
        Limits {
            rounds_max: if small(rng) { rng.u32(..4) } else { 16 },
            tokens_max: small(rng).then(|| rng.u64(..3_000)),
            cost_max_nano_usd: (has_price && small(rng)).then(|| rng.u64(..400_000)),
            time_ms_max: small(rng).then(|| rng.u64(..5_000)),
            calls_max: if small(rng) { rng.u32(..4) } else { 40 },
            calls_at_once_max: rng.u32(..4),
            retries_max: rng.u32(..3),
            output_tokens_max: 500,
        }
    }

    /// What the person says next; it may change how the model goes about it.
    pub(super) fn prompt(&mut self) -> Vec<Content> {
        self.mood = match self.rng.u8(..20) {
            0 => Mood::Polls,
            1 | 2 => Mood::Stuck(self.rng.u64(1..=3)),
            _ => Mood::Varied,
        };
        let words = ["Is it warm?", "  ", "Go on.", "é\u{0}\u{202e}", "Stop that."];
        let count = self.rng.usize(..3);
        (0..count).map(|_| Content::text(words[self.rng.usize(..words.len())])).collect()
    }

    /// What the model answers to the next request.
    pub(super) fn answer(&mut self) -> Answer {
        self.asked += 1;
        if self.calm {
            return Answer::Reply(vec![text("Done.")], ReplyStop::End, usage(400, 10));
        }
        // A loop is seldom long enough in such a world: nothing else goes wrong in it.
        if let Mood::Stuck(cycle) = self.mood {
            let arguments = json!({"n": self.asked % cycle}).to_string();
            return Answer::Reply(vec![call("look", &arguments)], ReplyStop::End, usage(90, 9));
        }
        if self.one_in(8) {
            return self.failure();
        }
        let parts = match self.mood {
            Mood::Polls => vec![call("poll", r#"{"n":1}"#)],
            Mood::Varied | Mood::Stuck(_) => self.parts(),
        };
        let usage = match self.rng.u8(..6) {
            0 => Usage::default(),
            1 => Usage { estimated: true, ..usage(self.rng.u64(..400), 9) },
            _ => usage(self.rng.u64(20..400), self.rng.u64(1..200)),
        };
        match self.rng.u8(..16) {
            0 | 1 => Answer::Reply(halved(parts), ReplyStop::Length, usage),
            2 => Answer::Reply(parts, ReplyStop::Paused, usage),
            3 if self.one_in(2) => Answer::Reply(parts, ReplyStop::Refusal, usage),
            _ => Answer::Reply(parts, ReplyStop::End, usage),
        }
    }

    fn failure(&mut self) -> Answer {
        let classes = [
            ErrorClass::Overloaded,
            ErrorClass::RateLimited,
            ErrorClass::Quota,
            ErrorClass::Auth,
            ErrorClass::TooLong,
            ErrorClass::BadRequest,
            ErrorClass::Network,
            ErrorClass::Stalled,
        ];
        let class = classes[self.rng.usize(..classes.len())];
        let retry_after_ms = match self.rng.u8(..4) {
            0 => Some(self.rng.u64(..1_000)),
            1 => Some(3_600_000),
            _ => None,
        };
        let partial = if self.one_in(2) { halved(self.parts()) } else { Vec::new() };
        let message = "the server said so".to_owned();
        let refused = match class {
            ErrorClass::TooLong => Some(Refused::Size { tokens_max: Some(self.rng.u64(..4_000)) }),
            ErrorClass::BadRequest => self.refused(),
            _ => None,
        };
        Answer::Fails(ModelError { class, message, retry_after_ms, refused }, partial)
    }

    fn refused(&mut self) -> Option<Refused> {
        match self.rng.u8(..6) {
            0 => Some(Refused::Images { count_max: None }),
            1 => Some(Refused::Reasoning),
            2 => Some(Refused::Tool { name: "look".to_owned() }),
            3 => Some(Refused::Calls),
            4 => Some(Refused::Unsaid),
            _ => None,
        }
    }

    fn parts(&mut self) -> Vec<ReplyPart> {
        let mut parts = Vec::new();
        if self.one_in(3) {
            parts.push(self.reasoning());
        }
        if self.one_in(2) {
            let words = ["It is 19 °C.", "\n", "é\u{0}", "Let me see."];
            parts.push(text(words[self.rng.usize(..words.len())]));
        }
        if !self.one_in(3) {
            for _ in 0..self.rng.usize(1..=4) {
                parts.push(self.call());
            }
        }
        if self.one_in(12) {
            parts.push(self.reasoning());
        }
        parts
    }

    /// As the API of this model gives it.
    fn reasoning(&mut self) -> ReplyPart {
        let text = "Warm or cold?".to_owned();
        let block = match self.apis[self.answering] {
            Api::Anthropic => json!({"type": "thinking", "thinking": text, "signature": "c2ln"}),
            Api::Responses => {
                json!({"type": "reasoning", "summary": [], "encrypted_content": "c2"})
            }
            Api::OpenAi => Value::Null,
        };
        let signed = !block.is_null() && self.rng.bool();
        let raw = if signed { block.to_string() } else { String::new() };
        ReplyPart::Reasoning(Reasoning { text, raw, signed })
    }

    fn call(&mut self) -> ReplyPart {
        let name = match self.rng.u8(..12) {
            0 => ["lok", "web.search", "", "tool with spaces é"][self.rng.usize(..4)],
            _ => self.tools[self.rng.usize(..self.tools.len())].name.as_str(),
        };
        let path = ["a", "b"][self.rng.usize(..2)];
        let good = json!({"n": self.rng.u8(..3), "path": path});
        let arguments = match self.rng.u8(..12) {
            0 => "{\"n\": 1".to_owned(),
            1 => "{\"n\": \"one\"}".to_owned(),
            2 => String::new(),
            3 => "{\"n\": 1,}".to_owned(),
            _ => good.to_string(),
        };
        call(name, &arguments)
    }

    /// The verdict of the gates, failed ones included; they mostly let it pass.
    pub(super) fn verdict(&mut self) -> Verdict {
        if matches!(self.mood, Mood::Stuck(_)) {
            return Verdict::Allow;
        }
        match self.rng.u8(..12) {
            0..=2 => Verdict::Ask("the dice say so".to_owned()),
            3 => Verdict::Deny("not today".to_owned()),
            4 if self.one_in(2) => Verdict::Deny("the gate failed".to_owned()),
            _ => Verdict::Allow,
        }
    }

    pub(super) fn choice(&mut self) -> Choice {
        [Choice::Once, Choice::Session, Choice::No][self.rng.usize(..3)]
    }

    /// A tool starts to work.
    ///
    /// # Errors
    /// It must not start again.
    pub(super) fn start(&mut self, started: ToolStarted, open: &OpenCall) -> Result<Run, String> {
        let seen = self.witness.entry(started.key.clone()).or_default();
        seen.starts += 1;
        if started.repeat == Repeat::Once && seen.starts > 1 {
            return Err(format!("{} can't be undone, and was started twice", started.call));
        }
        if started.repeat == Repeat::Probe && seen.done > 0 {
            return Err(format!("{} had happened, and was started again", started.call));
        }
        let ms = if self.one_in(10) { 2 * TOOL_MS_MAX } else { self.rng.u64(1..600) };
        let job = started.name == "post" && self.one_in(3);
        let same = matches!(started.name.as_str(), "look" | "poll");
        let gives = if !same && self.one_in(6) {
            Err("the disk is full".to_owned())
        } else {
            let n = open.arguments.as_ref().and_then(|all| all.get("n")).cloned();
            Ok(self.result(&n.unwrap_or_default(), job, &started))
        };
        Ok(Run { started, ms, gives })
    }

    fn result(&mut self, n: &Value, job: bool, started: &ToolStarted) -> ToolResult {
        let content = match n.as_u64() {
            Some(2) => Vec::new(),
            _ => vec![Content::text(format!("{n} degrees"))],
        };
        if job && self.rng.bool() {
            let id = format!("job of {}", started.call);
            self.deferred.insert(started.key.clone(), id.clone());
            let probe_after_ms = self.rng.bool().then_some(5_000);
            let state = ResultState::Later(Job { id, probe_after_ms });
            return ToolResult { content, state, ..ToolResult::default() };
        }
        if job {
            self.jobs.push((started.call.clone(), started.name.clone()));
            let state = ResultState::Accepted(format!("job of {}", started.call));
            return ToolResult { content, state, ..ToolResult::default() };
        }
        ToolResult { content, evidence: Some(json!({"n": n})), ..ToolResult::default() }
    }

    /// The effect of a tool has happened.
    pub(super) fn done(&mut self, key: &str) {
        self.witness.entry(key.to_owned()).or_default().done += 1;
    }

    pub(super) fn probe(&mut self, key: &str) -> Probed {
        if let Some(id) = self.deferred.get(key).cloned()
            && self.rng.bool()
        {
            return Probed::Pending(Job { id, probe_after_ms: Some(1_000) });
        }
        let happened = self.witness.get(key).is_some_and(|seen| seen.done > 0);
        match (self.one_in(4), happened) {
            (true, _) => Probed::Unknown,
            (false, true) => Probed::Done(ToolResult::text("it had happened")),
            (false, false) => Probed::Absent,
        }
    }
}

/// One of each repeat class, sorted by name.
fn tools() -> Vec<Arc<ToolSpec>> {
    let reads = Effects { reads_private: true, ..Effects::NONE };
    let writes = Effects { writes: true, ..Effects::NONE };
    let path = Some("path".to_owned());
    let tool = |name: &str, effects, repeat| ToolSpec {
        effects,
        repeat,
        timeout_ms_max: TOOL_MS_MAX,
        ..ToolSpec::new(name, "does it")
    };
    [
        tool("list", reads, Repeat::Idempotent),
        tool("look", Effects::NONE, Repeat::Pure),
        tool("pay", Effects { spends: true, ..Effects::NONE }, Repeat::Keyed),
        ToolSpec { polls: true, ..tool("poll", Effects::NONE, Repeat::Pure) },
        tool("post", Effects { sends: true, ..Effects::NONE }, Repeat::Probe),
        ToolSpec { resource: path.clone(), ..tool("put", writes, Repeat::Idempotent) },
        ToolSpec { resource: path, ..tool("rm", Effects::default(), Repeat::Once) },
    ]
    .map(Arc::new)
    .to_vec()
}

fn usage(input: u64, output: u64) -> Usage {
    Usage { input: Some(input), output: Some(output), ..Usage::default() }
}

fn text(text: &str) -> ReplyPart {
    ReplyPart::Text { text: text.to_owned() }
}

fn call(name: &str, arguments: &str) -> ReplyPart {
    ReplyPart::Call(ToolCall {
        id: CallId::default(),
        provider_id: Some("toolu_1".to_owned()),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
        complete: true,
    })
}

/// The last part is cut in the middle.
pub(super) fn halved(mut parts: Vec<ReplyPart>) -> Vec<ReplyPart> {
    match parts.last_mut() {
        Some(ReplyPart::Call(call)) => call.complete = false,
        Some(ReplyPart::Reasoning(reasoning)) => reasoning.signed = false,
        Some(ReplyPart::Text { .. }) | None => {}
    }
    parts
}
