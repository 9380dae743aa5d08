//! A session that acts by itself until it needs the world, and writes down what it decided.

use std::{collections::VecDeque, sync::Arc};

use inspan_core::{
    Action, Event, Policy, State,
    budget::{Limits, Price},
    decide,
    decide::{Abort, not_run},
    effects::{Effects, Repeat},
    event::{
        CancelRequested, GateJudged, ModelFailed, ModelRef, ModelReplied, PermissionAnswered,
        PromptSubmitted, SessionConfigured, SessionStarted, ToolDeferred, ToolFinished,
        ToolStarted, Woken, WokenWhy,
    },
    gate::{AnsweredBy, Asking, Choice, Verdict},
    message::{
        CallId, Content, How, Labels, Reasoning, Reply, ReplyPart, ReplyStop, ToolCall, ToolResult,
        Usage,
    },
    prompt::{Message, project},
    provider::{ErrorClass, ModelError, Refused},
    recover::{fallback, recover, retry_at_ms, supersede},
    store::SessionId,
    tool::{Probed, ToolSpec},
    turn::{CallStatus, OpenCall, Phase},
    words,
};

pub(crate) const ISSUER: &str = "test://model";

/// A session under way. Its clock stands still unless [`Log::later`] moves it.
pub(crate) struct Log {
    pub(crate) state: State,
    /// What the gates say next; they allow when nothing is left.
    pub(crate) verdicts: VecDeque<Verdict>,
    /// What had arrived of a reply when it is aborted.
    pub(crate) arrived: Vec<ReplyPart>,
    /// What a tool says of an earlier attempt.
    pub(crate) probed: Probed,
    /// What the provider counts for each reply.
    pub(crate) usage: Usage,
    pub(crate) now_ms: i64,
    asking: Asking,
    pub(crate) story: String,
}

pub(crate) fn text(text: &str) -> ReplyPart {
    ReplyPart::Text { text: text.to_owned() }
}

pub(crate) fn call(name: &str, arguments: &str) -> ReplyPart {
    ReplyPart::Call(ToolCall {
        id: CallId::default(),
        provider_id: None,
        name: name.to_owned(),
        arguments: arguments.to_owned(),
        complete: true,
    })
}

pub(crate) fn half_call(name: &str) -> ReplyPart {
    match call(name, "{\"n\":") {
        ReplyPart::Call(call) => ReplyPart::Call(ToolCall { complete: false, ..call }),
        part => part,
    }
}

pub(crate) fn reasoning(signed: bool) -> ReplyPart {
    let text = if signed { "signed" } else { "unsigned" }.to_owned();
    ReplyPart::Reasoning(Reasoning { text, raw: "{}".to_owned(), signed })
}

impl Log {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    /// A session with a tool of each repeat class, whose configuration is changed first.
    pub(crate) fn with(change: impl FnOnce(&mut SessionConfigured)) -> Self {
        let mut config = SessionConfigured {
            agent: None,
            model: ModelRef {
                url: ISSUER.to_owned(),
                window_tokens_max: None,
                output_tokens_max: None,
                price: None,
                cuts_silently: false,
            },
            fallbacks: Vec::new(),
            system: String::new(),
            tools: tools(),
            found: Default::default(),
            gates: Vec::new(),
            asks: Default::default(),
            limits: Limits { tokens_max: None, time_ms_max: None, ..Limits::session() },
            sandbox: "none".to_owned(),
            workdir: None,
        };
        change(&mut config);
        let session = SessionId::try_from("s".to_owned()).unwrap();
        let (inspan, workdir) = ("0.1.0".to_owned(), "/work".to_owned());
        let started = SessionStarted { session, inspan, format: 1, workdir };
        let mut log = Self {
            state: State::default(),
            verdicts: VecDeque::new(),
            arrived: Vec::new(),
            probed: Probed::Unknown,
            usage: Usage::default(),
            asking: Asking::Now,
            now_ms: 0,
            story: String::new(),
        };
        log.append(started.into());
        log.append(config.into());
        log
    }

    /// From here on a person answers later.
    pub(crate) fn persons_answer_later(&mut self) {
        self.asking = Asking::Later;
    }

