//! Removes the blobs that no log names.

use inspan_core::{
    blobs::{BLOB_AGE_MS_MIN, Blobs},
    hash::Hash,
    store::StoreError,
};

/// Blobs that are looked up at once.
const SWEEP_LOOKED_UP_MAX: usize = 256;

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Blobs that were old enough to be looked up.
    pub looked_up: u64,
    /// Those of them that were removed.
    pub removed: u64,
}

/// Removes the blobs that are older than [`BLOB_AGE_MS_MIN`] at `now_ms` (milliseconds since 1970)
/// and that no log names: `unnamed` gives those of its argument. A blob is written before the entry
/// that names it, so young ones are spared. So are those last put before `made_ms`, when the logs'
/// store was made: a database that was moved away may name them, and come back.
///
/// # Errors
/// What the blobs or `unnamed` say; what was removed until then stays removed.
pub async fn sweep(
    blobs: &dyn Blobs,
    now_ms: i64,
    made_ms: Option<i64>,
    mut unnamed: impl AsyncFnMut(&[Hash]) -> Result<Vec<Hash>, StoreError>,
) -> Result<Swept, StoreError> {
    let before_ms = now_ms.saturating_sub_unsigned(BLOB_AGE_MS_MIN);
    let mut swept = Swept::default();
    let mut after = Hash::default();
    let made_ms = match made_ms {
        Some(made_ms) => (!blobs.old(&after, made_ms, 1).await?.is_empty()).then_some(made_ms),
        None => None,
    };
    loop {
        let old = blobs.old(&after, before_ms, SWEEP_LOOKED_UP_MAX).await?;
        let Some(last) = old.last() else { return Ok(swept) };
        // They come in the same order, so what is spared of this page is in the other one.
        let spared = match made_ms {
            Some(made_ms) => blobs.old(&after, made_ms, SWEEP_LOOKED_UP_MAX).await?,
            None => Vec::new(),
        };
        after = *last;
        let own: Vec<Hash> = old.into_iter().filter(|hash| !spared.contains(hash)).collect();
        swept.looked_up += own.len() as u64;
        for hash in unnamed(&own).await? {
            swept.removed += u64::from(blobs.remove(&hash, before_ms).await?);
        }
    }
}
