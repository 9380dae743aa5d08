//! `.mcp.json` of a folder: servers of tools that somebody wrote down there, in the shape that other
//! programs have for them. They are programs that would run as the person, so nothing of it counts
//! before the person agreed to the file as it is.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use inspan_core::hash::Hash;
use inspan_mcp::ServerConfig;
use serde_json::{Map, Value, json};

use crate::config::{Around, Config, ConfigError, RawMcpServers, Source, lower_mcp, mcp_secrets};

/// Its name.
const FILE: &str = ".mcp.json";

/// Bytes of the file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// What counts of a server there. What its tools may do is for the person to say, in their own files.
const KEYS: [&str; 14] = [
    "type", "command", "args", "env", "cwd", "url", "headers", "oauth", "protocol", "include",
    "exclude", "timeout", "ask", "disabled",
];

/// The file of a folder.
pub(crate) struct FolderFile {
    folder: PathBuf,
    hash: Hash,
    servers: Map<String, Value>,
}

/// The servers of a folder that the person agreed to.
#[derive(Default)]
pub(crate) struct FolderServers {
    pub(crate) servers: Vec<ServerConfig>,
    pub(crate) secrets: Vec<String>,
    /// What a person should be told.
    pub(crate) notices: Vec<String>,
}

impl FolderFile {
    /// The file of `folder`, if it has one that names servers.
    ///
    /// # Errors
    /// Why it can't be read, with its name.
    pub(crate) fn read(folder: &Path) -> Result<Option<Self>, String> {
        let path = folder.join(FILE);
        let wrong = |why: &dyn std::fmt::Display| format!("{} is left out: {why}", path.display());
        let mut text = String::new();
        let read = File::open(&path)
            .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text));
        match read {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(wrong(&error)),
            Ok(bytes) if bytes as u64 > FILE_BYTES_MAX => {
                return Err(wrong(&format!("it has more than {FILE_BYTES_MAX} bytes")));
            }
            Ok(_) => {}
        }
        let mut whole: Value = serde_json::from_str(&text).map_err(|error| wrong(&error))?;
        let servers = whole.get_mut("mcpServers").map(Value::take);
        let servers = match servers {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::Object(servers)) => servers,
            Some(_) => return Err(wrong(&"its `mcpServers` are no object")),
        };
        let folder = folder.canonicalize().map_err(|error| wrong(&error))?;
        let hash = Hash::of_bytes(text.as_bytes());
        Ok(Some(Self { folder, hash, servers }).filter(|file| !file.servers.is_empty()))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.join(FILE)
    }

    /// Its folder.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The hash of its content.
    pub(crate) fn hash(&self) -> Hash {
        self.hash
    }

    /// What it would start and reach, and what with: a line for each server, as it stands there.
    pub(crate) fn lines(&self) -> Vec<String> {
        // As JSON: a line end or a quote in a word must not look like another server.
        let text = |value: &Value| match value {
            Value::String(word) if word.chars().all(is_plain) && !word.is_empty() => word.clone(),
            other => other.to_string(),
        };
        let line = |(name, server): (&String, &Value)| {
            let words = server.get("args").and_then(Value::as_array).into_iter().flatten();
            let named = ["command", "url"].into_iter().filter_map(|key| server.get(key));
            let named = named.filter(|value| !value.is_null());
            let words: Vec<String> = named.chain(words).map(text).collect();
            let with = ["env", "headers", "oauth", "cwd"].into_iter();
            let with = with.filter_map(|key| Some(format!("; {key} {}", server.get(key)?)));
            let name = text(&Value::from(name.as_str()));
            format!("{name}: {}{}", words.join(" "), with.collect::<String>())
        };
        self.servers.iter().map(line).collect()
    }

    /// Its servers. One that makes no sense is left out with a notice, the others are taken.
    pub(crate) fn servers(&self, config: &Config) -> FolderServers {
        let path = self.path();
        let mut found = FolderServers::default();
        for (name, server) in &self.servers {
            let mut server = server.clone();
            if let Value::Object(fields) = &mut server {
                if fields.contains_key("effects") {
                    found.notices.push(format!(
                        "`effects` of `{name}` in {} counts for nothing: what tools may do is said \
                         in config.yaml and agent.yaml",
                        path.display()
                    ));
                }
                fields.retain(|key, _| KEYS.contains(&key.as_str()));
            }
            let source = Source::new(path.clone(), Some(&config.variables));
            let around = Around {
                source: &source,
                folder: &self.folder,
                workdir: &self.folder,
                environment: config.variables.environment(),
                must_be_there: false,
            };
            let text = json!({ name: server }).to_string();
            let lowered =
                source.parse::<RawMcpServers>(&text).and_then(|raw| lower_mcp(Some(raw), &around));
            match lowered {
                Ok(servers) => {
                    found.secrets.extend(source.taken_in());
                    found.secrets.extend(mcp_secrets(&servers));
                    found.servers.extend(servers);
                }
                Err(error) => {
                    let (path, why) = (path.display(), why(&error));
                    found
                        .notices
                        .push(format!("the MCP server `{name}` of {path} is left out: {why}"));
                }
            }
        }
        found
    }
}

