//! The configured servers, and how a model's URL finds its own.

use std::sync::Arc;

use inspan_core::{provider::Provider, tool::ToolSpec};
use reqwest::Url;
use serde_json::{Map, Value};

use crate::{
    AnthropicMessages, OpenAiChat, OpenAiResponses,
    endpoint::Endpoint,
    key::{KeyError, KeySource, Lookup},
    limits::Timeouts,
    quirks::Quirks,
    raw::Raw,
    servers::{self, Known},
    told,
};

/// What a server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// Anthropic Messages: `POST {base}/v1/messages`.
    AnthropicMessages,
    /// OpenAI Chat Completions: `POST {base}/chat/completions`.
    OpenAiChat,
    /// OpenAI Responses, with nothing kept at the server: `POST {base}/responses`.
    OpenAiResponses,
}

impl Wire {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::AnthropicMessages, Self::OpenAiChat, Self::OpenAiResponses];

    /// Its name in `config.yaml`.
    pub fn name(self) -> &'static str {
        match self {
            Self::AnthropicMessages => "anthropic",
            Self::OpenAiChat => "openai",
            Self::OpenAiResponses => "responses",
        }
    }
}

/// A configured server.
#[derive(Clone, Debug)]
pub struct Server {
    /// The scheme of its models' URLs: `anthropic` in `anthropic://…`.
    pub name: String,
    /// What it speaks.
    pub wire: Wire,
    /// Where it is. Without a user or password: those are keys, and this is printed.
    pub base_url: String,
    /// Its key.
    pub key: KeySource,
    /// In what it differs.
    pub quirks: Quirks,
    /// Its time limits.
    pub timeouts: Timeouts,
    /// More fields of the request's body, such as `temperature`. Those that Inspan writes itself
    /// are refused.
    pub extra: Map<String, Value>,
}

/// Why a model can't be asked at all. Found before anything is sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// The model is not written as `SERVER://MODEL`.
    #[error("`{0}` is no model: write SERVER://MODEL, such as anthropic://claude-sonnet-5-5")]
    BadModel(String),
    /// No server has this name.
    #[error("no server is called `{name}`{}", near(.nearest.as_ref(), .known))]
    UnknownServer {
        /// The name.
        name: String,
        /// The name that was probably meant.
        nearest: Option<String>,
        /// The names that exist.
        known: Vec<String>,
    },
    /// The address of the server is none.
    #[error("the base URL of {server} can't be used: {why}")]
    BadUrl {
        /// The server.
        server: String,
        /// What is wrong with it.
        why: String,
    },
    /// There is no key to send.
    #[error("{server}: {why}")]
    Key {
        /// The server.
        server: String,
        /// What is wrong with it.
        why: KeyError,
    },
    /// A configured body field that Inspan writes itself.
    #[error("{server}: `{field}` can't be set, because Inspan writes it")]
    Reserved {
        /// The server.
        server: String,
        /// The field.
        field: String,
    },
}

fn near(nearest: Option<&String>, known: &[String]) -> String {
    let known = known.join(", ");
    match nearest {
        Some(name) => format!(". Did you mean `{name}`? Known are {known}"),
        None => format!("; known are {known}"),
    }
}

/// The servers that need no configuration, such as `anthropic`, `openai` and `ollama`: all that
/// are known. Their addresses are looked up now, their keys with each request: `NAME_BASE_URL` in
/// capitals says where else a server is, `OLLAMA_HOST` where Ollama is. A server on a plain
/// `http://` address, which is one of the person's own, need not have a key.
pub fn built_in(lookup: &Lookup) -> Vec<Server> {
    let set = |name: &str| lookup(name).map(|v| v.trim().to_owned()).filter(|v| !v.is_empty());
    let server = |known: &Known| {
        let name = known.name.trim_end_matches("-responses").to_uppercase();
        let variable = format!("{name}_BASE_URL");
        let base_url = match known.name {
            "ollama" => set("OLLAMA_HOST").map(|host| ollama_url(&host)),
            _ => set(&variable),
        };
        Server::known(known, base_url, lookup)
    };
    servers::KNOWN.iter().map(server).collect()
}

