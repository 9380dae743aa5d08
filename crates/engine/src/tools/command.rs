//! Any program as a tool: arguments as JSON on its standard input, its output is the result.
//!
//! The program is started without a shell, in the agent's folder, in its own process group, with
//! an allow-list of variables and no keys. What it writes passes the mask before anybody reads it.
//! Whether it may run at all is the gates' business, and how long, the driver's.

use std::{
    ffi::OsString, fmt, io, os::unix::process::ExitStatusExt, path::PathBuf, process::ExitStatus,
    sync::Arc, time::Duration,
};

use inspan_core::{
    budget::SPILLED_BYTES_MAX,
    effects::Repeat,
    gate::BoxFuture,
    mask::Mask,
    message::{Content, Job, ResultState, ToolResult},
    tool::{Invocation, Probed, Tool, ToolError, ToolSpec},
};
use serde_json::{Map, Value, json};

pub use super::reap::reap;

use super::{
    cap::{Capped, Written},
    process::{self, Ended, Program},
};

/// Variables that a program may see, besides those that begin with `LC_`.
pub const VARIABLES_ALLOWED: &[&str] =
    &["HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"];

/// The variable that holds the session's working directory.
pub const WORKDIR: &str = "INSPAN_WORKDIR";
/// The variable that holds the session's identifier.
pub const SESSION: &str = "INSPAN_SESSION";
/// The variable that holds the call's identifier.
pub const CALL: &str = "INSPAN_CALL";
/// The variable that holds the idempotency key; only for [`Repeat::Keyed`].
pub const KEY: &str = "INSPAN_KEY";

/// How long after a probe that found a job pending it is asked again, in milliseconds.
const PROBED_AGAIN_MS: u64 = 60_000;

/// How a program writes its result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// Everything on its standard output is the result's text.
    #[default]
    Text,
    /// A JSON object: `content` (a text or a list of texts) and, if it likes, `evidence` (any
    /// value) and `state` (`"finished"`, `{"accepted": "JOB"}`, or `{"later": {"id": "JOB"}}`, which
    /// leaves the call open until its result is delivered).
    Json,
}

/// Checks arguments against the tool's schema; see [`Tool::check`].
pub type Check = Arc<dyn Fn(Value) -> Result<Value, String> + Send + Sync>;

/// What makes a program a tool.
#[derive(Clone)]
pub struct Command {
    /// The tool's declaration.
    pub spec: Arc<ToolSpec>,
    /// Checks arguments.
    pub check: Check,
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The program, with its arguments, that tells whether an earlier attempt happened: it writes
    /// `done`, `absent` or `unknown`; what follows `done` is the result. It gets the same input and
    /// environment.
    pub probe: Option<Vec<String>>,
    /// How it writes its result.
    pub output: Output,
    /// Its current directory: the agent's folder.
    pub folder: PathBuf,
    /// The session's working directory.
    pub workdir: PathBuf,
    /// The environment from which [`VARIABLES_ALLOWED`] are taken.
    pub environment: Vec<(OsString, OsString)>,
    /// Takes secrets out of what it writes.
    pub mask: Mask,
}

/// A tool that is a program. Cheap to clone.
#[derive(Clone)]
pub struct CommandTool(Arc<Command>);

impl CommandTool {
    /// The tool that runs `command`. Nothing is started yet.
    pub fn new(mut command: Command) -> Self {
        command.environment.retain(|(name, _)| {
            name.to_str()
                .is_some_and(|name| VARIABLES_ALLOWED.contains(&name) || name.starts_with("LC_"))
        });
        Self(Arc::new(command))
    }
}

impl fmt::Debug for CommandTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandTool")
            .field("spec", &self.0.spec)
            .field("argv", &self.0.argv)
            .finish_non_exhaustive()
    }
}

impl Tool for CommandTool {
    fn spec(&self) -> Arc<ToolSpec> {
        Arc::clone(&self.0.spec)
    }

    fn check(&self, arguments: Value) -> Result<Value, String> {
        (self.0.check)(arguments)
    }

    fn run(&self, call: Invocation) -> BoxFuture<'static, Result<ToolResult, ToolError>> {
        let command = Arc::clone(&self.0);
        Box::pin(async move { command.run(&call).await })
    }

    fn probe(&self, call: Invocation) -> BoxFuture<'static, Probed> {
        let command = Arc::clone(&self.0);
        Box::pin(async move { command.ask(&call).await.unwrap_or(Probed::Unknown) })
    }
}

impl Command {
    async fn run(&self, call: &Invocation) -> Result<ToolResult, ToolError> {
        let written = call.shared.get::<Written>().cloned().unwrap_or_default();
        let ended = self.start(&self.argv, call, &written).await.map_err(|error| {
            let program = self.argv.first().map_or("", String::as_str);
            let folder = self.folder.display();
            ToolError::new(format!("`{program}` can't be run in {folder}: {error}"))
        })?;
        if !ended.status.success() {
            return Err(self.failure(ended).await);
        }
        match self.output {
            Output::Text => Ok(ToolResult::text(ended.output.into_text_aside(&self.mask).await)),
            Output::Json => self.result_of_json(ended.output).map_err(|wrong| {
                ToolError::new(format!(
                    "the program's output is not the JSON object that was agreed on: {wrong}"
                ))
            }),
        }
    }

