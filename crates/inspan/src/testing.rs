//! For tests of your own agents: a model that plays a script, and recordings of sessions.
//!
//! Gates, tools, limits and the log are the real ones; only the model is not.

use std::{fs, path::Path, sync::Arc};

pub use inspan_evals::{
    Recording, Replay,
    scripted::{Answer, ScriptedModel, short},
};

use inspan_core::{message::CallId, shared::Shared, store::SessionId};

use crate::{context::Context, error::Error};

/// A model that answers from a recorded session: `inspan run --record FILE` writes one, and so do
/// the lines of [`Agent::log`](crate::Agent::log). A request that is not the recorded one fails,
/// and the turn's detail shows the difference.
///
/// # Errors
/// [`Error::Recording`]: the file can't be read, or is none.
pub fn replay(path: impl AsRef<Path>) -> Result<Replay, Error> {
    let path = path.as_ref();
    let bad = |why: String| Error::Recording { path: path.display().to_string(), why };
    let text = fs::read_to_string(path).map_err(|why| bad(why.to_string()))?;
    let recording = Recording::read(&text).map_err(|why| bad(why.to_string()))?;
    Ok(Replay::new(recording, true, Arc::new(|_| {})))
}

/// A context for calling the function of a tool directly: `weather::call(city, &context)`.
///
/// ```
/// use inspan::{Context, Shared, ToolError, testing, tool};
///
/// /// Tells the greeting of the house.
/// #[tool(effects(), repeat = pure)]
/// fn greeting(context: &Context) -> Result<String, ToolError> {
///     Ok(context.shared::<String>()?.clone())
/// }
///
/// let mut shared = Shared::default();
/// shared.insert("Bom dia".to_owned());
/// assert_eq!(greeting::call(&testing::context(shared)).unwrap(), "Bom dia");
/// ```
pub fn context(shared: Shared) -> Context {
    let session = SessionId::from_u128(0);
    Context::new(session, CallId::new(1, 0), "test".to_owned(), 1, shared)
}
