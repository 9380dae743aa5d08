//! What a folder of blobs promises beyond the contract.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use inspan_core::{blobs::Blobs, hash::Hash};
use inspan_store::Files;

use crate::{bytes, later_ms, name_of, now_ms};

fn file_of(folder: &Path, hash: &Hash) -> PathBuf {
    folder.join(name_of(hash))
}

#[tokio::test]
async fn a_damaged_blob_is_not_given_out() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = Files::new(folder.path());
    let hash = blobs.put(bytes("a picture")).await.unwrap();
    let file = file_of(folder.path(), &hash);
    assert_eq!(fs::read(&file).unwrap(), b"a picture");
    for damaged in ["another one", "a pikture", ""] {
        fs::write(&file, damaged).unwrap();
        let error = blobs.get(&hash).await.unwrap_err().to_string();
        assert_eq!(
            error,
            format!(
                "{} is not what was written, so it counts as lost: remove it, and add it again if \
                 you have it",
                file.display()
            )
        );
        assert_eq!(blobs.put(bytes("a picture")).await.unwrap(), hash);
        assert_eq!(blobs.get(&hash).await.unwrap(), Some(bytes("a picture")));
    }
    assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
    blobs.put_derived(&hash, "small", bytes("a thumbnail")).await.unwrap();
    let derived = file.with_extension("d").join("small");
    let mut sealed = fs::read(&derived).unwrap();
    sealed[40] ^= 1;
    fs::write(&derived, sealed).unwrap();
    assert_eq!(blobs.get_derived(&hash, "small").await.unwrap(), None);
}

#[tokio::test]
async fn what_is_put_again_is_young_again() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = Files::new(folder.path());
    let hash = blobs.put(bytes("a picture")).await.unwrap();
    let long_ago = SystemTime::now() - Duration::from_secs(7_200);
    let file = File::open(file_of(folder.path(), &hash)).unwrap();
    file.set_modified(long_ago).unwrap();
    let hour_ago = now_ms() - 3_600_000;
    assert_eq!(blobs.old(&Hash::default(), hour_ago, 9).await.unwrap(), [hash]);
    blobs.put(bytes("a picture")).await.unwrap();
    assert_eq!(blobs.old(&Hash::default(), hour_ago, 9).await.unwrap(), []);
    assert!(!blobs.remove(&hash, hour_ago).await.unwrap());
    assert_eq!(blobs.get(&hash).await.unwrap(), Some(bytes("a picture")));
}

#[tokio::test]
async fn what_a_dead_process_left_half_written_goes() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = Files::new(folder.path());
    let hash = blobs.put(bytes("a picture")).await.unwrap();
    let shelf = file_of(folder.path(), &hash).parent().unwrap().to_owned();
    let half = shelf.join(".new-1-1");
    fs::write(&half, "half").unwrap();
    assert_eq!(blobs.old(&Hash::default(), now_ms() - 60_000, 9).await.unwrap(), []);
    assert!(half.exists());
    assert_eq!(blobs.old(&Hash::default(), later_ms(), 9).await.unwrap(), [hash]);
    assert!(!half.exists());
}
