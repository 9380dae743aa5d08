//! For tests of your own agents: a model that plays a script, and recordings of sessions.
//!
//! Gates, tools, limits and the log are the real ones; only the model is not.

use std::{
    fmt::Display,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

pub use inspan_evals::{
    Drift, OnDrift, Recorder, Recording, RecordingError, Replay,
    scripted::{Answer, ScriptedModel, short},
};

use inspan_core::{message::CallId, shared::Shared, store::SessionId};

use crate::{context::Context, error::Error};

/// A model that answers from recorded sessions. `path` is a recording, or a folder of them
/// (`*.jsonl`). `inspan run --record FILE` writes one, an agent whose store is in a [`Recorder`]
/// writes one for each of its sessions, and the lines of [`Agent::log`](crate::Agent::log) are one.
///
/// Replies are found by their prompt and round. A request that is not the recorded one fails, and
/// the turn's detail shows the difference.
///
/// ```no_run
/// use inspan::{Agent, Memory, testing};
///
/// # fn agents() -> Result<(), inspan::Error> {
/// let agent = Agent::new("anthropic://claude-sonnet-5-5")?
///     .store(testing::Recorder::new("tests/recordings", Memory::new()));
/// // and from then on, without a key:
/// let agent = Agent::with_provider(testing::replay("tests/recordings")?);
/// # Ok(()) }
/// ```
///
/// # Errors
/// [`Error::Recording`]: a file can't be read, or is none.
pub fn replay(path: impl AsRef<Path>) -> Result<Replay, Error> {
    let path = path.as_ref();
    let files = match path.is_dir() {
        true => recordings(path).map_err(|why| bad(path, &why))?,
        false => vec![path.to_owned()],
    };
    let mut recording = Recording::default();
    for file in files {
        let text = fs::read_to_string(&file).map_err(|why| bad(&file, &why))?;
        recording = recording.and(Recording::read(&text).map_err(|why| bad(&file, &why))?);
    }
    if recording == Recording::default() {
        return Err(bad(path, &"the folder holds no file NAME.jsonl"));
    }
    Ok(Replay::new(recording, true, Arc::new(|_| {})))
}

/// The recordings of a folder, by name.
fn recordings(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let files = fs::read_dir(folder)?.map(|file| Ok(file?.path()));
    let mut files = files.collect::<io::Result<Vec<PathBuf>>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "jsonl"));
    files.sort();
    Ok(files)
}

fn bad(path: &Path, why: &dyn Display) -> Error {
    Error::Recording { path: path.display().to_string(), why: why.to_string() }
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
