//! Carries out actions as the real driver does: append, then act; what has consequences is
//! durable before it begins; a new process recovers, and the ordinary loop goes on.

use std::mem;

use fastrand::Rng;
use inspan_core::{
    Action, Entry, Event, Policy, State,
    decide::{Abort, decide},
    effects::Repeat,
    event::{
        CancelRequested, CatalogueChanged, GateJudged, ModelFailed, ModelReplied,
        PermissionAnswered, PromptSubmitted, RoundStarted, SessionStarted, Stop, ToolDeferred,
        ToolFinished, ToolStarted, Woken, WokenWhy,
    },
    gate::{AnsweredBy, Asking},
    message::{
        CallId, Content, How, Job, Labels, Reply, ReplyPart, ReplyStop, ResultState, ToolResult,
        Usage,
    },
    provider::{ErrorClass, ModelError},
    recover::{fallback, fork, recover, retry_at_ms, supersede},
    store::SessionId,
    tool::Probed,
    turn::{CallStatus, OpenCall},
    words,
};
use serde_json::Value;

use super::{
    Crash, Failure, Report, Shown,
    checks::Checks,
    world::{Answer, Run, TOOL_MS_MAX, World, halved},
};
use crate::snapshots::Snapshots;

/// Entries after which a session that does not end is taken for one that never will.
const ENTRIES_MAX: usize = 2_000;

pub(super) struct Driver<'a> {
    seed: u64,
    crash: Crash,
    shown: &'a [Shown<'a>],
    world: World,
    checks: Checks<'a>,
    report: Report,
    /// For what only the driver decides, so that the world is the same with and without a crash.
    rng: Rng,
    now_ms: i64,
    prompts_left: u32,
    log: Vec<Entry>,
    /// How many entries would outlive the process now.
    durable: usize,
    /// How many entries the process lives to see.
    dies_at: Option<usize>,
    state: State,
    persons: Asking,
    asking: Option<(i64, Answer)>,
    running: Vec<Running>,
}

struct Running {
    run: Run,
    ends_ms: i64,
}

/// Why the driver no longer drives.
enum Over {
    Crashed,
    Wrong(String),
}

impl From<String> for Over {
    fn from(why: String) -> Self {
        Self::Wrong(why)
    }
}

