//! Logs in memory: gone with their process, the same in every other way.

use std::{
    collections::{BTreeMap, HashMap},
    future::ready,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use inspan_core::{
    event::{Entry, Event, Head, Stop},
    gate::BoxFuture,
    hash::Hash,
    store::{Blobs, Claim, SessionId, SessionRow, Store, StoreError},
};

use crate::check_order;

/// Bytes of the blobs that a store that forgets keeps.
const BLOBS_BYTES_MAX: usize = 256 << 20;

/// Logs and blobs in memory. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Memory(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    /// Logs that nobody writes and that are kept all the same; `None` for all.
    idle_max: Option<usize>,
    /// Claims that were given back.
    released: u64,
    logs: BTreeMap<SessionId, Log>,
    blobs: HashMap<Hash, Blob>,
    blobs_bytes: usize,
    /// How often a blob was put.
    puts: u64,
}

#[derive(Debug, Default)]
struct Log {
    epoch: u64,
    claimed: bool,
    /// How many claims had been given back when this one's was.
    released: u64,
    /// As they were handed over, and shared with whoever did; none is empty.
    appends: Vec<Arc<[Entry]>>,
}

impl Log {
    fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.appends.iter().flat_map(|append| append.iter())
    }

    fn is_parked(&self) -> bool {
        matches!(self.last().map(|last| &last.event), Some(Event::TurnEnded(ended))
            if ended.stop == Stop::Parked)
    }

    fn last(&self) -> Option<&Entry> {
        self.appends.last()?.last()
    }

    /// The entries after this number.
    fn after(&self, seq: u64) -> impl Iterator<Item = &Entry> {
        let is_before = |append: &Arc<[Entry]>| append.last().is_none_or(|entry| entry.seq <= seq);
        let first = self.appends.partition_point(is_before);
        let appends = self.appends.get(first..).unwrap_or_default();
        appends.iter().flat_map(|append| append.iter()).filter(move |entry| entry.seq > seq)
    }
}

impl Kept {
    fn forget(&mut self) {
        let Some(idle_max) = self.idle_max else { return };
        let idle = self.logs.iter().filter(|(_, log)| !log.claimed && !log.is_parked());
        let mut idle: Vec<(u64, SessionId)> =
            idle.map(|(id, log)| (log.released, id.clone())).collect();
        idle.sort_unstable();
        let over = idle.len().saturating_sub(idle_max);
        for (_, id) in idle.into_iter().take(over) {
            self.logs.remove(&id);
        }
    }
}

impl Memory {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// A store that forgets: of the logs that nobody writes any more, it keeps the `idle_max` that
    /// were written last, and those that wait to be gone on with (parked); of the blobs, the last
    /// 256 MiB.
    pub fn keeping(idle_max: usize) -> Self {
        let kept = Kept { idle_max: Some(idle_max), ..Kept::default() };
        Self(Arc::new(Mutex::new(kept)))
    }

    /// No code of ours panics while it holds the lock, so a poisoned one is as good as any.
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, session: &SessionId, new: bool) -> Result<Claim, StoreError> {
        let mut kept = self.kept();
        let exists = kept.logs.get(session).is_some_and(|log| log.last().is_some());
        match (new, exists) {
            (true, true) => return Err(StoreError::SessionExists(session.clone())),
            (false, false) => return Err(StoreError::NoSession(session.clone())),
            _ => {}
        }
        let log = kept.logs.entry(session.clone()).or_default();
        if log.claimed {
            return Err(StoreError::InUse(session.clone()));
        }
        log.claimed = true;
        log.epoch = if new { 1 } else { log.epoch + 1 };
        let guard = Guard { memory: self.clone(), session: session.clone() };
        Ok(Claim { session: session.clone(), epoch: log.epoch, guard: Box::new(guard) })
    }

    fn write(&self, claim: &Claim, after: Head, entries: Arc<[Entry]>) -> Result<(), StoreError> {
        let session = &claim.session;
        check_order(session, after, &entries)?;
        let mut kept = self.kept();
        let moved = || StoreError::Moved { session: session.clone(), after: after.seq };
        let log = kept.logs.get_mut(session).ok_or_else(moved)?;
        if log.epoch != claim.epoch || log.last().map(Entry::head).unwrap_or_default() != after {
            return Err(moved());
        }
        if !entries.is_empty() {
            log.appends.push(entries);
        }
        Ok(())
    }

    fn page(&self, session: &SessionId, after: u64, max: usize) -> Result<Vec<Entry>, StoreError> {
        let kept = self.kept();
        let log = kept.logs.get(session).filter(|log| log.last().is_some());
        let log = log.ok_or_else(|| StoreError::NoSession(session.clone()))?;
        Ok(log.after(after).take(max).cloned().collect())
    }

    fn list(&self, prefix: &str, count_max: usize) -> Vec<SessionRow> {
        let kept = self.kept();
        let begins = |(id, _): &(&SessionId, &Log)| id.as_str().starts_with(prefix);
        let mut rows: Vec<SessionRow> =
            kept.logs.iter().filter(begins).filter_map(|(id, log)| row(id, log)).collect();
        rows.sort_by(|a, b| (b.updated_ms, &b.id).cmp(&(a.updated_ms, &a.id)));
        rows.truncate(count_max);
        rows
    }
}

/// Gives the claim back when it is dropped.
struct Guard {
    memory: Memory,
    session: SessionId,
}

