//! The tools of a server as it offers them, and what becomes of them here: names that every
//! provider takes, effects that a server's own words can't make look smaller.

use std::collections::BTreeSet;

use inspan_core::{
    effects::{Effects, Repeat},
    hash::Hash,
    tool::ToolSpec,
};
use inspan_schema::Schema;
use serde_json::{Value, json};

use crate::config::{Declared, ServerConfig};

/// Characters of a tool's name for the model, which every provider takes.
const NAME_CHARS_MAX: usize = 64;
/// Characters of the hash at the end of a name that is not the server's own.
const NAME_HASH_CHARS: usize = 8;
/// Characters of a description.
const DESCRIPTION_CHARS_MAX: usize = 8_192;
/// Bytes of a schema.
const SCHEMA_BYTES_MAX: usize = 256 * 1024;
/// Tools of one server.
const TOOLS_MAX: usize = 1_000;
/// Tools of one server that are named as left out.
const SET_ASIDE_MAX: usize = 50;
/// Characters of a name in what is said about it.
const SHOWN_CHARS_MAX: usize = 80;

/// A tool as its server offers it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Offered {
    /// The name that the server knows.
    pub name: String,
    pub description: String,
    /// JSON Schema of its arguments.
    pub schema: Value,
    pub hints: Hints,
}

/// What a server says of a tool's effects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hints {
    pub read_only: Option<bool>,
    pub destructive: Option<bool>,
    pub idempotent: Option<bool>,
    pub open_world: Option<bool>,
}

/// All tools of a server.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Catalogue {
    /// Those that can be used, sorted by name.
    pub tools: Vec<Offered>,
    /// Those that can't be, and why.
    pub set_aside: Vec<(String, String)>,
}

impl Catalogue {
    /// Takes a page of the server's list. A tool that makes no sense is set aside, the others are
    /// taken. False when there is no room for another page.
    ///
    /// # Errors
    /// It is no list of tools.
    pub(crate) fn take(&mut self, page: &Value) -> Result<bool, String> {
        let tools = page.get("tools").and_then(Value::as_array);
        let tools = tools.ok_or("its answer to `tools/list` has no list of tools")?;
        for (at, tool) in tools.iter().enumerate() {
            if self.tools.len() >= TOOLS_MAX {
                let left = tools.len() - at;
                let why = format!("there are more than {TOOLS_MAX} tools");
                self.set_aside(format!("{left} or more tools"), why);
                return Ok(false);
            }
            match offered(tool) {
                Ok(tool) if self.tools.iter().any(|known| known.name == tool.name) => {
                    self.set_aside(shown(&tool.name), "its name was there before".to_owned());
                }
                Ok(tool) => self.tools.push(tool),
                Err((name, why)) => self.set_aside(name, why),
            }
        }
        self.tools.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(true)
    }

    fn set_aside(&mut self, name: String, why: String) {
        if self.set_aside.len() < SET_ASIDE_MAX {
            self.set_aside.push((name, why));
        }
    }

    /// Whether one of its tools has this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.tools.iter().any(|tool| tool.name == name)
    }
}

/// Reads a tool of a list; else its name, and why it can't be used.
fn offered(tool: &Value) -> Result<Offered, (String, String)> {
    let Some(name) = tool.get("name").and_then(Value::as_str).filter(|name| !name.is_empty())
    else {
        return Err(("a tool".to_owned(), "it has no name".to_owned()));
    };
    let wrong = |why: String| (shown(name), why);
    let nothing = json!({ "type": "object" });
    let schema = tool.get("inputSchema").unwrap_or(&nothing);
    let length = schema.to_string().len();
    if length > SCHEMA_BYTES_MAX {
        let why = format!("its schema has {length} bytes, and at most {SCHEMA_BYTES_MAX} are read");
        return Err(wrong(why));
    }
    if !schema.is_object() {
        return Err(wrong("its schema is no object".to_owned()));
    }
    Schema::compile(schema).map_err(|why| wrong(format!("its schema is wrong: {why}")))?;
    let description = tool.get("description").and_then(Value::as_str);
    let title = tool.get("title").and_then(Value::as_str);
    let description = description.or(title).unwrap_or_default();
    let hint = |name: &str| tool.get("annotations")?.get(name)?.as_bool();
    Ok(Offered {
        name: name.to_owned(),
        description: description.chars().take(DESCRIPTION_CHARS_MAX).collect(),
        schema: schema.clone(),
        hints: Hints {
            read_only: hint("readOnlyHint"),
            destructive: hint("destructiveHint"),
            idempotent: hint("idempotentHint"),
            open_world: hint("openWorldHint"),
        },
    })
}

/// A name of any length as it is told.
pub(crate) fn shown(name: &str) -> String {
    name.chars().take(SHOWN_CHARS_MAX).collect()
}

/// The declaration of a tool for the model and for the harness.
pub(crate) fn spec(config: &ServerConfig, tool: &Offered) -> ToolSpec {
    let Declared { effects, repeat } = declared(config, tool);
    ToolSpec {
        input: tool.schema.clone(),
        effects,
        repeat,
        timeout_ms_max: config.timeout_ms_max,
        ..ToolSpec::new(alias(&config.name, &tool.name), tool.description.clone())
    }
}

/// What the tool may do. Nobody's word means the worst. The person's word for this tool alone
/// stands; under their word for every tool of a server, its hints can only make a tool look worse.
fn declared(config: &ServerConfig, tool: &Offered) -> Declared {
    let Some((Declared { mut effects, mut repeat }, is_own)) = config.declared(&tool.name) else {
        return Declared { effects: Effects::default(), repeat: Repeat::default() };
    };
    if is_own {
        return Declared { effects, repeat };
    }
    let Hints { read_only, destructive, idempotent, open_world } = tool.hints;
    effects.writes |= read_only == Some(false) || destructive == Some(true);
    effects.destroys |= destructive == Some(true);
    effects.reads_untrusted |= open_world == Some(true);
    effects.sends |= open_world == Some(true) && !effects.only_reads();
    if !effects.only_reads() && repeat.is_repeatable() && idempotent != Some(true) {
        repeat = Repeat::Once;
    }
    Declared { effects, repeat }
}

/// The name of a tool for the model: the server's and its own, where they fit; else what of them
/// does, with a hash of them, so that the same tool always has the same name.
pub(crate) fn alias(server: &str, tool: &str) -> String {
    let whole = format!("{server}_{tool}");
    let safe = ToolSpec::sendable_name(&whole);
    if safe == whole {
        return safe;
    }
    let hash = Hash::of(&[server.as_bytes(), tool.as_bytes()]).to_string();
    let hash: String = hash.chars().take(NAME_HASH_CHARS).collect();
    let head: String = safe.chars().take(NAME_CHARS_MAX - NAME_HASH_CHARS - 1).collect();
    format!("{}_{hash}", head.trim_end_matches('_'))
}

/// Names in the configuration of a server that are none of its tools.
pub(crate) fn unknown_names(config: &ServerConfig, catalogue: &Catalogue) -> BTreeSet<String> {
    let set_aside = |name: &str| catalogue.set_aside.iter().any(|(aside, _)| aside == name);
    let named = config
        .include
        .iter()
        .flatten()
        .chain(&config.exclude)
        .chain(config.effects.keys())
        .chain(config.ask.keys());
    let unknown =
        named.filter(|name| name.as_str() != "*" && !catalogue.has(name) && !set_aside(name));
    unknown.cloned().collect()
}

#[cfg(test)]
#[path = "tests/catalogue.rs"]
mod tests;
