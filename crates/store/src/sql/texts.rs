//! What a search looks through: kept in the transaction of the entries, found by the dialect.

use inspan_core::{
    store::{Found, SessionId},
    stored,
};
use sqlx::{FromRow, QueryBuilder};

use super::{
    dialect::{self, Connection, RawRow},
    rows::{EntryRow, Placed, id},
};
use crate::words::Query;

/// Whether words are kept. They are made from the entries and can be made again, so damage in them
/// keeps nothing from being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Words {
    /// As usual.
    Kept,
    /// They are damaged: what is written now is left out, and a mark says so.
    Left,
}

/// Keeps the words of the entries.
pub(crate) async fn keep(
    connection: &mut Connection,
    placed: &[Placed<'_>],
    words: Words,
) -> sqlx::Result<()> {
    let texts = placed.iter().filter_map(|(session, entry)| {
        stored::searchable(&entry.event).map(|text| (*session, entry.seq, text))
    });
    let texts: Vec<_> = texts.collect();
    match words {
        _ if texts.is_empty() => Ok(()),
        Words::Kept => dialect::keep_texts(connection, &texts).await,
        Words::Left => dialect::mark_words(connection).await,
    }
}

/// Forgets the words of a session.
pub(crate) async fn forget(
    connection: &mut Connection,
    session: &SessionId,
    words: Words,
) -> sqlx::Result<()> {
    for sql in dialect::FORGET_TEXTS {
        match words {
            Words::Kept => super::rows::execute(connection, sql, session).await?,
            Words::Left => dialect::forget_damaged(connection, sql, session).await?,
        }
    }
    Ok(())
}

/// The entries that are found, the newest first.
pub(crate) async fn search(
    connection: &mut Connection,
    words: &str,
    count_max: usize,
) -> sqlx::Result<Vec<Found>> {
    let Some(query) = Query::parse(words) else { return Ok(Vec::new()) };
    let mut sql = QueryBuilder::new(
        "SELECT e.session_id, e.seq, e.at_ms, e.turn, e.round, e.kind, e.version, e.hash, e.body ",
    );
    sql.push(dialect::FOUND_ENTRIES)
        .push_bind(dialect::query(&query))
        .push(dialect::FOUND_END)
        .push(" ORDER BY e.at_ms DESC, e.session_id DESC, e.seq DESC LIMIT ")
        .push_bind(i64::try_from(count_max).unwrap_or(i64::MAX));
    let rows: Vec<FoundRow> = sql.build_query_as().fetch_all(connection).await?;
    Ok(rows.into_iter().map(|row| row.0).collect())
}

struct FoundRow(Found);

impl FromRow<'_, RawRow> for FoundRow {
    fn from_row(row: &RawRow) -> sqlx::Result<Self> {
        let EntryRow(entry) = EntryRow::from_row(row)?;
        Ok(Self(Found { session: id(row, "session_id")?, entry }))
    }
}
