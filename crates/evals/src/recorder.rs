//! A store that writes recordings beside what it keeps.

use std::{fs, path::PathBuf, sync::Arc};

use inspan_core::{
    Entry, Event,
    event::Head,
    gate::BoxFuture,
    hash::Hash,
    mask::Mask,
    store::{
        Blobs, Claim, ENTRIES_READ_MAX, NewPieces, SessionFilter, SessionId, SessionRow, Snapshot,
        Store, StoreError,
    },
};

use crate::recording::text_of;

/// Characters of the first prompt in the name of a recording.
const NAME_CHARS_MAX: usize = 40;

/// Another store that also writes each session as a recording into a folder, whenever a turn ends.
/// A recording is named by the session's first prompt and the hash of what it began with
/// (`where-is-my-order-1b2c3d4.jsonl`), so that one that is made again takes the place of the old.
///
/// Secrets of common forms are masked, and those of [`Recorder::mask`].
pub struct Recorder<S> {
    inner: Arc<S>,
    folder: PathBuf,
    mask: Mask,
}

impl<S: Store + 'static> Recorder<S> {
    /// Records what `inner` keeps into `folder`, which is made when it is missing.
    pub fn new(folder: impl Into<PathBuf>, inner: S) -> Self {
        Self { inner: Arc::new(inner), folder: folder.into(), mask: Mask::default() }
    }

    /// Masks these secrets, too.
    pub fn mask(mut self, mask: Mask) -> Self {
        self.mask = mask;
        self
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
        let (inner, folder, session, mask) =
            (self.inner.clone(), self.folder.clone(), claim.session.clone(), self.mask.clone());
        Box::pin(async move {
            append.await?;
            let log = log(&*inner, &session).await?;
            let lines: String =
                log.iter().map(|entry| mask.text(&entry.to_line()).into_owned() + "\n").collect();
            let path = folder.join(format!("{}.jsonl", name(&log)));
            // Another session may write the same name: what is there is always whole.
            let beside = folder.join(format!("{session}.part"));
            let written = fs::create_dir_all(&folder)
                .and_then(|()| fs::write(&beside, lines))
                .and_then(|()| fs::rename(&beside, &path));
            written.map_err(|why| {
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
        filter: &SessionFilter,
    ) -> BoxFuture<'static, Result<Vec<SessionRow>, StoreError>> {
        self.inner.sessions(filter)
    }

    fn blobs(&self) -> Option<Arc<dyn Blobs>> {
        self.inner.blobs()
    }

    fn changed(&self, session: Option<&SessionId>) -> BoxFuture<'static, ()> {
        self.inner.changed(session)
    }

    fn keep_snapshot(
        &self,
        claim: &Claim,
        snapshot: Snapshot,
        pieces: NewPieces,
    ) -> BoxFuture<'static, Result<(), StoreError>> {
        self.inner.keep_snapshot(claim, snapshot, pieces)
    }

    fn snapshot(
        &self,
        session: &SessionId,
    ) -> BoxFuture<'static, Result<Option<Snapshot>, StoreError>> {
        self.inner.snapshot(session)
    }

    fn snapshot_piece(
        &self,
        session: &SessionId,
        number: u32,
    ) -> BoxFuture<'static, Result<Option<Arc<[u8]>>, StoreError>> {
        self.inner.snapshot_piece(session, number)
    }
}

async fn log(store: &impl Store, session: &SessionId) -> Result<Vec<Entry>, StoreError> {
    let mut log: Vec<Entry> = Vec::new();
    loop {
        let after = log.last().map_or(0, |entry| entry.seq);
        let more = store.read(session, after, ENTRIES_READ_MAX).await?;
        if more.is_empty() {
            return Ok(log);
        }
        log.extend(more);
    }
}

/// The name of a log's recording: the same for a session that begins in the same way.
fn name(log: &[Entry]) -> String {
    let (mut prompt, mut system) = (String::new(), String::new());
    for entry in log {
        match &entry.event {
            Event::SessionConfigured(e) => system.clone_from(&e.system),
            Event::PromptSubmitted(e) => {
                prompt = text_of(&e.content);
                break;
            }
            _ => {}
        }
    }
    let hash = Hash::of(&[system.as_bytes(), prompt.as_bytes()]).to_string();
    let words = prompt.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let words = words.collect::<Vec<_>>().join("-").to_ascii_lowercase();
    let words = words.get(..NAME_CHARS_MAX).unwrap_or(&words).trim_end_matches('-');
    format!("{words}-{}", hash.get(..7).unwrap_or_default())
}
