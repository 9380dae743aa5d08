//! `inspan answer` and `inspan deliver`: what a turn that is parked waits for, from any process.

use std::time::Duration;

use inspan_core::{
    Event, State,
    gate::BoxFuture,
    message::{CallId, ToolResult},
    store::{AnswerLeft, ENTRIES_READ_MAX, SessionId, Store, StoreError},
    tool::ToolError,
    turn::CallStatus,
};
use inspan_engine::{
    SystemClock,
    outside::{self, OutsideError},
    session::fold,
};
use tokio::time::{Instant, sleep};

use crate::{
    args::{AnswerArgs, DeliverArgs},
    config::Config,
    exit::Failure,
    home::{Home, session_of},
    input::text_or_input,
    out::{DIM, Out, styled},
    setup::tell_of_blobs,
};

/// For how long a session that is in use is waited for.
const IN_USE_MS_MAX: u64 = 5_000;

/// The wait before it is looked at again when nobody tells of a change.
const LOOK_MS_MAX: u64 = 500;

/// The wait before it is looked at again at least: a session at work has news all the time, and the
/// one of its park comes a moment before its claim is free.
const LOOK_AGAIN_MS: u64 = 50;

/// Answers the question about a call.
pub(crate) async fn answer(home: &Home, args: AnswerArgs) -> Result<u8, Failure> {
    let mask = home.mask()?;
    let out = Out::new(mask.clone());
    let store = home.store().await?;
    let id = session_of(&*store, &args.id).await?;
    // The model reads it, and it stays in the log.
    let why = mask.text(&args.why.unwrap_or_default()).into_owned();
    let answer = AnswerLeft { call: CallId(args.call), choice: args.choice.into(), why };
    let told = match record_or_leave(&*store, &id, answer).await? {
        Recorded::Here => gone_on_with(&id),
        Recorded::ByDriver => "recorded; whoever drives the session goes on with it".to_owned(),
        Recorded::NotYet => format!(
            "left for whoever drives the session, and taken as soon as they look: inspan show --follow \
             {id}"
        ),
    };
    tell(&out, &told);
    Ok(0)
}

/// Where an answer is.
enum Recorded {
    /// In the log, by this process.
    Here,
    /// In the log, by the session's driver.
    ByDriver,
    /// Beside the log: its driver has not looked yet.
    NotYet,
}

/// Records an answer, or leaves it for whoever drives the session, and waits a while until it is
/// taken. A driver that goes away meanwhile leaves the session to this process.
async fn record_or_leave(
    store: &dyn Store,
    id: &SessionId,
    answer: AnswerLeft,
) -> Result<Recorded, Failure> {
    let until = Instant::now() + Duration::from_millis(IN_USE_MS_MAX);
    let mut left_after = None;
    loop {
        let news = store.changed(Some(id));
        let AnswerLeft { call, choice, why } = answer.clone();
        match (outside::answer(store, &SystemClock, id, &call, choice, why).await, left_after) {
            (Err(OutsideError::Store(StoreError::InUse(_))), _) => {}
            (Err(OutsideError::NotAsked { .. }), Some(after)) => {
                return taken(store, id, &answer, after).await;
            }
            (done, _) => {
                done?;
                return Ok(Recorded::Here);
            }
        }
        let state = fold(store, id).await?;
        match left_after {
            None if is_asked(&state, &call) => {
                store.leave_answer(id, answer.clone()).await?;
                left_after = Some(state.head.seq);
            }
            Some(after) if !is_asked(&state, &call) => {
                return taken(store, id, &answer, after).await;
            }
            None | Some(_) => {}
        }
        match left_after {
            _ if Instant::now() < until => {}
            Some(_) => return Ok(Recorded::NotYet),
            None => return Err(still_in_use(id)),
        }
        next_look(news).await;
    }
}

fn is_asked(state: &State, call: &CallId) -> bool {
    state.call(call).is_some_and(|open| matches!(open.status, CallStatus::Asked(_)))
}

/// What became of a question after entry `after`: somebody else may have been faster.
async fn taken(
    store: &dyn Store,
    id: &SessionId,
    answer: &AnswerLeft,
    mut after: u64,
) -> Result<Recorded, Failure> {
    let call = &answer.call;
    loop {
        let entries = store.read(id, after, ENTRIES_READ_MAX).await?;
        let found = entries.iter().find_map(|entry| match &entry.event {
            Event::PermissionAnswered(e) if e.call == *call => Some(e.choice),
            _ => None,
        });
        match (found, entries.last()) {
            (Some(choice), _) if choice == answer.choice => return Ok(Recorded::ByDriver),
            (Some(choice), _) => {
                return Err(Failure::Usage(format!(
                    "the question about {call} was answered with `{}` meanwhile",
                    choice.as_str()
                )));
            }
            (None, Some(last)) if entries.len() == ENTRIES_READ_MAX => after = last.seq,
            (None, _) => {
                let why = format!("the question about {call} was closed meanwhile");
                return Err(Failure::Usage(why));
            }
        }
    }
}

