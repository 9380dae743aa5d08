//! What is SQLite's own in the SQL.

use std::{borrow::Cow, collections::HashMap};

use inspan_core::store::{SessionId, StoreError};
use sqlx::{QueryBuilder, Row};

pub(super) use sqlx::sqlite::{
    Sqlite as Database, SqliteConnection as Connection, SqlitePool as Pool,
    SqliteQueryResult as QueryResult, SqliteRow as RawRow,
};

pub(super) use super::open::Place;
use super::{fault, fill, sql::big};
use crate::words::{Query, words};

/// A transaction that writes: it takes its turn at its beginning, and can't fail for that later.
pub(super) const BEGIN: &str = "BEGIN IMMEDIATE";

pub(super) const FOUND_ENTRIES: &str = "
    FROM words w
    JOIN texts t ON t.id = w.rowid
    JOIN entries e ON e.session_id = t.session_id AND e.seq = t.seq
    WHERE w.words MATCH ";
pub(super) const FOUND_END: &str = "";

pub(super) const FOUND_SESSIONS: &str = "
    AND id IN (SELECT t.session_id FROM words w JOIN texts t ON t.id = w.rowid
        WHERE w.words MATCH ";
pub(super) const FOUND_SESSIONS_END: &str = ")";

pub(super) const FORGET_TEXTS: [&str; 2] = [
    "DELETE FROM words WHERE rowid IN (SELECT id FROM texts WHERE session_id = $1)",
    "DELETE FROM texts WHERE session_id = $1",
];

/// The second in which the database was made.
pub(super) const MADE_S: &str =
    "SELECT CAST(strftime('%s', installed_on) AS INTEGER) FROM _sqlx_migrations WHERE version = 1";

/// The locks on files say who holds a session.
pub(super) fn nobody_holds(_sql: &mut QueryBuilder<Database>) {}

pub(super) fn query(query: &Query) -> String {
    query.to_fts5()
}

/// Keeps the words of texts, each by the session and the entry that it stands in.
pub(super) async fn keep_texts(
    connection: &mut Connection,
    texts: &[(&SessionId, u64, Cow<'_, str>)],
) -> sqlx::Result<()> {
    let mut sql = QueryBuilder::new("INSERT INTO texts (session_id, seq) ");
    sql.push_values(texts, |mut row, (session, seq, _)| {
        row.push_bind(session.as_str()).push_bind(big(*seq));
    });
    sql.push(" RETURNING id, session_id, seq");
    let numbered = sql.build().fetch_all(&mut *connection).await?;
    let mut numbers: HashMap<(&str, i64), i64> = HashMap::with_capacity(texts.len());
    for row in &numbered {
        numbers.insert((row.try_get("session_id")?, row.try_get("seq")?), row.try_get("id")?);
    }
    let mut sql = QueryBuilder::new("INSERT INTO words (rowid, text) ");
    sql.push_values(texts, |mut row, (session, seq, text)| {
        row.push_bind(numbers.get(&(session.as_str(), big(*seq))).copied())
            .push_bind(words(text).collect::<Vec<_>>().join(" "));
    });
    sql.build().execute(connection).await.map(drop)
}

/// A file does not go away while it is open.
pub(super) fn is_lost(_error: &sqlx::Error) -> bool {
    false
}

/// Whether an error can be damage in what is made of entries.
pub(super) fn is_damage(error: &sqlx::Error) -> bool {
    fault::is_damage(error)
}

/// Marks that the words must be made anew.
pub(super) async fn mark_words(connection: &mut Connection) -> sqlx::Result<()> {
    sqlx::query(fill::MARK_WORDS).execute(connection).await.map(drop)
}

/// Forgets as much of damaged words as can be.
pub(super) async fn forget_damaged(
    connection: &mut Connection,
    sql: &'static str,
    session: &SessionId,
) -> sqlx::Result<()> {
    mark_words(connection).await?;
    match sqlx::query(sql).bind(session.as_str()).execute(connection).await {
        Err(error) if !is_damage(&error) => Err(error),
        _ => Ok(()),
    }
}

/// What to tell when a search fails of damaged words, which are marked to be made anew.
pub(super) async fn search_fault(place: &Place, error: &sqlx::Error) -> Option<StoreError> {
    if !is_damage(error) {
        return None;
    }
    let marked = async { mark_words(&mut place.connect_again().await?).await };
    let when = match marked.await {
        Ok(()) => "they are made anew when Inspan is started next: try again",
        Err(_) => "they are made anew when Inspan is started next and may write",
    };
    let why = format!("the words that a search looks through are damaged: {when}");
    Some(StoreError::Other { what: place.to_string(), why })
}

/// Whether it is no use to try the parts of a group of `count` alone.
pub(super) fn is_final(error: &sqlx::Error, count: usize) -> bool {
    count == 1 || fault::is_busy(error)
}

/// SQLite itself limits how long it waits.
pub(super) async fn in_time<T>(work: impl Future<Output = sqlx::Result<T>>) -> sqlx::Result<T> {
    work.await
}

/// Other processes look at the file by themselves.
pub(super) async fn tell(
    _connection: &mut Connection,
    _sessions: impl Iterator<Item = &SessionId>,
) {
}
