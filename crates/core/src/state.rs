//! The fold of a log. Only [`State::apply`] changes a state, and it takes every entry in every
//! order: what makes no sense folds to nothing, or to what is safe.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    arguments,
    budget::{Limit, REPEATS_NOTED, Spent, tokens_estimate},
    event::{
        CatalogueChanged, Entry, Event, GateJudged, Head, ModelFailed, ModelRef, ModelReplied,
        PermissionAnswered, PromptCut, RoundStarted, SessionConfigured, SessionForked,
        SessionStarted, Stop, ToolFinished, ToolStarted, TurnEnded, Woken, WokenWhy,
    },
    found,
    gate::{Choice, Verdict},
    message::{CallId, Content, How, Reply, ReplyPart, ReplyStop, ToolCall, ToolResult, Usage},
    pictures::pictures_of,
    prompt::{CallResult, Message, Said, UserMessage},
    provider::{ErrorClass, Refused},
    repair::Repairs,
    tool::ToolSpec,
    turn::{CallStatus, OpenCall, Phase, Turn, signature},
    words,
};

/// Bytes of text that one token stands for at most, by far: English has about 4, code 3.
const TOKEN_BYTES_MAX: usize = 8;

/// Everything that a log says, so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// The last entry's place.
    pub head: Head,
    /// The last entry's time, in milliseconds since 1970.
    pub at_ms: i64,
    /// How the session began.
    pub started: Option<SessionStarted>,
    /// Where it was forked from another session, if it was: the last of the forks in its past.
    pub forked: Option<SessionForked>,
    /// What it runs with.
    pub config: Option<Arc<SessionConfigured>>,
    /// The messages that were part of a request, and the replies: they never change.
    pub messages: Vec<Arc<Message>>,
    /// The number of pictures in them.
    pub pictures: usize,
    /// The whole calls of the last reply, until the next request carries their results.
    pub calls: Vec<OpenCall>,
    /// Prompts and notes that no request has carried yet.
    pub content: Vec<Content>,
    /// The turn that is open.
    pub turn: Option<Turn>,
    /// The turn that is parked, to be woken.
    pub parked: Option<Turn>,
    /// The number of turns so far.
    pub turns: u32,
    /// How the last turn ended.
    pub ended: Option<TurnEnded>,
    /// What the last turn answered: the text of its last reply, with that of the replies before it
    /// that were paused, or cut in the middle of their text. Empty when it ended without one.
    pub answer: String,
    /// Calls whose result came when they were answered already, and was told as news.
    pub late: BTreeSet<CallId>,
    /// The tools that a person allowed for the whole session.
    pub allowed: BTreeSet<String>,
    /// What the session spent.
    pub total: Spent,
    /// What the next request is taken to hold.
    pub context: Context,
    /// What is left out of what the model reads, because a provider refused it.
    pub repairs: Repairs,
    /// The part of it with which a request was answered.
    pub repairs_kept: Repairs,
    /// Windows in tokens that providers told when they refused, or showed when they cut a prompt,
    /// by the model's URL.
    pub windows: BTreeMap<String, u64>,
}

/// An estimate of the request's size: what the provider counted, and the bytes added since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    /// Tokens up to the last reply, as the provider counted them.
    pub tokens: u64,
    /// Bytes that came after it.
    pub bytes: usize,
    /// Tokens of the last request that its provider counted.
    pub read_tokens: u64,
    /// Bytes that came after that request, the reply to it included.
    pub unread_bytes: usize,
}

impl Context {
    /// The estimated input tokens of the next request.
    pub fn tokens_estimate(&self) -> u64 {
        self.tokens.saturating_add(tokens_estimate(self.bytes))
    }

    fn grow(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.unread_bytes = self.unread_bytes.saturating_add(bytes);
    }
}

impl State {
    /// The state of a whole log.
    pub fn fold<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Self {
        let mut state = Self::default();
        entries.into_iter().for_each(|entry| state.apply(entry));
        state
    }

    /// The entry that says `event` next; nothing is changed until it is applied.
    pub fn entry(&self, at_ms: i64, event: Event) -> Entry {
        let (turn, round) = self.place(&event);
        Entry::next(self.head, at_ms, turn, round, event)
    }

