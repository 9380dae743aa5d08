//! `inspan fork`: a new session whose past is another one's.

use inspan_engine::{
    SystemClock,
    outside::{self, OutsideError},
};

use crate::{
    exit::Failure,
    home::{Home, session_of},
    out::{DIM, Out, styled},
    run::new_id,
};

/// Forks the session whose identifier is `given` or begins so, after entry `at` or at its end. The
/// new identifier goes to standard output.
pub(crate) async fn fork(home: &Home, given: &str, at: Option<u64>) -> Result<u8, Failure> {
    let out = Out::new(home.mask()?);
    let store = home.store().await?;
    let (parent, child) = (session_of(&*store, given).await?, new_id()?);
    match outside::fork(&*store, &SystemClock, &parent, at, child.clone()).await {
        Ok(()) => {}
        Err(OutsideError::Store(error)) => return Err(error.into()),
        Err(other) => return Err(Failure::Usage(other.to_string())),
    }
    out.answer(&format!("{child}\n"))?;
    let hint = format!("to go on: inspan run --session {child} PROMPT");
    out.progress(&format!("{}\n", styled(DIM, &hint)));
    Ok(0)
}
