//! Agents: a folder with `agent.yaml`, its prompt and its programs, or the one that is built in.
//!
//! Everything is checked when the folder is loaded: names, schemas, programs, the prompt's
//! template. What the prompt says is resolved then, once; a session stores it and keeps to it.

mod ask;
pub(crate) mod program;
mod prompt;
mod tool;

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

use inspan_core::{
    event::AgentRef,
    hash::{Hash, Hasher},
    mask::Mask,
    tool::Tool,
};
use inspan_mcp::ServerConfig;
use inspan_providers::Server;
use serde::Deserialize;
use serde_saphyr::Spanned;

use crate::config::{
    Around, Ceiling, ConfigError, LimitsPatch, ModelFacts, RawLimits, RawMcpServers, RawModels,
    Scalar, Source, Text, Variables, lower_mcp, lower_models, mcp_secrets,
};

pub(crate) use ask::{Ask, LiveAsks};
use tool::RawTool;

/// The name of the file that defines an agent.
const AGENT_FILE: &str = "agent.yaml";

/// Bytes of a file that are read at once.
const PIECE_BYTES: usize = 1 << 16;

/// The prompt of the agent that is built in.
const BUILT_IN_PROMPT: &str = "\
You answer questions at a command line. Be brief and exact, and write plain text. You have no \
tools: when an answer would need files, commands or the network, say so instead of guessing.";

/// The same where the person has servers of tools.
const BUILT_IN_PROMPT_WITH_TOOLS: &str = "\
You answer questions at a command line. Be brief and exact, and write plain text. When an answer \
would need what none of your tools can do, say so instead of guessing.";

/// What runs: a prompt, tools and limits.
pub(crate) struct Agent {
    /// Where it was defined.
    pub reference: AgentRef,
    /// The model it is made for.
    pub model: Option<String>,
    /// What it says of models, by their URL.
    pub models: BTreeMap<String, ModelFacts>,
    /// Its system prompt, resolved; empty for none.
    pub system: String,
    /// Limits that differ from the defaults.
    pub limits: LimitsPatch,
    /// Tokens of all tools, from which on those of servers are found and not told.
    pub tools_tokens_max: Option<Ceiling<u64>>,
    /// Its tools, sorted by name.
    pub tools: Vec<Arc<dyn Tool>>,
    /// Why a person is asked before each call, by the name of the tool.
    pub asks: BTreeMap<String, String>,
    /// Its servers of tools.
    pub mcp: Vec<ServerConfig>,
    /// Secrets that its servers are given.
    pub secrets: Vec<String>,
}

/// What an agent is told of the place where it runs.
#[derive(Clone, Debug)]
pub(crate) struct Surroundings {
    /// The session's working directory.
    pub workdir: PathBuf,
    /// The environment, of which tools see a part.
    pub environment: Vec<(OsString, OsString)>,
    /// The servers that are known, whose models can be named.
    pub servers: Vec<Server>,
    /// The variables that secrets of servers may name.
    pub variables: Variables,
    /// Takes secrets out of what tools write.
    pub mask: Mask,
    /// Tells the day on which the session began, `2026-11-30`. No finer time: a prompt that moves
    /// would cost the provider's cache.
    pub date: fn() -> String,
}

impl Agent {
    /// Loads the agent in `folder`.
    ///
    /// # Errors
    /// A file is missing, or says something that makes no sense; see [`ConfigError`].
    pub(crate) fn load(folder: &Path, given: &Surroundings) -> Result<Self, ConfigError> {
        let path = folder.join(AGENT_FILE);
        let text = fs::read_to_string(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => ConfigError::unreadable(
                &path,
                "there is no such file, so this is no agent's folder",
            ),
            _ => ConfigError::unreadable(&path, error),
        })?;
        let source = Source::new(path.clone(), None);
        let raw: RawAgent = source.parse(&text)?;
        let folder = folder.canonicalize().map_err(|why| ConfigError::unreadable(folder, why))?;

