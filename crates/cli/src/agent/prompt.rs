//! The system prompt: a minijinja template beside `agent.yaml`.
//!
//! It can use `agent.name`, `workdir` (the session's working directory), `os` (`linux`, `macos`, …)
//! and `date` (the day on which the session began, `2026-11-30`). Anything else is an error.

use std::path::Path;

use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior, context};

use super::Surroundings;
use crate::config::{ConfigError, Place, near};

/// The names that a template can use.
const NAMES: [&str; 4] = ["agent.name", "workdir", "os", "date"];

/// The prompt that `template`, the content of the file at `path`, gives.
pub(super) fn render(
    path: &Path,
    template: &str,
    name: &str,
    given: &Surroundings,
) -> Result<String, ConfigError> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    let template = environment
        .template_from_named_str("prompt", template)
        .map_err(|e| wrong(path, &e, None))?;
    // To tell the day, the system's whole list of time zones is read; most prompts don't ask.
    let is_asked = template.undeclared_variables(false).contains("date");
    let context = context! {
        agent => context! { name },
        workdir => given.workdir.to_string_lossy(),
        os => std::env::consts::OS,
        date => is_asked.then(given.date),
    };
    template.render(context).map(|text| text.trim_end().to_owned()).map_err(|error| {
        // The error does not say which name it was; the template tells all that it uses.
        let used = template.undeclared_variables(true);
        let unknown = used.iter().filter(|name| !NAMES.contains(&name.as_str())).min();
        wrong(path, &error, unknown.filter(|_| error.kind() == ErrorKind::UndefinedError))
    })
}

fn wrong(path: &Path, error: &Error, unknown: Option<&String>) -> ConfigError {
    let line = error.line().unwrap_or(0) as u64;
    let why = match unknown {
        Some(name) => format!("`{name}` is not known here{}", near(name, &NAMES)),
        None => error.detail().map_or_else(|| error.kind().to_string(), str::to_owned),
    };
    ConfigError::Wrong { at: Place { path: path.to_owned(), line, column: 0 }, why }
}
