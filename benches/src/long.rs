//! A session with a long past, made by the same fold and the same decisions as a live one, with
//! replies and results in place of a model and tools.

use std::{error::Error, fs, path::Path, sync::Arc};

use inspan_core::{
    Action, Entry, Event, Policy, State,
    blobs::Blobs,
    budget::RESULT_BYTES_MAX,
    decide,
    event::{GateJudged, ModelReplied, PromptSubmitted, RoundStarted, ToolFinished, ToolStarted},
    gate::{Asking, Verdict},
    hash::Hash,
    message::{
        BlobRef, Content, How, Labels, Reply, ReplyPart, ReplyStop, ToolCall, ToolResult, Usage,
    },
    snapshot::{self, FOLD_VERSION, PIECE_BYTES, Pieces, Written},
    store::{Claim, NewPieces, SessionFilter, SessionId, Snapshot, Store},
};
use inspan_engine::session::fold;
use inspan_store::Sqlite;
use serde_json::json;

/// Entries that become durable at once while the past is made.
const BATCH: usize = 1_000;
/// Rounds of each turn.
const TURN_ROUNDS: u32 = 200;
/// Bytes of most results.
const RESULT_BYTES: usize = 600;
/// Every so many results, one is too long for the log.
const LONG_EVERY: u64 = 130;
/// Bytes of those.
const LONG_BYTES: usize = 640_000;

/// Makes the only session of the home `folder` this many entries long, and gives its name.
///
/// # Errors
/// The database or the blobs can't be written.
pub(crate) fn grow(folder: &Path, entries: u64) -> Result<SessionId, Box<dyn Error>> {
    runtime()?.block_on(async {
        let store = Sqlite::open(&folder.join("sessions.db")).await?;
        let rows = store.sessions(&SessionFilter::all(1)).await?;
        let id = rows.into_iter().next().ok_or("the home has no session")?.id;
        let state = fold(&store, &id).await?;
        let blobs = store.blobs().ok_or("the store has no place for blobs")?;
        let claim = store.claim(&id).await?;
        let mut past =
            Past { store: &store, blobs, claim, stored: state.head, state, batch: Vec::new() };
        past.grow(entries).await?;
        drop(past);
        store.close().await;
        Ok(id)
    })
}

/// Keeps a snapshot of the session at its end, as a driver does after a turn.
///
/// # Errors
/// The database can't be written.
pub(crate) fn keep(folder: &Path, id: &SessionId) -> Result<(), Box<dyn Error>> {
    runtime()?.block_on(async {
        let store = Sqlite::open(&folder.join("sessions.db")).await?;
        let state = fold(&store, id).await?;
        let Written { rest, new, .. } =
            snapshot::write(&state, Pieces::default(), PIECE_BYTES).ok_or("can't be written")?;
        let snapshot = Snapshot { seq: state.head.seq, version: FOLD_VERSION, bytes: rest.into() };
        let bytes = new.into_iter().map(Into::into).collect();
        let claim = store.claim(id).await?;
        store.keep_snapshot(&claim, snapshot, NewPieces { before: 0, bytes }).await?;
        drop(claim);
        store.close().await;
        Ok(())
    })
}

/// Copies a home. Blobs, which nobody writes twice, are the same files in both.
///
/// # Errors
/// A file can't be read or written.
pub(crate) fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy(&from, &to)?;
        } else if from.components().any(|part| part.as_os_str() == "sessions.db.blobs") {
            fs::hard_link(from, to)?;
        } else {
            fs::copy(from, to)?;
        }
    }
    Ok(())
}

/// Bytes of all files in a folder.
///
/// # Errors
/// It can't be read.
pub(crate) fn bytes(folder: &Path) -> std::io::Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let found = entry.metadata()?;
        sum += if found.is_dir() { bytes(&entry.path())? } else { found.len() };
    }
    Ok(sum)
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

struct Past<'a> {
    store: &'a Sqlite,
    blobs: Arc<dyn Blobs>,
    claim: Claim,
    stored: inspan_core::event::Head,
    state: State,
    batch: Vec<Entry>,
}

