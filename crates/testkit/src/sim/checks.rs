//! What must be true of every log, looked at with every entry.

use std::{collections::HashSet, sync::Arc};

use inspan_core::{
    Entry, Event, State,
    budget::{Limit, Limits},
    event::{RoundStarted, Stop, ToolStarted},
    gate::{Choice, Verdict},
    message::CallId,
    prompt::{Message, Segment, project},
    provider::NoImages,
    repair::Repairs,
    turn::{CallStatus, OpenCall, Phase, Turn},
    words,
};

use super::Shown;
use crate::{rules::Rules, wire::Wire};

pub(super) struct Checks<'a> {
    readers: Vec<Reader<'a>>,
    /// Calls that have their result.
    answered: HashSet<CallId>,
    /// Calls that the gates or a person let pass.
    permitted: HashSet<CallId>,
    /// Model calls whose reply is recorded: turn, round, closing.
    replied: HashSet<(u32, u32, bool)>,
    /// Turns that had their closing call.
    closed: HashSet<u32>,
    /// The turn that was the last one when the limits changed: what it had spent by then may be more
    /// than they allow now.
    configured_in: u32,
}

/// What one provider reads of the session.
struct Reader<'a> {
    shown: Shown<'a>,
    rules: Rules,
    wire: Wire,
    /// The sealed messages, rendered and looked at once.
    sealed: Vec<Arc<Message>>,
    /// The repairs with which they were rendered.
    repairs: Repairs,
    /// What the open message was made of when it was looked at last: only more makes another one.
    open: [usize; 3],
}