impl<'a> Driver<'a> {
    pub(super) fn new(seed: u64, crash: Crash, shown: &'a [Shown<'a>]) -> Self {
        let mut world = World::new(seed, shown);
        Self {
            prompts_left: world.rng.u32(1..=2),
            persons: some_asking(&mut world.rng),
            rng: world.rng.fork(),
            world,
            checks: Checks::new(shown),
            report: Report::default(),
            now_ms: 1_790_000_000_000,
            log: Vec::new(),
            durable: 0,
            dies_at: match crash {
                Crash::Never => None,
                Crash::After(entries) => Some(entries),
            },
            state: State::default(),
            asking: None,
            running: Vec::new(),
            seed,
            crash,
            shown,
        }
    }

    pub(super) fn run(mut self) -> Result<Report, Failure> {
        match self.drive_all() {
            Ok(()) => Ok(self.report),
            Err(why) => Err(Failure {
                seed: self.seed,
                crash: self.crash,
                why,
                log: self.log.iter().map(Entry::to_line).collect(),
            }),
        }
    }

    fn drive_all(&mut self) -> Result<(), String> {
        self.drive_on()?;
        self.report.entries = self.log.len();
        self.world.calm = true;
        self.prompts_left = 1;
        let config = self.world.config();
        self.append(config.into()).or_else(|over| self.reopen(over))?;
        self.drive_on()?;
        match &self.state.ended {
            Some(ended) if ended.stop == Stop::End && self.state.turn.is_none() => {}
            ended => return Err(format!("the calm turn ended with {ended:?}")),
        }
        if self.state != State::fold(&self.log) {
            return Err("the state is not the fold of the log".to_owned());
        }
        Ok(())
    }

    fn drive_on(&mut self) -> Result<(), String> {
        loop {
            match self.drive() {
                Ok(()) => return Ok(()),
                Err(over) => self.reopen(over)?,
            }
        }
    }

    /// A new process takes the log over, if the old one has died.
    fn reopen(&mut self, over: Over) -> Result<(), String> {
        if let Over::Wrong(why) = over {
            return Err(why);
        }
        self.asking = None;
        for running in mem::take(&mut self.running) {
            if self.rng.bool() {
                self.world.done(&running.run.started.key);
            }
        }
        let kept = self.rng.usize(self.durable..=self.log.len());
        if kept == self.log.len() {
            if self.state != State::fold(&self.log) {
                return Err("the state is not the fold of the log".to_owned());
            }
        } else {
            self.log.truncate(kept);
            (self.checks, self.state) = Checks::replayed(self.shown, &self.log)?;
        }
        self.durable = kept;
        if self.rng.u8(..8) == 0 {
            Snapshots::default().keep(&self.state)?;
        }
        // Some processes die while they recover, or soon after.
        let dies_again = self.rng.u8(..4) == 0;
        self.dies_at = dies_again.then(|| kept + self.rng.usize(1..4));
        self.now_ms += self.rng.i64(0..100_000);
        self.persons = some_asking(&mut self.rng);
        // Some logs go on as a fork, which knows nothing of what was open.
        let started = self.state.started.as_ref().map(|started| started.session.clone());
        if let (Some(parent), 0) = (started, self.rng.u8(..16)) {
            let child = SessionId::try_from("simulated-fork".to_owned())?;
            // The first entries of a fork are one append: all of them are there, or none.
            let dies_at = self.dies_at.take();
            for event in fork(&self.state, parent, child, "0.1.0", self.now_ms) {
                self.append(event).or_else(|over| self.reopen(over))?;
            }
            self.durable = self.log.len();
            self.dies_at = dies_at;
        }
        for event in recover(&self.state, self.now_ms) {
            self.append(event).or_else(|over| self.reopen(over))?;
        }
        Ok(())
    }

    /// Until there is nothing left to do.
    fn drive(&mut self) -> Result<(), Over> {
        self.begin()?;
        loop {
            self.interrupt()?;
            let (now_ms, asking) = (self.now_ms, self.persons);
            let action = decide(&self.state, &Policy { now_ms, asking });
            self.report.reached.action(&action);
            match action {
                Action::AppendEvent(event) => self.append(event)?,
                Action::CallModel(started) => self.call_model(started)?,
                Action::JudgeCall(call) => self.judge(&call)?,
                Action::AskPerson(asked) => self.append(asked.into())?,
                Action::RunTool(started) => self.run_tool(started)?,
                Action::ProbeTool(call) => self.probe(&call)?,
                Action::AbortEffects(why) => self.abort(why)?,
                Action::Wait { until_ms } => self.wait(until_ms)?,
                Action::Idle { .. } if self.is_done() => return Ok(()),
                Action::Idle { until_ms } => self.idle(until_ms)?,
            }
        }
    }

    fn begin(&mut self) -> Result<(), Over> {
        if self.state.started.is_none() {
            let session = SessionId::try_from("simulated".to_owned())?;
            let (inspan, workdir) = ("0.1.0".to_owned(), "/work".to_owned());
            self.append(SessionStarted { session, inspan, format: 1, workdir }.into())?;
        }
        if self.state.config.is_none() {
            let config = self.world.config();
            self.append(config.into())?;
        }
        Ok(())
    }

    fn append(&mut self, event: Event) -> Result<(), Over> {
        self.now_ms += self.rng.i64(0..20);
        let entry = self.state.entry(self.now_ms, event);
        self.report.reached.event(&entry.event);
        self.checks.before(&self.state, &entry)?;
        self.state.apply(&entry);
        self.log.push(entry);
        self.checks.after(&self.state)?;
        if self.rng.bool() {
            self.durable = self.log.len();
        }
        match self.dies_at {
            _ if self.log.len() > ENTRIES_MAX => Err("it does not end".to_owned().into()),
            Some(entries) if entries <= self.log.len() => Err(Over::Crashed),
            Some(_) | None => Ok(()),
        }
    }

    /// Sometimes a command comes, or a job is done, whatever else is under way.
    fn interrupt(&mut self) -> Result<(), Over> {
        if self.world.calm || self.state.turn.is_none() || !self.world.one_in(12) {
            return Ok(());
        }
        match self.world.rng.u8(..4) {
            0 => self.append(CancelRequested {}.into()),
            1 | 2 => {
                let content = self.world.prompt();
                self.submit(content)
            }
            _ => match self.world.jobs.pop() {
                Some((call, name)) if self.checks.is_answered(&call) => {
                    let result = ToolResult::text("the job is done");
                    self.append(finished(call, name, How::Ok, result, 9).into())
                }
                _ => Ok(()),
            },
        }
    }

    /// A crash that has not come yet comes in a further turn.
    fn is_done(&self) -> bool {
        self.prompts_left == 0 && self.dies_at.is_none()
    }

    fn idle(&mut self, until_ms: Option<i64>) -> Result<(), Over> {
        if self.state.parked.is_some() && !self.world.calm && !self.world.one_in(3) {
            return self.while_parked(until_ms);
        }
        if !self.world.calm && self.world.one_in(3) {
            self.world.model = self.world.rng.usize(..self.shown.len());
            let config = self.world.config();
            self.append(config.into())?;
        }
        self.prompts_left = self.prompts_left.saturating_sub(1);
        let content = self.world.prompt();
        self.submit(content)
    }

    /// A parked turn: its time comes, a person says something, or a job is done.
    fn while_parked(&mut self, until_ms: Option<i64>) -> Result<(), Over> {
        let waiting = self.state.calls.iter().find(|open| open.waits_outside()).cloned();
        match waiting.map(|open| (open.call, open.status)) {
            Some((call, CallStatus::Asked(_))) if self.rng.bool() => {
                let (choice, by) = (self.world.choice(), AnsweredBy::Person);
                let why = String::new();
                self.append(PermissionAnswered { call: call.id, choice, by, why }.into())
            }
            Some((call, CallStatus::Deferred { started, .. })) if self.rng.bool() => {
                self.world.done(&started.key);
                let result = ToolResult::text("it is done");
                self.append(finished(call.id, call.name, How::Ok, result, 1).into())
            }
            _ => {
                self.now_ms = until_ms.unwrap_or(self.now_ms).max(self.now_ms) + 1;
                match until_ms {
                    Some(_) => Ok(()),
                    None => self.append(Woken { why: WokenWhy::Unparked }.into()),
                }
            }
        }
    }

    fn submit(&mut self, content: Vec<Content>) -> Result<(), Over> {
        for event in supersede(&self.state) {
            self.append(event)?;
        }
        self.append(PromptSubmitted { content, labels: Labels::default() }.into())
    }

    fn call_model(&mut self, started: RoundStarted) -> Result<(), Over> {
        // Tools come and go. The clock is chance enough.
        if started.attempt == 1 && !self.world.calm && self.now_ms % 16 == 0 {
            let before = self.state.config.as_ref().map_or(&[][..], |config| &config.tools);
            let change = CatalogueChanged::between(before, &self.world.other_tools(before));
            return self.append(change.into());
        }
        self.append(started.into())?;
        let ends_ms = self.now_ms + self.world.rng.i64(1..400);
        let url = self.state.model().map_or("", |model| model.url.as_str());
        self.world.answering = World::number_of(url);
        self.asking = Some((ends_ms, self.world.answer()));
        Ok(())
    }

    fn judge(&mut self, call: &CallId) -> Result<(), Over> {
        let open = self.open(call)?;
        let (call, name) = (open.call.id.clone(), open.name.clone());
        let wrong = match (&open.tool, &open.arguments) {
            (None, _) => Some((How::UnknownTool, words::unknown_tool(&name, &["look"]))),
            (_, None) => Some((How::BadArguments, words::UNREADABLE.to_owned())),
            (_, Some(all)) if all.get("n").is_some_and(Value::is_string) => {
                Some((How::BadArguments, words::bad_arguments("n: not an integer")))
            }
            _ => None,
        };
        if let Some((how, why)) = wrong {
            return self.append(finished(call, name, how, ToolResult::text(why), 0).into());
        }
        let verdict = self.world.verdict();
        self.append(GateJudged { call, gate: "dice".to_owned(), verdict, arguments: None }.into())
    }

    fn open(&self, call: &CallId) -> Result<OpenCall, Over> {
        let open = self.state.call(call).cloned();
        open.ok_or_else(|| Over::Wrong(format!("there is no call {call}")))
    }

    fn run_tool(&mut self, started: ToolStarted) -> Result<(), Over> {
        let open = self.open(&started.call)?;
        self.append(started.clone().into())?;
        if started.repeat != Repeat::Pure {
            self.durable = self.log.len();
        }
        let run = self.world.start(started, &open)?;
        let ms = run.ms.min(TOOL_MS_MAX);
        self.running.push(Running { run, ends_ms: self.now_ms.saturating_add_unsigned(ms) });
        Ok(())
    }

    fn probe(&mut self, call: &CallId) -> Result<(), Over> {
        let open = self.open(call)?;
        let CallStatus::Probing(started) = open.status else {
            return Err(format!("{call} is not to be probed").into());
        };
        let name = started.name.clone();
        match self.world.probe(&started.key) {
            Probed::Done(result) => {
                self.append(finished(started.call, name, How::Ok, result, 1).into())
            }
            Probed::Pending(job) => self.defer(started.call, name, job),
            Probed::Unknown => {
                let result = ToolResult::text(words::UNKNOWN);
                self.append(finished(started.call, name, How::Unknown, result, 1).into())
            }
            Probed::Absent => {
                self.run_tool(ToolStarted { attempt: started.attempt + 1, ..started })
            }
        }
    }

    fn abort(&mut self, why: Abort) -> Result<(), Over> {
        let (how, text) = match why {
            Abort::Cancelled => (How::Cancelled, words::CANCELLED.to_owned()),
            Abort::OutOfTime => (How::TimedOut, words::out_of_time()),
        };
        for running in mem::take(&mut self.running) {
            if self.rng.bool() {
                self.world.done(&running.run.started.key);
            }
            let ToolStarted { call, name, .. } = running.run.started;
            self.append(finished(call, name, how, ToolResult::text(text.as_str()), 1).into())?;
        }
        let Some((_, answer)) = self.asking.take() else { return Ok(()) };
        let arrived = match answer {
            Answer::Reply(parts, ..) | Answer::Fails(_, parts) => halved(parts),
        };
        match why {
            Abort::Cancelled if !arrived.is_empty() => {
                self.replied(arrived, ReplyStop::Cancelled, Usage::default())
            }
            Abort::Cancelled => self.failed(of_class(ErrorClass::Cancelled), Vec::new()),
            Abort::OutOfTime => self.failed(of_class(ErrorClass::TimeLimit), arrived),
        }
    }

    /// Until the first of all that can come.
    fn wait(&mut self, until_ms: Option<i64>) -> Result<(), Over> {
        if self.persons == Asking::Now && self.rng.bool() && self.answer_question()? {
            return Ok(());
        }
        let asked_ms = self.asking.as_ref().map(|(ends_ms, _)| *ends_ms);
        let ran_ms = self.running.iter().map(|running| running.ends_ms).min();
        let Some(first_ms) = [asked_ms, ran_ms, until_ms].into_iter().flatten().min() else {
            return match self.answer_question()? {
                true => Ok(()),
                false => Err("it waits for nothing".to_owned().into()),
            };
        };
        self.now_ms = self.now_ms.max(first_ms);
        if asked_ms == Some(first_ms) {
            return self.end_model_call();
        }
        match self.running.iter().position(|running| running.ends_ms == first_ms) {
            Some(index) => self.end_tool(index),
            None => Ok(()),
        }
    }

    fn answer_question(&mut self) -> Result<bool, Over> {
        let is_asked = |open: &&OpenCall| matches!(open.status, CallStatus::Asked(_));
        let Some(open) = self.state.calls.iter().find(is_asked) else { return Ok(false) };
        let (call, choice) = (open.call.id.clone(), self.world.choice());
        let (by, why) = (AnsweredBy::Person, String::new());
        self.append(PermissionAnswered { call, choice, by, why }.into())?;
        Ok(true)
    }

    fn end_tool(&mut self, index: usize) -> Result<(), Over> {
        let Run { started, ms, gives } = self.running.swap_remove(index).run;
        if let Ok(ToolResult { state: ResultState::Later(job), .. }) = gives {
            return self.defer(started.call, started.name, job);
        }
        self.world.done(&started.key);
        let (how, result) = match gives {
            _ if ms > TOOL_MS_MAX => {
                (How::TimedOut, ToolResult::text(words::timed_out(TOOL_MS_MAX)))
            }
            Ok(result) => (How::Ok, result),
            Err(why) => (How::Failed, ToolResult::text(why)),
        };
        self.append(finished(started.call, started.name, how, result, ms).into())
    }

    fn defer(&mut self, call: CallId, name: String, job: Job) -> Result<(), Over> {
        let probe_at_ms = job.probe_after_ms.map(|ms| self.now_ms.saturating_add_unsigned(ms));
        self.append(ToolDeferred { call, name, job: job.id, probe_at_ms }.into())
    }

    fn end_model_call(&mut self) -> Result<(), Over> {
        match self.asking.take() {
            Some((_, Answer::Reply(parts, stop, usage))) if !parts.is_empty() => {
                self.replied(parts, stop, usage)
            }
            Some((_, Answer::Fails(error, partial))) => self.failed(error, partial),
            // An empty reply is none.
            Some((_, Answer::Reply(..))) | None => {
                self.failed(of_class(ErrorClass::Network), Vec::new())
            }
        }
    }

    fn replied(
        &mut self,
        parts: Vec<ReplyPart>,
        stop: ReplyStop,
        usage: Usage,
    ) -> Result<(), Over> {
        let reply = self.reply(parts, stop, usage);
        let price = self.state.config.as_ref().and_then(|config| config.model.price);
        let cost_nano_usd = price.map(|price| price.of(&usage));
        self.append(ModelReplied { reply, cost_nano_usd, first_ms: 1, ms: 2 }.into())
    }

    fn failed(&mut self, error: ModelError, partial: Vec<ReplyPart>) -> Result<(), Over> {
        let chance = self.rng.f64();
        let retry_at_ms = retry_at_ms(&self.state, &error, self.now_ms, chance);
        let is_last = retry_at_ms.is_none() && fallback(&self.state, error.class, None).is_none();
        let keeps = is_last && !partial.is_empty();
        let failed = ModelFailed {
            class: error.class,
            message: error.message,
            retry_at_ms,
            refused: error.refused,
            usage: Usage::default(),
            cost_nano_usd: None,
            ms: 3,
            partial: keeps.then(|| self.reply(partial, ReplyStop::Broken, Usage::default())),
        };
        self.append(failed.into())
    }

    fn reply(&self, mut parts: Vec<ReplyPart>, stop: ReplyStop, usage: Usage) -> Reply {
        let seq = self.state.head.seq + 1;
        let calls = parts.iter_mut().filter_map(|part| match part {
            ReplyPart::Call(call) => Some(call),
            ReplyPart::Text { .. } | ReplyPart::Reasoning(_) => None,
        });
        calls.enumerate().for_each(|(index, call)| call.id = CallId::new(seq, index));
        let issuer = self.shown[self.world.answering].provider.issuer().to_owned();
        let (model, provider_id) = (String::new(), String::new());
        Reply { parts, stop, usage, issuer, model, provider_id }
    }
}

fn some_asking(rng: &mut Rng) -> Asking {
    [Asking::Now, Asking::Later, Asking::Never][rng.usize(..3)]
}

fn of_class(class: ErrorClass) -> ModelError {
    ModelError { class, message: "it was ended".to_owned(), retry_after_ms: None, refused: None }
}

fn finished(call: CallId, name: String, how: How, result: ToolResult, ms: u64) -> ToolFinished {
    ToolFinished { call, name, how, result, labels: Labels::default(), ms }
}
