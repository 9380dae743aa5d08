//! `inspan answer` and `inspan deliver`: what a turn that is parked waits for, from any process.

use std::time::Duration;

use inspan_core::{
    message::{CallId, ToolResult},
    store::StoreError,
    tool::ToolError,
};
use inspan_engine::{
    SystemClock,
    outside::{self, OutsideError},
};

use crate::{
    args::{AnswerArgs, DeliverArgs},
    exit::Failure,
    home::{Home, session_of},
    input::text_or_input,
    out::{DIM, Out, styled},
};

/// How often a session that is in use is tried again.
const ATTEMPTS_MAX: u32 = 25;

/// The wait between two attempts, in milliseconds.
const ATTEMPT_AGAIN_MS: u64 = 200;

/// Answers the question about a call.
pub(crate) async fn answer(home: &Home, args: AnswerArgs) -> Result<u8, Failure> {
    let mask = home.mask()?;
    let out = Out::new(mask.clone());
    let store = home.store().await?;
    let id = session_of(&*store, &args.id).await?;
    let (call, choice) = (CallId(args.call), args.choice.into());
    // The model reads it, and it stays in the log.
    let why = mask.text(&args.why.unwrap_or_default()).into_owned();
    while_in_use(async || {
        outside::answer(&*store, &SystemClock, &id, &call, choice, why.clone()).await
    })
    .await?;
    tell(&out, id.as_str());
    Ok(0)
}

/// Delivers the result of a call whose work went on elsewhere.
pub(crate) async fn deliver(home: &Home, args: DeliverArgs) -> Result<u8, Failure> {
    let mask = home.mask()?;
    let out = Out::new(mask.clone());
    let store = home.store().await?;
    let id = session_of(&*store, &args.id).await?;
    let text = text_or_input(&args.result, "the result")?;
    let outcome = match args.failed {
        false => Ok(ToolResult::text(text)),
        true => Err(ToolError::new(text)),
    };
    let call = CallId(args.call);
    while_in_use(async || {
        outside::deliver(&*store, &SystemClock, &id, &call, outcome.clone(), &mask).await
    })
    .await?;
    tell(&out, id.as_str());
    Ok(0)
}

/// Tries again for a while when somebody drives the session: a turn that waits is parked as soon as
/// nothing else is left to do in it.
async fn while_in_use(
    mut attempt: impl AsyncFnMut() -> Result<(), OutsideError>,
) -> Result<(), OutsideError> {
    for _ in 0..ATTEMPTS_MAX {
        match attempt().await {
            Err(OutsideError::Store(StoreError::InUse(_))) => {
                tokio::time::sleep(Duration::from_millis(ATTEMPT_AGAIN_MS)).await;
            }
            done => return done,
        }
    }
    attempt().await
}

fn tell(out: &Out, id: &str) {
    let text = format!("recorded; a worker goes on with it, or: inspan resume {id}");
    out.progress(&format!("{}\n", styled(DIM, &text)));
}
