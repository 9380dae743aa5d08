//! What a place for blobs promises, the same for all.

mod files;
mod s3;

use std::{sync::Arc, time::SystemTime};

use inspan_core::{
    blobs::{BLOB_AGE_MS_MIN, Blobs},
    hash::Hash,
};
use inspan_store::{Files, Memory, S3, Swept, sweep};

/// One test of each place for each promise.
macro_rules! contract {
    ($($promise:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test]
            async fn $promise() {
                super::$promise(&super::Memory::new()).await;
            })*
        }
        mod folder {
            $(#[tokio::test]
            async fn $promise() {
                let folder = tempfile::tempdir().unwrap();
                super::$promise(&super::Files::new(folder.path().join("blobs"))).await;
            })*
        }
        mod bucket {
            $(#[tokio::test]
            async fn $promise() {
                let place = super::s3::place(stringify!($promise)).await;
                super::$promise(&super::S3::new(&place).unwrap()).await;
            })*
        }
    };
}

contract![
    blobs_are_found_by_their_hash,
    what_was_made_of_a_blob_goes_with_it,
    old_ones_come_in_pages,
    a_sweep_removes_what_is_old_and_unnamed,
];

fn bytes(text: &str) -> Arc<[u8]> {
    text.as_bytes().into()
}

/// Where a blob lies in its place.
fn name_of(hash: &Hash) -> String {
    let name = hash.to_string();
    let shelf: String = name.chars().take(2).collect();
    format!("{shelf}/{name}")
}

fn now_ms() -> i64 {
    SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis() as i64
}

/// A time at which everything that is put now is old.
fn later_ms() -> i64 {
    now_ms() + 60_000
}

async fn blobs_are_found_by_their_hash(blobs: &dyn Blobs) {
    let large: Arc<[u8]> = (0..300_000_u32).map(|n| n as u8).collect();
    for bytes in [Arc::from(*b"abc"), Arc::from([]), large] {
        let hash = blobs.put(bytes.clone()).await.unwrap();
        assert_eq!(hash, Hash::of_bytes(&bytes));
        assert_eq!(blobs.put(bytes.clone()).await.unwrap(), hash);
        assert!(blobs.get(&hash).await.unwrap() == Some(bytes));
    }
    assert_eq!(blobs.get(&Hash::of_bytes(b"never put")).await.unwrap(), None);
}

async fn what_was_made_of_a_blob_goes_with_it(blobs: &dyn Blobs) {
    let large = blobs.put(bytes("large")).await.unwrap();
    blobs.put_derived(&large, "w100", bytes("small")).await.unwrap();
    let made = blobs.get_derived(&large, "w100").await.unwrap();
    // A store may keep none.
    assert!(made.is_none() || made == Some(bytes("small")));
    assert_eq!(blobs.get_derived(&large, "w200").await.unwrap(), None);
    assert_eq!(blobs.old(&Hash::default(), later_ms(), 9).await.unwrap(), [large]);
    assert!(blobs.remove(&large, later_ms()).await.unwrap());
    assert_eq!(blobs.get_derived(&large, "w100").await.unwrap(), None);
    assert_eq!(blobs.get(&large).await.unwrap(), None);
    assert!(!blobs.remove(&large, later_ms()).await.unwrap());
}

async fn old_ones_come_in_pages(blobs: &dyn Blobs) {
    let mut all = Vec::new();
    for number in 0..20 {
        all.push(blobs.put(bytes(&format!("blob {number}"))).await.unwrap());
    }
    all.sort_unstable();
    let mut found = Vec::new();
    loop {
        let after = found.last().copied().unwrap_or_default();
        let page = blobs.old(&after, later_ms(), 7).await.unwrap();
        if page.is_empty() {
            break;
        }
        assert!(page.len() <= 7);
        found.extend(page);
    }
    assert_eq!(found, all);
    assert_eq!(blobs.old(&Hash::default(), now_ms() - 60_000, 99).await.unwrap(), []);
}

async fn a_sweep_removes_what_is_old_and_unnamed(blobs: &dyn Blobs) {
    let named = blobs.put(bytes("named")).await.unwrap();
    let unnamed = blobs.put(bytes("unnamed")).await.unwrap();
    let those = async |old: &[Hash]| {
        let unnamed = old.iter().copied().filter(|hash| *hash != named);
        Ok(unnamed.collect::<Vec<_>>())
    };
    // An hour later they are old, a minute before that they are not yet.
    let hour = BLOB_AGE_MS_MIN as i64;
    let early = sweep(blobs, now_ms() + hour - 60_000, None, those).await.unwrap();
    assert_eq!(early, Swept::default());
    // What is older than the logs themselves may be named by others, in whole or in part.
    let made = Some(now_ms() + 60_000);
    let spared = sweep(blobs, now_ms() + hour + 60_000, made, those).await.unwrap();
    assert_eq!(spared, Swept::default());
    let made = Some(now_ms() - 60_000);
    let swept = sweep(blobs, now_ms() + hour + 60_000, made, those).await.unwrap();
    assert_eq!(swept, Swept { looked_up: 2, removed: 1 });
    assert_eq!(blobs.get(&unnamed).await.unwrap(), None);
    assert_eq!(blobs.get(&named).await.unwrap(), Some(bytes("named")));
}
