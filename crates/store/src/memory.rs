//! Logs in memory: gone with their process, the same in every other way.

mod lists;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    future::ready,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use inspan_core::{
    event::{Entry, Event, FORMAT_VERSION, Head, Stop},
    gate::BoxFuture,
    hash::Hash,
    message::CallId,
    store::{
        ANSWERS_LEFT_MAX, AnswerLeft, Archive, Blobs, Claim, Found, NewPieces, SessionFilter,
        SessionId, SessionRow, Snapshot, Store, StoreError, Wrong,
    },
    stored::{self, Changes},
};

use crate::{
    check_order,
    words::{Query, words},
};

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
    /// The session that it was forked from, and the last entry that they share.
    parent: Option<(SessionId, u64)>,
    /// It was removed and is kept for its forks.
    is_removed: bool,
    snapshot: Option<Snapshot>,
    pieces: Vec<Arc<[u8]>>,
    /// What was left for whoever drives it, by the call.
    answers: BTreeMap<CallId, AnswerLeft>,
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
        let parents: BTreeSet<&SessionId> =
            self.logs.values().filter_map(|log| log.parent.as_ref().map(|(id, _)| id)).collect();
        let idle = self
            .logs
            .iter()
            .filter(|(id, log)| !log.claimed && !log.is_parked() && !parents.contains(id));
        let mut idle: Vec<(u64, SessionId)> =
            idle.map(|(id, log)| (log.released, id.clone())).collect();
        idle.sort_unstable();
        let over = idle.len().saturating_sub(idle_max);
        for (_, id) in idle.into_iter().take(over) {
            self.logs.remove(&id);
        }
    }

    /// The log of a session that others can see.
    fn log(&self, session: &SessionId) -> Result<&Log, StoreError> {
        let log = self.logs.get(session).filter(|log| log.last().is_some() && !log.is_removed);
        log.ok_or_else(|| StoreError::NoSession(session.clone()))
    }

    /// The logs that others can see.
    fn seen(&self) -> impl Iterator<Item = (&SessionId, &Log)> {
        self.logs.iter().filter(|(_, log)| log.last().is_some() && !log.is_removed)
    }

    /// The parts of a session's log, the oldest first: each with its last entry that counts.
    fn lineage(&self, session: &SessionId) -> Vec<(&Log, u64)> {
        let mut parts = Vec::new();
        let (mut next, mut upto) = (Some(session), u64::MAX);
        while let Some(log) = next.and_then(|session| self.logs.get(session)) {
            parts.push((log, upto));
            upto = log.parent.as_ref().map_or(upto, |(_, seq)| upto.min(*seq));
            next = log.parent.as_ref().map(|(parent, _)| parent);
        }
        parts.reverse();
        parts
    }

    fn has_forks(&self, session: &SessionId) -> bool {
        self.logs.values().any(|log| log.parent.as_ref().is_some_and(|(id, _)| id == session))
    }

    fn remove(&mut self, session: &SessionId) -> Result<(), StoreError> {
        if self.log(session)?.claimed {
            return Err(StoreError::InUse(session.clone()));
        }
        if self.has_forks(session) {
            if let Some(log) = self.logs.get_mut(session) {
                (log.is_removed, log.snapshot) = (true, None);
                log.pieces.clear();
            }
            return Ok(());
        }
        let mut gone = session.clone();
        while let Some(log) = self.logs.remove(&gone) {
            let Some((parent, _)) = log.parent else { break };
            let is_hidden = self.logs.get(&parent).is_some_and(|log| log.is_removed);
            if !is_hidden || self.has_forks(&parent) {
                break;
            }
            gone = parent;
        }
        Ok(())
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
        if !new {
            check_format(session, kept.log(session)?)?;
        } else if kept.logs.get(session).is_some_and(|log| log.last().is_some()) {
            return Err(StoreError::SessionExists(session.clone()));
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
        let fork = entries.first().and_then(|first| stored::forked_from(&first.event));
        let is_new = kept.logs.get(session).is_some_and(|log| log.last().is_none());
        let fork = fork.filter(|(_, at)| is_new && *at == after);
        if let Some((parent, at)) = fork {
            let there = kept.log(parent).is_ok()
                && kept.lineage(parent).iter().any(|(log, upto)| {
                    let place = log.after(at.seq - 1).next().filter(|entry| entry.seq <= *upto);
                    place.is_some_and(|entry| entry.head() == at)
                });
            if !there {
                return Err(StoreError::NoEntry { session: parent.clone(), seq: at.seq });
            }
        }
        let log = kept.logs.get_mut(session).ok_or_else(moved)?;
        let head = log.last().map(Entry::head).unwrap_or_default();
        if log.epoch != claim.epoch || fork.is_none() && head != after {
            return Err(moved());
        }
        if let Some((parent, at)) = fork {
            log.parent = Some((parent.clone(), at.seq));
        }
        for entry in entries.iter() {
            if let Event::PermissionAnswered(e) = &entry.event {
                log.answers.remove(&e.call);
            }
        }
        if !entries.is_empty() {
            log.appends.push(entries);
        }
        Ok(())
    }

    fn keep_answer(&self, session: &SessionId, answer: AnswerLeft) -> Result<(), StoreError> {
        let mut kept = self.kept();
        kept.log(session)?;
        let log = kept.logs.entry(session.clone()).or_default();
        if log.answers.len() >= ANSWERS_LEFT_MAX && !log.answers.contains_key(&answer.call) {
            let what = format!("session {session}");
            let why =
                format!("{ANSWERS_LEFT_MAX} answers wait for it already: nothing was recorded");
            return Err(StoreError::Other { what, why });
        }
        log.answers.entry(answer.call.clone()).or_insert(answer);
        Ok(())
    }

    fn page(&self, session: &SessionId, after: u64, max: usize) -> Result<Vec<Entry>, StoreError> {
        let kept = self.kept();
        kept.log(session)?;
        let parts = kept.lineage(session);
        let entries = parts
            .iter()
            .flat_map(|(log, upto)| log.after(after).take_while(move |entry| entry.seq <= *upto));
        Ok(entries.take(max).cloned().collect())
    }

    fn find(&self, words: &str, count_max: usize) -> Vec<Found> {
        let Some(query) = Query::parse(words) else { return Vec::new() };
        let kept = self.kept();
        let mut found: Vec<Found> = kept
            .seen()
            .flat_map(|(session, log)| log.entries().map(move |entry| (session, entry)))
            .filter(|(_, entry)| is_found(&query, entry))
            .map(|(session, entry)| Found { session: session.clone(), entry: entry.clone() })
            .collect();
        let place = |found: &Found| (found.entry.at_ms, found.session.clone(), found.entry.seq);
        found.sort_by_key(|found| std::cmp::Reverse(place(found)));
        found.truncate(count_max);
        found
    }

    fn unnamed(&self, hashes: &[Hash]) -> Vec<Hash> {
        let kept = self.kept();
        let entries = kept.logs.values().flat_map(Log::entries);
        let named: BTreeSet<Hash> = entries.flat_map(|entry| stored::blobs(&entry.event)).collect();
        hashes.iter().filter(|hash| !named.contains(*hash)).copied().collect()
    }
}