    /// The `index`-th open call takes its work elsewhere.
    pub(crate) fn deferred(&mut self, index: usize, job: &str, probe_at_ms: Option<i64>) {
        let open = &self.state.calls[index];
        let (call, name) = (open.call.id.clone(), open.call.name.clone());
        let line = format!("deferred {call} as {job}");
        self.append(ToolDeferred { call, name, job: job.to_owned(), probe_at_ms }.into());
        self.goes_on(&line);
    }

    /// From here on nobody can answer.
    pub(crate) fn alone(&mut self) {
        self.asking = Asking::Never;
        self.goes_on("nobody is there");
    }

    pub(crate) fn prompt(&mut self, text: &str) {
        supersede(&self.state).into_iter().for_each(|event| self.append(event));
        let content = vec![Content::text(text)];
        self.append(PromptSubmitted { content, labels: Labels::default() }.into());
        self.goes_on(&format!("prompt {text:?}"));
    }

    pub(crate) fn cancel(&mut self) {
        self.append(CancelRequested {}.into());
        self.goes_on("cancel");
    }

    pub(crate) fn prompt_with(&mut self, what: &str, content: Vec<Content>) {
        self.append(PromptSubmitted { content, labels: Labels::default() }.into());
        self.goes_on(&format!("prompt {what}"));
    }

    pub(crate) fn later(&mut self, ms: i64) {
        self.now_ms += ms;
        self.goes_on(&format!("{ms} ms later"));
    }

    pub(crate) fn replied(&mut self, parts: &[ReplyPart]) {
        self.replied_as(ReplyStop::End, parts);
    }

    pub(crate) fn replied_as(&mut self, stop: ReplyStop, parts: &[ReplyPart]) {
        let shown: Vec<String> = parts.iter().map(part_line).collect();
        let line = format!("replied {stop:?}: {}", shown.join(", "));
        self.append_reply(stop, parts);
        self.goes_on(&line);
    }

    pub(crate) fn failed(&mut self, class: ErrorClass, retry_after_ms: Option<u64>) {
        let message = format!("{class:?} it was");
        self.failed_with(ModelError { class, message, retry_after_ms, refused: None });
    }

    /// The provider refused this part of the request.
    pub(crate) fn refused(&mut self, refused: Option<Refused>) {
        let class = match &refused {
            Some(Refused::Size { .. }) => ErrorClass::TooLong,
            _ => ErrorClass::BadRequest,
        };
        let message = "no such thing".to_owned();
        self.failed_with(ModelError { class, message, retry_after_ms: None, refused });
    }

    fn failed_with(&mut self, error: ModelError) {
        let retry_at_ms = retry_at_ms(&self.state, &error, self.now_ms, 0.0);
        let is_last = retry_at_ms.is_none() && fallback(&self.state, error.class, None).is_none();
        let partial = is_last.then(|| self.arrived_as(ReplyStop::Broken)).flatten();
        let ModelError { class, message, refused, .. } = error;
        let what = match &refused {
            Some(refused) => format!("refused {refused:?}"),
            None => format!("failed {class:?}"),
        };
        self.append(failure(class, message, retry_at_ms, refused, partial));
        self.goes_on(&what);
    }

    /// The `index`-th open call ends.
    pub(crate) fn finished(&mut self, index: usize, how: How, text: &str) {
        let open = &self.state.calls[index];
        let (call, name) = (open.call.id.clone(), open.call.name.clone());
        let line = format!("finished {call} {}: {text:?}", how.as_str());
        let result = ToolResult::text(text);
        let labels = Labels::default();
        self.append(ToolFinished { call, name, how, result, labels, ms: 1 }.into());
        self.goes_on(&line);
    }

    /// A result comes for a call that was answered already.
    pub(crate) fn news(&mut self, call: &str, name: &str, text: &str) {
        let line = format!("news of {call}");
        let (call, name) = (CallId(call.to_owned()), name.to_owned());
        let (result, labels) = (ToolResult::text(text), Labels::default());
        self.append(ToolFinished { call, name, how: How::Ok, result, labels, ms: 1 }.into());
        self.goes_on(&line);
    }