impl<'a> Checks<'a> {
    pub(super) fn new(shown: &[Shown<'a>]) -> Self {
        Self {
            readers: shown.iter().map(|one| Reader::new(*one)).collect(),
            answered: HashSet::new(),
            permitted: HashSet::new(),
            replied: HashSet::new(),
            closed: HashSet::new(),
            configured_in: 0,
        }
    }

    /// As if it had looked at `log` entry by entry; with the state that this leads to.
    pub(super) fn replayed(shown: &[Shown<'a>], log: &[Entry]) -> Result<(Self, State), String> {
        let mut checks = Self::new(shown);
        let mut state = State::default();
        for entry in log {
            checks.before(&state, entry)?;
            state.apply(entry);
            checks.after(&state)?;
        }
        Ok((checks, state))
    }

    pub(super) fn is_answered(&self, call: &CallId) -> bool {
        self.answered.contains(call)
    }

    /// Looks at one entry that follows on `before`.
    pub(super) fn before(&mut self, before: &State, entry: &Entry) -> Result<(), String> {
        match &entry.event {
            Event::SessionConfigured(_) => self.configured_in = before.turns,
            Event::RoundStarted(started) => self.round(before, started, entry.at_ms)?,
            Event::ModelReplied(_) => self.reply(before)?,
            Event::GateJudged(e) => {
                let name = before.call(&e.call).map(|open| open.name.as_str());
                let allowed = name.is_some_and(|name| before.allowed.contains(name));
                if e.verdict == Verdict::Allow || allowed && matches!(e.verdict, Verdict::Ask(_)) {
                    self.permitted.insert(e.call.clone());
                }
            }
            Event::PermissionAnswered(e) if e.choice != Choice::No => {
                self.permitted.insert(e.call.clone());
            }
            Event::ToolStarted(started) => self.tool(before, started)?,
            Event::ToolFinished(e) => {
                self.answered.insert(e.call.clone());
            }
            Event::TurnEnded(ended) if ended.stop == Stop::Parked => {}
            Event::TurnEnded(_) => all_answered(before)?,
            _ => {}
        }
        Ok(())
    }

    /// Looks at what an entry has led to.
    pub(super) fn after(&mut self, after: &State) -> Result<(), String> {
        if let (Some(turn), Some(config)) = (&after.turn, &after.config)
            && turn.number != self.configured_in
        {
            counted(turn, &config.limits, &after.calls)?;
        }
        self.readers.iter_mut().try_for_each(|reader| reader.read(after))
    }

    fn round(&mut self, before: &State, started: &RoundStarted, at_ms: i64) -> Result<(), String> {
        all_answered(before)?;
        let (Some(turn), Some(config)) = (&before.turn, &before.config) else {
            return Err("a round outside of a turn".to_owned());
        };
        if matches!(turn.phase, Phase::Asking(_)) {
            return Err("two model calls at once".to_owned());
        }
        let asked = (turn.number, started.round, started.closing.is_some());
        if self.replied.contains(&asked) {
            return Err(format!("round {} was answered, and is asked again", started.round));
        }
        let is_first = started.closing.is_some() && started.attempt == 1;
        if is_first && !self.closed.insert(turn.number) {
            return Err("a second closing call".to_owned());
        }
        within(&config.limits, started, turn, at_ms)
    }

    fn reply(&mut self, before: &State) -> Result<(), String> {
        match before.turn.as_ref().map(|turn| (turn.number, &turn.phase)) {
            Some((number, Phase::Asking(started))) => {
                self.replied.insert((number, started.round, started.closing.is_some()));
                Ok(())
            }
            _ => Err("a reply that nobody asked for".to_owned()),
        }
    }

    fn tool(&self, before: &State, started: &ToolStarted) -> Result<(), String> {
        let call = &started.call;
        if self.answered.contains(call) {
            return Err(format!("{call} was answered, and is started again"));
        }
        if !self.permitted.contains(call) {
            return Err(format!("{call} starts without permission"));
        }
        let session = before.started.as_ref().map_or("", |started| started.session.as_str());
        if started.key != format!("{session}/{call}") {
            return Err(format!("the key of {call} is {}", started.key));
        }
        let Some(open) = before.call(call) else { return Err(format!("{call} is not open")) };
        for other in before.calls.iter().filter(|other| is_running(other)) {
            if !may_run_beside(open, other) {
                return Err(format!("{call} runs beside {}", other.call.id));
            }
        }
        Ok(())
    }
}

fn all_answered(state: &State) -> Result<(), String> {
    match state.calls.iter().find(|open| !open.is_answered()) {
        Some(open) => Err(format!("{} is not answered", open.call.id)),
        None => Ok(()),
    }
}

fn is_running(open: &OpenCall) -> bool {
    matches!(open.status, CallStatus::Running(_))
}

fn may_run_beside(one: &OpenCall, other: &OpenCall) -> bool {
    let reads = |open: &OpenCall| open.tool.as_ref().is_some_and(|tool| tool.side_by_side());
    match (one.resource(), other.resource()) {
        (Some(a), Some(b)) if a != b => true,
        _ => reads(one) && reads(other),
    }
}

fn counted(turn: &Turn, limits: &Limits, calls: &[OpenCall]) -> Result<(), String> {
    let running = calls.iter().filter(|open| is_running(open)).count();
    if running > limits.calls_at_once_max.max(1) as usize {
        return Err(format!("{running} calls at once"));
    }
    if turn.spent.calls > limits.calls_max || turn.spent.rounds > limits.rounds_max {
        return Err(format!("{:?} is more than {limits:?}", turn.spent));
    }
    Ok(())
}

/// What was spent when a round starts: less than every limit on tokens, cost and time, also for
/// the closing one.
fn within(limits: &Limits, started: &RoundStarted, turn: &Turn, at_ms: i64) -> Result<(), String> {
    let spent = &turn.spent;
    let wrong = |limit: Limit| Err(format!("a round beyond the limit on {}", limit.words()));
    // Entries are some milliseconds later than the decisions before them.
    let is_late = |max: u64| turn.time_ms(at_ms) >= max.saturating_add(20);
    if limits.tokens_max.is_some_and(|max| spent.tokens >= max) && started.attempt == 1 {
        return wrong(Limit::Tokens);
    }
    if limits.cost_max_nano_usd.is_some_and(|max| spent.cost_nano_usd >= max)
        && started.attempt == 1
    {
        return wrong(Limit::Cost);
    }
    if limits.time_ms_max.is_some_and(is_late) {
        return wrong(Limit::Time);
    }
    Ok(())
}

impl<'a> Reader<'a> {
    fn new(shown: Shown<'a>) -> Self {
        let (rules, wire) = (Rules::default(), Wire::new(shown.api));
        Self { shown, rules, wire, sealed: Vec::new(), repairs: Repairs::default(), open: [0; 3] }
    }

    fn read(&mut self, state: &State) -> Result<(), String> {
        if self.repairs != state.repairs {
            *self = Self { repairs: state.repairs.clone(), ..Self::new(self.shown) };
        }
        let count = state.messages.len();
        let answered = state.calls.iter().filter(|open| open.is_answered()).count();
        let open = [state.calls.len(), answered, state.content.len()];
        if self.open == open && self.sealed.len() == count {
            return Ok(());
        }
        self.open = open;
        let provider = self.shown.provider;
        let projection = project(state, provider.issuer());
        for message in projection.messages.iter().take(count).skip(self.sealed.len()) {
            recorded(message)?;
            self.rules.take(message, provider.issuer())?;
            let bytes = provider.render(Segment::Message(message), &NoImages);
            self.wire.take(&bytes)?;
        }
        let same = |(one, other)| Arc::ptr_eq(one, other);
        if self.sealed.len() > count || !self.sealed.iter().zip(&state.messages).all(same) {
            return Err("a sealed message has changed".to_owned());
        }
        self.sealed.extend(state.messages.iter().skip(self.sealed.len()).cloned());
        let Some(open) = projection.messages.get(count) else {
            return self.rules.finish().and_then(|()| self.wire.finish());
        };
        self.rules.check(open, provider.issuer())?;
        if state.turn.is_some() {
            // It is rendered with the entry that seals it, before it is sent.
            return Ok(());
        }
        self.wire.check(&provider.render(Segment::Message(open), &NoImages))
    }
}

/// A log of a real driver holds a result for every call.
fn recorded(message: &Message) -> Result<(), String> {
    let Message::User(user) = message else { return Ok(()) };
    match user.results.iter().find(|one| one.result.to_text() == words::NO_RESULT) {
        Some(result) => Err(format!("{} has no result", result.call)),
        None => Ok(()),
    }
}
