//! A server on the network: the HTTP client, which follows no redirect to another place.

use std::{collections::HashMap, time::Duration};

use reqwest::{
    Client,
    header::{HeaderName, HeaderValue},
    redirect,
};
use rmcp::transport::{
    StreamableHttpClientTransport, streamable_http_client::StreamableHttpClientTransportConfig,
};
use rustls::crypto::CryptoProvider;
use secrecy::ExposeSecret;

use crate::config::HttpLink;

/// Time for connecting to a server, in milliseconds.
const CONNECT_MS_MAX: u64 = 10_000;
/// Redirects of one request, all within the same server.
const REDIRECTS_MAX: usize = 5;

/// The way to the server. Nothing is sent yet.
pub(crate) fn transport(link: &HttpLink) -> Result<StreamableHttpClientTransport<Client>, String> {
    let mut headers = HashMap::new();
    for (name, value) in link.headers() {
        let parsed = HeaderName::try_from(name).map_err(|_| format!("`{name}` is no header"))?;
        let mut value = HeaderValue::try_from(value.expose_secret())
            .map_err(|_| format!("the value of the header `{name}` can't be sent"))?;
        value.set_sensitive(true);
        headers.insert(parsed, value);
    }
    let config = StreamableHttpClientTransportConfig::with_uri(link.url());
    let config = config.custom_headers(headers);
    Ok(StreamableHttpClientTransport::with_client(client()?, config))
}

fn client() -> Result<Client, String> {
    if CryptoProvider::get_default().is_none() {
        // Losing a race here means that the other one installed it.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
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