/// Where Ollama is, from `HOST`, `HOST:PORT` or a URL, as its own programs read `OLLAMA_HOST`.
/// An address to listen on everywhere is this machine for a client.
fn ollama_url(host: &str) -> String {
    let has_scheme = host.contains("://");
    let written = if has_scheme { host.to_owned() } else { format!("http://{host}") };
    let Ok(mut url) = Url::parse(&written) else { return written };
    if url.port().is_none() && !has_scheme {
        // The port of a URL without a host can't be set; that one is refused later.
        let _ = url.set_port(Some(11434));
    }
    if matches!(url.host_str(), Some("0.0.0.0" | "[::]")) {
        let _ = url.set_host(Some("127.0.0.1"));
    }
    format!("{}/v1", url.as_str().trim_end_matches('/').trim_end_matches("/v1"))
}

/// The provider of a model: `SERVER://MODEL`, where `SERVER` is the name of one of `servers`; of
/// two with one name the later counts. `raw` is shown what goes over the wire. Nothing is sent
/// and no key is read.
///
/// # Errors
/// The model or its server can't be asked; see [`ProviderError`].
pub fn connect(
    model: &str,
    servers: &[Server],
    raw: Option<Raw>,
) -> Result<Arc<dyn Provider>, ProviderError> {
    let (server, model) = Server::find(model, servers)?;
    match server.wire {
        Wire::AnthropicMessages => Ok(Arc::new(AnthropicMessages::new(server, model, raw)?)),
        Wire::OpenAiChat => Ok(Arc::new(OpenAiChat::new(server, model, raw)?)),
        Wire::OpenAiResponses => Ok(Arc::new(OpenAiResponses::new(server, model, raw)?)),
    }
}

impl Server {
    /// The tools that it can't be told of, each with the reason.
    pub fn unfit_tools(&self, tools: &[Arc<ToolSpec>]) -> Vec<(String, String)> {
        told::unfit_tools(tools, &self.quirks)
    }

    /// A server that is like the known one of this name, at its own address or another. `None` when
    /// none is known by it.
    pub fn like(name: &str, base_url: Option<String>, lookup: &Lookup) -> Option<Self> {
        servers::named(name).map(|known| Self::known(known, base_url, lookup))
    }

    fn known(known: &Known, base_url: Option<String>, lookup: &Lookup) -> Self {
        let quirks = match &base_url {
            // Every server of these wires is reached under their names, too.
            Some(url) if known.is_common() => Quirks::at(known.wire, url),
            _ => known.quirks.clone(),
        };
        let base_url = base_url.unwrap_or_else(|| known.base_url.to_owned());
        let is_local = base_url.starts_with("http://");
        Self {
            name: known.name.to_owned(),
            wire: known.wire,
            key: match known.key {
                "" => KeySource::None,
                name => KeySource::Variable {
                    name: name.to_owned(),
                    lookup: Arc::clone(lookup),
                    needed: !is_local,
                },
            },
            timeouts: if is_local { Timeouts::LOCAL } else { Timeouts::REMOTE },
            base_url,
            quirks,
            extra: Map::new(),
        }
    }

    /// The server of a model's URL, and the model's name there.
    ///
    /// # Errors
    /// The text is no such URL, or no server has the name.
    pub fn find<'a, 'b>(
        model: &'b str,
        servers: &'a [Self],
    ) -> Result<(&'a Self, &'b str), ProviderError> {
        let parts = model.split_once("://").map(|(name, model)| (name.trim(), model.trim()));
        let Some((name, model)) =
            parts.filter(|(name, model)| !name.is_empty() && !model.is_empty())
        else {
            return Err(ProviderError::BadModel(model.to_owned()));
        };
        match servers.iter().rfind(|server| server.name == name) {
            Some(server) => Ok((server, model)),
            None => Err(unknown(name, servers)),
        }
    }

    /// Whether there is a key to send, for a message before the first request.
    ///
    /// # Errors
    /// There is none; the error names the variable to set.
    pub fn check_key(&self) -> Result<(), ProviderError> {
        self.key.check().map_err(|why| ProviderError::Key { server: self.name.clone(), why })
    }

