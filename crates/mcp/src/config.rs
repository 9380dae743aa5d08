//! What is configured of a server.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
};

use inspan_core::{
    effects::{Effects, Repeat},
    hash::Hash,
};
use secrecy::SecretString;

/// The name in [`ServerConfig::effects`] that stands for every tool without a word of its own.
const EVERY_TOOL: &str = "*";

/// A server of the person's choice.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// What it is called; the names of its tools begin with it.
    pub name: String,
    /// How it is reached.
    pub link: Link,
    /// In which revision it is talked to.
    pub protocol: Protocol,
    /// The tools that are offered, by the names that the server gives them; `None` for all.
    pub include: Option<Vec<String>>,
    /// Tools that are not offered.
    pub exclude: Vec<String>,
    /// Time of one call in milliseconds; progress begins it anew.
    pub timeout_ms_max: u64,
    /// What the person says of its tools, by their names; `*` stands for all others.
    pub effects: BTreeMap<String, Declared>,
}

/// How a server is reached.
#[derive(Clone, Debug)]
pub enum Link {
    /// It is a program of this machine, talked to over its input and output.
    Program(ProgramLink),
    /// It is somewhere on the network, talked to over Streamable HTTP.
    Http(HttpLink),
}

/// A server that is a program.
#[derive(Clone)]
pub struct ProgramLink {
    /// The program and its arguments. It is started without a shell.
    pub argv: Vec<String>,
    /// Its current directory.
    pub folder: PathBuf,
    /// Variables of its own, which may be secrets.
    pub env: BTreeMap<String, SecretString>,
    /// The environment from which the variables on the list of the engine are taken.
    pub environment: Vec<(OsString, OsString)>,
}

/// A server on the network.
#[derive(Clone)]
pub struct HttpLink {
    /// Its address, without a login.
    pub url: String,
    /// Headers of every request, which may be secrets.
    pub headers: BTreeMap<String, SecretString>,
}

/// In which revision a server is talked to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// The newest that both know: it is found out, and remembered.
    #[default]
    Auto,
    /// With a handshake: 2025-11-25 and older.
    Legacy,
    /// Without: 2026-07-28.
    Modern,
}

/// What the person says of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declared {
    /// What it may do to the world.
    pub effects: Effects,
    /// How safe it is to run again.
    pub repeat: Repeat,
}

impl ServerConfig {
    /// What the person says of the tool; and whether it was said of that tool alone.
    pub(crate) fn declared(&self, tool: &str) -> Option<(Declared, bool)> {
        let own = self.effects.get(tool).map(|declared| (*declared, true));
        own.or_else(|| self.effects.get(EVERY_TOOL).map(|declared| (*declared, false)))
    }

    /// Whether the tool is offered.
    pub(crate) fn offers(&self, tool: &str) -> bool {
        let is_in = |names: &[String]| names.iter().any(|name| name == tool);
        self.include.as_deref().is_none_or(is_in) && !is_in(&self.exclude)
    }

    /// The same for all configurations that lead to the same server in the same surroundings. Of
    /// secrets it knows only the names.
    pub(crate) fn fingerprint(&self) -> Hash {
        let protocol = format!("{:?}", self.protocol);
        let mut parts: Vec<Vec<u8>> = vec![protocol.into()];
        let names = match &self.link {
            Link::Program(program) => {
                parts.push(b"program".to_vec());
                parts.push(path_bytes(&program.folder));
                parts.extend(program.argv.iter().map(|word| word.clone().into_bytes()));
                &program.env
            }
            Link::Http(http) => {
                parts.extend([b"http".to_vec(), http.url.clone().into_bytes()]);
                &http.headers
            }
        };
        parts.push(b"names".to_vec());
        parts.extend(names.keys().map(|name| name.clone().into_bytes()));
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        Hash::of(&parts)
    }
}

fn path_bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_encoded_bytes().to_vec()
}

/// Names the variables, never their values.
impl fmt::Debug for ProgramLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProgramLink")
            .field("argv", &self.argv)
            .field("folder", &self.folder)
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

/// Names the headers, never their values.
impl fmt::Debug for HttpLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpLink")
            .field("url", &self.url)
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .finish()
    }
}
