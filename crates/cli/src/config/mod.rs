//! The person's own configuration: `config.yaml` and `.env` in the home folder of Inspan.
//!
//! Both may be missing. What they say is checked as a whole before anything starts; an error
//! names the file, the line and what to write instead. Agents are folders of their own: see
//! [`crate::agent`].

mod blobs;
mod error;
mod figure;
mod limits;
mod mcp;
mod models;
mod providers;
mod quirks;
mod source;
mod substitute;
mod variables;

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
};

use inspan_core::mask::Mask;
use inspan_mcp::ServerConfig;
use inspan_providers::{ProviderError, Server, built_in};
use inspan_store::S3Place;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_saphyr::Spanned;

pub(crate) use error::{ConfigError, Place};
pub(crate) use figure::{Ceiling, Figure, Millis, Positive, Usd};
pub(crate) use limits::{LimitsPatch, RawLimits};
pub(crate) use mcp::{Around, RawMcpServers, lower as lower_mcp, secrets as mcp_secrets};
pub(crate) use models::{ModelFacts, RawModels, lower as lower_models};
pub(crate) use source::{Scalar, Source, Text, near};
pub(crate) use variables::Variables;

use blobs::RawBlobs;
use providers::RawProvider;

/// What the person configured.
#[derive(Debug)]
pub(crate) struct Config {
    /// The model where neither a flag nor the agent names one.
    pub model: Option<String>,
    /// Where the sessions are, if not in the home folder.
    pub database: Option<Database>,
    /// The built-in servers, with what was configured for them, and the person's own.
    pub servers: Vec<Server>,
    /// What is known of models, by their URL.
    pub models: BTreeMap<String, ModelFacts>,
    /// Limits that differ from the defaults.
    pub limits: LimitsPatch,
    /// Tokens of all tools, from which on those of servers are found and not told.
    pub tools_tokens_max: Option<Ceiling<u64>>,
    /// The bucket for blobs, in place of a folder.
    pub blobs: Option<S3Place>,
    /// No other database names what is in that bucket: what none of these sessions names may go.
    pub sweeps_bucket: bool,
    /// Servers of tools for every agent. The folders of programs are relative to the session's
    /// working directory.
    pub mcp: Vec<ServerConfig>,
    /// The environment, and `.env` behind it.
    pub variables: Variables,
    /// Takes every known secret out of a text.
    pub mask: Mask,
    secrets: Vec<SecretString>,
}

/// Where the sessions are.
#[derive(Debug)]
pub(crate) enum Database {
    /// A Postgres database; the URL may hold a password.
    Postgres(SecretString),
    /// A file of SQLite, relative to the home folder.
    Sqlite(PathBuf),
}

impl Config {
    /// Reads the configuration in the folder `home`. `environment` is that of the process.
    ///
    /// # Errors
    /// A file can't be read, is open to others, or says something that makes no sense; see
    /// [`ConfigError`].
    pub(crate) fn load(
        home: &Path,
        environment: Vec<(OsString, OsString)>,
    ) -> Result<Self, ConfigError> {
        let variables = Variables::load(environment, &home.join(".env"))?;
        let source = Source::new(home.join("config.yaml"), Some(&variables));
        let raw: RawConfig = source.parse_if_there()?;

        let servers = providers::servers(raw.providers, &source, &variables)?;
        let sweeps_bucket = raw.blobs.as_ref().is_some_and(|raw| raw.value.sweeps());
        let blobs = blobs::place(raw.blobs, &source, &variables)?;
        let keys = providers::keys(&servers).chain(blobs::keys(blobs.as_ref()));
        let database = match &raw.database {
            Some(written) => Some((source.text(written)?, written)),
            None => None,
        };
        let password = database.as_ref().and_then(|(url, _)| password_in(url)).map(str::to_owned);
        let around = Around {
            source: &source,
            folder: Path::new(""),
            workdir: Path::new(""),
            environment: variables.environment(),
            must_be_there: false,
        };
        let mcp = lower_mcp(raw.mcp_servers, &around)?;
        let secrets = variables.secrets().chain(keys).chain(source.taken_in()).chain(password);
        let secrets: Vec<String> = secrets.chain(mcp_secrets(&mcp)).collect();
        let mask = Mask::new(secrets.iter().cloned());
        Ok(Self {
            database: database
                .map(|(database, written)| {
                    self::database(database, &variables)
                        .map_err(|why| source.wrong(written, format!("database: {why}")))
                })
                .transpose()?,
            model: raw.model.map(|model| self::model(&model, &source, &servers)).transpose()?,
            models: lower_models(raw.models, &source, &servers)?,
            limits: raw.limits.unwrap_or_default().lower(&source)?,
            tools_tokens_max: source.ceiling("tools_tokens_max", raw.tools_tokens_max.as_ref())?,
            servers,
            blobs,
            sweeps_bucket,
            mcp,
            mask,
            secrets: secrets.into_iter().map(SecretString::from).collect(),
            variables,
        })
    }

