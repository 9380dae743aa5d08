//! Who writes a session: an operating-system lock on a file for each, so that a process that was
//! killed frees its sessions at once. The files are empty and stay; only the lock says anything.

use std::{
    fs::{File, OpenOptions, TryLockError},
    path::Path,
    time::Duration,
};

use inspan_core::store::{Guard, SessionId, StoreError};

use crate::disk::{of_file, only_for_owner};

/// For how long somebody looks at most whether a file is locked; and how often it is waited for.
const LOOK: Duration = Duration::from_millis(4);
const LOOKS_MAX: u32 = 3;

/// A locked file. Dropping it frees the lock.
#[derive(Debug)]
pub(super) struct Lock(File);

impl Lock {
    /// The same, after one that only looked whether it is free; see [`Lock::is_free`].
    pub(super) async fn claim(folder: &Path, session: &SessionId) -> Result<Self, StoreError> {
        for _ in 0..LOOKS_MAX {
            match Self::take(folder, session) {
                Err(StoreError::InUse(_)) => tokio::time::sleep(LOOK).await,
                done => return done,
            }
        }
        Self::take(folder, session)
    }

    /// Locks `session`'s file in `folder`, or says that it is in use: by another process, or by
    /// another claim of this one.
    pub(super) fn take(folder: &Path, session: &SessionId) -> Result<Self, StoreError> {
        let path = folder.join(session.as_str());
        let file = open(&path)?;
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => Err(StoreError::InUse(session.clone())),
            Err(TryLockError::Error(error)) => Err(of_file(&path, &error)),
        }
    }

    /// Whether nobody holds `session` now.
    pub(super) fn is_free(folder: &Path, session: &SessionId) -> bool {
        Self::take(folder, session).is_ok()
    }

    /// Locks the file at `path`, after whoever has it now. Blocks its thread.
    pub(super) fn wait(path: &Path) -> Result<Self, StoreError> {
        let file = open(path)?;
        file.lock().map_err(|error| of_file(path, &error))?;
        Ok(Self(file))
    }
}

/// A lock ends with its process and not before.
impl Guard for Lock {}

impl Drop for Lock {
    /// A child that has just been forked shares the open file until it runs its own program, so
    /// that closing ours would not free the lock yet; unlocking does.
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

fn open(path: &Path) -> Result<File, StoreError> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true);
    only_for_owner(&mut options);
    options.open(path).map_err(|error| of_file(path, &error))
}