impl Past<'_> {
    /// Whole turns until there are at least so many entries.
    async fn grow(&mut self, entries: u64) -> Result<(), Box<dyn Error>> {
        loop {
            let policy = Policy { now_ms: self.state.at_ms, asking: Asking::Never };
            match decide(&self.state, &policy) {
                Action::AppendEvent(event) => self.add(event),
                Action::CallModel(started) => {
                    let reply = self.reply(&started);
                    self.add(started);
                    self.add(reply);
                }
                Action::JudgeCall(call) => {
                    let gate = String::new();
                    self.add(GateJudged { call, gate, verdict: Verdict::Allow, arguments: None });
                }
                Action::RunTool(started) => {
                    let result = self.result().await?;
                    self.add(started.clone());
                    self.add(finished(started, result));
                }
                Action::Idle { .. } if self.state.head.seq >= entries => {
                    return self.write().await;
                }
                Action::Idle { .. } => self.add(PromptSubmitted {
                    content: vec![Content::text("Go on with the next part of the work.")],
                    labels: Labels::default(),
                }),
                other => return Err(format!("no past has {other:?}").into()),
            }
            if self.batch.len() >= BATCH {
                self.write().await?;
            }
        }
    }

    fn add(&mut self, event: impl Into<Event>) {
        let entry = self.state.entry(self.state.at_ms + 1, event.into());
        self.state.apply(&entry);
        self.batch.push(entry);
    }

    async fn write(&mut self) -> Result<(), Box<dyn Error>> {
        let entries: Arc<[Entry]> = std::mem::take(&mut self.batch).into();
        self.store.append(&self.claim, self.stored, entries).await?;
        self.stored = self.state.head;
        Ok(())
    }

    /// A call, and at the end of a turn a word.
    fn reply(&self, started: &RoundStarted) -> ModelReplied {
        let seq = self.state.head.seq;
        let part = if started.round > TURN_ROUNDS {
            ReplyPart::Text { text: format!("That part is done, at entry {seq}.") }
        } else {
            ReplyPart::Call(ToolCall {
                id: Default::default(),
                provider_id: Some(format!("toolu_{seq:024}")),
                name: "echo".to_owned(),
                arguments: json!({ "text": format!("the words of entry {seq}") }).to_string(),
                complete: true,
            })
        };
        let usage = Usage { input: Some(100), output: Some(20), ..Usage::default() };
        let reply = Reply {
            parts: vec![part],
            stop: ReplyStop::End,
            usage,
            issuer: "anthropic://bench".to_owned(),
            model: "bench".to_owned(),
            provider_id: format!("msg_{seq:024}"),
        };
        ModelReplied { reply, cost_nano_usd: None, first_ms: 1, ms: 2 }
    }

    /// Text; from time to time more than the log takes.
    async fn result(&self) -> Result<ToolResult, Box<dyn Error>> {
        let seq = self.state.head.seq;
        // About five entries a round.
        if !(seq / 5).is_multiple_of(LONG_EVERY) {
            return Ok(ToolResult::text(text(seq, RESULT_BYTES)));
        }
        let whole = text(seq, LONG_BYTES);
        let shown =
            ToolResult::text(whole.chars().take(RESULT_BYTES_MAX - 100).collect::<String>());
        let (hash, lines) = (self.blobs.put(whole.as_bytes().into()).await?, whole.lines().count());
        debug_assert_eq!(hash, Hash::of_bytes(whole.as_bytes()));
        let spilled = BlobRef { hash, size_bytes: whole.len() as u64, lines: lines as u64 };
        Ok(ToolResult { spilled: Some(spilled), ..shown })
    }
}

fn finished(started: ToolStarted, result: ToolResult) -> ToolFinished {
    let ToolStarted { call, name, .. } = started;
    ToolFinished { call, name, how: How::Ok, result, labels: Labels::default(), ms: 3 }
}

/// So many bytes of lines that no other result has.
fn text(seq: u64, bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 64);
    let mut line = 0_u64;
    while text.len() < bytes {
        line += 1;
        let number = (seq << 20 | line).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        text += &format!("{line}: \"value\" {number:x} of entry {seq}\n");
    }
    text.truncate(bytes);
    text
}
