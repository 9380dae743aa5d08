//! What comes from outside of any driver: a person's answer to a question that waits, the result
//! of work that went on elsewhere. A driver takes it as a command; where none runs, whoever has it
//! appends it, and the next driver goes on from there.

use inspan_core::{
    Entry, Event, State,
    blobs::Blobs,
    event::{Head, PermissionAnswered, ToolFinished},
    gate::{AnsweredBy, Choice},
    mask::Mask,
    message::{CallId, How, Labels, ToolResult},
    prompt::{CallResult, Message},
    recover,
    store::{Claim, SessionId, Store, StoreError},
    tool::ToolError,
    turn::CallStatus,
};

use crate::{
    clock::Clock,
    effects::{failed, for_the_log},
    folded::{fold, fold_to},
};

/// Why something from outside was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutsideError {
    /// The log can't be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is no question about this call.
    #[error("no question about {call} waits for an answer{}", waiting(.asked))]
    NotAsked {
        /// The call.
        call: CallId,
        /// The calls that people are asked about.
        asked: Vec<CallId>,
    },
    /// The session has no such call.
    #[error("the session has no call {0}")]
    NoCall(CallId),
    /// A call that has not begun can have no result.
    #[error("the call {0} has not begun, so there is no work whose result could be delivered")]
    NotBegun(CallId),
    /// This result was delivered before.
    #[error("the result of {0} is in the log already")]
    Delivered(CallId),
    /// The log ends before this entry.
    #[error("session {session} has {entries} entries: it can't be forked after entry {seq}")]
    NoEntry {
        /// The session.
        session: SessionId,
        /// How many it has.
        entries: u64,
        /// What was asked for.
        seq: u64,
    },
}

fn waiting(asked: &[CallId]) -> String {
    let asked: Vec<&str> = asked.iter().map(|call| call.0.as_str()).collect();
    match asked[..] {
        [] => "; none does in this session".to_owned(),
        _ => format!("; these do: {}", asked.join(", ")),
    }
}

/// A person answers the question about `call` of a session that nobody drives. The next driver
/// goes on with it.
///
/// # Errors
/// Nobody was asked about it, somebody drives the session, or the store says no.
pub async fn answer(
    store: &dyn Store,
    clock: &dyn Clock,
    session: &SessionId,
    call: &CallId,
    choice: Choice,
    why: String,
) -> Result<(), OutsideError> {
    let claim = store.claim(session).await?;
    let state = fold(store, session).await?;
    let event = answered(&state, call, choice, why)?;
    Ok(append(store, clock, &claim, state, vec![event]).await?)
}

/// The result of work that went on elsewhere comes to a session that nobody drives. One that is too
/// long for the log is kept whole in `spills`, where there is a place for it.
///
/// # Errors
/// The session has no such call, the result was delivered before, somebody drives the session, or
/// the store says no.
pub async fn deliver(
    store: &dyn Store,
    clock: &dyn Clock,
    session: &SessionId,
    call: &CallId,
    outcome: Result<ToolResult, ToolError>,
    mask: &Mask,
    spills: Option<&dyn Blobs>,
) -> Result<(), OutsideError> {
    let claim = store.claim(session).await?;
    let state = fold(store, session).await?;
    awaited(&state, call)?;
    let (how, result) = outcome_of(outcome);
    let result = for_the_log(result, call, mask, spills).await;
    let event = delivered(&state, call, how, result)?;
    Ok(append(store, clock, &claim, state, vec![event]).await?)
}

/// Begins `child`, whose past is the log of `parent` up to entry `seq`, or up to its end. Nothing
/// is copied and the parent does not change; what was open there is unknown in the fork.
///
/// # Errors
/// The parent has no such entry, the child exists, or the store says no.
pub async fn fork(
    store: &dyn Store,
    clock: &dyn Clock,
    parent: &SessionId,
    seq: Option<u64>,
    child: SessionId,
) -> Result<(), OutsideError> {
    let state = fold_to(store, parent, seq.unwrap_or(u64::MAX)).await?;
    let entries = state.head.seq;
    if let Some(seq) = seq.filter(|seq| *seq != entries || *seq == 0) {
        let entries = if seq == 0 { fold(store, parent).await?.head.seq } else { entries };
        return Err(OutsideError::NoEntry { session: parent.clone(), entries, seq });
    }
    let inspan = env!("CARGO_PKG_VERSION");
    let events = recover::fork(&state, parent.clone(), child.clone(), inspan, clock.now_ms());
    if events.is_empty() {
        let (what, why) = (format!("session {parent}"), "its beginning can't be read".to_owned());
        return Err(StoreError::Damaged { what, why }.into());
    }
    let claim = store.create(&child).await?;
    Ok(append(store, clock, &claim, state, events).await?)
}

