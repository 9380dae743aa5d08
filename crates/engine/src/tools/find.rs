//! The two tools of a catalogue that the model is not told of as a whole: one finds tools, the other
//! is the name under which they are called. See [`inspan_core::found`].

use std::{collections::BTreeSet, fmt, sync::Arc};

use inspan_core::{
    effects::{Effects, Repeat},
    found::{CALL_TOOL, FIND_TOOLS, FOUND_NAMES},
    gate::BoxFuture,
    message::ToolResult,
    store::StoreError,
    tool::{Invocation, Tool, ToolError, ToolSpec},
};
use serde_json::{Value, json};

/// Tools that one search gives, where the call does not say.
const FOUND_TOOLS_DEFAULT: usize = 5;
/// Tools that one search gives.
const FOUND_TOOLS_MAX: usize = 20;
/// Bytes of the words of a search.
const QUERY_BYTES_MAX: usize = 4 * 1024;
/// Bytes of what one search gives: tools beyond it are only named.
const FOUND_BYTES_MAX: usize = 24 * 1024;
/// Sources that are named in the description of [`FindTools`], and bytes of each name.
const SOURCES_NAMED_MAX: usize = 40;
const SOURCE_BYTES_MAX: usize = 40;

/// Ranks the texts that it was made of, by a question.
pub trait Ranking: Send + Sync {
    /// The places of those that fit best, best first; none that does not fit.
    ///
    /// # Errors
    /// The index can't be made.
    fn best(
        &self,
        question: &str,
        count_max: usize,
    ) -> BoxFuture<'static, Result<Vec<usize>, StoreError>>;
}

/// A tool of a catalogue.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Its declaration.
    pub spec: Arc<ToolSpec>,
    /// Where it comes from: the name of its server.
    pub source: String,
}

impl Listed {
    /// What is said of it, from what counts most to what counts least: its name, its source, its
    /// description, and its arguments with theirs.
    pub fn said(&self) -> [String; 4] {
        let mut arguments = String::new();
        describe(&self.spec.input, &mut arguments);
        [self.spec.name.clone(), self.source.clone(), self.spec.description.clone(), arguments]
    }
}

