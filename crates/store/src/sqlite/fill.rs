//! Makes what is kept beside the entries for a database whose entries an older version wrote, and
//! the words anew where they were damaged.

use inspan_core::{
    event::Entry,
    store::{ENTRIES_READ_MAX, SessionId},
    stored::{Changes, Standing},
};
use sqlx::SqliteConnection;

use super::{
    fault,
    sql::{
        rows::{insert_refs, plain, read_own},
        texts::{self, Words},
    },
};

/// The mark in the file that says that this was done.
const FILLED: i64 = 1;

/// The mark that says that it was done, but that the words are damaged.
const WORDS: i64 = -1;

const MARK: &str = "PRAGMA user_version = 1";

/// Sets the second mark.
pub(super) const MARK_WORDS: &str = "PRAGMA user_version = -1";

/// Takes the words away, whatever is left of them, and makes the tables anew: as the migration does.
const NEW_WORDS: &str = "
    DROP TABLE IF EXISTS words;
    DROP TABLE IF EXISTS texts;
    CREATE TABLE texts (
        id INTEGER PRIMARY KEY,
        session_id TEXT NOT NULL REFERENCES sessions (id),
        seq BIGINT NOT NULL,
        UNIQUE (session_id, seq)
    );
    CREATE VIRTUAL TABLE words USING fts5 (
        text, content = '', contentless_delete = 1, tokenize = 'ascii'
    );";

const UPDATE: &str = "
    UPDATE sessions SET format = $1, agent = $2, workdir = $3, standing = $4, stop = $5,
        wake_ms = $6
    WHERE id = $7";

/// Whether it was done and nothing is damaged.
pub(super) async fn is_filled(connection: &mut SqliteConnection) -> sqlx::Result<bool> {
    Ok(mark(connection).await? >= FILLED)
}

/// Whether it was done: all but a search can be read.
pub(super) async fn can_be_read(connection: &mut SqliteConnection) -> sqlx::Result<bool> {
    Ok(mark(connection).await? != 0)
}

async fn mark(connection: &mut SqliteConnection) -> sqlx::Result<i64> {
    sqlx::query_scalar("PRAGMA user_version").fetch_one(connection).await
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filled {
    /// All was made that an older version did not make.
    All,
    /// Damaged words were made anew.
    Words,
    /// They are damaged in such a way that they can't be: the log goes on without them.
    Nothing,
}

/// Does it, all or nothing.
pub(super) async fn fill(connection: &mut SqliteConnection) -> sqlx::Result<Filled> {
    sqlx::query("BEGIN IMMEDIATE").execute(&mut *connection).await?;
    let filled = fill_marked(connection).await;
    let end = if filled.is_ok() { "COMMIT" } else { "ROLLBACK" };
    sqlx::query(end).execute(connection).await?;
    match filled {
        Ok(WORDS) => Ok(Filled::Words),
        Ok(_) => Ok(Filled::All),
        Err((WORDS, error)) if fault::is_damage(&error) => Ok(Filled::Nothing),
        Err((_, error)) => Err(error),
    }
}

/// The mark that was there, beside the error, too.
async fn fill_marked(connection: &mut SqliteConnection) -> Result<i64, (i64, sqlx::Error)> {
    let mark = mark(connection).await.map_err(|error| (0, error))?;
    let filled = match mark {
        FILLED.. => Ok(()),
        WORDS => fill_words(connection).await,
        _ => fill_all(connection).await,
    };
    filled.map_or_else(|error| Err((mark, error)), |()| Ok(mark))
}

async fn fill_words(connection: &mut SqliteConnection) -> sqlx::Result<()> {
    sqlx::raw_sql(NEW_WORDS).execute(&mut *connection).await?;
    let sessions: Vec<String> = sqlx::query_scalar("SELECT id FROM sessions WHERE removed = 0")
        .fetch_all(&mut *connection)
        .await?;
    for session in sessions {
        let Ok(session) = SessionId::try_from(session) else { continue };
        let mut after = 0;
        loop {
            let page = read_own(connection, &session, after, u64::MAX, ENTRIES_READ_MAX).await?;
            let placed: Vec<_> = page.iter().map(|entry| (&session, entry)).collect();
            texts::keep(connection, &placed, Words::Kept).await?;
            match page.last() {
                Some(last) if page.len() == ENTRIES_READ_MAX => after = last.seq,
                _ => break,
            }
        }
    }
    sqlx::query(MARK).execute(connection).await.map(drop)
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
        texts::keep(connection, &placed, Words::Kept).await?;
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
