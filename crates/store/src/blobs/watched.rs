//! Blobs whose troubles a person hears of, and that have a second place for when the first is away.

use std::{
    collections::BTreeSet,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use inspan_core::{blobs::Blobs, gate::BoxFuture, hash::Hash, store::StoreError};
use tokio::time::Instant;

/// For how long a place that did not answer is not asked again.
const AWAY_TIMEOUT: Duration = Duration::from_secs(60);

/// Troubles that are said, each once; more are not.
const TROUBLES_SAID_MAX: usize = 16;

/// Hears what a person should be told.
pub type Told = Arc<dyn Fn(&str) + Send + Sync>;

/// Blobs in one place and, while that is away, in a second one, which is looked into ever after. A
/// blob that is damaged or nowhere counts as lost; one that may be in a place that is away is an
/// error. Every trouble is said once.
#[derive(Clone)]
pub struct Watched(Arc<Inner>);

struct Inner {
    first: Arc<dyn Blobs>,
    second: Option<Arc<dyn Blobs>>,
    told: Told,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    away: Option<(Instant, StoreError)>,
    said: BTreeSet<String>,
}

impl Watched {
    /// Watches `first`, for which `second` takes over, if there is one.
    pub fn new(first: Arc<dyn Blobs>, second: Option<Arc<dyn Blobs>>, told: Told) -> Self {
        Self(Arc::new(Inner { first, second, told, seen: Mutex::default() }))
    }
}

impl Inner {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn say(&self, trouble: &str) {
        let mut seen = self.seen();
        let is_new = seen.said.len() < TROUBLES_SAID_MAX && seen.said.insert(trouble.to_owned());
        drop(seen);
        if is_new {
            (self.told)(trouble);
        }
    }

    /// Why the first place is not asked: it was away a moment ago, and there is another.
    fn away(&self) -> Option<StoreError> {
        self.second.as_ref()?;
        let seen = self.seen();
        let (until, why) = seen.away.as_ref()?;
        (Instant::now() < *until).then(|| why.clone())
    }

    fn first(&self) -> Option<&Arc<dyn Blobs>> {
        self.away().is_none().then_some(&self.first)
    }

    fn is_away(&self, error: &StoreError) {
        let away = (Instant::now() + AWAY_TIMEOUT, error.clone());
        let is_first = self.seen().away.replace(away).is_none();
        if is_first && self.second.is_some() {
            self.say(&format!("{error}; blobs are kept in the home folder meanwhile"));
        }
    }

    async fn put(&self, bytes: Arc<[u8]>) -> Result<Hash, StoreError> {
        if let Some(first) = self.first() {
            match (first.put(bytes.clone()).await, &self.second) {
                (Err(error), Some(_)) => self.is_away(&error),
                (done, _) => return done,
            }
        }
        match &self.second {
            Some(second) => second.put(bytes).await,
            None => self.first.put(bytes).await,
        }
    }

    async fn get(&self, hash: &Hash) -> Result<Option<Arc<[u8]>>, StoreError> {
        let mut trouble = self.away();
        let is_told = trouble.is_some();
        let first = (!is_told).then_some(&self.first);
        for (place, is_first) in [(first, true), (self.second.as_ref(), false)] {
            let Some(place) = place else { continue };
            match place.get(hash).await {
                Ok(Some(bytes)) => return Ok(Some(bytes)),
                Ok(None) => {}
                Err(error) => {
                    if is_first && !matches!(error, StoreError::BlobDamaged { .. }) {
                        self.is_away(&error);
                    }
                    trouble.get_or_insert(error);
                }
            }
        }
        if let (Some(error), false) = (&trouble, is_told) {
            self.say(&error.to_string());
        }
        match trouble {
            Some(error) if !matches!(error, StoreError::BlobDamaged { .. }) => Err(error),
            _ => Ok(None),
        }
    }
}

impl Blobs for Watched {
    fn put(&self, bytes: Arc<[u8]>) -> BoxFuture<'static, Result<Hash, StoreError>> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move { inner.put(bytes).await })
    }

    fn get(&self, hash: &Hash) -> BoxFuture<'static, Result<Option<Arc<[u8]>>, StoreError>> {
        let (inner, hash) = (Arc::clone(&self.0), *hash);
        Box::pin(async move { inner.get(&hash).await })
    }

    fn put_derived(
        &self,
        of: &Hash,
        name: &str,
        bytes: Arc<[u8]>,
    ) -> BoxFuture<'static, Result<(), StoreError>> {
        match self.0.first() {
            Some(first) => first.put_derived(of, name, bytes),
            None => Box::pin(std::future::ready(Ok(()))),
        }
    }

    fn get_derived(
        &self,
        of: &Hash,
        name: &str,
    ) -> BoxFuture<'static, Result<Option<Arc<[u8]>>, StoreError>> {
        match self.0.first() {
            Some(first) => first.get_derived(of, name),
            None => Box::pin(std::future::ready(Ok(None))),
        }
    }

    fn old(
        &self,
        after: &Hash,
        before_ms: i64,
        count_max: usize,
    ) -> BoxFuture<'static, Result<Vec<Hash>, StoreError>> {
        let (inner, after) = (Arc::clone(&self.0), *after);
        Box::pin(async move {
            let mut old = inner.first.old(&after, before_ms, count_max).await?;
            if let Some(second) = &inner.second {
                old.extend(second.old(&after, before_ms, count_max).await?);
                old.sort_unstable();
                old.dedup();
                old.truncate(count_max);
            }
            Ok(old)
        })
    }

    fn remove(&self, hash: &Hash, before_ms: i64) -> BoxFuture<'static, Result<bool, StoreError>> {
        let (inner, hash) = (Arc::clone(&self.0), *hash);
        Box::pin(async move {
            let mut removed = inner.first.remove(&hash, before_ms).await?;
            if let Some(second) = &inner.second {
                removed |= second.remove(&hash, before_ms).await?;
            }
            Ok(removed)
        })
    }
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").field("has_second", &self.0.second.is_some()).finish()
    }
}
