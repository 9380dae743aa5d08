//! What must be true of every log, looked at with every entry.

use std::collections::HashSet;

use inspan_core::{
    Entry, Event, State,
    budget::{Limit, Limits},
    event::{RoundStarted, ToolStarted},
    gate::{Choice, Verdict},
    message::CallId,
    prompt::{Message, Segment, project},
    provider::NoImages,
    state::{CallStatus, OpenCall, Phase, Turn},
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
}

/// What one provider reads of the session.
struct Reader<'a> {
    shown: Shown<'a>,
    rules: Rules,
    wire: Wire,
    /// The bytes of the sealed messages, made once.
    sealed: Vec<Vec<u8>>,
    /// The open message that was looked at last.
    open: Option<Message>,
}

impl<'a> Checks<'a> {
    pub(super) fn new(shown: &[Shown<'a>]) -> Self {
        Self {
            readers: shown.iter().map(|one| Reader::new(*one)).collect(),
            answered: HashSet::new(),
            permitted: HashSet::new(),
            replied: HashSet::new(),
            closed: HashSet::new(),
        }
    }

    /// As if it had looked at `log` entry by entry.
    pub(super) fn replayed(shown: &[Shown<'a>], log: &[Entry]) -> Result<Self, String> {
        let mut checks = Self::new(shown);
        let mut state = State::default();
        for entry in log {
            let before = state.clone();
            state.apply(entry);
            checks.entry(&before, entry, &state)?;
        }
        Ok(checks)
    }

    pub(super) fn is_answered(&self, call: &CallId) -> bool {
        self.answered.contains(call)
    }

    /// Looks at one entry, with the state before and after it.
    pub(super) fn entry(
        &mut self,
        before: &State,
        entry: &Entry,
        after: &State,
    ) -> Result<(), String> {
        match &entry.event {
            Event::RoundStarted(started) => self.round(before, after, started, entry.at_ms)?,
            Event::ModelReplied(_) => self.reply(before)?,
            Event::GateJudged(e) => {
                let allowed = before.call(&e.call).map(|open| open.call.name.as_str());
                let allowed = allowed.is_some_and(|name| before.allowed.contains(name));
                match e.verdict {
                    Verdict::Ask(_) if !allowed => {}
                    Verdict::Deny(_) => {}
                    Verdict::Allow | Verdict::Ask(_) => {
                        self.permitted.insert(e.call.clone());
                    }
                }
            }
            Event::PermissionAnswered(e) if e.choice != Choice::No => {
                self.permitted.insert(e.call.clone());
            }
            Event::ToolStarted(started) => self.tool(before, after, started)?,
            Event::ToolFinished(e) => {
                self.answered.insert(e.call.clone());
            }
            Event::TurnEnded(_) => all_answered(before)?,
            _ => {}
        }
        self.readers.iter_mut().try_for_each(|reader| reader.read(after))
    }

    fn round(
        &mut self,
        before: &State,
        after: &State,
        started: &RoundStarted,
        at_ms: i64,
    ) -> Result<(), String> {
        all_answered(before)?;
        let (Some(turn), Some(next), Some(config)) = (&before.turn, &after.turn, &before.config)
        else {
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
        within(&config.limits, started, turn, next, at_ms)
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

    fn tool(&self, before: &State, after: &State, started: &ToolStarted) -> Result<(), String> {
        let call = &started.call;
        if self.answered.contains(call) {
            return Err(format!("{call} was answered, and is started again"));
        }
        if !self.permitted.contains(call) {
            return Err(format!("{call} starts without permission"));
        }
        if started.key != format!("simulated/{call}") {
            return Err(format!("the key of {call} is {}", started.key));
        }
        let Some(open) = before.call(call) else { return Err(format!("{call} is not open")) };
        for other in before.calls.iter().filter(|other| is_running(other)) {
            if !may_run_beside(open, other) {
                return Err(format!("{call} runs beside {}", other.call.id));
            }
        }
        let (Some(turn), Some(config)) = (&after.turn, &after.config) else {
            return Err("a tool outside of a turn".to_owned());
        };
        let running = after.calls.iter().filter(|open| is_running(open)).count();
        if running > config.limits.calls_at_once_max.max(1) as usize {
            return Err(format!("{running} calls at once"));
        }
        if turn.spent.calls > config.limits.calls_max {
            return Err(format!("{} calls", turn.spent.calls));
        }
        Ok(())
    }

    /// Looks at the whole, once more and from the beginning.
    pub(super) fn finish(&self, state: &State) -> Result<(), String> {
        self.readers.iter().try_for_each(|reader| reader.finish(state))
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

/// What was spent when a round starts: below every limit for an ordinary one; with room for the
/// closing one, except that of rounds, calls and repeats.
fn within(
    limits: &Limits,
    started: &RoundStarted,
    turn: &Turn,
    next: &Turn,
    at_ms: i64,
) -> Result<(), String> {
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
    if next.spent.rounds > limits.rounds_max {
        return wrong(Limit::Rounds);
    }
    Ok(())
}

impl<'a> Reader<'a> {
    fn new(shown: Shown<'a>) -> Self {
        let (rules, wire) = (Rules::default(), Wire::new(shown.api));
        Self { shown, rules, wire, sealed: Vec::new(), open: None }
    }

    fn read(&mut self, state: &State) -> Result<(), String> {
        let provider = self.shown.provider;
        let projection = project(state, provider.issuer());
        let count = state.messages.len();
        for message in projection.messages.iter().take(count).skip(self.sealed.len()) {
            recorded(message)?;
            self.rules.take(message, provider.issuer())?;
            let bytes = provider.render(Segment::Message(message), &NoImages);
            self.wire.take(&bytes)?;
            self.sealed.push(bytes);
            self.open = None;
        }
        if self.sealed.len() != count {
            return Err("a sealed message is gone".to_owned());
        }
        let Some(open) = projection.messages.get(count) else {
            return self.rules.finish().and_then(|()| self.wire.finish());
        };
        if self.open.as_ref() != Some(open) {
            self.rules.check(open, provider.issuer())?;
            self.wire.check(&provider.render(Segment::Message(open), &NoImages))?;
            self.open = Some(open.clone().into_owned());
        }
        Ok(())
    }

    fn finish(&self, state: &State) -> Result<(), String> {
        let provider = self.shown.provider;
        let projection = project(state, provider.issuer());
        for (index, sealed) in self.sealed.iter().enumerate() {
            let message = projection
                .messages
                .get(index)
                .map(|message| provider.render(Segment::Message(message), &NoImages));
            if message.as_ref() != Some(sealed) {
                return Err(format!("message {index} is not what was sent"));
            }
        }
        Ok(())
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