    pub(crate) fn answered(&mut self, index: usize, choice: Choice) {
        let call = self.state.calls[index].call.id.clone();
        self.answered_for(call, choice);
    }

    pub(crate) fn answered_for(&mut self, call: CallId, choice: Choice) {
        let line = format!("answered {call} {choice:?}");
        let (by, why) = (AnsweredBy::Person, String::new());
        self.append(PermissionAnswered { call, choice, by, why }.into());
        self.goes_on(&line);
    }

    /// The process dies, and another one takes over after a while.
    pub(crate) fn dies(&mut self) {
        self.now_ms += 1_000_000;
        let events = recover(&self.state, self.now_ms);
        let lines: Vec<String> = events.iter().map(event_line).collect();
        events.into_iter().for_each(|event| self.append(event));
        self.goes_on(&format!("died, recovered with: {}", lines.join("; ")));
    }

    pub(crate) fn woken(&mut self) {
        self.append(Woken { why: WokenWhy::Unparked }.into());
        self.goes_on("woken");
    }

    /// Compares the story and the messages of the next request with `expected`, apart from its
    /// indentation.
    #[track_caller]
    pub(crate) fn is(&self, expected: &str) {
        let actual = format!("{}--------\n{}", self.story, self.messages());
        let expected: Vec<&str> = expected.trim().lines().map(str::trim).collect();
        let found: Vec<&str> = actual.trim().lines().map(str::trim).collect();
        assert!(found == expected, "it was rather:\n{}\n", found.join("\n"));
    }

    fn messages(&self) -> String {
        project(&self.state, ISSUER).messages.iter().map(|message| message_line(message)).collect()
    }

    /// Anything else that is appended.
    pub(crate) fn say(&mut self, what: &str, event: Event) {
        self.append(event);
        self.goes_on(what);
    }

    /// Appends before the next decision.
    pub(crate) fn append(&mut self, event: Event) {
        let entry = self.state.entry(self.now_ms, event);
        self.state.apply(&entry);
    }

    fn append_reply(&mut self, stop: ReplyStop, parts: &[ReplyPart]) {
        let reply = Reply {
            parts: parts.to_vec(),
            stop,
            usage: self.usage,
            issuer: ISSUER.to_owned(),
            model: String::new(),
            provider_id: String::new(),
        };
        let price: Option<Price> = self.state.config.as_ref().and_then(|c| c.model.price);
        let cost_nano_usd = price.map(|price| price.of(&self.usage));
        self.append(ModelReplied { reply, cost_nano_usd, first_ms: 1, ms: 1 }.into());
    }

    fn arrived_as(&self, stop: ReplyStop) -> Option<Reply> {
        let reply = Reply {
            parts: self.arrived.clone(),
            stop,
            usage: Usage::default(),
            issuer: ISSUER.to_owned(),
            model: String::new(),
            provider_id: String::new(),
        };
        (!reply.parts.is_empty()).then_some(reply)
    }

    /// Acts until the world is needed.
    fn goes_on(&mut self, what: &str) {
        self.story += &format!("> {what}\n");
        for _ in 0..100 {
            let (now_ms, asking) = (self.now_ms, self.asking);
            let action = decide(&self.state, &Policy { now_ms, asking });
            self.story += &format!("{}\n", action_line(&action));
            match action {
                Action::AppendEvent(event) => self.append(event),
                Action::CallModel(started) => self.append(started.into()),
                Action::AskPerson(asked) => self.append(asked.into()),
                Action::RunTool(started) => self.append(started.into()),
                Action::JudgeCall(call) => self.judge(&call),
                Action::ProbeTool(call) => self.probe(&call),
                Action::AbortEffects(why) => self.abort(why),
                Action::Wait { .. } | Action::Idle { .. } => return,
            }
        }
        panic!("it goes on for ever:\n{}", self.story);
    }

    fn judge(&mut self, call: &CallId) {
        let open = self.state.call(call).unwrap().clone();
        let event = match (&open.tool, &open.arguments) {
            (None, _) => {
                not_run(&open, How::UnknownTool, &words::unknown_tool(&open.call.name, &["look"]))
                    .into()
            }
            (_, None) => not_run(&open, How::BadArguments, words::UNREADABLE).into(),
            _ => {
                let verdict = self.verdicts.pop_front().unwrap_or(Verdict::Allow);
                let (call, gate) = (call.clone(), "gate".to_owned());
                GateJudged { call, gate, verdict, arguments: None }.into()
            }
        };
        self.append(event);
    }