    /// The endpoint of a model at this server. `path` follows the base URL; `fields` are those
    /// that the wire writes.
    pub(crate) fn endpoint(
        &self,
        model: &str,
        path: &str,
        fields: &[&str],
        raw: Option<Raw>,
    ) -> Result<Arc<Endpoint>, ProviderError> {
        let bad = |why: &str| ProviderError::BadUrl { server: self.name.clone(), why: why.into() };
        if let Some(field) = self.extra.keys().find(|field| fields.contains(&field.as_str())) {
            return Err(ProviderError::Reserved {
                server: self.name.clone(),
                field: field.to_owned(),
            });
        }
        let base = self.base_url.trim().trim_end_matches('/');
        let url = Url::parse(base).map_err(|why| bad(&format!("`{base}`: {why}")))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(bad("it holds a user or password, which belong into the key"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(bad("it holds a `?` or `#`, but a path is to follow it"));
        }
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err(bad(&format!("`{base}` does not begin with http:// or https://")));
        }
        let url = Url::parse(&format!("{base}{path}")).map_err(|why| bad(&why.to_string()))?;
        let server = Self { base_url: base.to_owned(), ..self.clone() };
        Ok(Arc::new(Endpoint::new(server, model.to_owned(), url, raw)))
    }

    /// The additional fields of the body, sorted, each with its comma before it.
    pub(crate) fn extra_fields(&self) -> String {
        let mut fields: Vec<_> = self.extra.iter().collect();
        fields.sort_unstable_by_key(|(name, _)| name.as_str());
        let field =
            |(name, value): &(&String, &Value)| format!(",{}:{value}", Value::from(name.as_str()));
        fields.iter().map(field).collect()
    }
}