    /// Asks the probe; `None` when it can't be asked or its answer is no answer.
    async fn ask(&self, call: &Invocation) -> Option<Probed> {
        let limit = Duration::from_millis(self.spec.timeout_ms_max);
        let written = Written::default();
        let asked = self.start(self.probe.as_deref()?, call, &written);
        let ended = tokio::time::timeout(limit, asked).await.ok()?.ok()?;
        if !ended.status.success() {
            return None;
        }
        let text = ended.output.into_text(&self.mask);
        let text = text.trim();
        let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        match (word, rest.trim()) {
            ("done", "") => Some(Probed::Done(ToolResult::text("done"))),
            ("done", result) => Some(Probed::Done(ToolResult::text(result))),
            ("absent", _) => Some(Probed::Absent),
            ("pending", job) if !job.is_empty() => Some(Probed::Pending(Job {
                id: job.to_owned(),
                probe_after_ms: Some(PROBED_AGAIN_MS),
            })),
            _ => None,
        }
    }

    async fn start(
        &self,
        argv: &[String],
        call: &Invocation,
        written: &Written,
    ) -> io::Result<Ended> {
        let program = Program {
            argv,
            folder: &self.folder,
            environment: self.environment_of(call),
            input: call.arguments.to_string().into_bytes(),
        };
        process::run(program, written).await
    }

    fn environment_of(&self, call: &Invocation) -> Vec<(OsString, OsString)> {
        let mut environment = self.environment.clone();
        environment.push((WORKDIR.into(), self.workdir.clone().into()));
        environment.push((SESSION.into(), call.session.as_str().into()));
        environment.push((CALL.into(), call.call.to_string().into()));
        if self.spec.repeat == Repeat::Keyed {
            environment.push((KEY.into(), call.key.clone().into()));
        }
        environment
    }

    /// A failed run in words: how it ended, and the end of what it said about it.
    async fn failure(&self, ended: Ended) -> ToolError {
        let (how, evidence) = ending(ended.status);
        let errors = ended.errors.into_text(&self.mask);
        let said = match errors.trim() {
            "" => ended.output.into_text_aside(&self.mask).await,
            _ => errors,
        };
        let message = match said.trim() {
            "" => format!("{how}, and the program said nothing"),
            said => format!("{how}:\n{said}"),
        };
        ToolError { message, evidence: Some(evidence) }
    }

    fn result_of_json(&self, output: Capped) -> Result<ToolResult, String> {
        if output.is_cut() {
            return Err(format!("it is longer than {SPILLED_BYTES_MAX} bytes"));
        }
        let value = serde_json::from_slice(&output.into_bytes()).map_err(|e| e.to_string())?;
        let Value::Object(mut fields) = masked(&self.mask, value) else {
            return Err("it is not an object".to_owned());
        };
        let content = content(fields.shift_remove("content").as_ref())?;
        let evidence = fields.shift_remove("evidence").filter(|evidence| !evidence.is_null());
        let state = match fields.shift_remove("state") {
            None => ResultState::Finished,
            Some(state) => serde_json::from_value(state).map_err(|_| {
                "`state` must be \"finished\", {\"accepted\": \"JOB\"} or {\"later\": {\"id\": \"JOB\"}}".to_owned()
            })?,
        };
        match fields.keys().next() {
            Some(name) => {
                Err(format!("`{name}` is not known; there are `content`, `evidence` and `state`"))
            }
            None => Ok(ToolResult { content, evidence, state, spilled: None }),
        }
    }
}

fn ending(status: ExitStatus) -> (String, Value) {
    match (status.code(), status.signal()) {
        (Some(code), _) => (format!("exit status {code}"), json!({ "exit_status": code })),
        (None, Some(signal)) => (format!("ended by signal {signal}"), json!({ "signal": signal })),
        (None, None) => (status.to_string(), Value::Null),
    }
}

fn content(value: Option<&Value>) -> Result<Vec<Content>, String> {
    const WANTED: &str = "`content` must be a text or a list of texts";
    let text = |value: &Value| match value {
        Value::String(text) => Ok(Content::text(text)),
        Value::Object(fields) => match (fields.get("type"), fields.get("text")) {
            (Some(Value::String(kind)), Some(Value::String(text))) if kind == "text" => {
                Ok(Content::text(text))
            }
            _ => Err(WANTED.to_owned()),
        },
        _ => Err(WANTED.to_owned()),
    };
    match value {
        None => Err("`content` is missing".to_owned()),
        Some(Value::Array(list)) => list.iter().map(text).collect(),
        Some(one) => Ok(vec![text(one)?]),
    }
}

/// The value with all its texts masked.
fn masked(mask: &Mask, value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(mask.text(&text).into_owned()),
        Value::Array(list) => list.into_iter().map(|item| masked(mask, item)).collect(),
        Value::Object(fields) => Value::Object(
            fields
                .into_iter()
                .map(|(name, value)| (mask.text(&name).into_owned(), masked(mask, value)))
                .collect::<Map<_, _>>(),
        ),
        plain @ (Value::Null | Value::Bool(_) | Value::Number(_)) => plain,
    }
}

#[cfg(test)]
mod tests;
