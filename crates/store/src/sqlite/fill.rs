//! Makes what is kept beside the entries for a database whose entries an older version wrote.

use inspan_core::{
    event::Entry,
    store::{ENTRIES_READ_MAX, SessionId},
    stored::{Changes, Standing},
};
use sqlx::SqliteConnection;

use super::sql::{
    rows::{insert_refs, plain, read_own},
    texts,
};

/// The mark in the file that says that this was done.
pub(super) const FILLED: i64 = 1;

const MARK: &str = "PRAGMA user_version = 1";

const UPDATE: &str = "
    UPDATE sessions SET format = $1, agent = $2, workdir = $3, standing = $4, stop = $5,
        wake_ms = $6
    WHERE id = $7";

/// Whether it was done.
pub(super) async fn is_filled(connection: &mut SqliteConnection) -> sqlx::Result<bool> {
    let mark: i64 = sqlx::query_scalar("PRAGMA user_version").fetch_one(connection).await?;
    Ok(mark >= FILLED)
}

/// Does it, all or nothing.
pub(super) async fn fill(connection: &mut SqliteConnection) -> sqlx::Result<()> {
    sqlx::query("BEGIN IMMEDIATE").execute(&mut *connection).await?;
    let filled = fill_all(connection).await;
    let end = if filled.is_ok() { "COMMIT" } else { "ROLLBACK" };
    sqlx::query(end).execute(connection).await?;
    filled
}

async fn fill_all(connection: &mut SqliteConnection) -> sqlx::Result<()> {
    let sessions: Vec<String> =
        sqlx::query_scalar("SELECT id FROM sessions").fetch_all(&mut *connection).await?;
    for session in sessions {
        // What can't be read is told when somebody asks for it, and holds up nothing else.
        let Ok(session) = SessionId::try_from(session) else { continue };
        match fill_one(connection, &session).await {
            Ok(()) | Err(sqlx::Error::ColumnDecode { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    sqlx::query(MARK).execute(connection).await.map(drop)
}

async fn fill_one(connection: &mut SqliteConnection, session: &SessionId) -> sqlx::Result<()> {
    let mut log: Vec<Entry> = Vec::new();
    loop {
        let after = log.last().map_or(0, |entry| entry.seq);
        let page = read_own(connection, session, after, u64::MAX, ENTRIES_READ_MAX).await?;
        let placed: Vec<_> = page.iter().map(|entry| (session, entry)).collect();
        insert_refs(connection, &placed).await?;
        texts::keep(connection, &placed).await?;
        let is_last = page.len() < ENTRIES_READ_MAX;
        log.extend(page);
        if is_last {
            break;
        }
    }
    let changes = Changes::of(&log);
    let (standing, stop) = changes.standing.unwrap_or((Standing::Idle, None));
    sqlx::query(UPDATE)
        .bind(i64::from(changes.format))
        .bind(plain(changes.agent.unwrap_or_default()))
        .bind(plain(changes.workdir.unwrap_or_default()))
        .bind(standing.as_str())
        .bind(stop.map(|stop| stop.as_str()))
        .bind(changes.wake_ms.flatten())
        .bind(session.as_str())
        .execute(connection)
        .await
        .map(drop)
}