impl Drop for Guard {
    fn drop(&mut self) {
        let mut kept = self.memory.kept();
        kept.released += 1;
        let released = kept.released;
        if let Some(log) = kept.logs.get_mut(&self.session) {
            (log.claimed, log.released) = (false, released);
        }
        kept.forget();
    }
}

fn row(id: &SessionId, log: &Log) -> Option<SessionRow> {
    let (first, last) = (log.entries().next()?, log.last()?);
    let mut row = SessionRow {
        id: id.clone(),
        started_ms: first.at_ms,
        updated_ms: last.at_ms,
        entries: last.seq,
        turns: last.turn,
        title: String::new(),
        stop: None,
        tokens: 0,
        cost_nano_usd: 0,
    };
    let mut titled = false;
    for entry in log.entries() {
        let columns = entry.columns();
        row.tokens += columns.usage.total();
        row.cost_nano_usd += columns.cost_nano_usd.unwrap_or(0);
        match &entry.event {
            Event::PromptSubmitted(_) | Event::Woken(_) | Event::TurnEnded(_) => {
                row.stop = columns.stop.map(str::to_owned);
            }
            _ => {}
        }
        if matches!(entry.event, Event::PromptSubmitted(_)) && !titled {
            titled = true;
            row.title = columns.preview.unwrap_or_default();
        }
    }
    Some(row)
}

impl Store for Memory {
    fn create(&self, session: &SessionId) -> BoxFuture<'static, Result<Claim, StoreError>> {
        Box::pin(ready(self.take(session, true)))
    }

    fn claim(&self, session: &SessionId) -> BoxFuture<'static, Result<Claim, StoreError>> {
        Box::pin(ready(self.take(session, false)))
    }

    fn append(
        &self,
        claim: &Claim,
        after: Head,
        entries: Arc<[Entry]>,
    ) -> BoxFuture<'static, Result<(), StoreError>> {
        Box::pin(ready(self.write(claim, after, entries)))
    }

    fn read(
        &self,
        session: &SessionId,
        after: u64,
        count_max: usize,
    ) -> BoxFuture<'static, Result<Vec<Entry>, StoreError>> {
        Box::pin(ready(self.page(session, after, count_max)))
    }

    fn sessions(
        &self,
        prefix: &str,
        count_max: usize,
    ) -> BoxFuture<'static, Result<Vec<SessionRow>, StoreError>> {
        Box::pin(ready(Ok(self.list(prefix, count_max))))
    }

    fn blobs(&self) -> Option<Arc<dyn Blobs>> {
        Some(Arc::new(self.clone()))
    }
}

/// A blob in memory.
#[derive(Debug)]
struct Blob {
    bytes: Arc<[u8]>,
    /// The place of its last put among all.
    put: u64,
    put_ms: i64,
}

impl Kept {
    /// Keeps a blob; of a store that forgets, those that were put longest ago make room.
    fn keep(&mut self, hash: Hash, bytes: Arc<[u8]>) {
        let is_bounded = self.idle_max.is_some();
        self.puts += 1;
        self.blobs_bytes += bytes.len();
        let blob = Blob { bytes, put: self.puts, put_ms: now_ms() };
        if let Some(before) = self.blobs.insert(hash, blob) {
            self.blobs_bytes -= before.bytes.len();
        }
        while is_bounded && self.blobs_bytes > BLOBS_BYTES_MAX && self.blobs.len() > 1 {
            let oldest = self.blobs.iter().min_by_key(|(_, blob)| blob.put).map(|(hash, _)| *hash);
            oldest.into_iter().for_each(|hash| self.let_go(&hash));
        }
    }

    fn let_go(&mut self, hash: &Hash) {
        if let Some(blob) = self.blobs.remove(hash) {
            self.blobs_bytes -= blob.bytes.len();
        }
    }
}

impl Blobs for Memory {
    fn put(&self, bytes: Arc<[u8]>) -> BoxFuture<'static, Result<Hash, StoreError>> {
        let hash = Hash::of_bytes(&bytes);
        self.kept().keep(hash, bytes);
        Box::pin(ready(Ok(hash)))
    }

    fn get(&self, hash: &Hash) -> BoxFuture<'static, Result<Option<Arc<[u8]>>, StoreError>> {
        let found = self.kept().blobs.get(hash).map(|blob| blob.bytes.clone());
        Box::pin(ready(Ok(found)))
    }

    fn old(
        &self,
        after: &Hash,
        before_ms: i64,
        count_max: usize,
    ) -> BoxFuture<'static, Result<Vec<Hash>, StoreError>> {
        let kept = self.kept();
        let old = |(hash, blob): &(&Hash, &Blob)| *hash > after && blob.put_ms < before_ms;
        let mut old: Vec<Hash> = kept.blobs.iter().filter(old).map(|(hash, _)| *hash).collect();
        old.sort_unstable();
        old.truncate(count_max);
        Box::pin(ready(Ok(old)))
    }

    fn remove(&self, hash: &Hash, before_ms: i64) -> BoxFuture<'static, Result<bool, StoreError>> {
        let mut kept = self.kept();
        let is_old = kept.blobs.get(hash).is_some_and(|blob| blob.put_ms < before_ms);
        if is_old {
            kept.let_go(hash);
        }
        Box::pin(ready(Ok(is_old)))
    }
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
