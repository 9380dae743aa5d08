//! A store that writes recordings beside what it keeps.

use std::{fs, path::PathBuf, sync::Arc};

use inspan_core::{
    Entry, Event,
    event::Head,
    gate::BoxFuture,
    store::{Claim, SessionId, SessionRow, Store, StoreError},
};

/// Entries read at once from the store inside.
const ENTRIES_READ_MAX: usize = 256;

/// Another store that also writes each session as a recording, `ID.jsonl` in a folder, whenever a
/// turn ends. What a file held before is replaced.
pub struct Recorder<S> {
    inner: Arc<S>,
    folder: PathBuf,
}

impl<S: Store + 'static> Recorder<S> {
    /// Records what `inner` keeps into `folder`, which is made when it is missing.
    pub fn new(folder: impl Into<PathBuf>, inner: S) -> Self {
        Self { inner: Arc::new(inner), folder: folder.into() }
    }
}

impl<S: Store + 'static> Store for Recorder<S> {
    fn create(&self, session: &SessionId) -> BoxFuture<'static, Result<Claim, StoreError>> {
        self.inner.create(session)
    }

    fn claim(&self, session: &SessionId) -> BoxFuture<'static, Result<Claim, StoreError>> {
        self.inner.claim(session)
    }

    fn append(
        &self,
        claim: &Claim,
        after: Head,
        entries: Arc<[Entry]>,
    ) -> BoxFuture<'static, Result<(), StoreError>> {
        let append = self.inner.append(claim, after, entries.clone());
        if !entries.iter().any(|entry| matches!(entry.event, Event::TurnEnded(_))) {
            return append;
        }
        let (inner, folder, session) =
            (self.inner.clone(), self.folder.clone(), claim.session.clone());
        Box::pin(async move {
            append.await?;
            let lines = lines(&*inner, &session).await?;
            let path = folder.join(format!("{session}.jsonl"));
            fs::create_dir_all(&folder).and_then(|()| fs::write(&path, lines)).map_err(|why| {
                let what = format!("the recording {}", path.display());
                StoreError::NotWritable { what, why: why.to_string() }
            })
        })
    }

    fn read(
        &self,
        session: &SessionId,
        after: u64,
        count_max: usize,
    ) -> BoxFuture<'static, Result<Vec<Entry>, StoreError>> {
        self.inner.read(session, after, count_max)
    }

    fn sessions(
        &self,
        prefix: &str,
        count_max: usize,
    ) -> BoxFuture<'static, Result<Vec<SessionRow>, StoreError>> {
        self.inner.sessions(prefix, count_max)
    }
}

/// A session's log as JSON lines.
async fn lines(store: &impl Store, session: &SessionId) -> Result<String, StoreError> {
    let (mut lines, mut after) = (String::new(), 0);
    loop {
        let entries = store.read(session, after, ENTRIES_READ_MAX).await?;
        let Some(last) = entries.last() else { return Ok(lines) };
        after = last.seq;
        entries.iter().for_each(|entry| lines += &(entry.to_line() + "\n"));
    }
}