/// Whether a word with it needs no quotes.
fn is_plain(c: char) -> bool {
    c.is_alphanumeric() || "-_./:@=+,%~${}?&#".contains(c)
}

/// What is wrong, without the place, which is none in the file.
fn why(error: &ConfigError) -> String {
    match error {
        ConfigError::Wrong { why, .. } => why.clone(),
        ConfigError::UnknownKey { key, hint, .. } => format!("unknown key `{key}`{hint}"),
        ConfigError::Unset { name, env_file, .. } => format!(
            "the variable {name} is not set; set it in the environment or in {}",
            env_file.display()
        ),
        ConfigError::Unreadable { .. } | ConfigError::OpenToOthers { .. } => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// What is found in a folder with this file, and told of it.
    fn found(text: &str) -> Result<(Vec<String>, Vec<String>), String> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(FILE), text).unwrap();
        let Some(file) = FolderFile::read(folder.path())
            .map_err(|why| why.replace(&folder.path().display().to_string(), "FOLDER"))?
        else {
            return Ok((Vec::new(), Vec::new()));
        };
        let environment = vec![("TOKEN".into(), "t0ken-1234".into())];
        let config = Config::load(folder.path(), environment).unwrap();
        let FolderServers { servers, notices, secrets } = file.servers(&config);
        assert!(secrets.is_empty() || secrets.iter().any(|secret| secret == "t0ken-1234"));
        let names = servers.iter().map(|server| server.name.clone()).collect();
        let path = file.folder().display().to_string();
        Ok((names, notices.iter().map(|notice| notice.replace(&path, "FOLDER")).collect()))
    }

    #[test]
    fn servers_are_taken_one_by_one() {
        let text = r#"{ "other": 1, "mcpServers": {
            "a": { "command": "a", "env": { "KEY": "${TOKEN}" }, "alwaysAllow": ["x"] },
            "b": { "command": "b", "args": ["${TOKEN}"] },
            "c": { "url": "https://c", "headers": { "Authorization": "${GONE}" } },
            "d": { "url": "https://d", "type": "http", "effects": { "*": [] } },
            "e": 7
        } }"#;
        let (names, notices) = found(text).unwrap();
        assert_eq!(names, ["a", "d"]);
        let told = [
            "the MCP server `b` of FOLDER/.mcp.json is left out: variables are replaced in `env`, \
             `headers` and `clientSecret` only; this would show them",
            "the MCP server `c` of FOLDER/.mcp.json is left out: the variable GONE is not set; set it in \
             the environment or in FOLDER/.env",
            "`effects` of `d` in FOLDER/.mcp.json counts for nothing: what tools may do is said in \
             config.yaml and agent.yaml",
            "the MCP server `e` of FOLDER/.mcp.json is left out: keys with values are expected here: { \
             key: value }",
        ];
        assert_eq!(notices, told);
    }

    #[test]
    fn what_is_no_such_file_is_told_or_nothing() {
        let none = Ok((Vec::new(), Vec::new()));
        let left_out = |why: &str| Err(format!("FOLDER/.mcp.json is left out: {why}"));
        let table = [
            ("{}", none.clone()),
            (r#"{ "mcpServers": {} }"#, none.clone()),
            (r#"{ "mcpServers": [] }"#, left_out("its `mcpServers` are no object")),
            ("{", left_out("EOF while parsing an object at line 1 column 1")),
        ];
        for (text, expected) in table {
            assert_eq!(found(text), expected, "{text}");
        }
        assert!(FolderFile::read(tempfile::tempdir().unwrap().path()).unwrap().is_none());
    }
}