        let name = tool::name(&raw.name.value).map_err(|why| source.wrong(&raw.name, why))?;
        let mut files = BTreeSet::new();
        let mut tools = Vec::new();
        let mut asks = BTreeMap::new();
        for (name, raw) in raw.tools.unwrap_or_default() {
            if let Some(why) = raw.value.as_ref().and_then(RawTool::ask) {
                asks.insert(name.clone(), source.text(why)?);
            }
            tools.push(tool::lower(&name, &raw, &folder, &source, given)?);
            files.extend(raw.value.iter().flat_map(|tool| tool.files(&folder)));
        }
        let mut system = String::new();
        if let Some(file) = raw.prompt {
            let path = folder.join(&file.value);
            let template = fs::read_to_string(&path)
                .map_err(|why| source.wrong(&file, format!("prompt: {}: {why}", path.display())))?;
            system = prompt::render(&path, &template, name, given)?;
            files.insert(file.value);
        }
        let with_variables = Source::new(path, Some(&given.variables));
        let around = Around {
            source: &with_variables,
            folder: &folder,
            workdir: &given.workdir,
            environment: &given.environment,
            must_be_there: true,
        };
        let mcp = lower_mcp(raw.mcp_servers, &around)?;
        let secrets = with_variables.taken_in().into_iter().chain(mcp_secrets(&mcp)).collect();
        Ok(Self {
            reference: AgentRef {
                name: name.to_owned(),
                path: folder.display().to_string(),
                hash: hash(&text, &folder, &files)?,
            },
            model: raw.model.map(|model| model.value),
            models: lower_models(raw.models, &source, &given.servers)?,
            system,
            limits: raw.limits.unwrap_or_default().lower(&source)?,
            tools_tokens_max: source.ceiling("tools_tokens_max", raw.tools_tokens_max.as_ref())?,
            tools,
            asks,
            mcp,
            secrets,
        })
    }

    /// The agent for runs that name none: a short prompt, and no tools of its own.
    pub(crate) fn built_in(has_tools: bool) -> Self {
        let prompt = if has_tools { BUILT_IN_PROMPT_WITH_TOOLS } else { BUILT_IN_PROMPT };
        Self {
            reference: AgentRef {
                name: "default".to_owned(),
                path: String::new(),
                hash: Hash::of(&[prompt.as_bytes()]),
            },
            model: None,
            models: BTreeMap::new(),
            system: prompt.to_owned(),
            limits: LimitsPatch::default(),
            tools_tokens_max: None,
            tools: Vec::new(),
            asks: BTreeMap::new(),
            mcp: Vec::new(),
            secrets: Vec::new(),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAgent {
    name: Text,
    model: Option<Text>,
    models: Option<RawModels>,
    prompt: Option<Text>,
    limits: Option<RawLimits>,
    tools_tokens_max: Option<Scalar>,
    /// A built-in tool may stand without settings: `echo:`.
    tools: Option<BTreeMap<String, Spanned<Option<RawTool>>>>,
    /// The name that other programs have for it.
    #[serde(rename = "mcpServers")]
    mcp_servers: Option<RawMcpServers>,
}

/// The hash of everything in the folder that defines the agent: `agent.yaml`, the prompt, and the
/// files that its commands name.
fn hash(agent: &str, folder: &Path, files: &BTreeSet<String>) -> Result<Hash, ConfigError> {
    let mut parts: Vec<Vec<u8>> = vec![AGENT_FILE.into(), agent.into()];
    for file in files {
        let path = folder.join(file);
        let hash = hash_of_file(&path).map_err(|why| ConfigError::unreadable(&path, why))?;
        parts.extend([file.clone().into_bytes(), hash.0.into()]);
    }
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    Ok(Hash::of(&parts))
}

/// Reads piece by piece: a command may name a file of any size.
fn hash_of_file(path: &Path) -> io::Result<Hash> {
    let mut file = File::open(path)?;
    let mut hasher = Hasher::default();
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(hasher.hash()),
            count => hasher.add(&piece[..count]),
        }
    }
}

#[cfg(test)]
mod tests;
