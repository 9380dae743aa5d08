//! Where large and binary content is kept: pictures, and what was too long for a result. The log
//! holds its hash; the bytes are read only when somebody wants them.

use std::sync::Arc;

use crate::{gate::BoxFuture, hash::Hash, store::StoreError};

/// Milliseconds for which a sweep spares a blob after it was last put: the entry that names it is
/// written after it.
pub const BLOB_AGE_MS_MIN: u64 = 3_600_000;

/// Content by the hash of its bytes. Blobs belong to no session: equal bytes are kept once.
pub trait Blobs: Send + Sync {
    /// Keeps `bytes` durably and gives their address. What is there already is not written again,
    /// but counts as new for [`Blobs::remove`].
    fn put(&self, bytes: Arc<[u8]>) -> BoxFuture<'static, Result<Hash, StoreError>>;

    /// The bytes at `hash`; `None` when they are not there. Bytes that have another hash are never
    /// given out: [`StoreError::Damaged`].
    fn get(&self, hash: &Hash) -> BoxFuture<'static, Result<Option<Arc<[u8]>>, StoreError>>;

    /// Keeps what was made of the blob `of`, under a name of 1 to 64 of `a-z`, `0-9` and `-`. It
    /// goes with that blob, and can be made again: a store may keep none.
    fn put_derived(
        &self,
        of: &Hash,
        name: &str,
        bytes: Arc<[u8]>,
    ) -> BoxFuture<'static, Result<(), StoreError>> {
        let _ = (of, name, bytes);
        Box::pin(std::future::ready(Ok(())))
    }

    /// What was made of the blob `of` under this name; `None` when it is not there or damaged.
    fn get_derived(
        &self,
        of: &Hash,
        name: &str,
    ) -> BoxFuture<'static, Result<Option<Arc<[u8]>>, StoreError>> {
        let _ = (of, name);
        Box::pin(std::future::ready(Ok(None)))
    }

    /// The blobs after `after` (the default for all) that were last put before `before_ms`, in
    /// milliseconds since 1970: at most `count_max` of them, in order.
    fn old(
        &self,
        after: &Hash,
        before_ms: i64,
        count_max: usize,
    ) -> BoxFuture<'static, Result<Vec<Hash>, StoreError>>;

    /// Removes a blob that was last put before `before_ms`, with all that was made of it; false
    /// when it is not there or was put since.
    fn remove(&self, hash: &Hash, before_ms: i64) -> BoxFuture<'static, Result<bool, StoreError>>;
}

impl<B: Blobs + ?Sized> Blobs for Arc<B> {
    fn put(&self, bytes: Arc<[u8]>) -> BoxFuture<'static, Result<Hash, StoreError>> {
        (**self).put(bytes)
    }

    fn get(&self, hash: &Hash) -> BoxFuture<'static, Result<Option<Arc<[u8]>>, StoreError>> {
        (**self).get(hash)
    }

    fn put_derived(
        &self,
        of: &Hash,
        name: &str,
        bytes: Arc<[u8]>,
    ) -> BoxFuture<'static, Result<(), StoreError>> {
        (**self).put_derived(of, name, bytes)
    }

    fn get_derived(
        &self,
        of: &Hash,
        name: &str,
    ) -> BoxFuture<'static, Result<Option<Arc<[u8]>>, StoreError>> {
        (**self).get_derived(of, name)
    }

    fn old(
        &self,
        after: &Hash,
        before_ms: i64,
        count_max: usize,
    ) -> BoxFuture<'static, Result<Vec<Hash>, StoreError>> {
        (**self).old(after, before_ms, count_max)
    }

    fn remove(&self, hash: &Hash, before_ms: i64) -> BoxFuture<'static, Result<bool, StoreError>> {
        (**self).remove(hash, before_ms)
    }
}
