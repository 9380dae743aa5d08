//! What is next. [`decide()`] looks at a state and names one action; the driver carries it out by
//! appending a fact, and asks again. What was started is in the state, so nothing starts twice.

use crate::{
    account::Account,
    budget::Limit,
    event::{
        Event, ModelFailed, ModelSwitched, Parked, PermissionAnswered, PermissionAsked,
        ProjectionRepaired, RoundStarted, SessionConfigured, Stop, ToolFinished, ToolStarted,
        TurnEnded, Woken, WokenWhy,
    },
    gate::{AnsweredBy, Asking, Choice},
    message::{CallId, How, Labels, ReplyStop, ToolResult},
    provider::ErrorClass,
    recover::{fallback, is_parked_for, superseded, wait_ms},
    repair,
    state::State,
    turn::{CallStatus, OpenCall, Phase, Turn},
    words,
};

/// What a decision depends on beside the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The time, in milliseconds since 1970.
    pub now_ms: i64,
    /// When a question to a person is answered.
    pub asking: Asking,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Append this fact; nothing has to be done for it.
    AppendEvent(Event),
    /// Append this, then ask the model.
    CallModel(RoundStarted),
    /// Find the tool of this call, check its arguments and ask the gates. Append
    /// [`crate::event::GateJudged`], or the [`ToolFinished`] that says what was wrong.
    JudgeCall(CallId),
    /// Append this, and show it to the person.
    AskPerson(PermissionAsked),
    /// Append this, make it durable as its effects and repeat class ask, then run the tool.
    RunTool(ToolStarted),
    /// Ask the tool whether this call of a dead process happened. Append what follows from it.
    ProbeTool(CallId),
    /// End everything that is under way and append how each ended.
    AbortEffects(Abort),
    /// Wait until something that is under way ends, a command comes, or this time has come.
    Wait {
        /// In milliseconds since 1970.
        until_ms: Option<i64>,
    },
    /// No turn is open. A parked one goes on at this time, in milliseconds since 1970.
    Idle {
        /// `None` without a parked turn, or when it waits for something that has no time.
        until_ms: Option<i64>,
    },
}

/// Why everything under way ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abort {
    /// The person cancelled.
    Cancelled,
    /// The turn's time is over.
    OutOfTime,
}

/// What is next in `state`.
pub fn decide(state: &State, policy: &Policy) -> Action {
    let (Some(turn), Some(config)) = (&state.turn, &state.config) else {
        return after_park(state, policy.now_ms);
    };
    let account = Account { state, turn, config, now_ms: policy.now_ms };
    let now = Now { state, turn, config, policy, account };
    now.abort()
        .or_else(|| now.answer_cancelled())
        .or_else(|| now.answer_calls())
        .unwrap_or_else(|| now.go_on())
}

/// A parked turn goes on when its time has come, or when one of its calls no longer waits.
fn after_park(state: &State, now_ms: i64) -> Action {
    let Some(Phase::Parked(parked)) = state.parked.as_ref().map(|turn| &turn.phase) else {
        return Action::Idle { until_ms: None };
    };
    let waits = |call: &CallId| state.call(call).is_some_and(OpenCall::waits_outside);
    if parked.until_ms.is_some_and(|until| until <= now_ms) || !parked.calls.iter().all(waits) {
        return Action::AppendEvent(Woken { why: WokenWhy::Unparked }.into());
    }
    Action::Idle { until_ms: parked.until_ms }
}

struct Now<'a> {
    state: &'a State,
    turn: &'a Turn,
    config: &'a SessionConfigured,
    policy: &'a Policy,
    account: Account<'a>,
}

