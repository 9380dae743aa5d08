//! Blobs as files, each named by the hash of its bytes: `ab/ab12…`.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use inspan_core::{hash::Hash, store::StoreError};

use super::{
    fault,
    open::{make_folder, only_for_owner, sync_folder},
};

/// Writes `bytes` under their hash, durably, unless they are there. What else stands there is
/// damaged and is written anew.
pub(super) fn put(folder: &Path, bytes: &[u8]) -> Result<Hash, StoreError> {
    let hash = Hash::of_bytes(bytes);
    let path = path_of(folder, &hash);
    if !is_there(&path, bytes) {
        let shelf = path.parent().unwrap_or(folder);
        make_folder(shelf)?;
        let temporary = shelf.join(temporary_name());
        let written = write(&temporary, &path, bytes).and_then(|()| sync_folder(shelf));
        written.map_err(|error| {
            // Half a file under a temporary name takes room and is never read.
            let _ = fs::remove_file(&temporary);
            fault::of_file(&path, &error)
        })?;
    }
    Ok(hash)
}

/// Reads the bytes of `hash`; `None` when they are not there.
pub(super) fn get(folder: &Path, hash: &Hash) -> Result<Option<Arc<[u8]>>, StoreError> {
    let path = path_of(folder, hash);
    match fs::read(&path) {
        Ok(bytes) if Hash::of_bytes(&bytes) == *hash => Ok(Some(bytes.into())),
        Ok(_) => Err(StoreError::Damaged {
            what: path.display().to_string(),
            why: "its bytes are not those that were written: remove it and add it again".into(),
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(fault::of_file(&path, &error)),
    }
}

fn is_there(path: &Path, bytes: &[u8]) -> bool {
    let fits = fs::metadata(path).is_ok_and(|found| found.len() == bytes.len() as u64);
    fits && fs::read(path).is_ok_and(|found| found == bytes)
}

fn path_of(folder: &Path, hash: &Hash) -> PathBuf {
    let name = hash.to_string();
    let shelf: String = name.chars().take(2).collect();
    folder.join(shelf).join(name)
}

fn temporary_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!(".new-{}-{number}", std::process::id())
}

fn write(temporary: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(true).write(true);
    only_for_owner(&mut options);
    let mut file = options.open(temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(temporary, path)
}
