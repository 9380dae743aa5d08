//! What durability costs on this disk: `cargo run --release -p inspan-store --example appends`.
//!
//! Prints how long opening takes, durable appends a second for one session and for 64 at once, and
//! how long a list takes over thousands of sessions. Give it a folder to measure another disk.

use std::{
    error::Error,
    io::{Write, stdout},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::try_join_all;
use inspan_core::{
    event::{Entry, Event, Head, PromptSubmitted},
    message::{Content, Labels},
    store::{SessionFilter, SessionId, Store, StoreError},
};
use inspan_store::Sqlite;

/// Characters of text in each entry.
const TEXT_CHARS: usize = 500;

/// Appends measured in all.
const APPENDS: usize = 6_400;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn Error>> {
    let parent = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = tempfile::tempdir_in(parent)?;
    let path = folder.path().join("log.db");
    let began = Instant::now();
    let store = Sqlite::open(&path).await?;
    tell("first opening", began.elapsed())?;
    store.close().await;

    let mut times = Vec::new();
    for _ in 0..20 {
        let began = Instant::now();
        let store = Sqlite::open(&path).await?;
        times.push(began.elapsed());
        store.close().await;
    }
    times.sort_unstable();
    tell("opening again, median of 20", times[10])?;

    let store = Sqlite::open(&path).await?;
    for writers in [1, 64] {
        let began = Instant::now();
        let count = if writers == 1 { APPENDS / 8 } else { APPENDS };
        let session = |number| write(&store, format!("w{writers}-{number}"), count / writers);
        try_join_all((0..writers).map(session)).await?;
        let rate = count as f64 / began.elapsed().as_secs_f64();
        writeln!(stdout(), "{writers:>2} at once: {rate:.0} durable appends a second")?;
    }
    try_join_all((0..5_000).map(|number| write(&store, format!("s-{number}"), 1))).await?;
    for _ in 0..2 {
        let began = Instant::now();
        let rows = store.sessions(&SessionFilter::all(50)).await?;
        tell(&format!("list of {} out of 5,065 sessions", rows.len()), began.elapsed())?;
    }
    let began = Instant::now();
    let rows = store.sessions(&SessionFilter::all(10_000)).await?;
    tell(&format!("list of all {}", rows.len()), began.elapsed())?;
    store.close().await;
    Ok(())
}

fn tell(what: &str, took: Duration) -> std::io::Result<()> {
    writeln!(stdout(), "{what}: {:.2} ms", took.as_secs_f64() * 1e3)
}

/// One session, `count` appends of one entry, each durable before the next.
async fn write(store: &Sqlite, name: String, count: usize) -> Result<(), StoreError> {
    let session = SessionId::try_from(name)
        .map_err(|why| StoreError::Other { what: "an example".into(), why })?;
    let claim = store.create(&session).await?;
    let mut head = Head::default();
    for at_ms in (0..).take(count) {
        let content = vec![Content::text("x".repeat(TEXT_CHARS))];
        let event = Event::from(PromptSubmitted { content, labels: Labels::default() });
        let entry = Entry::next(head, at_ms, 1, 0, event);
        let next = entry.head();
        store.append(&claim, head, Arc::from([entry])).await?;
        head = next;
    }
    Ok(())
}
