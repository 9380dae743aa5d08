//! Blobs in a store that speaks the protocol of S3, named as in a folder: `PREFIX/ab/ab12…`.

use std::{fmt, sync::Arc, time::Duration};

use futures_util::TryStreamExt;
use inspan_core::{
    blobs::{BLOB_AGE_MS_MIN, Blobs},
    gate::BoxFuture,
    hash::Hash,
    store::StoreError,
};
use object_store::{
    BackoffConfig, ClientOptions, Error, ObjectStore, ObjectStoreExt, PutMode, PutPayload,
    RetryConfig,
    aws::{AmazonS3, AmazonS3Builder},
    client::{HttpClient, HttpConnector},
    path::Path,
};
use reqwest::redirect;
use rustls::{ClientConfig, RootCertStore, crypto::CryptoProvider};
use secrecy::{ExposeSecret, SecretString};

use super::{sealed, shelf_of, unsealed};

/// How long it may take to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long one request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Further attempts of a request that failed in passing.
const RETRIES_MAX: usize = 2;
/// How long after its first attempt a request is not tried again.
const RETRY_TIMEOUT: Duration = Duration::from_secs(10);

/// Where a bucket is, and who asks.
#[derive(Clone, Debug)]
pub struct S3Place {
    /// The bucket.
    pub bucket: String,
    /// What the names of all blobs begin with; empty for nothing.
    pub prefix: String,
    /// The address of the server; `None` for that of Amazon in the region.
    pub endpoint: Option<String>,
    /// The region; servers of one's own mostly take any.
    pub region: String,
    /// The identifier of the key.
    pub access_key: String,
    /// The key.
    pub secret_key: SecretString,
    /// What belongs to keys that are lent for a time.
    pub session_token: Option<SecretString>,
}

impl S3Place {
    /// The bucket and what names begin with in `s3://BUCKET` or `s3://BUCKET/PREFIX`; `None` for
    /// any other text.
    pub fn bucket_and_prefix(url: &str) -> Option<(&str, &str)> {
        let rest = url.strip_prefix("s3://")?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let in_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-_".contains(c);
        let is_bucket = (3..=63).contains(&bucket.len()) && bucket.chars().all(in_name);
        let prefix = prefix.trim_matches('/');
        (is_bucket && Path::parse(prefix).is_ok()).then_some((bucket, prefix))
    }
}

/// Blobs in a bucket. Clones share its connections. Must be used inside a tokio runtime.
#[derive(Clone)]
pub struct S3 {
    /// For messages.
    url: Arc<str>,
    prefix: Path,
    store: Arc<AmazonS3>,
}

impl S3 {
    /// The blobs at `place`. Nothing is asked yet.
    ///
    /// # Errors
    /// The address or the prefix is none.
    pub fn new(place: &S3Place) -> Result<Self, StoreError> {
        let url = match place.prefix.as_str() {
            "" => format!("s3://{}", place.bucket),
            prefix => format!("s3://{}/{prefix}", place.bucket),
        };
        let wrong = |why: String| StoreError::Other { what: url.clone(), why };
        let endpoint = place.endpoint.as_deref().unwrap_or("https://");
        let retry = RetryConfig {
            backoff: BackoffConfig::default(),
            max_retries: RETRIES_MAX,
            retry_timeout: RETRY_TIMEOUT,
        };
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(&place.bucket)
            .with_region(&place.region)
            .with_access_key_id(&place.access_key)
            .with_secret_access_key(place.secret_key.expose_secret())
            .with_allow_http(true)
            .with_retry(retry)
            .with_http_connector(Connector { https: !endpoint.starts_with("http://") });
        if let Some(endpoint) = &place.endpoint {
            builder = builder.with_endpoint(endpoint);
        }
        if let Some(token) = &place.session_token {
            builder = builder.with_token(token.expose_secret());
        }
        Ok(Self {
            prefix: Path::parse(&place.prefix).map_err(|error| wrong(error.to_string()))?,
            store: Arc::new(builder.build().map_err(|error| wrong(error.to_string()))?),
            url: url.clone().into(),
        })
    }

