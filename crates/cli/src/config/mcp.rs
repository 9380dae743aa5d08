//! `mcpServers`, in `config.yaml` and `agent.yaml`: servers of the Model Context Protocol, in the
//! shape that other programs have for them.

use std::{collections::BTreeMap, ffi::OsString, path::Path};

use inspan_core::{
    effects::{Effects, Repeat},
    tool::TIMEOUT_MS_DEFAULT,
};
use inspan_mcp::{Declared, HttpLink, Link, OAuthClient, ProgramLink, Protocol, ServerConfig};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::Value;
use serde_saphyr::Spanned;

use crate::agent::program;

use super::{ConfigError, Millis, Positive, Scalar, Source, Text, near};

/// Characters of the name of a server, which begins the names of its tools.
const NAME_CHARS_MAX: usize = 32;

/// What stands for the session's working directory, as in prompts.
const WORKDIR: &str = "{{ workdir }}";

/// Parts of the names of variables and headers whose values are kept from being shown.
const SECRET_WORDS: [&str; 7] = ["auth", "cookie", "credential", "key", "pass", "secret", "token"];

/// The servers as they stand in a file.
pub(crate) type RawMcpServers = BTreeMap<String, Spanned<RawMcpServer>>;

/// A server as it stands in the file.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawMcpServer {
    /// Others write it; what it says is plain from the rest.
    #[serde(rename = "type")]
    kind: Option<Text>,
    command: Option<Text>,
    args: Option<Vec<Text>>,
    env: Option<BTreeMap<String, Text>>,
    cwd: Option<Text>,
    url: Option<Text>,
    headers: Option<BTreeMap<String, Text>>,
    oauth: Option<RawClient>,
    protocol: Option<Text>,
    include: Option<Vec<Text>>,
    exclude: Option<Vec<Text>>,
    timeout: Option<Scalar>,
    effects: Option<BTreeMap<String, Spanned<Value>>>,
    ask: Option<BTreeMap<String, Text>>,
    disabled: Option<bool>,
}

/// A client for logins, as the server's people gave it out.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawClient {
    #[serde(rename = "clientId")]
    id: Text,
    #[serde(rename = "clientSecret")]
    secret: Option<Text>,
}

/// Where servers are configured.
pub(crate) struct Around<'a> {
    /// The file, with the variables that its secrets may take in.
    pub source: &'a Source<'a>,
    /// What a program's directory is relative to; empty for the session's working directory.
    pub folder: &'a Path,
    /// The session's working directory; empty where that is what programs' directories are relative to.
    pub workdir: &'a Path,
    /// The environment, of which programs see a part.
    pub environment: &'a [(OsString, OsString)],
    /// Whether a program must be there, as for an agent; else it is missed when it is started.
    pub must_be_there: bool,
}

/// The servers of the file, but for those that are switched off.
pub(crate) fn lower(
    raw: Option<RawMcpServers>,
    around: &Around<'_>,
) -> Result<Vec<ServerConfig>, ConfigError> {
    let raw = raw.unwrap_or_default();
    let on = raw.iter().filter(|(_, server)| server.value.disabled != Some(true));
    on.map(|(name, server)| self::server(name, server, around)).collect()
}

/// The secrets of these servers, as far as they can be told from plain settings.
pub(crate) fn secrets(servers: &[ServerConfig]) -> Vec<String> {
    let mut found = Vec::new();
    for server in servers {
        let values = match &server.link {
            Link::Program(program) => &program.env,
            Link::Http(http) => {
                let secret = http.client().and_then(|client| client.secret.as_ref());
                found.extend(secret.map(|secret| secret.expose_secret().to_owned()));
                http.headers()
            }
        };
        for (name, value) in values {
            let name = name.to_lowercase();
            if !SECRET_WORDS.iter().any(|word| name.contains(word)) {
                continue;
            }
            let value = value.expose_secret();
            found.push(value.to_owned());
            // `Bearer` and `Basic` are no secrets.
            found.extend(value.split_once(' ').map(|(_, secret)| secret.to_owned()));
        }
    }
    found
}

fn server(
    name: &str,
    at: &Spanned<RawMcpServer>,
    around: &Around<'_>,
) -> Result<ServerConfig, ConfigError> {
    let (source, raw) = (around.source, &at.value);
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !(1..=NAME_CHARS_MAX).contains(&name.len()) || !name.chars().all(fits) {
        return Err(source.wrong(
            at,
            format!(
                "`{name}` can't name an MCP server: 1 to {NAME_CHARS_MAX} of A-Z, a-z, 0-9, _ and -"
            ),
        ));
    }
    if let Some(kind) = &raw.kind {
        let known = [("stdio", ()), ("http", ()), ("streamable-http", ())];
        source.one_of("type", kind, &known)?;
    }
    let protocols =
        [("auto", Protocol::Auto), ("legacy", Protocol::Legacy), ("2026-07-28", Protocol::Modern)];
    let protocol = raw.protocol.as_ref();
    let protocol = protocol.map(|text| source.one_of("protocol", text, &protocols)).transpose()?;
    let timeout = source.figure("timeout", raw.timeout.as_ref())?;
    let words = |list: &Vec<Text>| list.iter().map(|text| text.value.clone()).collect();
    let mut effects = BTreeMap::new();
    for (tool, declared) in raw.effects.iter().flatten() {
        let declared = self::declared(&declared.value)
            .map_err(|why| source.wrong(declared, format!("effects of `{tool}`: {why}")))?;
        effects.insert(tool.clone(), declared);
    }
    let ask = raw.ask.iter().flatten();
    Ok(ServerConfig {
        ask: ask.map(|(tool, why)| (tool.clone(), why.value.clone())).collect(),
        name: name.to_owned(),
        link: link(name, at, around)?,
        protocol: protocol.unwrap_or_default(),
        include: raw.include.as_ref().map(words),
        exclude: raw.exclude.as_ref().map(words).unwrap_or_default(),
        timeout_ms_max: timeout.map_or(TIMEOUT_MS_DEFAULT, |Positive(Millis(ms))| ms),
        effects,
    })
}

