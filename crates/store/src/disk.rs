//! Files and folders that are durable and belong to their owner alone.

use std::{
    fs::{DirBuilder, File, OpenOptions},
    io,
    path::Path,
};

use inspan_core::store::StoreError;

/// What is said of a full disk.
pub(crate) const FULL: &str = "the disk is full: make room, then go on";

/// Makes `folder` and those above it, for the owner alone and durably, where they are missing.
pub(crate) fn make_folder(folder: &Path) -> Result<(), StoreError> {
    let missing: Vec<&Path> = folder.ancestors().take_while(|folder| !folder.is_dir()).collect();
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    for folder in missing.into_iter().rev() {
        let made =
            builder.create(folder).and_then(|()| folder.parent().map_or(Ok(()), sync_folder));
        made.map_err(|error| of_file(folder, &error))?;
    }
    Ok(())
}

/// A new name is durable once its folder is; only Unix can say so, and not on every file system.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(not(unix)) {
        return Ok(());
    }
    match File::open(folder)?.sync_all() {
        Err(error)
            if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) =>
        {
            Ok(())
        }
        done => done,
    }
}

/// Files made with `options` can be read and written by their owner alone.
pub(crate) fn only_for_owner(options: &mut OpenOptions) {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    #[cfg(not(unix))]
    let _ = options;
}

/// What the file system said of `path`.
pub(crate) fn of_file(path: &Path, error: &io::Error) -> StoreError {
    let what = path.display().to_string();
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            StoreError::NotWritable { what, why: FULL.into() }
        }
        io::ErrorKind::PermissionDenied
        | io::ErrorKind::ReadOnlyFilesystem
        | io::ErrorKind::NotADirectory
        | io::ErrorKind::AlreadyExists => StoreError::NotWritable { what, why: error.to_string() },
        _ => StoreError::Other { what, why: error.to_string() },
    }
}

/// Runs `work`, which waits for the disk, where it holds up nobody.
pub(crate) async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
        Err(StoreError::Other { what: "a file operation".into(), why: error.to_string() })
    })
}