    fn probe(&mut self, call: &CallId) {
        let open = self.state.call(call).unwrap().clone();
        let CallStatus::Probing(started) = &open.status else { panic!("{open:?}") };
        let event: Event = match &self.probed {
            Probed::Done(result) => {
                let (call, name) = (call.clone(), open.call.name.clone());
                let (result, labels) = (result.clone(), Labels::default());
                ToolFinished { call, name, how: How::Ok, result, labels, ms: 1 }.into()
            }
            Probed::Absent => {
                ToolStarted { attempt: started.attempt + 1, ..started.clone() }.into()
            }
            Probed::Pending(job) => {
                let (call, name) = (call.clone(), open.call.name.clone());
                let probe_at_ms = job.probe_after_ms.map(|ms| self.now_ms + ms as i64);
                ToolDeferred { call, name, job: job.id.clone(), probe_at_ms }.into()
            }
            Probed::Unknown => not_run(&open, How::Unknown, words::UNKNOWN).into(),
        };
        self.append(event);
    }

    fn abort(&mut self, why: Abort) {
        let (how, text, class) = match why {
            Abort::Cancelled => {
                (How::Cancelled, words::CANCELLED.to_owned(), ErrorClass::Cancelled)
            }
            Abort::OutOfTime => (How::TimedOut, words::out_of_time(), ErrorClass::TimeLimit),
        };
        let is_running = |open: &&OpenCall| matches!(open.status, CallStatus::Running(_));
        let ends: Vec<Event> = self
            .state
            .calls
            .iter()
            .filter(is_running)
            .map(|open| not_run(open, how, &text).into())
            .collect();
        ends.into_iter().for_each(|event| self.append(event));
        let turn = self.state.turn.as_ref();
        if turn.is_some_and(|turn| matches!(turn.phase, Phase::Asking(_))) {
            if class == ErrorClass::Cancelled && !self.arrived.is_empty() {
                self.append_reply(ReplyStop::Cancelled, &self.arrived.clone());
            } else {
                let partial = self.arrived_as(ReplyStop::Broken);
                self.append(failure(class, "aborted".to_owned(), None, None, partial));
            }
        }
    }
}

fn tools() -> Vec<Arc<ToolSpec>> {
    let spends = Effects { spends: true, ..Effects::NONE };
    let writes = Effects { writes: true, ..Effects::NONE };
    let tool =
        |name: &str, effects, repeat| ToolSpec { effects, repeat, ..ToolSpec::new(name, "") };
    [
        tool("list", Effects::NONE, Repeat::Idempotent),
        tool("look", Effects::NONE, Repeat::Pure),
        tool("pay", spends, Repeat::Keyed),
        ToolSpec { polls: true, ..tool("poll", Effects::NONE, Repeat::Pure) },
        tool("post", Effects { sends: true, ..Effects::NONE }, Repeat::Probe),
        ToolSpec { resource: Some("path".to_owned()), ..tool("put", writes, Repeat::Idempotent) },
        tool("rm", Effects { destroys: true, ..Effects::NONE }, Repeat::Once),
    ]
    .map(Arc::new)
    .to_vec()
}

fn failure(
    class: ErrorClass,
    message: String,
    retry_at_ms: Option<i64>,
    refused: Option<Refused>,
    partial: Option<Reply>,
) -> Event {
    let (usage, cost_nano_usd) = (Usage::default(), None);
    ModelFailed { class, message, retry_at_ms, refused, usage, cost_nano_usd, ms: 1, partial }
        .into()
}