/// The names and the descriptions in a schema.
fn describe(schema: &Value, into: &mut String) {
    match schema {
        Value::Object(fields) => {
            for (name, value) in fields {
                if name == "description"
                    && let Value::String(text) = value
                {
                    into.push_str(text);
                    into.push('\n');
                }
                if name == "properties"
                    && let Value::Object(properties) = value
                {
                    for name in properties.keys() {
                        into.push_str(name);
                        into.push('\n');
                    }
                }
                describe(value, into);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| describe(item, into)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Finds tools by what they do. It reads declarations and nothing else.
#[derive(Clone)]
pub struct FindTools {
    spec: Arc<ToolSpec>,
    listed: Arc<[Listed]>,
    ranking: Arc<dyn Ranking>,
}

impl FindTools {
    /// The tool for this catalogue, ranked by `ranking`, which was made of what is said of each tool
    /// in the same order.
    pub fn new(listed: impl Into<Arc<[Listed]>>, ranking: Arc<dyn Ranking>) -> Self {
        let listed = listed.into();
        let description = format!(
            "Finds tools beside those that you see, by what they do: those of {}. Look here before \
             you say that you can't do something.",
            sources(&listed)
        );
        let spec = ToolSpec {
            input: json!({
                "type": "object",
                "properties": {
                    "query": {
                        "type": "string",
                        "description": "What the tool must do, in a few words; or its name",
                    },
                    "count": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": FOUND_TOOLS_MAX,
                        "description": format!("How many; {FOUND_TOOLS_DEFAULT} if left out"),
                    },
                },
                "required": ["query"],
                "additionalProperties": false,
            }),
            // What servers say of their tools.
            effects: Effects { reads_untrusted: true, ..Effects::NONE },
            repeat: Repeat::Pure,
            ..ToolSpec::new(FIND_TOOLS, description)
        };
        Self { spec: Arc::new(spec), listed, ranking }
    }

    async fn find(&self, query: &str, count: usize) -> Result<ToolResult, ToolError> {
        let mut best = self.ranking.best(query, count).await.map_err(ToolError::from)?;
        // Whoever knows the name gets the tool.
        if let Some(named) = self.listed.iter().position(|one| one.spec.name == query.trim()) {
            best.retain(|place| *place != named);
            best.insert(0, named);
            best.truncate(count);
        }
        let found: Vec<&Listed> = best.iter().filter_map(|place| self.listed.get(*place)).collect();
        if found.is_empty() {
            return Ok(ToolResult::text(format!(
                "No tool fits these words. There are {} tools, of {}. Try other words.",
                self.listed.len(),
                sources(&self.listed)
            )));
        }
        let names: Vec<&str> = found.iter().map(|one| one.spec.name.as_str()).collect();
        let evidence = Some(json!({ FOUND_NAMES: names }));
        Ok(ToolResult { evidence, ..ToolResult::text(told(&found)) })
    }
}

/// The tools in words, each with its schema as long as there is room.
fn told(found: &[&Listed]) -> String {
    let mut text = format!(
        "Run one with {CALL_TOOL}: {{\"name\": \"{}\", \"arguments\": {{…}}}}\n",
        found.first().map_or("", |one| one.spec.name.as_str())
    );
    for (number, Listed { spec, source }) in found.iter().enumerate() {
        let whole = format!(
            "\n{} (of {source})\n{}\narguments: {}\n",
            spec.name,
            spec.description.trim(),
            spec.input
        );
        if text.len() + whole.len() <= FOUND_BYTES_MAX {
            text.push_str(&whole);
        } else if number == 0 {
            // It can be called all the same: what does not fit is told then.
            let end = whole.floor_char_boundary(FOUND_BYTES_MAX);
            text.push_str(whole.get(..end).unwrap_or_default());
            text.push_str("… (too long to be shown)\n");
        } else {
            text.push_str(&format!("\n{} (of {source}): look for its name to see it\n", spec.name));
        }
    }
    text
}

/// Where they come from. Without their number: the beginning of a request stays as it is when one
/// comes or goes.
fn sources(listed: &[Listed]) -> String {
    let sources: BTreeSet<&str> = listed.iter().map(|one| one.source.as_str()).collect();
    let named = sources.iter().take(SOURCES_NAMED_MAX).map(|source| {
        let end = source.floor_char_boundary(SOURCE_BYTES_MAX);
        source.get(..end).unwrap_or_default()
    });
    let mut all = named.collect::<Vec<_>>().join(", ");
    if sources.len() > SOURCES_NAMED_MAX {
        all.push_str(" and others");
    }
    all
}

impl Tool for FindTools {
    fn spec(&self) -> Arc<ToolSpec> {
        Arc::clone(&self.spec)
    }

    fn check(&self, arguments: Value) -> Result<Value, String> {
        asked(&arguments)?;
        Ok(arguments)
    }

    fn run(&self, call: Invocation) -> BoxFuture<'static, Result<ToolResult, ToolError>> {
        let tool = self.clone();
        Box::pin(async move {
            let (query, count) = asked(&call.arguments).map_err(ToolError::new)?;
            tool.find(&query, count).await
        })
    }
}

fn asked(arguments: &Value) -> Result<(String, usize), String> {
    let query = match &arguments["query"] {
        Value::String(query) if query.len() > QUERY_BYTES_MAX => {
            return Err(format!("/query: has more than {QUERY_BYTES_MAX} bytes; a few words do"));
        }
        Value::String(query) if !query.trim().is_empty() => query.clone(),
        _ => return Err("/query: must be words that say what the tool must do".to_owned()),
    };
    let count = match &arguments["count"] {
        Value::Null => FOUND_TOOLS_DEFAULT,
        count => count
            .as_u64()
            .and_then(|count| usize::try_from(count).ok())
            .filter(|count| (1..=FOUND_TOOLS_MAX).contains(count))
            .ok_or(format!("/count: must be an integer from 1 to {FOUND_TOOLS_MAX}"))?,
    };
    Ok((query, count))
}

/// Neither an index nor a catalogue need be printable.
impl fmt::Debug for FindTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FindTools").finish_non_exhaustive()
    }
}

/// The name under which found tools are called. A call of it that names one is that tool's call; all
/// others end here.
#[derive(Clone, Debug)]
pub struct CallTool(Arc<ToolSpec>);

impl Default for CallTool {
    fn default() -> Self {
        let spec = ToolSpec {
            input: json!({
                "type": "object",
                "properties": {
                    "name": { "type": "string", "description": "The tool's name, as found" },
                    "arguments": { "type": "object", "description": "What it asks for" },
                },
                "required": ["name", "arguments"],
                "additionalProperties": false,
            }),
            effects: Effects::NONE,
            repeat: Repeat::Pure,
            ..ToolSpec::new(CALL_TOOL, format!("Runs a tool that {FIND_TOOLS} found."))
        };
        Self(Arc::new(spec))
    }
}

/// Told for a call that names no tool.
const NAMELESS: &str = "/name: must be the name of a tool that find_tools found";

impl Tool for CallTool {
    fn spec(&self) -> Arc<ToolSpec> {
        Arc::clone(&self.0)
    }

    fn check(&self, _: Value) -> Result<Value, String> {
        Err(NAMELESS.to_owned())
    }

    fn run(&self, _: Invocation) -> BoxFuture<'static, Result<ToolResult, ToolError>> {
        Box::pin(std::future::ready(Err(ToolError::new(NAMELESS))))
    }
}
