//! What is configured of a server.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use inspan_core::{
    effects::{Effects, Repeat},
    hash::Hash,
};
use reqwest::{
    Url,
    header::{HeaderName, HeaderValue},
};
use secrecy::{ExposeSecret, SecretString};

/// The name in [`ServerConfig::effects`] and [`ServerConfig::ask`] that stands for every tool without a word of its own.
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
    /// Why a person is asked before a call of one of its tools, by their names; `*` stands for all
    /// others.
    pub ask: BTreeMap<String, String>,
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
    url: String,
    headers: BTreeMap<String, SecretString>,
    client: Option<OAuthClient>,
}

/// What a server's people gave out for logins at it, where it takes nobody else's.
#[derive(Clone)]
pub struct OAuthClient {
    /// Its identifier.
    pub id: String,
    /// Its secret, if it has one.
    pub secret: Option<SecretString>,
}

impl HttpLink {
    /// The server at `url`, to which `headers` are sent with every request. A login in the address
    /// becomes a header, so that no message that names the address tells it.
    ///
    /// # Errors
    /// The address is none of `http://` or `https://`, or a header can't be sent. Names no value.
    pub fn new(url: &str, headers: BTreeMap<String, SecretString>) -> Result<Self, String> {
        let mut headers = headers;
        let mut address =
            Url::parse(url).map_err(|error| format!("this is no address of a server: {error}"))?;
        if !["http", "https"].contains(&address.scheme()) {
            return Err("an address of a server begins with https:// or http://".to_owned());
        }
        if !address.username().is_empty() || address.password().is_some() {
            let (name, password) = (address.username(), address.password().unwrap_or_default());
            let login = STANDARD.encode(format!("{}:{}", decoded(name), decoded(password)));
            let header = || SecretString::from(format!("Basic {login}"));
            headers.entry("authorization".to_owned()).or_insert_with(header);
            // It fails only for addresses that have no login.
            let _ = address.set_username("").and_then(|()| address.set_password(None));
        }
        for (name, value) in &headers {
            HeaderName::try_from(name).map_err(|_| format!("`{name}` can't name a header"))?;
            HeaderValue::try_from(value.expose_secret())
                .map_err(|_| format!("the value of the header `{name}` can't be sent"))?;
        }
        Ok(Self { url: address.into(), headers, client: None })
    }

    /// The same with a client for logins.
    pub fn with_client(self, client: OAuthClient) -> Self {
        Self { client: Some(client), ..self }
    }

    /// The client for logins.
    pub fn client(&self) -> Option<&OAuthClient> {
        self.client.as_ref()
    }

    /// Its address, without a login.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What is sent with every request; may be secrets.
    pub fn headers(&self) -> &BTreeMap<String, SecretString> {
        &self.headers
    }
}

/// A part of an address with its percent signs read.
fn decoded(part: &str) -> String {
    let byte = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
    let mut bytes = Vec::new();
    let mut rest = part.as_bytes();
    while let [first, tail @ ..] = rest {
        let escaped = tail.get(..2).filter(|_| *first == b'%').and_then(byte);
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
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

    /// Why a person is asked before each call of the tool, if that is so.
    pub(crate) fn asked(&self, tool: &str) -> Option<&str> {
        self.ask.get(tool).or_else(|| self.ask.get(EVERY_TOOL)).map(String::as_str)
    }

    /// Whether the tool is offered.
    pub(crate) fn offers(&self, tool: &str) -> bool {
        let is_in = |names: &[String]| names.iter().any(|name| name == tool);
        self.include.as_deref().is_none_or(is_in) && !is_in(&self.exclude)
    }

    /// The same for all configurations by which a person means the same server, wherever it runs and
    /// whatever its variables are.
    pub fn identity(&self) -> Hash {
        let mut parts: Vec<&[u8]> = vec![self.name.as_bytes()];
        match &self.link {
            Link::Program(program) => parts.extend(program.argv.iter().map(String::as_bytes)),
            Link::Http(http) => parts.push(http.url.as_bytes()),
        }
        Hash::of(&parts)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_in_an_address_is_a_header_and_in_no_message() {
        let sent = |url: &str| {
            let link = HttpLink::new(url, BTreeMap::new()).unwrap();
            let headers = link.headers().iter();
            let headers: Vec<_> =
                headers.map(|(name, value)| format!("{name}: {}", value.expose_secret())).collect();
            (link.url().to_owned(), headers)
        };
        let plain = ("https://host/mcp?a=b".to_owned(), Vec::new());
        assert_eq!(sent("https://host/mcp?a=b"), plain);
        let login = |text: &str| vec![format!("authorization: Basic {}", STANDARD.encode(text))];
        let url = "https://me:s3cret%21@host/mcp";
        assert_eq!(sent(url), ("https://host/mcp".to_owned(), login("me:s3cret!")));
        let link = HttpLink::new(url, BTreeMap::new()).unwrap();
        let shown = r#"HttpLink { url: "https://host/mcp", headers: ["authorization"] }"#;
        assert_eq!(format!("{link:?}"), shown);
    }

    #[test]
    fn what_can_not_be_sent_is_told_without_its_value() {
        let error = |url: &str, name: &str, value: &str| {
            let headers = BTreeMap::from([(name.to_owned(), SecretString::from(value))]);
            HttpLink::new(url, headers).unwrap_err()
        };
        let table = [
            (
                error("host/mcp", "a", "b"),
                "this is no address of a server: relative URL without a base",
            ),
            (
                error("file:///x", "a", "b"),
                "an address of a server begins with https:// or http://",
            ),
            (error("https://x", "a b", "c"), "`a b` can't name a header"),
            (error("https://x", "a", "s3\ncret"), "the value of the header `a` can't be sent"),
        ];
        for (error, expected) in table {
            assert_eq!(error, expected);
        }
    }
}
