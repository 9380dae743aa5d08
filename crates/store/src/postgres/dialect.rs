//! What is Postgres's own in the SQL.

use std::{borrow::Cow, time::Duration};

use inspan_core::store::{SessionId, StoreError};
use sqlx::QueryBuilder;

pub(super) use sqlx::postgres::{
    PgConnection as Connection, PgPool as Pool, PgQueryResult as QueryResult, PgRow as RawRow,
    Postgres as Database,
};

pub(super) use super::open::Place;
use super::{fault, leases::LEASE_MS_MAX, news, sql::big};
use crate::words::{Query, to_tsvector};

/// How long one commit may take; after that its connection is given up.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(60);

/// Now, in milliseconds since 1970, by the clock of the database.
macro_rules! now_ms {
    () => {
        "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)"
    };
}
pub(super) use now_ms;

pub(super) const BEGIN: &str = "BEGIN";

pub(super) const FOUND_ENTRIES: &str = "
    FROM words w
    JOIN entries e ON e.session_id = w.session_id AND e.seq = w.seq
    WHERE w.words @@ CAST(";
pub(super) const FOUND_END: &str = " AS tsquery)";

pub(super) const FOUND_SESSIONS: &str = "
    AND id IN (SELECT w.session_id FROM words w WHERE w.words @@ CAST(";
pub(super) const FOUND_SESSIONS_END: &str = " AS tsquery))";

pub(super) const FORGET_TEXTS: [&str; 1] = ["DELETE FROM words WHERE session_id = $1"];

/// The second in which the database was made.
pub(super) const MADE_S: &str = "
    SELECT CAST(FLOOR(EXTRACT(EPOCH FROM installed_on)) AS BIGINT)
    FROM _sqlx_migrations WHERE version = 1";

const NOBODY_HOLDS: &str = concat!(
    " AND NOT EXISTS (SELECT 1 FROM claims c WHERE c.session_id = sessions.id
        AND c.until_ms BETWEEN ",
    now_ms!(),
    " AND ",
    now_ms!(),
    " + "
);

/// Asks for sessions without a lease.
pub(super) fn nobody_holds(sql: &mut QueryBuilder<Database>) {
    sql.push(NOBODY_HOLDS).push_bind(LEASE_MS_MAX.cast_signed()).push(")");
}

pub(super) fn query(query: &Query) -> String {
    query.to_tsquery()
}

/// Keeps the words of texts, each by the session and the entry that it stands in.
pub(super) async fn keep_texts(
    connection: &mut Connection,
    texts: &[(&SessionId, u64, Cow<'_, str>)],
) -> sqlx::Result<()> {
    let mut sql = QueryBuilder::new("INSERT INTO words (session_id, seq, words) ");
    sql.push_values(texts, |mut row, (session, seq, text)| {
        row.push_bind(session.as_str())
            .push_bind(big(*seq))
            .push("CAST(")
            .push_bind_unseparated(to_tsvector(text))
            .push_unseparated(" AS tsvector)");
    });
    sql.build().execute(connection).await.map(drop)
}

/// Whether the connection is of no use any more.
pub(super) fn is_lost(error: &sqlx::Error) -> bool {
    fault::is_lost(error)
}

/// Whether an error can be damage in what is made of entries: a broken index, a
/// table that is gone, a row that is there already.
pub(super) fn is_damage(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|said| said.code()).unwrap_or_default();
    ["XX001", "XX002", "42P01", "42703", "23505"].contains(&&*code)
}

/// What was left out of the words is not found; whoever repairs the database makes them anew.
pub(super) async fn mark_words(_connection: &mut Connection) -> sqlx::Result<()> {
    Ok(())
}

/// What is damaged stays: a statement that fails would end the transaction.
pub(super) async fn forget_damaged(
    _connection: &mut Connection,
    _sql: &'static str,
    _session: &SessionId,
) -> sqlx::Result<()> {
    Ok(())
}

/// A search fails as everything else does.
pub(super) async fn search_fault(_place: &Place, _error: &sqlx::Error) -> Option<StoreError> {
    None
}

/// Whether it is no use to try the parts of a group of `count` alone.
pub(super) fn is_final(error: &sqlx::Error, count: usize) -> bool {
    count == 1 && !fault::is_passing(error)
}

/// A network can fall silent in the middle of a commit.
pub(super) async fn in_time<T>(work: impl Future<Output = sqlx::Result<T>>) -> sqlx::Result<T> {
    let silent = || std::io::Error::new(std::io::ErrorKind::TimedOut, "no answer for too long");
    tokio::time::timeout(COMMIT_TIMEOUT, work).await.unwrap_or_else(|_| Err(silent().into()))
}

/// Tells others that sessions changed: after the commit, since telling in it would let commits
/// wait for one another. If it fails, whoever waits finds out by looking.
pub(super) async fn tell(connection: &mut Connection, sessions: impl Iterator<Item = &SessionId>) {
    let mut names: Vec<&str> = sessions.map(SessionId::as_str).collect();
    names.dedup();
    if !names.is_empty() {
        let told = sqlx::query(news::TELL).bind(names).execute(connection);
        let _ = in_time(told).await;
    }
}