    fn path_of(&self, hash: &Hash) -> Path {
        self.prefix.clone().join(shelf_of(hash)).join(hash.to_string())
    }

    /// The folder of what was made of a blob.
    fn derived_of(&self, hash: &Hash) -> Path {
        self.prefix.clone().join(shelf_of(hash)).join(format!("{hash}.d"))
    }

    fn fault(&self, during: &str, error: &Error) -> StoreError {
        StoreError::Other { what: format!("{during} {}", self.url), why: error.to_string() }
    }

    async fn put(&self, bytes: Arc<[u8]>) -> Result<Hash, StoreError> {
        let hash = Hash::of_bytes(&bytes);
        let (path, payload) = (self.path_of(&hash), PutPayload::from(bytes.to_vec()));
        let failed = |error| self.fault("writing to", &error);
        match self.store.put_opts(&path, payload.clone(), PutMode::Create.into()).await {
            Ok(_) => return Ok(hash),
            Err(Error::AlreadyExists { .. }) => {
                let found = self.store.head(&path).await.map_err(failed)?;
                let is_whole = found.size == bytes.len() as u64;
                let age_ms = now_ms().saturating_sub(found.last_modified.timestamp_millis());
                // Well before a sweep may remove it, it is made new.
                if is_whole && age_ms < BLOB_AGE_MS_MIN.cast_signed() / 2 {
                    return Ok(hash);
                }
            }
            // A server that knows no conditions; the bytes of a name are always the same.
            Err(Error::NotImplemented { .. } | Error::Precondition { .. }) => {}
            Err(error) => return Err(failed(error)),
        }
        self.store.put(&path, payload).await.map_err(failed)?;
        Ok(hash)
    }

    async fn read(&self, path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
        let failed = |error| self.fault("reading from", &error);
        match self.store.get(path).await {
            Ok(found) => Ok(Some(found.bytes().await.map_err(failed)?.into())),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    async fn get(&self, hash: &Hash) -> Result<Option<Arc<[u8]>>, StoreError> {
        let path = self.path_of(hash);
        match self.read(&path).await? {
            Some(bytes) if Hash::of_bytes(&bytes) == *hash => Ok(Some(bytes.into())),
            Some(_) => {
                let name = path.prefix_match(&self.prefix).map(Path::from_iter).unwrap_or_default();
                Err(StoreError::BlobDamaged { what: format!("{}/{name}", self.url) })
            }
            None => Ok(None),
        }
    }

    async fn old(
        &self,
        after: &Hash,
        before_ms: i64,
        count_max: usize,
    ) -> Result<Vec<Hash>, StoreError> {
        let mut found = Vec::new();
        let mut names = self.store.list_with_offset(Some(&self.prefix), &self.path_of(after));
        while found.len() < count_max {
            let next = names.try_next().await.map_err(|error| self.fault("listing", &error))?;
            let Some(meta) = next else { break };
            let hash = meta.location.filename().and_then(Hash::parse);
            let is_old = meta.last_modified.timestamp_millis() < before_ms;
            found.extend(hash.filter(|hash| is_old && hash > after));
        }
        Ok(found)
    }

    async fn remove(&self, hash: &Hash, before_ms: i64) -> Result<bool, StoreError> {
        let failed = |error| self.fault("removing from", &error);
        let path = self.path_of(hash);
        match self.store.head(&path).await {
            Ok(found) if found.last_modified.timestamp_millis() < before_ms => {}
            Ok(_) | Err(Error::NotFound { .. }) => return Ok(false),
            Err(error) => return Err(failed(error)),
        }
        let mut derived = self.store.list(Some(&self.derived_of(hash)));
        while let Some(meta) = derived.try_next().await.map_err(failed)? {
            self.store.delete(&meta.location).await.map_err(failed)?;
        }
        self.store.delete(&path).await.map_err(failed)?;
        Ok(true)
    }
}

impl Blobs for S3 {
    fn put(&self, bytes: Arc<[u8]>) -> BoxFuture<'static, Result<Hash, StoreError>> {
        let s3 = self.clone();
        Box::pin(async move { s3.put(bytes).await })
    }

    fn get(&self, hash: &Hash) -> BoxFuture<'static, Result<Option<Arc<[u8]>>, StoreError>> {
        let (s3, hash) = (self.clone(), *hash);
        Box::pin(async move { s3.get(&hash).await })
    }