fn unknown(name: &str, servers: &[Server]) -> ProviderError {
    let mut known: Vec<String> = servers.iter().map(|server| server.name.clone()).collect();
    known.sort_unstable();
    known.dedup();
    let nearest = known
        .iter()
        .map(|other| (strsim::damerau_levenshtein(name, other), other))
        .min()
        .filter(|(distance, other)| *distance <= other.chars().count() / 2)
        .map(|(_, other)| other.clone());
    ProviderError::UnknownServer { name: name.to_owned(), nearest, known }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn lookup(variables: &[(&str, &str)]) -> Lookup {
        let variables: Vec<(String, String)> =
            variables.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Arc::new(move |name| {
            variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
        })
    }

    fn failed(model: &str, servers: &[Server]) -> String {
        match connect(model, servers, None) {
            Ok(provider) => format!("no error but {}", provider.issuer()),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn issuers_name_model_and_address() {
        let servers = built_in(&lookup(&[
            ("ANTHROPIC_BASE_URL", "http://localhost:8080/v1/ "),
            ("OPENAI_BASE_URL", " "),
        ]));
        let table = [
            ("anthropic://a", "anthropic://a at http://localhost:8080/v1"),
            ("openai://a", "openai://a at https://api.openai.com/v1"),
            ("ollama://org/a:7b", "ollama://org/a:7b at http://localhost:11434/v1"),
        ];
        for (model, issuer) in table {
            let provider = connect(model, &servers, None).expect("a provider");
            assert_eq!(provider.issuer(), issuer);
        }
    }

    #[test]
    fn models_that_cant_be_asked_are_told() {
        let servers = built_in(&lookup(&[]));
        let known = "anthropic, dashscope, deepseek, llamacpp, lmstudio, mistral, moonshot, \
                     ollama, openai, openai-responses, openrouter, vllm";
        let not_written = |m| {
            format!(
                "`{m}` is no model: write SERVER://MODEL, such as anthropic://claude-sonnet-5-5"
            )
        };
        let table = [
            ("claude", not_written("claude")),
            ("anthropic://", not_written("anthropic://")),
            ("://x", not_written("://x")),
            (
                "antropic://x",
                format!(
                    "no server is called `antropic`. Did you mean `anthropic`? Known are {known}"
                ),
            ),
            ("zzzzzzzz://x", format!("no server is called `zzzzzzzz`; known are {known}")),
        ];
        for (model, message) in table {
            assert_eq!(failed(model, &servers), message);
        }
    }

    #[test]
    fn servers_that_cant_be_asked_are_told() {
        type Change = fn(&mut Server);
        let with = |change: Change| {
            let mut server = built_in(&lookup(&[])).remove(1);
            change(&mut server);
            failed("openai://m", &[server])
        };
        let table: [(Change, &str); 6] = [
            (
                |s| s.base_url = "https://here/v1?key=secret".into(),
                "the base URL of openai can't be used: it holds a `?` or `#`, but a path is to \
                 follow it",
            ),
            (
                |s| s.base_url = "localhost:1".into(),
                "the base URL of openai can't be used: `localhost:1` does not begin with http:// \
                 or https://",
            ),
            (
                |s| s.base_url = "here".into(),
                "the base URL of openai can't be used: `here`: relative URL without a base",
            ),
            (
                |s| s.base_url = "https://me:secret@here".into(),
                "the base URL of openai can't be used: it holds a user or password, which belong \
                 into the key",
            ),
            (
                |s| drop(s.extra.insert("messages".into(), Value::Null)),
                "openai: `messages` can't be set, because Inspan writes it",
            ),
            (
                |s| drop(s.extra.insert("max_tokens".into(), 1.into())),
                "openai: `max_tokens` can't be set, because Inspan writes it",
            ),
        ];
        for (change, message) in table {
            assert_eq!(with(change), message);
        }
    }

    #[test]
    fn keys_are_needed_only_on_the_network() {
        let checked = |variables: &[(&str, &str)]| {
            let mut servers = built_in(&lookup(variables));
            servers.retain(|server| server.name != "openai-responses");
            servers.truncate(4);
            servers
                .iter()
                .map(|s| s.check_key().err().map(|e| e.to_string()).unwrap_or_default())
                .collect::<Vec<_>>()
        };
        let missing = [
            "anthropic: no key: set ANTHROPIC_API_KEY",
            "openai: no key: set OPENAI_API_KEY",
            "",
            "",
        ];
        assert_eq!(checked(&[]), missing);
        let urls = [
            ("ANTHROPIC_BASE_URL", "http://127.0.0.1:1"),
            ("OPENAI_BASE_URL", "https://x/v1"),
            ("LLAMACPP_BASE_URL", "https://y/v1"),
        ];
        assert_eq!(checked(&urls), ["", missing[1], "", "llamacpp: no key: set LLAMA_API_KEY"]);
        let keys = [("ANTHROPIC_API_KEY", "sk-a\n"), ("OPENAI_API_KEY", "sk-\nb")];
        let bad = "openai: the key in OPENAI_API_KEY has characters that can't be sent; it may \
             have been pasted badly";
        assert_eq!(checked(&keys), ["", bad, "", ""]);
    }

    #[test]
    fn the_two_common_names_have_the_quirks_of_their_address() {
        let table = [
            ("openai", "", "openai"),
            ("openai", "https://api.deepseek.com/v1", "deepseek"),
            ("openai", "http://localhost:11434/v1", "ollama"),
            ("openai", "https://here/v1", ""),
            ("anthropic", "", "anthropic"),
            ("anthropic", "https://api.moonshot.ai/anthropic", ""),
            ("deepseek", "https://here/v1", "deepseek"),
        ];
        for (name, url, like) in table {
            let url = Some(url.to_owned()).filter(|url| !url.is_empty());
            let server = Server::like(name, url, &lookup(&[])).expect("a known server");
            let quirks =
                servers::named(like).map_or(Quirks::COMPATIBLE, |known| known.quirks.clone());
            assert_eq!((&*server.name, server.quirks), (name, quirks), "{like}");
        }
        assert!(Server::like("nowhere", None, &lookup(&[])).is_none());
    }

    #[test]
    fn ollama_hosts() {
        let table = [
            ("localhost", "http://localhost:11434/v1"),
            ("0.0.0.0", "http://127.0.0.1:11434/v1"),
            ("10.0.0.5:8000", "http://10.0.0.5:8000/v1"),
            ("[::]:8000", "http://127.0.0.1:8000/v1"),
            ("https://ollama.here", "https://ollama.here/v1"),
            ("http://ollama.here:80/v1/", "http://ollama.here/v1"),
        ];
        for (host, url) in table {
            assert_eq!(ollama_url(host), url);
        }
    }
}
