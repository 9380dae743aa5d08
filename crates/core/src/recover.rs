//! What follows from a failed model call, and from a process that died.

use crate::{
    budget::{
        INTERRUPTED_ATTEMPTS_MAX, RETRY_WAIT_MS_FIRST, RETRY_WAIT_MS_GROWN, RETRY_WAIT_MS_MAX,
    },
    decide::not_run,
    effects::Repeat,
    event::{Event, Head, ModelFailed, ModelRef, SessionForked, ToolFinished, Woken, WokenWhy},
    message::{How, ResultState, ToolResult, Usage},
    provider::{ErrorClass, ModelError},
    state::State,
    store::SessionId,
    turn::{CallStatus, OpenCall, Phase},
    words,
};

/// When to try again after `error`, in milliseconds since 1970; `None` for never. `chance` in 0 to
/// 1 spreads attempts of many clients: up to a quarter is taken off a wait of our own, up to a
/// quarter added to one that the provider asked for, which counts where it is the longer one.
pub fn retry_at_ms(state: &State, error: &ModelError, now_ms: i64, chance: f64) -> Option<i64> {
    let (turn, config) = (state.turn.as_ref()?, state.config.as_ref()?);
    let at = |wait_ms: u64| now_ms.saturating_add(i64::try_from(wait_ms).unwrap_or(i64::MAX));
    if error.class == ErrorClass::Quota {
        // Whatever the server says: what is used up is not renewed in a moment.
        return error.retry_after_ms.map(|wait_ms| at(wait_ms.max(RETRY_WAIT_MS_GROWN)));
    }
    if !error.class.is_passing() || turn.failures >= config.limits.retries_max {
        return None;
    }
    let quarter = |wait_ms: u64| (wait_ms as f64 * 0.25 * chance.clamp(0.0, 1.0)) as u64;
    let doubled = RETRY_WAIT_MS_FIRST << turn.failures.min(16);
    let own_ms = doubled.min(RETRY_WAIT_MS_GROWN);
    Some(at(match error.retry_after_ms {
        // A server that says "at once" is asked no sooner than one that says nothing.
        Some(asked_ms) if asked_ms >= own_ms => {
            asked_ms.saturating_add(quarter(asked_ms.min(RETRY_WAIT_MS_GROWN)))
        }
        _ => own_ms - quarter(own_ms),
    }))
}

/// Whether a turn is parked for such a wait in place of waiting itself.
pub fn is_parked_for(class: ErrorClass, wait_ms: u64) -> bool {
    class == ErrorClass::Quota || wait_ms > RETRY_WAIT_MS_MAX
}

/// The wait from a failure to the next attempt, in milliseconds.
pub fn wait_ms(failed_ms: i64, retry_at_ms: i64) -> u64 {
    u64::try_from(retry_at_ms.saturating_sub(failed_ms)).unwrap_or(0)
}

/// The model that is asked in place of one whose server failed for good (`wait_ms` is `None`), or
/// for which the turn would be parked; `None` when the fault is not the server's, or no model is left.
pub fn fallback(state: &State, class: ErrorClass, wait_ms: Option<u64>) -> Option<&ModelRef> {
    let turn = state.turn.as_ref()?;
    let is_over = wait_ms.is_none_or(|wait_ms| is_parked_for(class, wait_ms));
    let is_servers = class.is_passing() || matches!(class, ErrorClass::Quota | ErrorClass::Auth);
    let left = state.config.as_ref()?.fallbacks.get(turn.fallback as usize);
    left.filter(|_| is_over && is_servers && !turn.cancelled)
}

/// What is appended before a prompt that comes while a turn is parked: its calls are answered, and
/// what comes of them later is news.
pub fn supersede(state: &State) -> Vec<Event> {
    let waiting = state.calls.iter().filter(|open| state.turn.is_none() && !open.is_answered());
    waiting.map(|open| superseded(open).into()).collect()
}

/// The answer of a call that is waited for no longer.
pub(crate) fn superseded(open: &OpenCall) -> ToolFinished {
    match &open.status {
        CallStatus::Deferred { job, .. } => {
            let state = ResultState::Accepted(job.clone());
            let result = ToolResult { state, ..ToolResult::default() };
            ToolFinished { result, ..not_run(open, How::Ok, "") }
        }
        _ => not_run(open, How::NotRun, words::SUPERSEDED),
    }
}

/// The first entries of a fork of `parent`, whose past folds to `state`: the calls that are open
/// there may go on in the parent, so here nobody knows. Nothing for a past without a beginning.
///
/// The past may be one that the parent shares with its own: it is read through the parent all the
/// same, which may be the only one that is left.
pub fn fork(
    state: &State,
    parent: SessionId,
    session: SessionId,
    inspan: &str,
    now_ms: i64,
) -> Vec<Event> {
    if state.started.is_none() {
        return Vec::new();
    }
    let Head { seq, hash } = state.head;
    let inspan = inspan.to_owned();
    let mut events = vec![SessionForked { session, parent, seq, hash, inspan }.into()];
    if state.is_asking() {
        events.push(
            ModelFailed {
                class: ErrorClass::Interrupted,
                message: "the session was forked in the middle of this model call".to_owned(),
                retry_at_ms: Some(now_ms),
                refused: None,
                usage: Usage::default(),
                cost_nano_usd: None,
                ms: 0,
                partial: None,
            }
            .into(),
        );
    }
    let open = state.calls.iter().filter(|open| !open.is_answered());
    events.extend(open.map(|open| not_run(open, How::Unknown, words::FORKED).into()));
    events
}

/// What a driver appends when it takes over a log whose last process left a turn open: the turn
/// goes on, a model call without an end is charged by estimate and asked again, a `once` tool
/// without an end is told as unknown. What may run again, runs by the ordinary loop.
pub fn recover(state: &State, now_ms: i64) -> Vec<Event> {
    let Some(turn) = &state.turn else { return Vec::new() };
    let mut events = vec![Woken { why: WokenWhy::Interrupted }.into()];
    if let Phase::Asking(started) = &turn.phase {
        let usage = Usage {
            input: Some(started.input_tokens_estimate),
            estimated: true,
            ..Usage::default()
        };
        let price = state.model().and_then(|model| model.price);
        events.push(
            ModelFailed {
                class: ErrorClass::Interrupted,
                message: "the process ended in the middle of this model call".to_owned(),
                retry_at_ms: (turn.interruptions + 1 < INTERRUPTED_ATTEMPTS_MAX).then_some(now_ms),
                refused: None,
                usage,
                cost_nano_usd: price.map(|price| price.of(&usage)),
                ms: 0,
                partial: None,
            }
            .into(),
        );
    }
    for open in &state.calls {
        let CallStatus::Running(started) = &open.status else { continue };
        if started.repeat == Repeat::Once {
            events.push(not_run(open, How::Unknown, words::UNKNOWN).into());
        } else if started.attempt >= INTERRUPTED_ATTEMPTS_MAX {
            events.push(not_run(open, How::Unknown, words::UNKNOWN_EACH_TIME).into());
        }
    }
    events
}
