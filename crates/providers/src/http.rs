//! The HTTP client of one server. Nothing of TLS is built for `http://`.

use std::{sync::OnceLock, time::Duration};

use reqwest::{Client, redirect};
use rustls::{ClientConfig, RootCertStore, crypto::CryptoProvider};

use crate::failure::Failure;
use inspan_core::provider::ErrorClass;

/// Connections that are kept for the next request. Each holds some 35 kB of buffers; sessions that
/// run tools or wait for a prompt need none.
const CONNECTIONS_IDLE_MAX: usize = 32;

/// A client that is built when the first request is sent.
pub(crate) struct Http {
    client: OnceLock<Result<Client, Failure>>,
    https: bool,
    connect_ms_max: u64,
}

impl Http {
    pub(crate) fn new(https: bool, connect_ms_max: u64) -> Self {
        Self { client: OnceLock::new(), https, connect_ms_max }
    }

    /// The client. Its connections live as long as this value.
    pub(crate) fn client(&self) -> Result<&Client, Failure> {
        self.client.get_or_init(|| self.build()).as_ref().map_err(Clone::clone)
    }

    fn build(&self) -> Result<Client, Failure> {
        let failed = |what: String| Failure::new(ErrorClass::BadRequest, what);
        let provider = rustls::crypto::ring::default_provider();
        let client = Client::builder()
            .user_agent(concat!("inspan/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(Duration::from_millis(self.connect_ms_max))
            .pool_max_idle_per_host(CONNECTIONS_IDLE_MAX)
            // Whatever else a program is built with changes nothing here.
            .http1_only()
            // Only the caller says where requests go, not a variable of the environment.
            .no_proxy()
            // The key of one host is no business of another.
            .redirect(redirect::Policy::none());
        let client = if self.https {
            if CryptoProvider::get_default().is_none() {
                // Losing a race here means that the other one installed it.
                let _ = provider.install_default();
            }
            client.https_only(true)
        } else {
            // The client wants some configuration of TLS. This one has no certificates, so none
            // are read from disk, and it is never used.
            let unused = ClientConfig::builder_with_provider(provider.into())
                .with_safe_default_protocol_versions()
                .map_err(|error| failed(format!("can't be asked: {error}")))?
                .with_root_certificates(RootCertStore::empty())
                .with_no_client_auth();
            client.tls_backend_preconfigured(unused)
        };
        client.build().map_err(Failure::of_transport)
    }
}