impl Now<'_> {
    fn abort(&self) -> Option<Action> {
        let asking = matches!(self.turn.phase, Phase::Asking(_));
        let running = |open: &OpenCall| matches!(open.status, CallStatus::Running(_));
        let under_way = asking || self.state.calls.iter().any(running);
        match (under_way, self.turn.cancelled) {
            (true, true) => Some(Action::AbortEffects(Abort::Cancelled)),
            (true, false) if self.account.is_out_of_time() => {
                Some(Action::AbortEffects(Abort::OutOfTime))
            }
            _ => None,
        }
    }

    fn answer_cancelled(&self) -> Option<Action> {
        if !self.turn.cancelled {
            return None;
        }
        let open = self.state.calls.iter().find(|open| !open.is_answered());
        Some(match open {
            Some(open) if matches!(open.status, CallStatus::Deferred { .. }) => {
                answer(open, How::Cancelled, words::CANCELLED_IN_THE_MIDDLE)
            }
            // What runs here is aborted by now: a dead process started it.
            Some(open) if open.attempts > 0 => answer(open, How::Unknown, words::UNKNOWN),
            Some(open) => answer(open, How::Cancelled, words::CANCELLED),
            None => self.end(Stop::Cancelled, ""),
        })
    }

    /// Every call of the round has exactly one result before anything else is done.
    fn answer_calls(&self) -> Option<Action> {
        if let Phase::Parked(parked) = &self.turn.phase {
            return Some(self.end(Stop::Parked, &parked.why));
        }
        let calls = &self.state.calls;
        let running =
            calls.iter().filter(|open| matches!(open.status, CallStatus::Running(_))).count();
        let spent = self.account.spent_before_call();
        let mut waits = false;
        for (index, open) in calls.iter().enumerate().filter(|(_, open)| !open.is_answered()) {
            waits = true;
            let earlier = calls.get(..index).unwrap_or_default();
            let free = running < self.config.limits.calls_at_once_max.max(1) as usize
                && !earlier.iter().any(|e| !e.is_answered() && conflict(e, open));
            let action = match &open.status {
                CallStatus::New => match self.never_runs() {
                    Some(why) => Some(answer(open, How::NotRun, &why)),
                    None => free.then(|| Action::JudgeCall(open.call.id.clone())),
                },
                CallStatus::AskNeeded(_) | CallStatus::Asked(_) | CallStatus::Allowed
                    if spent.is_some() && open.attempts == 0 =>
                {
                    spent.map(|limit| answer(open, How::NotRun, &words::limited_call(limit)))
                }
                CallStatus::AskNeeded(why) => Some(self.ask(open, why)),
                CallStatus::Asked(_) => (self.policy.asking == Asking::Never).then(|| nobody(open)),
                CallStatus::Refused(why) => Some(answer(open, How::Refused, &words::refused(why))),
                CallStatus::Allowed if open.attempts > 0 && self.account.is_out_of_time() => {
                    Some(answer(open, How::Unknown, words::UNKNOWN))
                }
                CallStatus::Allowed => free.then(|| run(self.state, open)),
                CallStatus::Probing(_) if self.account.is_out_of_time() => {
                    Some(answer(open, How::Unknown, words::UNKNOWN))
                }
                CallStatus::Probing(_) => Some(Action::ProbeTool(open.call.id.clone())),
                CallStatus::Running(_) | CallStatus::Deferred { .. } | CallStatus::Answered(_) => {
                    None
                }
            };
            if action.is_some() {
                return action;
            }
        }
        if waits && running == 0 && self.is_parked() {
            // A person who says something else is not kept waiting for what was to come.
            let first = calls.iter().find(|open| self.turn.unread && open.waits_outside());
            return Some(Action::AppendEvent(match first {
                Some(open) => superseded(open).into(),
                None => self.park().into(),
            }));
        }
        waits.then(|| Action::Wait { until_ms: self.account.deadline_ms() })
    }

    /// Whether nothing is left to do but to wait outside. Nobody is sent away who is being asked.
    fn is_parked(&self) -> bool {
        let calls = &self.state.calls;
        let is_asked = |open: &OpenCall| matches!(open.status, CallStatus::Asked(_));
        let is_being_asked = self.policy.asking == Asking::Now && calls.iter().any(is_asked);
        !is_being_asked && calls.iter().any(|open| self.parks(open))
    }

    /// Whether the turn parks for this call when nothing else is left to do.
    fn parks(&self, open: &OpenCall) -> bool {
        match open.status {
            CallStatus::Asked(_) => self.policy.asking == Asking::Later,
            CallStatus::Deferred { .. } => true,
            _ => false,
        }
    }

    fn park(&self) -> Parked {
        let waiting = self.state.calls.iter().filter(|open| open.waits_outside());
        let what = waiting.clone().map(|open| match &open.status {
            CallStatus::Deferred { job, .. } => words::waits_for_job(open, job),
            _ => words::waits_for_person(open),
        });
        let probe_at_ms = |open: &OpenCall| match open.status {
            CallStatus::Deferred { probe_at_ms, .. } => probe_at_ms,
            _ => None,
        };
        Parked {
            why: what.collect::<Vec<_>>().join("; "),
            until_ms: waiting.clone().filter_map(probe_at_ms).min(),
            calls: waiting.map(|open| open.call.id.clone()).collect(),
        }
    }

    fn ask(&self, open: &OpenCall, why: &str) -> Action {
        if self.policy.asking == Asking::Never {
            return nobody(open);
        }
        Action::AskPerson(PermissionAsked {
            call: open.call.id.clone(),
            name: open.name.clone(),
            why: why.to_owned(),
            arguments: open.arguments.clone().unwrap_or_default(),
            arguments_hash: open.arguments_hash(),
            choices: vec![Choice::Once, Choice::Session, Choice::No],
        })
    }

    /// Why no call of this reply may run, in words for the model.
    fn never_runs(&self) -> Option<String> {
        if let Some(limit) = self.turn.closing {
            return Some(words::limited_call(limit));
        }
        match &self.turn.phase {
            Phase::Replied(ReplyStop::Length) => Some(words::cut_call(self.turn.output_tokens_max)),
            Phase::Failed { failed, .. } if failed.class == ErrorClass::TimeLimit => {
                Some(words::limited_call(Limit::Time))
            }
            Phase::Replied(ReplyStop::Broken | ReplyStop::Cancelled) | Phase::Failed { .. } => {
                Some(words::BROKEN.to_owned())
            }
            Phase::Replied(ReplyStop::Refusal) => Some(words::REFUSAL.to_owned()),
            Phase::Replied(ReplyStop::End | ReplyStop::Paused)
            | Phase::Ready
            | Phase::Asking(_)
            | Phase::Parked(_) => self.account.spent_before_call().map(words::limited_call),
        }
    }

    fn go_on(&self) -> Action {
        if let Some(cut) = self.turn.cut_prompt {
            return Action::AppendEvent(cut.into());
        }
        match &self.turn.phase {
            Phase::Asking(_) => Action::Wait { until_ms: self.account.deadline_ms() },
            Phase::Failed { failed, at_ms } => self.after_failure(failed, *at_ms),
            Phase::Parked(parked) => self.end(Stop::Parked, &parked.why),
            // It was parked in the middle of this round.
            Phase::Ready if self.turn.round > 0 => self.ask_again(""),
            Phase::Ready => self.next_round(),
            Phase::Replied(stop) => match (self.turn.closing, stop) {
                (Some(limit), _) => self.end(limit.stop(), ""),
                (None, ReplyStop::Refusal) => self.end(Stop::Refusal, ""),
                (None, ReplyStop::Length) if self.turn.cuts > 1 => self.end(Stop::Length, ""),
                (None, ReplyStop::End) if self.state.calls.is_empty() && !self.turn.unread => {
                    self.end(Stop::End, "")
                }
                _ => self.next_round(),
            },
        }
    }

    fn after_failure(&self, failed: &ModelFailed, failed_ms: i64) -> Action {
        if let Some(repair) = repair::next(self.state, failed) {
            let why = failed.message.clone();
            return Action::AppendEvent(ProjectionRepaired { repair, why }.into());
        }
        let wait_ms = failed.retry_at_ms.map(|retry_ms| wait_ms(failed_ms, retry_ms));
        if let Some(model) = fallback(self.state, failed.class, wait_ms) {
            let (model, why) = (model.url.clone(), failed.message.clone());
            return Action::AppendEvent(ModelSwitched { model, why }.into());
        }
        let give_up = self.turn.closing.map_or(Stop::Failed, Limit::stop);
        let Some(retry_ms) = failed.retry_at_ms else {
            let stop = if self.account.is_out_of_time() { Stop::Time } else { give_up };
            return self.end(stop, &failed.message);
        };
        if is_parked_for(failed.class, wait_ms.unwrap_or(0)) {
            let why = failed.message.clone();
            let parked = Parked { why, until_ms: Some(retry_ms), calls: Vec::new() };
            return Action::AppendEvent(parked.into());
        }
        // A clock that was set back since would make it wait for its old time.
        let is_early = (failed_ms..retry_ms).contains(&self.policy.now_ms);
        if is_early && !self.account.is_out_of_time() {
            let deadline_ms = self.account.deadline_ms().unwrap_or(retry_ms);
            return Action::Wait { until_ms: Some(retry_ms.min(deadline_ms)) };
        }
        self.ask_again(&failed.message)
    }

    fn ask_again(&self, why: &str) -> Action {
        if self.account.is_out_of_time() {
            return self.end(Stop::Time, why);
        }
        self.call_model(
            self.turn.closing,
            self.turn.round.max(1),
            self.turn.attempt.saturating_add(1),
        )
    }

    fn next_round(&self) -> Action {
        if let Some(limit) = Limit::ALL.into_iter().find(|limit| self.account.is_reached(*limit)) {
            return if self.account.is_out_of_time() {
                self.end(limit.stop(), "")
            } else if self.account.closing_fits() {
                self.call_model(Some(limit), self.turn.round.max(1), 1)
            } else {
                self.end(limit.stop(), words::NO_CLOSING)
            };
        }
        let near = Limit::ALL.into_iter().filter(|limit| !self.turn.told.contains(limit));
        if let Some(near) = near.filter_map(|limit| self.account.is_near(limit)).next() {
            return Action::AppendEvent(near.into());
        }
        self.call_model(None, self.turn.round.saturating_add(1), 1)
    }

    fn call_model(&self, closing: Option<Limit>, round: u32, attempt: u32) -> Action {
        let output_tokens_max = match closing {
            Some(_) => self.account.closing_output_tokens(),
            None => self.account.output_tokens_max(self.turn.cuts),
        };
        Action::CallModel(RoundStarted {
            round,
            attempt,
            closing,
            output_tokens_max,
            input_tokens_estimate: self.state.context.tokens_estimate(),
        })
    }

    fn end(&self, stop: Stop, detail: &str) -> Action {
        let unread = self.turn.unread && stop != Stop::Parked;
        Action::AppendEvent(TurnEnded { stop, detail: detail.to_owned(), unread }.into())
    }
}

