//! Blobs as files, each named by the hash of its bytes: `ab/ab12…`. What was made of one lies in
//! the folder `ab/ab12….d`.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use inspan_core::{blobs::Blobs, gate::BoxFuture, hash::Hash, store::StoreError};

use super::{sealed, shelf_of, unsealed};
use crate::disk::{aside, make_folder, of_file, only_for_owner, sync_folder};

/// Blobs in a folder, which is made with the first of them. Each is written whole or not at all,
/// and is durable when its future says so; files and folders belong to their owner alone. Any
/// number of processes may share the folder. Clones are the same.
///
/// Must be used inside a tokio runtime.
#[derive(Clone, Debug)]
pub struct Files {
    folder: Arc<PathBuf>,
}

impl Files {
    /// The blobs in `folder`. Nothing is opened or made yet.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: Arc::new(folder.into()) }
    }

    /// Does `work` with the folder where it holds up nobody.
    fn aside<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Path) -> Result<T, StoreError> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, StoreError>> {
        let folder = Arc::clone(&self.folder);
        Box::pin(aside(move || work(&folder)))
    }
}

impl Blobs for Files {
    fn put(&self, bytes: Arc<[u8]>) -> BoxFuture<'static, Result<Hash, StoreError>> {
        self.aside(move |folder| put(folder, &bytes))
    }

    fn get(&self, hash: &Hash) -> BoxFuture<'static, Result<Option<Arc<[u8]>>, StoreError>> {
        let hash = *hash;
        self.aside(move |folder| get(folder, &hash))
    }

    fn put_derived(
        &self,
        of: &Hash,
        name: &str,
        bytes: Arc<[u8]>,
    ) -> BoxFuture<'static, Result<(), StoreError>> {
        let (of, name) = (*of, name.to_owned());
        self.aside(move |folder| {
            write_durably(&derived_of(folder, &of).join(name), &sealed(&bytes))
        })
    }

    fn get_derived(
        &self,
        of: &Hash,
        name: &str,
    ) -> BoxFuture<'static, Result<Option<Arc<[u8]>>, StoreError>> {
        let (of, name) = (*of, name.to_owned());
        self.aside(move |folder| {
            let found = read_if_there(&derived_of(folder, &of).join(name))?;
            Ok(found.and_then(|bytes| unsealed(&bytes)))
        })
    }

    fn old(
        &self,
        after: &Hash,
        before_ms: i64,
        count_max: usize,
    ) -> BoxFuture<'static, Result<Vec<Hash>, StoreError>> {
        let after = *after;
        self.aside(move |folder| old(folder, &after, before_ms, count_max))
    }

    fn remove(&self, hash: &Hash, before_ms: i64) -> BoxFuture<'static, Result<bool, StoreError>> {
        let hash = *hash;
        self.aside(move |folder| remove(folder, &hash, before_ms))
    }
}

/// Writes `bytes` under their hash, durably, unless they are there. What else stands there is
/// damaged and is written anew.
fn put(folder: &Path, bytes: &[u8]) -> Result<Hash, StoreError> {
    let hash = Hash::of_bytes(bytes);
    let path = path_of(folder, &hash);
    // A file that can't be touched can't be removed by this user either.
    if !(is_there(&path, bytes) && touch(&path).is_ok()) {
        write_durably(&path, bytes)?;
    }
    Ok(hash)
}

/// Reads the bytes of `hash`; `None` when they are not there.
fn get(folder: &Path, hash: &Hash) -> Result<Option<Arc<[u8]>>, StoreError> {
    let path = path_of(folder, hash);
    match read_if_there(&path)? {
        Some(bytes) if Hash::of_bytes(&bytes) == *hash => Ok(Some(bytes.into())),
        Some(_) => Err(StoreError::BlobDamaged { what: path.display().to_string() }),
        None => Ok(None),
    }
}

/// The names of a folder of shelves come in no order, so each shelf is sorted by itself.
fn old(
    folder: &Path,
    after: &Hash,
    before_ms: i64,
    count_max: usize,
) -> Result<Vec<Hash>, StoreError> {
    let mut found = Vec::new();
    for shelf in 0..=u8::MAX {
        if found.len() >= count_max {
            break;
        }
        let shelf = folder.join(format!("{shelf:02x}"));
        let mut hashes = Vec::new();
        for path in names_in(&shelf)? {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            match Hash::parse(name) {
                Some(hash) if hash > *after && is_older(&path, before_ms) => hashes.push(hash),
                Some(_) => {}
                // What a process that died has left under a temporary name.
                None if name.starts_with(NEW) && is_older(&path, before_ms) => {
                    fs::remove_file(&path).map_err(|error| of_file(&path, &error))?;
                }
                None => {}
            }
        }
        hashes.sort_unstable();
        found.extend(hashes);
    }
    found.truncate(count_max);
    Ok(found)
}

fn names_in(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let said = |error| of_file(folder, &error);
    match fs::read_dir(folder) {
        Ok(entries) => {
            entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
    .map_err(said)
}

fn remove(folder: &Path, hash: &Hash, before_ms: i64) -> Result<bool, StoreError> {
    let path = path_of(folder, hash);
    if !is_older(&path, before_ms) {
        return Ok(false);
    }
    let derived = derived_of(folder, hash);
    if derived.is_dir() {
        fs::remove_dir_all(&derived).map_err(|error| of_file(&derived, &error))?;
    }
    fs::remove_file(&path).map_err(|error| of_file(&path, &error))?;
    Ok(true)
}

fn is_there(path: &Path, bytes: &[u8]) -> bool {
    let fits = fs::metadata(path).is_ok_and(|found| found.len() == bytes.len() as u64);
    fits && fs::read(path).is_ok_and(|found| found == bytes)
}

/// Makes the file new for whoever looks at its age.
fn touch(path: &Path) -> io::Result<()> {
    File::open(path)?.set_modified(SystemTime::now())
}

/// Whether there is such a file, last put before then.
fn is_older(path: &Path, before_ms: i64) -> bool {
    let before = u64::try_from(before_ms).unwrap_or(0);
    let before = UNIX_EPOCH + Duration::from_millis(before);
    fs::metadata(path).and_then(|found| found.modified()).is_ok_and(|modified| modified < before)
}

fn path_of(folder: &Path, hash: &Hash) -> PathBuf {
    folder.join(shelf_of(hash)).join(hash.to_string())
}

fn derived_of(folder: &Path, hash: &Hash) -> PathBuf {
    folder.join(shelf_of(hash)).join(format!("{hash}.d"))
}

fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(of_file(path, &error)),
    }
}

/// Files that begin so are not whole yet.
const NEW: &str = ".new-";

fn temporary_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{NEW}{}-{number}", std::process::id())
}

fn write_durably(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let folder = path.parent().unwrap_or(path);
    make_folder(folder)?;
    let temporary = folder.join(temporary_name());
    let written = write(&temporary, path, bytes).and_then(|()| sync_folder(folder));
    written.map_err(|error| {
        // Half a file under a temporary name takes room and is never read.
        let _ = fs::remove_file(&temporary);
        of_file(path, &error)
    })
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