    /// [`Config::mask`], which takes out these secrets, too.
    pub(crate) fn mask_with(&self, more: Vec<String>) -> Mask {
        if more.is_empty() {
            return self.mask.clone();
        }
        let known = self.secrets.iter().map(|secret| secret.expose_secret().to_owned());
        Mask::new(known.chain(more))
    }

    /// Takes one more secret out of everything from here on.
    pub(crate) fn mask_too(&mut self, secret: String) {
        self.mask = self.mask_with(vec![secret.clone()]);
        self.secrets.push(SecretString::from(secret));
    }
}

/// A mask for what is known without `config.yaml`: the variables of `.env` in the folder `home` and
/// the keys of the built-in servers. Shapes only where `.env` can't be read.
pub(crate) fn env_file_mask(home: &Path, environment: Vec<(OsString, OsString)>) -> Mask {
    let Ok(variables) = Variables::load(environment, &home.join(".env")) else {
        return Mask::default();
    };
    let servers = built_in(&variables.lookup());
    Mask::new(variables.secrets().chain(providers::keys(&servers)))
}

/// Errors name no URL: it may hold a password.
fn database(written: String, variables: &Variables) -> Result<Database, String> {
    if ["postgres://", "postgresql://"].iter().any(|way| written.starts_with(way)) {
        return Ok(Database::Postgres(SecretString::from(written)));
    }
    if let Some((scheme, _)) = written.split_once("://") {
        return Err(format!(
            "`{scheme}://` is no database of Inspan: write postgres://USER:PASSWORD@HOST/DATABASE, \
             or the path of a file for SQLite"
        ));
    }
    match (written.strip_prefix("~/"), variables.get("HOME").filter(|home| !home.is_empty())) {
        (Some(rest), Some(home)) => Ok(Database::Sqlite(PathBuf::from(home).join(rest))),
        (Some(_), None) => Err("`~` is the home folder, and HOME is not set".to_owned()),
        (None, _) if written.starts_with('~') => {
            Err("`~` stands only before a `/`: write the whole path".to_owned())
        }
        (None, _) => Ok(Database::Sqlite(PathBuf::from(written))),
    }
}

/// The password in the URL of a database.
fn password_in(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let (login, _) = rest.split(['/', '?']).next()?.rsplit_once('@')?;
    Some(login.split_once(':')?.1).filter(|password| !password.is_empty())
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawConfig {
    model: Option<Text>,
    database: Option<Text>,
    providers: Option<BTreeMap<String, Spanned<RawProvider>>>,
    models: Option<RawModels>,
    limits: Option<RawLimits>,
    tools_tokens_max: Option<Scalar>,
    blobs: Option<Spanned<RawBlobs>>,
    /// The name that other programs have for it.
    #[serde(rename = "mcpServers")]
    mcp_servers: Option<RawMcpServers>,
}

/// Refuses a model without a server. `written` is the model as it stands in the file.
fn check(model: &str, written: &str, servers: &[Server]) -> Result<(), String> {
    match Server::find(model, servers) {
        Ok(_) => Ok(()),
        Err(ProviderError::UnknownServer { name, .. }) => {
            let known: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
            let hint = near(&name, &known);
            Err(format!("`{written}` is a model of no known server{hint}"))
        }
        Err(_) => Err(format!("`{written}` is no model: write SERVER://MODEL")),
    }
}

fn model(text: &Text, source: &Source<'_>, servers: &[Server]) -> Result<String, ConfigError> {
    let model = source.text(text)?;
    check(&model, &text.value, servers)
        .map_err(|why| source.wrong(text, format!("model: {why}")))?;
    Ok(model)
}

#[cfg(test)]
mod tests;