    /// The turn and the round in it that `event` belongs to when it comes next.
    pub fn place(&self, event: &Event) -> (u32, u32) {
        let mut turn = self.turn.as_ref().map_or(self.turns, |turn| turn.number);
        let mut round = self.turn.as_ref().map_or(0, |turn| turn.round);
        match event {
            Event::PromptSubmitted(_) if self.turn.is_none() => {
                (turn, round) = (turn.saturating_add(1), 0);
            }
            Event::Woken(_) if self.turn.is_none() => {
                round = self.parked.as_ref().map_or(0, |turn| turn.round);
            }
            Event::RoundStarted(started) => round = started.round,
            _ => {}
        }
        (turn, round)
    }

    /// Takes one entry.
    pub fn apply(&mut self, entry: &Entry) {
        let (seq, at_ms) = (entry.seq, entry.at_ms);
        match &entry.event {
            Event::SessionStarted(e) => self.started = Some(e.clone()),
            Event::SessionConfigured(e) => self.configure(e),
            Event::CatalogueChanged(e) => self.catalogue_changed(e),
            Event::PromptSubmitted(e) => self.prompt(&e.content, at_ms),
            Event::RoundStarted(e) => self.round(e),
            Event::ModelReplied(e) => self.replied(e, seq),
            Event::ModelFailed(e) => self.failed(e, seq, at_ms),
            Event::ProjectionRepaired(e) => self.repair(&e.repair),
            Event::PromptCut(e) => self.prompt_cut(e),
            Event::ModelSwitched(_) => self.switch_model(),
            Event::GateJudged(e) => self.judged(e),
            Event::PermissionAsked(e) => self.on_call(&e.call, |open| {
                if let CallStatus::AskNeeded(why) = &open.status {
                    open.status = CallStatus::Asked(why.clone());
                }
            }),
            Event::PermissionAnswered(e) => self.answered(e),
            Event::ToolStarted(e) => self.tool_started(e),
            Event::ToolDeferred(e) => self.on_call(&e.call, |open| {
                if let CallStatus::Running(started) | CallStatus::Probing(started) = &open.status {
                    open.status = CallStatus::Deferred {
                        started: started.clone(),
                        job: e.job.clone(),
                        probe_at_ms: e.probe_at_ms,
                    };
                }
            }),
            Event::ToolFinished(e) => self.tool_finished(e),
            Event::LimitNeared(e) => {
                self.note(words::limit_neared(e));
                self.on_turn(|turn| turn.told.extend([e.limit]));
            }
            Event::Parked(e) => self.on_turn(|turn| turn.phase = Phase::Parked(e.clone())),
            Event::Woken(e) => self.woken(e, at_ms),
            Event::CancelRequested(_) => self.on_turn(|turn| {
                turn.cancelled = true;
                turn.unread = false;
            }),
            Event::TurnEnded(e) => self.turn_ended(e, at_ms),
            Event::SessionForked(e) => {
                if let Some(started) = &mut self.started {
                    started.session = e.session.clone();
                }
                // A yes for a session is none for what others make of it.
                self.allowed.clear();
                self.forked = Some(e.clone());
            }
            Event::Unknown(_) => {}
        }
        self.head = Head { seq, hash: entry.hash };
        self.at_ms = at_ms;
    }

