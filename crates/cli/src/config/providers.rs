//! `providers` of `config.yaml`: servers of the person's own, and changes to the built-in ones.

use std::collections::BTreeMap;

use inspan_providers::{KeySource, Quirks, Server, Timeouts, Wire, built_in};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::{Map, Value};
use serde_saphyr::Spanned;

use super::{
    ConfigError, Millis, Positive, Scalar, Source, Text, Variables,
    quirks::{self, RawQuirks},
};

/// A provider as it stands in the file.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawProvider {
    like: Option<Text>,
    wire: Option<Text>,
    base_url: Option<Text>,
    key: Option<Text>,
    key_env: Option<Text>,
    timeouts: Option<RawTimeouts>,
    quirks: Option<RawQuirks>,
    extra: Option<Spanned<Map<String, Value>>>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawTimeouts {
    connect_max: Option<Scalar>,
    first_max: Option<Scalar>,
    silence_max: Option<Scalar>,
    whole_max: Option<Scalar>,
}

/// The built-in servers with the changes to them, and the person's own.
pub(super) fn servers(
    raw: Option<BTreeMap<String, Spanned<RawProvider>>>,
    source: &Source<'_>,
    variables: &Variables,
) -> Result<Vec<Server>, ConfigError> {
    let mut servers = built_in(&variables.lookup());
    for (name, raw) in raw.unwrap_or_default() {
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_.+".contains(c);
        if name.is_empty() || !name.chars().all(fits) {
            let why = format!("`{name}` can't name a provider: it is written in NAME://MODEL");
            return Err(source.wrong(&raw, why));
        }
        let at = servers.iter().position(|server| server.name == name);
        let server = server(name, &raw, at.map(|at| &servers[at]), source, variables)?;
        match at {
            Some(at) => servers[at] = server,
            None => servers.push(server),
        }
    }
    Ok(servers)
}

/// The keys of all servers, as far as they are set.
pub(super) fn keys(servers: &[Server]) -> impl Iterator<Item = String> {
    servers.iter().filter_map(|server| match &server.key {
        KeySource::Variable { name, lookup, .. } => lookup(name),
        KeySource::Fixed(key) => Some(key.expose_secret().to_owned()),
        KeySource::None => None,
    })
}

/// `base` is the built-in server of that name; one of the person's own must say what it speaks
/// and where it is, or which of the built-in ones it is like.
fn server(
    name: String,
    raw: &Spanned<RawProvider>,
    base: Option<&Server>,
    source: &Source<'_>,
    variables: &Variables,
) -> Result<Server, ConfigError> {
    let needed = |key: &str| source.wrong(raw, format!("the provider `{name}` needs `{key}`"));
    let like =
        raw.value.like.as_ref().map(|like| self::like(like, source, variables)).transpose()?;
    let base = like.as_ref().or(base);
    let base_url = match (&raw.value.base_url, base) {
        (Some(url), _) => source.sent_text(url)?,
        (None, Some(base)) => base.base_url.clone(),
        (None, None) => return Err(needed("base_url")),
    };
    let wire = match (&raw.value.wire, base) {
        (Some(wire), _) => {
            source.one_of("wire", wire, &Wire::ALL.map(|wire| (wire.name(), wire)))?
        }
        (None, Some(base)) => base.wire,
        (None, None) => return Err(needed("wire")),
    };
    let local = base_url.starts_with("http://");
    let timeouts = if local { Timeouts::LOCAL } else { Timeouts::REMOTE };
    let quirks = match base {
        // These two names stand for every server of their wire.
        Some(base)
            if base.wire == wire
                && !["anthropic", "openai", "openai-responses"].contains(&&*base.name) =>
        {
            base.quirks.clone()
        }
        _ => Quirks::at(wire, &base_url),
    };
    Ok(Server {
        wire,
        key: key(raw, base, local, source, variables)?,
        quirks: quirks::lower(raw.value.quirks.as_ref(), quirks, source)?,
        timeouts: self::timeouts(raw.value.timeouts.as_ref(), timeouts, source)?,
        extra: match &raw.value.extra {
            Some(extra) => source.object(extra)?,
            None => Map::new(),
        },
        name,
        base_url,
    })
}

/// The built-in server that this one is like. Where that is says nothing of where this one is.
fn like(like: &Text, source: &Source<'_>, variables: &Variables) -> Result<Server, ConfigError> {
    let servers = built_in(&variables.lookup());
    let known: Vec<(&str, usize)> =
        servers.iter().enumerate().map(|(at, server)| (server.name.as_str(), at)).collect();
    let at = source.one_of("like", like, &known)?;
    Ok(servers[at].clone())
}

fn key(
    raw: &Spanned<RawProvider>,
    base: Option<&Server>,
    local: bool,
    source: &Source<'_>,
    variables: &Variables,
) -> Result<KeySource, ConfigError> {
    match (&raw.value.key, &raw.value.key_env) {
        (Some(key), Some(_)) => {
            Err(source.wrong(key, "there are both `key` and `key_env`: keep one of them"))
        }
        (Some(key), None) => Ok(KeySource::Fixed(SecretString::from(source.text(key)?))),
        (None, Some(name)) => Ok(KeySource::Variable {
            name: source.text(name)?,
            lookup: variables.lookup(),
            needed: true,
        }),
        (None, None) => Ok(match base.map(|base| base.key.clone()) {
            Some(KeySource::Variable { name, lookup, .. }) => {
                KeySource::Variable { name, lookup, needed: !local }
            }
            other => other.unwrap_or(KeySource::None),
        }),
    }
}

fn timeouts(
    raw: Option<&RawTimeouts>,
    mut timeouts: Timeouts,
    source: &Source<'_>,
) -> Result<Timeouts, ConfigError> {
    let Some(raw) = raw else { return Ok(timeouts) };
    let set = |key: &str, scalar: &Option<Scalar>, limit: &mut u64| {
        let millis: Option<Positive<Millis>> = source.figure(key, scalar.as_ref())?;
        *limit = millis.map_or(*limit, |Positive(millis)| millis.0);
        Ok(())
    };
    set("connect_max", &raw.connect_max, &mut timeouts.connect_ms_max)?;
    set("first_max", &raw.first_max, &mut timeouts.first_ms_max)?;
    set("silence_max", &raw.silence_max, &mut timeouts.silence_ms_max)?;
    set("whole_max", &raw.whole_max, &mut timeouts.whole_ms_max)?;
    Ok(timeouts)
}