    fn put_derived(
        &self,
        of: &Hash,
        name: &str,
        bytes: Arc<[u8]>,
    ) -> BoxFuture<'static, Result<(), StoreError>> {
        let (s3, path) = (self.clone(), self.derived_of(of).join(name));
        Box::pin(async move {
            let put = s3.store.put(&path, sealed(&bytes).into()).await;
            put.map(drop).map_err(|error| s3.fault("writing to", &error))
        })
    }

    fn get_derived(
        &self,
        of: &Hash,
        name: &str,
    ) -> BoxFuture<'static, Result<Option<Arc<[u8]>>, StoreError>> {
        let (s3, path) = (self.clone(), self.derived_of(of).join(name));
        Box::pin(async move { Ok(s3.read(&path).await?.and_then(|bytes| unsealed(&bytes))) })
    }

    fn old(
        &self,
        after: &Hash,
        before_ms: i64,
        count_max: usize,
    ) -> BoxFuture<'static, Result<Vec<Hash>, StoreError>> {
        let (s3, after) = (self.clone(), *after);
        Box::pin(async move { s3.old(&after, before_ms, count_max).await })
    }

    fn remove(&self, hash: &Hash, before_ms: i64) -> BoxFuture<'static, Result<bool, StoreError>> {
        let (s3, hash) = (self.clone(), *hash);
        Box::pin(async move { s3.remove(&hash, before_ms).await })
    }
}

impl fmt::Debug for S3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "S3({})", self.url)
    }
}

fn now_ms() -> i64 {
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Makes the HTTP client: rustls on ring, as everywhere, and nothing from the environment.
#[derive(Debug)]
struct Connector {
    https: bool,
}

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        let failed = |source: Box<dyn std::error::Error + Send + Sync>| Error::Generic {
            store: "S3",
            source,
        };
        let provider = rustls::crypto::ring::default_provider();
        let client = reqwest::Client::builder()
            .user_agent(concat!("inspan/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(REQUEST_TIMEOUT)
            .http1_only()
            .no_proxy()
            .redirect(redirect::Policy::none());
        let client = if self.https {
            if CryptoProvider::get_default().is_none() {
                // Losing a race here means that the other one installed it.
                let _ = provider.install_default();
            }
            client.https_only(true)
        } else {
            // The client wants some configuration of TLS; this one is never used.
            let unused = ClientConfig::builder_with_provider(provider.into())
                .with_safe_default_protocol_versions()
                .map_err(|error| failed(error.into()))?
                .with_root_certificates(RootCertStore::empty())
                .with_no_client_auth();
            client.tls_backend_preconfigured(unused)
        };
        Ok(HttpClient::new(client.build().map_err(|error| failed(error.into()))?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_buckets() {
        let table = [
            ("s3://bucket", Some(("bucket", ""))),
            ("s3://my.bucket-1/", Some(("my.bucket-1", ""))),
            ("s3://bucket/some/where/", Some(("bucket", "some/where"))),
            ("s3://bucket/a//b", None),
            ("s3://b", None),
            ("s3://", None),
            ("s3://Bucket", None),
            ("https://bucket", None),
        ];
        for (url, expected) in table {
            assert_eq!(S3Place::bucket_and_prefix(url), expected, "{url}");
        }
    }
}
