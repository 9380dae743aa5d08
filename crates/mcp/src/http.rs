//! A server on the network: the HTTP client, which follows no redirect to another place.

use std::{collections::HashMap, error::Error, path::Path, time::Duration};

use reqwest::{
    Client,
    header::{AUTHORIZATION, HeaderName, HeaderValue},
    redirect,
};
use rmcp::transport::{
    StreamableHttpClientTransport,
    streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError},
};
use rustls::crypto::CryptoProvider;
use secrecy::ExposeSecret;

use crate::{authorized::Authorized, config::HttpLink, login::Login};

/// Time for connecting to a server, in milliseconds.
const CONNECT_MS_MAX: u64 = 10_000;
/// Redirects of one request, all within the same server.
const REDIRECTS_MAX: usize = 5;

/// The way to the server, with the login that is kept for it. Nothing is asked of it yet.
pub(crate) async fn transport(
    link: &HttpLink,
    logins: Option<&Path>,
) -> Result<StreamableHttpClientTransport<Authorized>, String> {
    let mut headers = HashMap::new();
    for (name, value) in link.headers() {
        let parsed = HeaderName::try_from(name).map_err(|_| format!("`{name}` is no header"))?;
        let mut value = HeaderValue::try_from(value.expose_secret())
            .map_err(|_| format!("the value of the header `{name}` can't be sent"))?;
        value.set_sensitive(true);
        headers.insert(parsed, value);
    }
    // Who names a key means that one.
    let has_key = headers.contains_key(&AUTHORIZATION);
    let login = Login::of(logins.filter(|_| !has_key), link);
    let client = Authorized::new(plain_client()?, login.manager(link).await?);
    let config = StreamableHttpClientTransportConfig::with_uri(link.url());
    let config = config.custom_headers(headers);
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

/// The one TLS library of the workspace.
pub(crate) fn crypto() {
    if CryptoProvider::get_default().is_none() {
        // Losing a race here means that the other one installed it.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}

/// A client that knows no login.
pub(crate) fn plain_client() -> Result<Client, String> {
    crypto();
    Client::builder()
        .user_agent(concat!("inspan/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(Duration::from_millis(CONNECT_MS_MAX))
        .http1_only()
        // Only the caller says where requests go, not a variable of the environment.
        .no_proxy()
        .redirect(redirect::Policy::custom(follow))
        .build()
        .map_err(|error| format!("no HTTP client can be made: {error}"))
}

/// What is sent to one host, with its keys, is no business of another.
fn follow(attempt: redirect::Attempt<'_>) -> redirect::Action {
    let [first, ..] = attempt.previous() else { return attempt.stop() };
    if first.origin() != attempt.url().origin() {
        let to = attempt.url().host_str().unwrap_or_default().to_owned();
        return attempt.error(format!("it redirects to another place, {to}, which is refused"));
    }
    if attempt.previous().len() > REDIRECTS_MAX {
        return attempt.error(format!("it redirects more than {REDIRECTS_MAX} times"));
    }
    attempt.follow()
}

/// The rights that a server misses in the login that was sent, separated by spaces.
pub(crate) fn rights_wanted(error: &(dyn Error + 'static)) -> Option<String> {
    match error.downcast_ref() {
        Some(StreamableHttpError::<reqwest::Error>::InsufficientScope(error)) => {
            Some(error.required_scope.clone().unwrap_or_default())
        }
        _ => None,
    }
}
