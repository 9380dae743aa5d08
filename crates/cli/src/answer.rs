//! `inspan answer` and `inspan deliver`: what a turn that is parked waits for, from any process.

use std::time::Duration;

use inspan_core::{
    message::{CallId, ToolResult},
    store::{SessionId, Store, StoreError},
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
    let out = Out::new(home.mask()?);
    let store = home.store().await?;
    let id = session_of(&*store, &args.id).await?;
    let (call, choice, why) = (CallId(args.call), args.choice.into(), args.why.unwrap_or_default());
    while_in_use(&*store, &id, &call, async || {
        outside::answer(&*store, &SystemClock, &id, &call, choice, why.clone()).await
    })
    .await?;
    tell(&out, id.as_str());
    Ok(0)
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
    while_in_use(&*store, &id, &call, async || {
        let (outcome, spills) = (outcome.clone(), Some(&*blobs));
        outside::deliver(&*store, &SystemClock, &id, &call, outcome, mask, spills).await
    })
    .await?;
    tell(&out, id.as_str());
    Ok(0)
}

/// Tries again for a while when somebody drives the session: a turn that waits is parked as soon as
/// nothing else is left to do in it.
async fn while_in_use(
    store: &dyn Store,
    id: &SessionId,
    call: &CallId,
    mut attempt: impl AsyncFnMut() -> Result<(), OutsideError>,
) -> Result<(), Failure> {
    let until = Instant::now() + Duration::from_millis(IN_USE_MS_MAX);
    loop {
        let news = store.changed(Some(id));
        match attempt().await {
            Err(OutsideError::Store(StoreError::InUse(_))) if Instant::now() < until => {
                sleep(Duration::from_millis(LOOK_AGAIN_MS)).await;
                tokio::select! {
                    () = news => {}
                    () = sleep(Duration::from_millis(LOOK_MS_MAX)) => {}
                }
            }
            Err(OutsideError::Store(StoreError::InUse(_))) => {
                return Err(still_in_use(store, id, call).await);
            }
            done => return Ok(done?),
        }
    }
}

/// What can be done about a session that is not given back.
async fn still_in_use(store: &dyn Store, id: &SessionId, call: &CallId) -> Failure {
    let state = match fold(store, id).await {
        Ok(state) => state,
        Err(error) => return error.into(),
    };
    let is_asked = state.call(call).is_some_and(|open| matches!(open.status, CallStatus::Asked(_)));
    Failure::InUse(match is_asked {
        true => format!(
            "session {id} is in use, and whoever drives it asks about {call} by itself: answer \
             there; nothing was recorded"
        ),
        false => format!(
            "session {id} is in use, and its turn is at work: try again when it is parked, which \
             `inspan show --follow {id}` tells; nothing was recorded"
        ),
    })
}

fn tell(out: &Out, id: &str) {
    let text = format!("recorded; a worker goes on with it, or: inspan resume {id}");
    out.progress(&format!("{}\n", styled(DIM, &text)));
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
        let call = CallId::new(5, 0);
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
        let failed = while_in_use(&store, &id, &call, attempt).await.unwrap_err();
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
        let (done, ()) = tokio::join!(while_in_use(&store, &id, &call, attempt), given_back);
        assert!(done.is_ok());
    }
}
