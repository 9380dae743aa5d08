//! One tool of `agent.yaml`: a program of the person's own, or one that is part of Inspan.

use std::{
    path::{Component, Path},
    sync::Arc,
};

use inspan_core::{
    effects::{Effects, Repeat},
    tool::{Tool, ToolSpec},
};
use inspan_engine::tools::{
    BUILTIN_NAMES, builtin,
    command::{Command, CommandTool, Output},
};
use inspan_schema::Schema;
use serde::Deserialize;
use serde_json::Value;
use serde_saphyr::Spanned;

use super::{Surroundings, program};
use crate::config::{ConfigError, Millis, Positive, Scalar, Source, Text, near};

/// The most characters of a name: what every provider takes.
const NAME_CHARS_MAX: usize = 64;

/// What a provider refuses at the top of a tool's schema, though it is right as a schema.
const REFUSED_AT_TOP: [&str; 5] = ["oneOf", "anyOf", "allOf", "enum", "not"];

/// A tool as it stands in the file.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawTool {
    description: Option<Text>,
    input: Option<Spanned<Value>>,
    command: Option<Spanned<Vec<Text>>>,
    effects: Option<Vec<Text>>,
    repeat: Option<Repeat>,
    timeout: Option<Scalar>,
    polls: Option<bool>,
    output: Option<RawOutput>,
    probe: Option<Spanned<Vec<Text>>>,
    resource: Option<Text>,
    ask: Option<Text>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RawOutput {
    Text,
    Json,
}

impl RawTool {
    /// Why a person is asked before each call, if that is so.
    pub(super) fn ask(&self) -> Option<&Text> {
        self.ask.as_ref()
    }

    /// The files in `folder` that the tool's commands name. A word that leads out of it names
    /// something that the agent works on, not a part of the agent.
    pub(super) fn files(&self, folder: &Path) -> impl Iterator<Item = String> {
        let within = |word: &str| {
            let mut parts = Path::new(word).components();
            parts.all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
        };
        let words = self.command.iter().chain(&self.probe).flat_map(|words| &words.value);
        let words = words.map(|word| &word.value);
        words.filter(move |word| within(word) && folder.join(word).is_file()).cloned()
    }
}

/// The text, if it can name an agent or a tool.
pub(super) fn name(text: &str) -> Result<&str, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if (1..=NAME_CHARS_MAX).contains(&text.len()) && text.chars().all(fits) {
        Ok(text)
    } else {
        Err(format!("`{text}` can't be a name: 1 to {NAME_CHARS_MAX} of A-Z, a-z, 0-9, _ and -"))
    }
}

/// The tool called `name`.
pub(super) fn lower(
    name: &str,
    at: &Spanned<Option<RawTool>>,
    folder: &Path,
    source: &Source<'_>,
    given: &Surroundings,
) -> Result<Arc<dyn Tool>, ConfigError> {
    let name = self::name(name).map_err(|why| source.wrong(at, why))?;
    let nothing = RawTool::default();
    let raw = at.value.as_ref().unwrap_or(&nothing);
    let Some(command) = &raw.command else {
        return built_in(name, raw).map_err(|why| source.wrong(at, why));
    };
    let spec = spec(name, raw, at, source)?;
    let schema = Schema::compile(&spec.input).map_err(|why| match &raw.input {
        Some(input) => source.wrong(input, format!("input: {why}")),
        None => source.wrong(at, why),
    })?;
    Ok(Arc::new(CommandTool::new(Command {
        check: Arc::new(move |arguments| schema.check(arguments)),
        argv: argv("command", command, folder, source, given)?,
        probe: probe(raw, spec.repeat, at, source)?
            .map(|words| argv("probe", words, folder, source, given))
            .transpose()?,
        output: match raw.output {
            None | Some(RawOutput::Text) => Output::Text,
            Some(RawOutput::Json) => Output::Json,
        },
        spec: Arc::new(spec),
        folder: folder.to_owned(),
        workdir: given.workdir.clone(),
        environment: given.environment.clone(),
        mask: given.mask.clone(),
    })))
}