/// Delivers the result of a call whose work went on elsewhere.
pub(crate) async fn deliver(home: &Home, args: DeliverArgs) -> Result<u8, Failure> {
    let config = Config::load(&home.folder, home.environment.clone())?;
    let (mask, out) = (&config.mask, Out::new(config.mask.clone()));
    let store = home.store().await?;
    let id = session_of(&*store, &args.id).await?;
    let text = text_or_input(&args.result, "the result")?;
    let outcome = match args.failed {
        false => Ok(ToolResult::text(text)),
        true => Err(ToolError::new(text)),
    };
    let call = CallId(args.call);
    let blobs = home.blobs(&config, &*store, tell_of_blobs(mask.clone()))?;
    while_in_use(&*store, &id, async || {
        let (outcome, spills) = (outcome.clone(), Some(&*blobs));
        outside::deliver(&*store, &SystemClock, &id, &call, outcome, mask, spills).await
    })
    .await?;
    tell(&out, &gone_on_with(&id));
    Ok(0)
}

/// Tries again for a while when somebody drives the session: a turn that waits is parked as soon as
/// nothing else is left to do in it.
async fn while_in_use(
    store: &dyn Store,
    id: &SessionId,
    mut attempt: impl AsyncFnMut() -> Result<(), OutsideError>,
) -> Result<(), Failure> {
    let until = Instant::now() + Duration::from_millis(IN_USE_MS_MAX);
    loop {
        let news = store.changed(Some(id));
        match attempt().await {
            Err(OutsideError::Store(StoreError::InUse(_))) if Instant::now() < until => {
                next_look(news).await;
            }
            Err(OutsideError::Store(StoreError::InUse(_))) => return Err(still_in_use(id)),
            done => return Ok(done?),
        }
    }
}

/// Waits until there is news, or for as long as nobody tells of any.
async fn next_look(news: BoxFuture<'static, ()>) {
    sleep(Duration::from_millis(LOOK_AGAIN_MS)).await;
    tokio::select! {
        () = news => {}
        () = sleep(Duration::from_millis(LOOK_MS_MAX)) => {}
    }
}

/// What can be done about a session that is not given back.
fn still_in_use(id: &SessionId) -> Failure {
    Failure::InUse(format!(
        "session {id} is in use, and its turn is at work: try again when it is parked, which `inspan \
         show --follow {id}` tells; nothing was recorded"
    ))
}

fn gone_on_with(id: &SessionId) -> String {
    format!("recorded; a worker goes on with it, or: inspan resume {id}")
}

fn tell(out: &Out, text: &str) {
    out.progress(&format!("{}\n", styled(DIM, text)));
}

#[cfg(test)]
mod tests {
    use inspan_core::event::Head;
    use inspan_store::Memory;

    use super::*;

    /// It is tried until the claim is given back, and then no more; what was not given back is told
    /// with what to do.
    #[tokio::test(start_paused = true)]
    async fn a_session_in_use_is_waited_for() {
        let store = Memory::new();
        let id = SessionId::try_from("s1".to_owned()).unwrap();
        let claim = store.create(&id).await.unwrap();
        let first = inspan_core::Entry::next(
            Head::default(),
            1,
            0,
            0,
            inspan_core::event::CancelRequested {}.into(),
        );
        store.append(&claim, Head::default(), [first].into()).await.unwrap();
        let attempt = async || Ok(store.claim(&id).await.map(drop)?);
        let began = Instant::now();
        let failed = while_in_use(&store, &id, attempt).await.unwrap_err();
        assert_eq!(
            failed.to_string(),
            "session s1 is in use, and its turn is at work: try again when it is parked, which \
             `inspan show --follow s1` tells; nothing was recorded"
        );
        assert!(began.elapsed() >= Duration::from_millis(IN_USE_MS_MAX));
        let given_back = async {
            sleep(Duration::from_millis(LOOK_MS_MAX)).await;
            drop(claim);
        };
        let (done, ()) = tokio::join!(while_in_use(&store, &id, attempt), given_back);
        assert!(done.is_ok());
    }
}