fn action_line(action: &Action) -> String {
    match action {
        Action::AppendEvent(event) => event_line(event),
        Action::CallModel(started) => event_line(&started.clone().into()),
        Action::JudgeCall(call) => format!("judge {call}"),
        Action::AskPerson(asked) => event_line(&asked.clone().into()),
        Action::RunTool(started) => event_line(&started.clone().into()),
        Action::ProbeTool(call) => format!("probe {call}"),
        Action::AbortEffects(why) => format!("abort {why:?}"),
        Action::Wait { until_ms: None } => "wait".to_owned(),
        Action::Wait { until_ms: Some(until_ms) } => format!("wait until {until_ms}"),
        Action::Idle { until_ms: None } => "idle".to_owned(),
        Action::Idle { until_ms: Some(until_ms) } => format!("idle until {until_ms}"),
    }
}

/// Everything that a decision says, hashes left out.
fn event_line(event: &Event) -> String {
    match event {
        Event::RoundStarted(e) => format!(
            "ask model: round {}, attempt {}{}, reads {}, writes {} at most",
            e.round,
            e.attempt,
            e.closing.map(|limit| format!(", closing for {limit:?}")).unwrap_or_default(),
            e.input_tokens_estimate,
            e.output_tokens_max
        ),
        Event::ModelFailed(e) => {
            format!("{:?} {:?} retry {:?} {:?}", e.class, e.message, e.retry_at_ms, e.usage.input)
        }
        Event::PermissionAsked(e) => {
            format!(
                "ask person: {} {}({}), {:?}, {:?}",
                e.call, e.name, e.arguments, e.why, e.choices
            )
        }
        Event::PermissionAnswered(e) => {
            format!("{} {:?} by {:?}: {:?}", e.call, e.choice, e.by, e.why)
        }
        Event::ToolStarted(e) => {
            let effects: Vec<&str> = e.effects.names().collect();
            format!(
                "run {} {}, attempt {}, key {}, {:?} {effects:?}",
                e.call, e.name, e.attempt, e.key, e.repeat
            )
        }
        Event::ToolFinished(e) => {
            format!("answer {} {} {}: {:?}", e.call, e.name, e.how.as_str(), e.result.to_text())
        }
        Event::ProjectionRepaired(e) => format!("repair: {}", e.repair.words()),
        Event::PromptCut(e) => format!("prompt cut: {} of {}", e.read_tokens, e.sent_tokens),
        Event::ModelSwitched(e) => format!("switch to {}: {:?}", e.model, e.why),
        Event::LimitNeared(e) => format!("near {:?}: {} of {}", e.limit, e.spent, e.max),
        Event::ToolDeferred(e) => format!("defer {} {} until {:?}", e.call, e.job, e.probe_at_ms),
        Event::Parked(e) => format!("park until {:?}: {:?}", e.until_ms, e.why),
        Event::Woken(e) => format!("woken {:?}", e.why),
        Event::TurnEnded(e) => {
            let unread = if e.unread { ", a prompt is unread" } else { "" };
            format!("end {} {:?}{unread}", e.stop.as_str(), e.detail)
        }
        other => other.kind().to_owned(),
    }
}

fn message_line(message: &Message) -> String {
    match message {
        Message::Assistant(reply) => {
            reply.parts.iter().map(|part| format!("model: {}\n", part_line(part))).collect()
        }
        Message::User(user) => {
            let result = |one: &inspan_core::prompt::CallResult| {
                format!(
                    "{} {}: {}\n",
                    one.call,
                    one.how.as_str(),
                    content_line(&one.result.content)
                )
            };
            let results: String = user.results.iter().map(result).collect();
            let content = user.content.iter().map(std::slice::from_ref);
            results
                + &content.map(|one| format!("user: {}\n", content_line(one))).collect::<String>()
        }
    }
}

fn content_line(content: &[Content]) -> String {
    let texts = content.iter().map(|content| match content {
        Content::Text { text } => text.replace('\n', "\\n"),
        Content::Image(image) => image.media_type.clone(),
    });
    texts.collect::<Vec<_>>().join(" | ")
}

fn part_line(part: &ReplyPart) -> String {
    match part {
        ReplyPart::Text { text } => format!("{text:?}"),
        ReplyPart::Reasoning(reasoning) => format!("({})", reasoning.text),
        ReplyPart::Call(call) if call.complete => format!("{}({})", call.name, call.arguments),
        ReplyPart::Call(call) => format!("{}({}…", call.name, call.arguments),
    }
}