/// The fact that answers a call which did not run.
pub fn not_run(open: &OpenCall, how: How, text: &str) -> ToolFinished {
    ToolFinished {
        call: open.call.id.clone(),
        name: open.name.clone(),
        how,
        result: ToolResult::text(text),
        labels: Labels::default(),
        ms: 0,
    }
}

fn answer(open: &OpenCall, how: How, text: &str) -> Action {
    Action::AppendEvent(not_run(open, how, text).into())
}

fn nobody(open: &OpenCall) -> Action {
    let answered = PermissionAnswered {
        call: open.call.id.clone(),
        choice: Choice::No,
        by: AnsweredBy::Nobody,
        why: words::NOBODY.to_owned(),
    };
    Action::AppendEvent(answered.into())
}

fn run(state: &State, open: &OpenCall) -> Action {
    let session = state.started.as_ref().map_or("", |started| started.session.as_str());
    let (effects, repeat) =
        open.tool.as_ref().map(|tool| (tool.effects, tool.repeat)).unwrap_or_default();
    Action::RunTool(ToolStarted {
        call: open.call.id.clone(),
        name: open.name.clone(),
        effects,
        repeat,
        key: format!("{session}/{}", open.call.id),
        arguments_hash: open.arguments_hash(),
        attempt: open.attempts.saturating_add(1),
    })
}

/// Whether two calls must run one after the other, in the order of the reply.
fn conflict(earlier: &OpenCall, later: &OpenCall) -> bool {
    // A call of no tool does nothing.
    let (Some(a), Some(b)) = (&earlier.tool, &later.tool) else { return false };
    if a.side_by_side() && b.side_by_side() {
        return false;
    }
    match (earlier.resource(), later.resource()) {
        // Two tools may name one thing in two ways.
        (Some(one), Some(other)) => one == other || a.name != b.name,
        _ => true,
    }
}