    /// Whether a request is under way. What comes meanwhile is for the next one.
    pub fn is_asking(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| matches!(turn.phase, Phase::Asking(_)))
    }

    /// Whether a person was asked, and has not answered.
    pub fn is_asking_a_person(&self) -> bool {
        self.calls.iter().any(|open| matches!(open.status, CallStatus::Asked(_)))
    }

    /// The open call with this identifier.
    pub fn call(&self, id: &CallId) -> Option<&OpenCall> {
        self.calls.iter().find(|open| open.call.id == *id)
    }

    /// The tool of this name.
    pub fn tool(&self, name: &str) -> Option<&Arc<ToolSpec>> {
        self.config.as_ref()?.tool(name)
    }

    /// The session's working directory; empty before its first entry.
    pub fn workdir(&self) -> &str {
        let moved = self.config.as_ref().and_then(|config| config.workdir.as_deref());
        let began = self.started.as_ref().map(|started| started.workdir.as_str());
        moved.or(began).unwrap_or_default()
    }

    /// The name of the tool that a call means, and its arguments; `None` for what can't be read.
    pub fn meant(&self, call: &ToolCall) -> (String, Option<Value>) {
        match &self.config {
            Some(config) if !config.found.is_empty() => found::meant(call),
            _ => (call.name.clone(), arguments::read(&call.arguments)),
        }
    }

    /// The model that answers now: the session's own, or in a turn one of its fallbacks.
    pub fn model(&self) -> Option<&ModelRef> {
        let config = self.config.as_ref()?;
        let number = self.turn.as_ref().map_or(0, |turn| turn.fallback as usize);
        let fallback = number.checked_sub(1).and_then(|index| config.fallbacks.get(index));
        Some(fallback.unwrap_or(&config.model))
    }

    /// Its window in tokens: the smallest that anybody knows of.
    pub fn window_tokens_max(&self) -> Option<u64> {
        let model = self.model()?;
        self.windows.get(&model.url).copied().into_iter().chain(model.window_tokens_max).min()
    }

    pub(crate) fn on_turn(&mut self, change: impl FnOnce(&mut Turn)) {
        if let Some(turn) = &mut self.turn {
            change(turn);
        }
    }

    fn on_call(&mut self, id: &CallId, change: impl FnOnce(&mut OpenCall)) {
        let open = self.calls.iter_mut().find(|open| open.call.id == *id);
        if let Some(open) = open.filter(|open| !open.is_answered()) {
            change(open);
        }
    }

    fn note(&mut self, text: String) {
        self.context.grow(text.len());
        self.content.push(Content::Text { text });
    }

    fn configure(&mut self, config: &SessionConfigured) {
        if self.config.is_none() {
            self.context.grow(config.head_bytes());
        }
        if let Some(before) = &self.config {
            // What was allowed was a tool of the agent as it was then.
            let hash = |config: &SessionConfigured| config.agent.as_ref().map(|agent| agent.hash);
            if hash(before) != hash(config) {
                self.allowed.clear();
                let has_not_begun =
                    |open: &&mut OpenCall| open.status == CallStatus::Allowed && open.attempts == 0;
                self.calls.iter_mut().filter(has_not_begun).for_each(|open| {
                    open.status = CallStatus::New;
                });
            }
            let is_other_tool = |name: &str| self.tool(name) != config.tool(name);
            let others: Vec<String> =
                self.allowed.iter().filter(|name| is_other_tool(name)).cloned().collect();
            let calls: Vec<bool> =
                self.calls.iter().map(|open| is_other_tool(&open.name)).collect();
            // A yes was one for the tool as it was.
            self.allowed.retain(|name| !others.contains(name));
            for (open, is_other) in self.calls.iter_mut().zip(calls) {
                if is_other && open.status == CallStatus::Allowed && open.attempts == 0 {
                    open.status = CallStatus::New;
                }
            }
            let is_other_model = before.model.url != config.model.url;
            if is_other_model || before.tools != config.tools {
                // What was refused may be taken now.
                (self.repairs, self.repairs_kept) = <(Repairs, Repairs)>::default();
            }
            if is_other_model {
                self.on_turn(|turn| turn.fallback = 0);
            }
        }
        self.config = Some(Arc::new(config.clone()));
    }

    fn catalogue_changed(&mut self, change: &CatalogueChanged) {
        let Some(config) = &mut self.config else { return };
        self.context.grow(change.bytes());
        let config = Arc::make_mut(config);
        let other = change.came.iter().chain(&change.changed);
        let is_other = |name: &str| {
            change.went.iter().any(|gone| gone == name) || other.clone().any(|t| t.name == name)
        };
        config.tools.retain(|tool| !is_other(&tool.name));
        // A yes for the session was one for the tool as it was.
        self.allowed.retain(|name| !is_other(name));
        // What was refused may be taken now.
        for repairs in [&mut self.repairs, &mut self.repairs_kept] {
            repairs.tools_changed(is_other);
        }
        config.tools.extend(other.clone().cloned());
        config.tools.sort_by(|a, b| a.name.cmp(&b.name));
        config.found.retain(|name, _| !is_other(name));
        config.found.extend(change.found.clone());
        config.asks.extend(change.asks.clone());
    }

    fn prompt(&mut self, content: &[Content], at_ms: i64) {
        let content = not_blank(content, words::NO_PROMPT);
        self.context.grow(content.iter().map(size_of).sum());
        self.content.extend(content);
        match &mut self.turn {
            Some(turn) => turn.unread = true,
            None => self.open_turn(at_ms),
        }
    }

    /// What is open outside of any turn stays without a result.
    fn close_calls(&mut self) {
        for open in self.calls.iter_mut().filter(|open| !open.is_answered()) {
            open.status = CallStatus::Answered(Box::new(no_result(open)));
        }
    }

    fn open_turn(&mut self, at_ms: i64) {
        self.close_calls();
        self.turns += 1;
        self.turn = Some(Turn::new(self.turns, at_ms));
        self.parked = None;
    }

    fn round(&mut self, started: &RoundStarted) {
        if started.attempt == 1
            && let Some(limit) = started.closing
        {
            self.note(words::closing(limit));
        }
        self.seal();
        let ordinary = started.attempt == 1 && started.closing.is_none();
        let goes_on =
            |phase: &Phase| matches!(phase, Phase::Replied(ReplyStop::Length | ReplyStop::Paused));
        self.total.rounds += u32::from(ordinary);
        self.on_turn(|turn| {
            turn.spent.rounds += u32::from(ordinary);
            turn.round = started.round;
            turn.attempt = started.attempt;
            turn.output_tokens_max = started.output_tokens_max;
            turn.closing = started.closing;
            turn.unread = false;
            // What was cut in its calls is written anew.
            if started.attempt == 1 && (turn.cut_in_call || !goes_on(&turn.phase)) {
                turn.answer.clear();
            }
            turn.phase = Phase::Asking(started.clone());
        });
    }

    /// What the next request carries becomes a message that never changes.
    fn seal(&mut self) {
        let results = std::mem::take(&mut self.calls).iter().map(result_of).collect();
        let content = std::mem::take(&mut self.content);
        let message = UserMessage { results, content };
        if message != UserMessage::default() {
            self.add_message(Message::User(message));
        }
        self.begin_messages();
    }

    /// The first message is the user's, also in a log that has no prompt.
    fn begin_messages(&mut self) {
        if self.messages.is_empty() {
            self.messages.push(Arc::new(Message::User(UserMessage::no_prompt())));
        }
    }

    fn replied(&mut self, replied: &ModelReplied, seq: u64) {
        let usage = &replied.reply.usage;
        self.spend(usage.total(), replied.cost_nano_usd, usage.estimated || usage.input.is_none());
        let asked = self.turn.as_ref().map_or(0, |turn| turn.output_tokens_max);
        let cut_prompt = self.cut_prompt(usage);
        self.repairs_kept = self.repairs.clone();
        self.take_reply(&replied.reply, seq);
        let is_cut = replied.reply.stop == ReplyStop::Length;
        if is_cut {
            self.note(words::cut_reply(asked));
        }
        let stop = replied.reply.stop.clone();
        let is_call = |part: &ReplyPart| matches!(part, ReplyPart::Call(_));
        let cut_in_call = is_cut && replied.reply.parts.iter().any(is_call);
        self.on_turn(|turn| {
            turn.cut_in_call = cut_in_call;
            turn.failures = 0;
            turn.interruptions = 0;
            turn.repairs = 0;
            turn.cut_prompt = cut_prompt;
            turn.cuts = if is_cut { turn.cuts + 1 } else { 0 };
            turn.phase = Phase::Replied(stop);
        });
    }

    fn take_reply(&mut self, reply: &Reply, seq: u64) {
        if !self.calls.is_empty() {
            // Only a log that the driver never writes: a reply while calls were open.
            let kept = std::mem::take(&mut self.content);
            self.seal();
            self.content = kept;
        }
        self.begin_messages();
        let said_bytes: usize = reply.parts.iter().map(part_size).sum();
        let is_sent_back = |part: &&ReplyPart| !matches!(part, ReplyPart::Reasoning(_));
        let sent_back: usize = reply.parts.iter().filter(is_sent_back).map(part_size).sum();
        if reply.usage.input_total() > 0 && !reply.usage.estimated {
            let unsent: usize = self.content.iter().map(size_of).sum();
            self.context = Context {
                tokens: reply.usage.total(),
                bytes: unsent,
                read_tokens: reply.usage.input_total(),
                unread_bytes: unsent + sent_back,
            };
        } else {
            self.context.grow(said_bytes);
        }
        let said = reply.text();
        self.on_turn(|turn| turn.answer += &said);
        let reply = with_own_ids(reply, seq);
        self.calls = reply
            .calls()
            .map(|call| {
                let (name, arguments) = self.meant(call);
                OpenCall {
                    tool: self.tool(&name).cloned(),
                    name,
                    arguments,
                    call: call.clone(),
                    attempts: 0,
                    status: CallStatus::New,
                }
            })
            .collect();
        self.add_message(Message::Assistant(sendable(reply)));
    }

    /// Puts a message to those that never change.
    pub(crate) fn add_message(&mut self, mut message: Message) {
        if let Message::Assistant(said) = &mut message {
            let before = self.messages.iter().rev().find_map(|message| match &**message {
                Message::Assistant(before) => Some(&before.issuer),
                Message::User(_) => None,
            });
            if let Some(same) = before.filter(|before| **before == said.issuer) {
                said.issuer = Arc::clone(same);
            }
        }
        self.pictures += pictures_of(&message).count();
        self.messages.push(Arc::new(message.packed()));
    }

    /// What was sent and what was read of it, in tokens, where a server reads less and does not say
    /// so: requests only grow, and a token is seldom more than [`TOKEN_BYTES_MAX`] bytes.
    fn cut_prompt(&self, usage: &Usage) -> Option<PromptCut> {
        let Phase::Asking(started) = &self.turn.as_ref()?.phase else { return None };
        let (model, read_tokens) = (self.model()?, usage.input_total());
        let grown = (self.context.unread_bytes / TOKEN_BYTES_MAX) as u64;
        let least = self.context.read_tokens.saturating_add(grown);
        let is_told = self.windows.get(&model.url).is_some_and(|window| read_tokens <= *window);
        let is_cut = model.cuts_silently && !usage.estimated && (1..least).contains(&read_tokens);
        let sent_tokens = started.input_tokens_estimate.max(least);
        (is_cut && !is_told).then_some(PromptCut { sent_tokens, read_tokens })
    }

    fn prompt_cut(&mut self, cut: &PromptCut) {
        self.learn_window(cut.read_tokens);
        self.on_turn(|turn| turn.cut_prompt = None);
    }

    fn switch_model(&mut self) {
        self.on_turn(|turn| {
            turn.fallback += 1;
            turn.failures = 0;
            if matches!(turn.phase, Phase::Failed { .. }) {
                turn.phase = Phase::Ready;
            }
        });
    }

    fn learn_window(&mut self, tokens_max: u64) {
        if let Some(url) = self.model().map(|model| model.url.clone()) {
            self.windows.insert(url, tokens_max);
        }
    }

    fn spend(&mut self, tokens: u64, cost: Option<u64>, incomplete: bool) {
        let add = |spent: &mut Spent| {
            spent.tokens = spent.tokens.saturating_add(tokens);
            spent.cost_nano_usd = spent.cost_nano_usd.saturating_add(cost.unwrap_or(0));
            spent.incomplete |= incomplete;
        };
        add(&mut self.total);
        self.on_turn(|turn| add(&mut turn.spent));
    }

    fn failed(&mut self, failed: &ModelFailed, seq: u64, at_ms: i64) {
        self.spend(failed.usage.total(), failed.cost_nano_usd, failed.usage.estimated);
        if let Some(partial) = &failed.partial {
            self.take_reply(partial, seq);
        }
        if let Some(Refused::Size { tokens_max: Some(tokens_max) }) = failed.refused {
            self.learn_window(tokens_max);
        }
        self.on_turn(|turn| {
            turn.failures += u32::from(failed.class.is_passing());
            turn.interruptions += u32::from(failed.class == ErrorClass::Interrupted);
            turn.phase = Phase::Failed { failed: failed.clone(), at_ms };
        });
    }

    fn judged(&mut self, judged: &GateJudged) {
        let allowed = self.call(&judged.call).is_some_and(|o| self.allowed.contains(&o.name));
        self.on_call(&judged.call, |open| {
            if open.status != CallStatus::New {
                return;
            }
            if let Some(checked) = &judged.arguments {
                open.arguments = Some(checked.clone());
            }
            open.status = match &judged.verdict {
                Verdict::Allow => CallStatus::Allowed,
                Verdict::Ask(_) if allowed => CallStatus::Allowed,
                Verdict::Ask(why) => CallStatus::AskNeeded(why.clone()),
                Verdict::Deny(why) => CallStatus::Refused(why.clone()),
            };
        });
    }

    fn answered(&mut self, answered: &PermissionAnswered) {
        let mut allowed_tool = None;
        self.on_call(&answered.call, |open| {
            if !matches!(open.status, CallStatus::AskNeeded(_) | CallStatus::Asked(_)) {
                return;
            }
            open.status = match answered.choice {
                Choice::No => CallStatus::Refused(answered.why.clone()),
                Choice::Once => CallStatus::Allowed,
                Choice::Session => {
                    allowed_tool = Some(open.name.clone());
                    CallStatus::Allowed
                }
            };
        });
        self.allowed.extend(allowed_tool);
    }

    fn tool_started(&mut self, started: &ToolStarted) {
        let mut first = false;
        self.on_call(&started.call, |open| {
            first = open.attempts == 0;
            open.attempts = started.attempt;
            open.status = CallStatus::Running(started.clone());
        });
        self.total.calls += u32::from(first);
        self.on_turn(|turn| turn.spent.calls += u32::from(first));
    }

    fn tool_finished(&mut self, finished: &ToolFinished) {
        let content = not_blank(&finished.result.content, words::NO_OUTPUT);
        if self.call(&finished.call).is_none_or(OpenCall::is_answered) {
            // The same news is no news.
            if !self.late.insert(finished.call.clone()) {
                return;
            }
            let late = words::late(&finished.call, &finished.name, &finished.result);
            self.note(late);
            return;
        }
        self.context.grow(content.iter().map(size_of).sum());
        self.on_call(&finished.call, |open| {
            open.status = CallStatus::Answered(Box::new(CallResult {
                call: finished.call.clone(),
                name: finished.name.clone(),
                how: finished.how,
                result: ToolResult {
                    content,
                    evidence: finished.result.evidence.clone(),
                    state: finished.result.state.clone(),
                    spilled: finished.result.spilled.clone(),
                },
            }));
        });
        if self.calls.iter().all(OpenCall::is_answered) {
            let signature = signature(&self.calls);
            self.on_turn(|turn| {
                turn.signatures.push(signature);
                // A loop that was left is forgotten; the next one is told again.
                if turn.repeats() < REPEATS_NOTED {
                    turn.told.remove(&Limit::Loop);
                }
            });
        }
    }

    fn woken(&mut self, woken: &Woken, at_ms: i64) {
        let last_ms = self.at_ms;
        match woken.why {
            WokenWhy::Interrupted => self.on_turn(|turn| {
                turn.active_ms = turn.time_ms(last_ms);
                turn.since_ms = at_ms;
            }),
            WokenWhy::Unparked if self.turn.is_none() => {
                self.turn = self.parked.take();
                let waited_for_calls = !self.calls.is_empty();
                self.on_turn(|turn| {
                    turn.phase = match waited_for_calls {
                        true => Phase::Replied(ReplyStop::End),
                        false => Phase::Ready,
                    };
                    turn.since_ms = at_ms;
                });
            }
            WokenWhy::Unparked => {}
        }
        self.calls.iter_mut().for_each(|open| open.wake(at_ms));
    }

    fn turn_ended(&mut self, ended: &TurnEnded, at_ms: i64) {
        if ended.stop != Stop::Parked {
            self.close_calls();
        }
        let turn = self.turn.take();
        self.answer = turn.as_ref().map(|turn| turn.answer.clone()).unwrap_or_default();
        let unread = turn.as_ref().is_some_and(|turn| turn.unread);
        self.ended = Some(ended.clone());
        if ended.stop != Stop::Parked {
            self.repairs = self.repairs_kept.clone();
        }
        match turn {
            Some(mut turn) if ended.stop == Stop::Parked => {
                turn.active_ms = turn.time_ms(at_ms);
                self.parked = Some(turn);
            }
            // A prompt that came too late for this turn begins the next one.
            _ if unread && ended.stop != Stop::Parked => self.open_turn(at_ms),
            _ => {}
        }
    }
}