fn built_in(name: &str, raw: &RawTool) -> Result<Arc<dyn Tool>, String> {
    let tool = builtin(name).ok_or_else(|| {
        let built_in = BUILTIN_NAMES.join(", ");
        format!(
            "the tool `{name}` has no `command`, and none of that name is built in ({built_in})"
        )
    })?;
    let RawTool {
        description: None,
        input: None,
        command: None,
        effects: None,
        repeat: None,
        timeout: None,
        polls: None,
        output: None,
        probe: None,
        resource: None,
        // A gate's business, which any tool can have.
        ask: _,
    } = raw
    else {
        return Err(format!(
            "the tool `{name}` is built in and takes no setting but `ask`: write {{}}"
        ));
    };
    Ok(tool)
}

fn spec(
    name: &str,
    raw: &RawTool,
    at: &Spanned<Option<RawTool>>,
    source: &Source<'_>,
) -> Result<ToolSpec, ConfigError> {
    let Some(description) = &raw.description else {
        let why = format!("the tool `{name}` needs a `description`, by which the model knows it");
        return Err(source.wrong(at, why));
    };
    let mut spec = ToolSpec::new(name, source.text(description)?);
    if let Some(input) = &raw.input {
        if input.value.get("type").and_then(Value::as_str) != Some("object") {
            return Err(source.wrong(input, "input: its `type` must be object"));
        }
        if let Some(key) = REFUSED_AT_TOP.into_iter().find(|key| input.value.get(key).is_some()) {
            let why = format!(
                "input: `{key}` can't stand at its top, where providers refuse it: put it into a \
                 property"
            );
            return Err(source.wrong(input, why));
        }
        spec.input = input.value.clone();
    }
    if let Some(names) = &raw.effects {
        spec.effects = effects(names, source)?;
    }
    if let Some(Positive(Millis(timeout))) = source.figure("timeout", raw.timeout.as_ref())? {
        spec.timeout_ms_max = timeout;
    }
    if let Some(resource) = &raw.resource {
        spec.resource = Some(self::resource(resource, &spec.input, source)?);
    }
    spec.repeat = raw.repeat.unwrap_or_default();
    spec.polls = raw.polls.unwrap_or_default();
    Ok(spec)
}

fn effects(names: &[Text], source: &Source<'_>) -> Result<Effects, ConfigError> {
    if let Some(name) = names.iter().find(|name| !Effects::NAMES.contains(&name.value.as_str())) {
        let hint = near(&name.value, &Effects::NAMES);
        return Err(source.wrong(name, format!("no effect is called `{}`{hint}", name.value)));
    }
    let names: Value = names.iter().map(|name| name.value.as_str()).collect();
    // The names were looked at one by one for the sake of the place in the error.
    Ok(Effects::deserialize(names).unwrap_or_default())
}

/// The argument that names a resource; it must be one of the schema's.
fn resource(resource: &Text, input: &Value, source: &Source<'_>) -> Result<String, ConfigError> {
    let properties = input.get("properties").and_then(Value::as_object);
    let known: Vec<&str> =
        properties.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    if known.contains(&resource.value.as_str()) {
        return Ok(resource.value.clone());
    }
    let hint = near(&resource.value, &known);
    let why = format!("resource: `{}` is no argument in `input`{hint}", resource.value);
    Err(source.wrong(resource, why))
}

/// The probe's words; there are some just when `repeat` is `probe`.
fn probe<'a>(
    raw: &'a RawTool,
    repeat: Repeat,
    at: &Spanned<Option<RawTool>>,
    source: &Source<'_>,
) -> Result<Option<&'a Spanned<Vec<Text>>>, ConfigError> {
    match (&raw.probe, repeat) {
        (None, Repeat::Probe) => {
            Err(source.wrong(at, "`repeat: probe` needs `probe`, a command that asks"))
        }
        (Some(words), repeat) if repeat != Repeat::Probe => {
            Err(source.wrong(words, "`probe` is used with `repeat: probe` only"))
        }
        (words, _) => Ok(words.as_ref()),
    }
}

/// The words of a command, of which the first is a program that is there.
fn argv(
    key: &str,
    words: &Spanned<Vec<Text>>,
    folder: &Path,
    source: &Source<'_>,
    given: &Surroundings,
) -> Result<Vec<String>, ConfigError> {
    let Some((program, arguments)) = words.value.split_first() else {
        return Err(source.wrong(words, format!("{key}: the list is empty")));
    };
    let found = program::find(&program.value, folder, &given.environment)
        .map_err(|why| source.wrong(program, format!("{key}: {why}")))?;
    Ok([found].into_iter().chain(arguments.iter().map(|word| word.value.clone())).collect())
}