/// Refuses a log that a newer version wrote.
fn check_format(session: &SessionId, log: &Log) -> Result<(), StoreError> {
    let mut changes = Changes::default();
    log.entries().for_each(|entry| changes.add(entry));
    if changes.format > FORMAT_VERSION {
        let what = format!("session {session} (format {} of {FORMAT_VERSION})", changes.format);
        return Err(StoreError::Newer { what });
    }
    Ok(())
}

fn is_found(query: &Query, entry: &Entry) -> bool {
    let text = stored::searchable(&entry.event);
    text.is_some_and(|text| query.finds(&words(&text).collect::<Vec<_>>()))
}

/// Gives the claim back when it is dropped.
struct Guard {
    memory: Memory,
    session: SessionId,
}

impl inspan_core::store::Guard for Guard {}

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
        filter: &SessionFilter,
    ) -> BoxFuture<'static, Result<Vec<SessionRow>, StoreError>> {
        Box::pin(ready(Ok(self.list(filter))))
    }

    fn keep_snapshot(
        &self,
        claim: &Claim,
        snapshot: Snapshot,
        pieces: NewPieces,
    ) -> BoxFuture<'static, Result<(), StoreError>> {
        let mut kept = self.kept();
        let log = kept.logs.get_mut(&claim.session).filter(|log| log.epoch == claim.epoch);
        if let Some(log) = log {
            log.snapshot = Some(snapshot);
            log.pieces.truncate(pieces.before as usize);
            log.pieces.extend(pieces.bytes);
        }
        Box::pin(ready(Ok(())))
    }

    fn snapshot(
        &self,
        session: &SessionId,
    ) -> BoxFuture<'static, Result<Option<Snapshot>, StoreError>> {
        let snapshot = self.kept().logs.get(session).and_then(|log| log.snapshot.clone());
        Box::pin(ready(Ok(snapshot)))
    }

    fn snapshot_piece(
        &self,
        session: &SessionId,
        number: u32,
    ) -> BoxFuture<'static, Result<Option<Arc<[u8]>>, StoreError>> {
        let kept = self.kept();
        let log = kept.logs.get(session);
        let piece = log.and_then(|log| log.pieces.get(number as usize)).cloned();
        Box::pin(ready(Ok(piece)))
    }

    fn leave_answer(
        &self,
        session: &SessionId,
        answer: AnswerLeft,
    ) -> BoxFuture<'static, Result<(), StoreError>> {
        Box::pin(ready(self.keep_answer(session, answer)))
    }

    fn answers_left(
        &self,
        session: &SessionId,
    ) -> BoxFuture<'static, Result<Vec<AnswerLeft>, StoreError>> {
        let kept = self.kept();
        let left = kept.logs.get(session).map(|log| log.answers.values().cloned().collect());
        Box::pin(ready(Ok(left.unwrap_or_default())))
    }

    fn blobs(&self) -> Option<Arc<dyn Blobs>> {
        Some(Arc::new(self.clone()))
    }
}

impl Archive for Memory {
    fn search(
        &self,
        words: &str,
        count_max: usize,
    ) -> BoxFuture<'static, Result<Vec<Found>, StoreError>> {
        Box::pin(ready(Ok(self.find(words, count_max))))
    }

    fn remove(&self, session: &SessionId) -> BoxFuture<'static, Result<(), StoreError>> {
        Box::pin(ready(self.kept().remove(session)))
    }

    fn unreferenced(&self, hashes: &[Hash]) -> BoxFuture<'static, Result<Vec<Hash>, StoreError>> {
        Box::pin(ready(Ok(self.unnamed(hashes))))
    }

    fn due(
        &self,
        now_ms: i64,
        count_max: usize,
    ) -> BoxFuture<'static, Result<Vec<SessionId>, StoreError>> {
        Box::pin(ready(Ok(self.due_at(now_ms, count_max))))
    }

    /// There are no columns beside the entries.
    fn check(&self, session: &SessionId) -> BoxFuture<'static, Result<Vec<Wrong>, StoreError>> {
        Box::pin(ready(self.kept().log(session).map(|_| Vec::new())))
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