/// The content that can be sent: providers refuse a blank text, and an empty list of content.
fn not_blank(content: &[Content], instead: &str) -> Vec<Content> {
    let is_blank =
        |content: &Content| matches!(content, Content::Text { text } if text.trim().is_empty());
    let kept: Vec<Content> = content.iter().filter(|one| !is_blank(one)).cloned().collect();
    if kept.is_empty() { vec![Content::text(instead)] } else { kept }
}

pub(crate) fn size_of(content: &Content) -> usize {
    match content {
        Content::Text { text } => text.len(),
        // Providers count a picture of usual size as one to two thousand tokens.
        Content::Image(_) => 6_000,
    }
}

pub(crate) fn part_size(part: &ReplyPart) -> usize {
    match part {
        ReplyPart::Text { text } => text.len(),
        ReplyPart::Reasoning(reasoning) => reasoning.raw.len().max(reasoning.text.len()),
        ReplyPart::Call(call) => call.name.len() + call.arguments.len(),
    }
}

fn no_result(open: &OpenCall) -> CallResult {
    CallResult {
        call: open.call.id.clone(),
        name: open.name.clone(),
        how: How::Unknown,
        result: ToolResult::text(words::NO_RESULT),
    }
}

pub(crate) fn result_of(open: &OpenCall) -> CallResult {
    match &open.status {
        CallStatus::Answered(result) => (**result).clone(),
        _ => no_result(open),
    }
}

