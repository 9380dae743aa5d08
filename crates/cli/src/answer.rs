//! `inspan answer` and `inspan deliver`: what a turn that is parked waits for, from any process.

use inspan_core::{
    message::{CallId, ToolResult},
    tool::ToolError,
};
use inspan_engine::{SystemClock, outside};

use crate::{
    args::{AnswerArgs, DeliverArgs},
    exit::Failure,
    home::{Home, session_of},
    input::text_or_input,
    out::{DIM, Out, styled},
};

/// Answers the question about a call.
pub(crate) async fn answer(home: &Home, args: AnswerArgs) -> Result<u8, Failure> {
    let out = Out::new(home.mask()?);
    let store = home.store().await?;
    let id = session_of(&*store, &args.id).await?;
    let (call, choice, why) = (CallId(args.call), args.choice.into(), args.why.unwrap_or_default());
    outside::answer(&*store, &SystemClock, &id, &call, choice, why).await?;
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
    outside::deliver(&*store, &SystemClock, &id, &call, outcome, &mask).await?;
    tell(&out, id.as_str());
    Ok(0)
}

fn tell(out: &Out, id: &str) {
    let text = format!("recorded; a worker goes on with it, or: inspan resume {id}");
    out.progress(&format!("{}\n", styled(DIM, &text)));
}
