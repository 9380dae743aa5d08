//! What the machine takes for the same without Inspan: to keep bytes, and to send them.

use std::{
    error::Error,
    fs::OpenOptions,
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use inspan_core::{
    Entry, Event,
    event::{Head, PromptSubmitted},
    message::{Content, Labels},
    store::{SessionId, Store, StoreError},
};
use inspan_store::Sqlite;
use tokio::task::JoinSet;

use crate::{script, server::Server};

/// Bytes of one append to a plain file: a page of the database.
const PAGE: [u8; 4096] = [b'x'; 4096];

/// Appends to a file in `folder`, each durable before the next.
///
/// # Errors
/// The file can't be written.
pub(crate) fn appends(folder: &Path, count: usize) -> Result<Vec<Duration>, Box<dyn Error>> {
    let path = folder.join("plain");
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let began = Instant::now();
        file.write_all(&PAGE)?;
        file.sync_data()?;
        times.push(began.elapsed());
    }
    Ok(times)
}

/// Appends of one entry to a log in `folder`, each `pause` after the one before was durable, with
/// nothing of a session around them.
///
/// # Errors
/// The database can't be written.
pub(crate) fn commits(
    folder: &Path,
    count: usize,
    pause: Duration,
) -> Result<Vec<Duration>, Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let store = Sqlite::open(&folder.join("commits.db")).await?;
        let session = SessionId::try_from(format!("after-{}", pause.as_millis()))?;
        let times = append_all(&store, &session, count, pause).await?;
        store.close().await;
        Ok(times)
    })
}

/// Appends to a new session, each `pause` after the one before was durable.
async fn append_all(
    store: &Sqlite,
    session: &SessionId,
    count: usize,
    pause: Duration,
) -> Result<Vec<Duration>, StoreError> {
    let claim = store.create(session).await?;
    let mut head = Head::default();
    let mut times = Vec::with_capacity(count);
    for at_ms in (0..).take(count) {
        let content = vec![Content::text("x".repeat(500))];
        let event = Event::from(PromptSubmitted { content, labels: Labels::default() });
        let entry = Entry::next(head, at_ms, 1, 0, event);
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        let next = entry.head();
        let began = Instant::now();
        store.append(&claim, head, Arc::from([entry])).await?;
        times.push(began.elapsed());
        head = next;
    }
    Ok(times)
}

/// Entries a second that this many sessions in one database append at once, each entry durable
/// before its session's next.
///
/// # Errors
/// The database can't be written.
pub(crate) fn entries_a_second(
    folder: &Path,
    sessions: usize,
    each: usize,
) -> Result<f64, Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let store = Arc::new(Sqlite::open(&folder.join("writers.db")).await?);
        let mut writers = JoinSet::new();
        let began = Instant::now();
        for number in 0..sessions {
            let (store, session) =
                (store.clone(), SessionId::try_from(format!("writer-{number}"))?);
            writers.spawn(async move { append_all(&store, &session, each, Duration::ZERO).await });
        }
        while let Some(written) = writers.join_next().await {
            written??;
        }
        let rate = (sessions * each) as f64 / began.elapsed().as_secs_f64();
        store.close().await;
        Ok(rate)
    })
}

/// Requests of these many bytes over one connection, each from the first byte that is handed to
/// the system to the last one that arrives.
///
/// # Errors
/// The connection broke.
pub(crate) fn sendings(sizes: &[usize]) -> Result<Vec<Duration>, Box<dyn Error>> {
    let replies = script::rounds(sizes.len(), "none");
    let replies_bytes: Vec<usize> = replies.iter().map(Vec::len).collect();
    let server = Server::start(replies, Duration::ZERO, |_| {})?;
    let mut stream = TcpStream::connect(server.address())?;
    stream.set_nodelay(true)?;
    let mut begun = Vec::with_capacity(sizes.len());
    for (size, reply_bytes) in sizes.iter().zip(replies_bytes) {
        let body = vec![b'x'; *size];
        let head = format!("POST / HTTP/1.1\r\ncontent-length: {size}\r\n\r\n");
        let request = [head.as_bytes(), &body].concat();
        begun.push(Instant::now());
        stream.write_all(&request)?;
        stream.read_exact(&mut vec![0; reply_bytes])?;
    }
    drop(stream);
    let exchanges = server.finish()?;
    Ok(begun.iter().zip(exchanges).map(|(begun, exchange)| exchange.arrived - *begun).collect())
}