/// Begins `session` with entries from elsewhere. What was open there may go on there, so it is
/// unknown here, as in a fork, and no yes that was given there counts.
///
/// # Errors
/// The session exists, or the store says no.
pub async fn import(
    store: &dyn Store,
    clock: &dyn Clock,
    session: SessionId,
    mut entries: Vec<Entry>,
) -> Result<(), StoreError> {
    let mut state = State::fold(&entries);
    let claim = store.create(&session).await?;
    let is_open = state.turn.is_some() || state.parked.is_some() || !state.allowed.is_empty();
    if is_open {
        let inspan = env!("CARGO_PKG_VERSION");
        let events = recover::fork(&state, session.clone(), session, inspan, clock.now_ms());
        entries.extend(next(&mut state, clock, events));
    }
    // In one append: what is open elsewhere is at no moment open here.
    store.append(&claim, Head::default(), entries.into()).await
}

/// The entries that say `events` next.
fn next(state: &mut State, clock: &dyn Clock, events: Vec<Event>) -> Vec<Entry> {
    let mut entries = Vec::new();
    for event in events {
        let entry = state.entry(clock.now_ms(), event);
        state.apply(&entry);
        entries.push(entry);
    }
    entries
}

async fn append(
    store: &dyn Store,
    clock: &dyn Clock,
    claim: &Claim,
    mut state: State,
    events: Vec<Event>,
) -> Result<(), StoreError> {
    let after = state.head;
    let entries = next(&mut state, clock, events);
    store.append(claim, after, entries.into()).await
}

/// The fact that a person answered.
pub(crate) fn answered(
    state: &State,
    call: &CallId,
    choice: Choice,
    why: String,
) -> Result<Event, OutsideError> {
    let mut asked = state.calls.iter().filter(|open| matches!(open.status, CallStatus::Asked(_)));
    if asked.clone().all(|open| open.call.id != *call) {
        let asked = asked.by_ref().map(|open| open.call.id.clone()).collect();
        return Err(OutsideError::NotAsked { call: call.clone(), asked });
    }
    let by = AnsweredBy::Person;
    Ok(PermissionAnswered { call: call.clone(), choice, by, why }.into())
}

/// What became of work that went on elsewhere, as a result that is not yet fit for the log.
pub(crate) fn outcome_of(outcome: Result<ToolResult, ToolError>) -> (How, ToolResult) {
    match outcome {
        Ok(result) => (How::Ok, result),
        Err(error) => (How::Failed, failed(error)),
    }
}

/// The fact that a result came, as it may be kept: the answer of a call that waits for it, else news.
pub(crate) fn delivered(
    state: &State,
    call: &CallId,
    how: How,
    result: ToolResult,
) -> Result<Event, OutsideError> {
    let (name, labels) = awaited(state, call)?;
    // Whoever delivers twice, because no answer reached him, tells no news.
    let is_same = |one: &CallResult| {
        one.call == *call && one.how == how && one.result.content == result.content
    };
    if results(state).any(is_same) {
        return Err(OutsideError::Delivered(call.clone()));
    }
    Ok(ToolFinished { call: call.clone(), name, how, result, labels, ms: 0 }.into())
}

/// The name of a call that a result can come for, and the labels of that.
pub(crate) fn awaited(state: &State, call: &CallId) -> Result<(String, Labels), OutsideError> {
    if state.late.contains(call) {
        return Err(OutsideError::Delivered(call.clone()));
    }
    let open = state.call(call);
    let name = open.map(|open| open.name.clone()).or_else(|| name_of(state, call));
    let name = name.ok_or_else(|| OutsideError::NoCall(call.clone()))?;
    // Whoever does the work may be faster than the tool that handed it over. What has not begun can
    // have no result.
    let has_begun = |status: &CallStatus| {
        matches!(
            status,
            CallStatus::Running(_)
                | CallStatus::Probing(_)
                | CallStatus::Deferred { .. }
                | CallStatus::Answered(_)
        )
    };
    if open.is_some_and(|open| !has_begun(&open.status)) {
        return Err(OutsideError::NotBegun(call.clone()));
    }
    let labels = open
        .and_then(|open| open.tool.as_ref())
        .map_or_else(Default::default, |tool| tool.effects.labels());
    Ok((name, labels))
}

/// The results of all calls that have one.
fn results(state: &State) -> impl Iterator<Item = &CallResult> {
    let told = state.messages.iter().flat_map(|message| match &**message {
        Message::User(user) => user.results.as_slice(),
        Message::Assistant(_) => &[],
    });
    told.chain(state.calls.iter().filter_map(|open| match &open.status {
        CallStatus::Answered(result) => Some(&**result),
        _ => None,
    }))
}

fn name_of(state: &State, call: &CallId) -> Option<String> {
    state.messages.iter().find_map(|message| match &**message {
        Message::Assistant(reply) => {
            reply.calls().find(|one| one.id == *call).map(|one| state.meant(one).0)
        }
        Message::User(_) => None,
    })
}