/// The reply with the identifiers that Inspan gives to the calls of entry `seq`, whatever a log
/// holds, so that no two calls of a session share one.
fn with_own_ids(reply: &Reply, seq: u64) -> Reply {
    let mut reply = reply.clone();
    calls_mut(&mut reply).enumerate().for_each(|(index, call)| call.id = CallId::new(seq, index));
    reply
}

fn calls_mut(reply: &mut Reply) -> impl Iterator<Item = &mut ToolCall> {
    reply.parts.iter_mut().filter_map(|part| match part {
        ReplyPart::Call(call) => Some(call),
        ReplyPart::Text { .. } | ReplyPart::Reasoning(_) => None,
    })
}

/// The reply as it can be sent back: whole calls whose names every provider takes, no blank text,
/// no unsigned reasoning of a cut reply, never empty, and not ending in reasoning, which providers
/// refuse.
pub fn sendable(mut reply: Reply) -> Said {
    let is_cut = reply.stop.is_cut();
    reply.parts.retain(|part| match part {
        ReplyPart::Text { text } => !text.trim().is_empty(),
        ReplyPart::Reasoning(reasoning) => reasoning.signed || !is_cut,
        ReplyPart::Call(call) => call.complete,
    });
    calls_mut(&mut reply).for_each(|call| call.name = ToolSpec::sendable_name(&call.name));
    if !matches!(reply.parts.last(), Some(ReplyPart::Text { .. } | ReplyPart::Call(_))) {
        let text = if is_cut { words::REPLY_CUT } else { words::NO_TEXT };
        reply.parts.push(ReplyPart::Text { text: text.to_owned() });
    }
    Said { parts: reply.parts, stop: reply.stop, issuer: reply.issuer.into() }
}