fn link(name: &str, at: &Spanned<RawMcpServer>, around: &Around<'_>) -> Result<Link, ConfigError> {
    let (source, raw) = (around.source, &at.value);
    let misplaced = |key: &str, only: &str| {
        Err(source.wrong(at, format!("`{key}` of the MCP server `{name}` goes with `{only}` only")))
    };
    match (&raw.command, &raw.url) {
        (Some(_), Some(url)) => {
            Err(source.wrong(url, "there are both `command` and `url`: keep one of them"))
        }
        (None, None) => Err(source.wrong(
            at,
            format!("the MCP server `{name}` needs `command`, a program, or `url`, an address"),
        )),
        (Some(_), None) if raw.headers.is_some() => misplaced("headers", "url"),
        (Some(_), None) if raw.oauth.is_some() => misplaced("oauth", "url"),
        (Some(command), None) => {
            let words = [command].into_iter().chain(raw.args.iter().flatten());
            let argv: Result<Vec<_>, _> = words.map(|word| plain(word, source)).collect();
            let mut argv = argv?;
            if around.must_be_there {
                argv[0] = program::find(&argv[0], around.folder, around.environment)
                    .map_err(|why| source.wrong(command, format!("command: {why}")))?;
            }
            let folder = raw.cwd.as_ref().map(|folder| plain(folder, source)).transpose()?;
            let folder = folder.unwrap_or_default();
            let folder = match folder.strip_prefix(WORKDIR) {
                Some(below) => around.workdir.join(below.trim_start_matches('/')),
                None => around.folder.join(folder),
            };
            Ok(Link::Program(ProgramLink {
                argv,
                folder,
                env: secret(raw.env.as_ref(), source)?,
                environment: around.environment.to_vec(),
            }))
        }
        (None, Some(_)) if raw.args.is_some() => misplaced("args", "command"),
        (None, Some(_)) if raw.env.is_some() => misplaced("env", "command"),
        (None, Some(_)) if raw.cwd.is_some() => misplaced("cwd", "command"),
        (None, Some(url)) => {
            let headers = secret(raw.headers.as_ref(), source)?;
            let link = HttpLink::new(&plain(url, source)?, headers);
            let link = link.map_err(|why| source.wrong(url, format!("url: {why}")))?;
            let Some(client) = &raw.oauth else { return Ok(Link::Http(link)) };
            let secret =
                client.secret.as_ref().map(|secret| source.sent_text(secret)).transpose()?;
            Ok(Link::Http(link.with_client(OAuthClient {
                id: plain(&client.id, source)?,
                secret: secret.map(SecretString::from),
            })))
        }
    }
}

/// A text that is taken as it is: a secret in it would be shown to everybody who lists processes or
/// reads a message.
fn plain(text: &Text, source: &Source<'_>) -> Result<String, ConfigError> {
    if text.value.contains("${") {
        let why = "variables are replaced in `env`, `headers` and `clientSecret` only; this would \
                   show them";
        return Err(source.wrong(text, why));
    }
    Ok(text.value.clone())
}

fn secret(
    texts: Option<&BTreeMap<String, Text>>,
    source: &Source<'_>,
) -> Result<BTreeMap<String, SecretString>, ConfigError> {
    let texts = texts.into_iter().flatten();
    texts
        .map(|(name, text)| Ok((name.clone(), SecretString::from(source.sent_text(text)?))))
        .collect()
}

/// A list of effects, or an object with `effects` and `repeat`. What only reads may run again.
fn declared(value: &Value) -> Result<Declared, String> {
    const KEYS: [&str; 2] = ["effects", "repeat"];
    let (effects, repeat) = match value {
        Value::Object(fields) => {
            if let Some(key) = fields.keys().find(|key| !KEYS.contains(&key.as_str())) {
                return Err(format!("`{key}` is not known here{}", near(key, &KEYS)));
            }
            (fields.get("effects"), fields.get("repeat"))
        }
        list => (Some(list), None),
    };
    let effects = match effects {
        Some(Value::Array(names)) => {
            let known = |name: &Value| name.as_str().is_some_and(|n| Effects::NAMES.contains(&n));
            if let Some(name) = names.iter().find(|name| !known(name)) {
                let name = name.as_str().map_or(name.to_string(), str::to_owned);
                return Err(format!(
                    "no effect is called `{name}`{}",
                    near(&name, &Effects::NAMES)
                ));
            }
            // The names were looked at one by one for the sake of the error.
            Effects::deserialize(&Value::from(names.clone())).unwrap_or_default()
        }
        Some(_) => return Err("write a list of effects, as in [reads_private]".to_owned()),
        None => Effects::default(),
    };
    let default = if effects.only_reads() { Repeat::Pure } else { Repeat::Once };
    let repeat = match repeat {
        None => default,
        Some(word) => {
            let known = [Repeat::Pure, Repeat::Idempotent, Repeat::Keyed, Repeat::Once];
            let found = known.into_iter().find(|repeat| word.as_str() == Some(repeat.as_str()));
            found.ok_or_else(|| {
                let word = word.as_str().map_or(word.to_string(), str::to_owned);
                format!("repeat: `{word}` is not known{}", near(&word, &known.map(Repeat::as_str)))
            })?
        }
    };
    Ok(Declared { effects, repeat })
}

#[cfg(test)]
mod tests;
