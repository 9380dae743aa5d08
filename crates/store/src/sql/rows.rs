//! Entries as rows, and the questions asked of them. The SQL is the same for SQLite and Postgres.

use inspan_core::{
    event::{Entry, Head},
    hash::Hash,
    store::{SessionId, SessionRow},
};
use sqlx::{FromRow, QueryBuilder, Row, SqliteConnection, sqlite::SqliteRow};

const INSERT_SESSION: &str = "
    INSERT INTO sessions (id, epoch, head_seq, head_hash, started_ms, updated_ms)
    VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (id) DO NOTHING";

const MOVE_HEAD: &str = "
    UPDATE sessions SET head_seq = $1, head_hash = $2, updated_ms = $3
    WHERE id = $4 AND epoch = $5 AND head_seq = $6 AND head_hash = $7";

const INSERT_ENTRIES: &str = "
    INSERT INTO entries (
        session_id, seq, at_ms, turn, round, kind, version, call, name, how, stop,
        input_tokens, cache_read_tokens, cache_write_tokens, output_tokens, reasoning_tokens,
        cost_nano_usd, ms, preview, hash, body
    ) ";

/// Rows in one statement at most. Each has 21 values, and SQLite takes 32,766 in a statement.
const INSERT_ROWS_MAX: usize = 256;

const RAISE_EPOCH: &str = "UPDATE sessions SET epoch = epoch + 1 WHERE id = $1 RETURNING epoch";

const EPOCH: &str = "SELECT epoch FROM sessions WHERE id = $1";

const READ: &str = "
    SELECT seq, at_ms, turn, round, kind, version, hash, body FROM entries
    WHERE session_id = $1 AND seq > $2 ORDER BY seq LIMIT $3";

const LIST: &str = "
    SELECT
        s.id, s.started_ms, s.updated_ms, s.head_seq,
        (SELECT e.turn FROM entries e WHERE e.session_id = s.id AND e.seq = s.head_seq) AS turns,
        (SELECT e.preview FROM entries e
            WHERE e.session_id = s.id AND e.kind = 'PromptSubmitted'
            ORDER BY e.seq LIMIT 1) AS title,
        (SELECT e.stop FROM entries e
            WHERE e.session_id = s.id AND e.kind IN ('PromptSubmitted', 'Woken', 'TurnEnded')
            ORDER BY e.seq DESC LIMIT 1) AS stop,
        (SELECT CAST(SUM(COALESCE(e.input_tokens, 0) + COALESCE(e.cache_read_tokens, 0)
                + COALESCE(e.cache_write_tokens, 0) + COALESCE(e.output_tokens, 0)) AS BIGINT)
            FROM entries e
            WHERE e.session_id = s.id AND e.kind IN ('ModelReplied', 'ModelFailed')) AS tokens,
        (SELECT CAST(SUM(e.cost_nano_usd) AS BIGINT) FROM entries e
            WHERE e.session_id = s.id AND e.kind IN ('ModelReplied', 'ModelFailed')) AS cost
    FROM (
        SELECT id, started_ms, updated_ms, head_seq FROM sessions
        WHERE substr(id, 1, length($1)) = $1
        ORDER BY updated_ms DESC, id DESC LIMIT $2
    ) AS s
    ORDER BY s.updated_ms DESC, s.id DESC";

/// Moves the head from `after` to the last of `entries`; false when the log or the epoch is
/// another, or, for a first entry, when the session exists.
pub(super) async fn move_head(
    connection: &mut SqliteConnection,
    session: &SessionId,
    epoch: u64,
    after: Head,
    entries: &[Entry],
) -> sqlx::Result<bool> {
    let (Some(first), Some(last)) = (entries.first(), entries.last()) else {
        return Ok(true);
    };
    let moved = if after == Head::default() {
        sqlx::query(INSERT_SESSION)
            .bind(session.as_str())
            .bind(big(epoch))
            .bind(big(last.seq))
            .bind(last.hash.to_string())
            .bind(first.at_ms)
            .bind(last.at_ms)
    } else {
        sqlx::query(MOVE_HEAD)
            .bind(big(last.seq))
            .bind(last.hash.to_string())
            .bind(last.at_ms)
            .bind(session.as_str())
            .bind(big(epoch))
            .bind(big(after.seq))
            .bind(after.hash.to_string())
    };
    Ok(moved.execute(connection).await?.rows_affected() == 1)
}

/// Writes the entries' rows. Every statement goes to the thread of the connection and comes back,
/// so they share one.
pub(super) async fn insert(
    connection: &mut SqliteConnection,
    session: &SessionId,
    entries: &[Entry],
) -> sqlx::Result<()> {
    for entries in entries.chunks(INSERT_ROWS_MAX) {
        let mut query = QueryBuilder::new(INSERT_ENTRIES);
        query.push_values(entries, |mut row, entry| {
            let columns = entry.columns();
            row.push_bind(session.as_str())
                .push_bind(big(entry.seq))
                .push_bind(entry.at_ms)
                .push_bind(i64::from(entry.turn))
                .push_bind(i64::from(entry.round))
                .push_bind(entry.event.kind())
                .push_bind(i64::from(entry.version))
                .push_bind(columns.call)
                .push_bind(columns.name)
                .push_bind(columns.how)
                .push_bind(columns.stop)
                .push_bind(columns.usage.input.map(big))
                .push_bind(columns.usage.cache_read.map(big))
                .push_bind(columns.usage.cache_write.map(big))
                .push_bind(columns.usage.output.map(big))
                .push_bind(columns.usage.reasoning.map(big))
                .push_bind(columns.cost_nano_usd.map(big))
                .push_bind(columns.ms.map(big))
                .push_bind(columns.preview)
                .push_bind(entry.hash.to_string())
                .push_bind(entry.body.clone());
        });
        query.build().execute(&mut *connection).await?;
    }
    Ok(())
}

/// Raises the epoch of a session and gives the new one; `None` when there is no such session.
pub(super) async fn raise_epoch(
    connection: &mut SqliteConnection,
    session: &SessionId,
) -> sqlx::Result<Option<u64>> {
    let epoch: Option<i64> =
        sqlx::query_scalar(RAISE_EPOCH).bind(session.as_str()).fetch_optional(connection).await?;
    Ok(epoch.map(i64::unsigned_abs))
}

/// The epoch of a session; `None` when there is no such session.
pub(super) async fn epoch(
    connection: &mut SqliteConnection,
    session: &SessionId,
) -> sqlx::Result<Option<u64>> {
    let epoch: Option<i64> =
        sqlx::query_scalar(EPOCH).bind(session.as_str()).fetch_optional(connection).await?;
    Ok(epoch.map(i64::unsigned_abs))
}

/// A page of a log.
pub(super) async fn read(
    connection: &mut SqliteConnection,
    session: &SessionId,
    after: u64,
    count_max: usize,
) -> sqlx::Result<Vec<Entry>> {
    let rows: Vec<EntryRow> = sqlx::query_as(READ)
        .bind(session.as_str())
        .bind(big(after))
        .bind(i64::try_from(count_max).unwrap_or(i64::MAX))
        .fetch_all(connection)
        .await?;
    Ok(rows.into_iter().map(|row| row.0).collect())
}

/// The sessions, those changed last first.
pub(super) async fn list(
    connection: &mut SqliteConnection,
    prefix: &str,
    count_max: usize,
) -> sqlx::Result<Vec<SessionRow>> {
    let rows: Vec<ListRow> = sqlx::query_as(LIST)
        .bind(prefix)
        .bind(i64::try_from(count_max).unwrap_or(i64::MAX))
        .fetch_all(connection)
        .await?;
    Ok(rows.into_iter().map(|row| row.0).collect())
}

/// SQL has no unsigned integers. What does not fit is no count of anything.
fn big(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

struct EntryRow(Entry);

impl FromRow<'_, SqliteRow> for EntryRow {
    fn from_row(row: &SqliteRow) -> sqlx::Result<Self> {
        let hash: &str = row.try_get("hash")?;
        let hash = Hash::parse(hash).ok_or_else(|| bad("hash", "it is no hash"))?;
        let body: &str = row.try_get("body")?;
        Ok(Self(Entry::read(
            count(row, "seq")?,
            row.try_get("at_ms")?,
            count(row, "turn")?,
            count(row, "round")?,
            row.try_get("kind")?,
            count(row, "version")?,
            body.into(),
            hash,
        )))
    }
}

struct ListRow(SessionRow);

impl FromRow<'_, SqliteRow> for ListRow {
    fn from_row(row: &SqliteRow) -> sqlx::Result<Self> {
        let id: String = row.try_get("id")?;
        let id = SessionId::try_from(id).map_err(|why| bad("id", &why))?;
        let title: Option<String> = row.try_get("title")?;
        Ok(Self(SessionRow {
            id,
            started_ms: row.try_get("started_ms")?,
            updated_ms: row.try_get("updated_ms")?,
            entries: count(row, "head_seq")?,
            turns: count(row, "turns")?,
            title: title.unwrap_or_default(),
            stop: row.try_get("stop")?,
            tokens: count(row, "tokens")?,
            cost_nano_usd: count(row, "cost")?,
        }))
    }
}

/// A column that counts something; NULL counts nothing.
fn count<T: TryFrom<i64>>(row: &SqliteRow, column: &str) -> sqlx::Result<T> {
    let value: Option<i64> = row.try_get(column)?;
    T::try_from(value.unwrap_or(0)).map_err(|_| bad(column, "the number is out of range"))
}

fn bad(column: &str, why: &str) -> sqlx::Error {
    sqlx::Error::ColumnDecode { index: column.into(), source: why.into() }
}

#[cfg(test)]
mod tests {
    use sqlx::{AssertSqlSafe, Connection};

    use super::*;

    /// No question reads past bodies that it does not need: a list finds each session's costs in
    /// an index, the rest at one end of its log.
    #[tokio::test]
    async fn questions_are_answered_by_indexes() {
        let mut connection = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        let schema = include_str!("../../migrations/0001_log.sql");
        sqlx::raw_sql(schema).execute(&mut connection).await.unwrap();
        let mut plans = String::new();
        for sql in [LIST, READ] {
            let sql = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}"));
            let rows = sqlx::query(sql).bind("").bind(9).bind(9).fetch_all(&mut connection).await;
            for row in rows.unwrap() {
                let step: String = row.get("detail");
                if step.starts_with("SEARCH") || step.starts_with("SCAN") {
                    plans += &format!("{step}\n");
                }
            }
        }
        assert_eq!(
            plans,
            "\
SCAN sessions USING INDEX sessions_by_change
SCAN s
SEARCH e USING INDEX sqlite_autoindex_entries_1 (session_id=? AND seq=?)
SEARCH e USING INDEX sqlite_autoindex_entries_1 (session_id=?)
SEARCH e USING INDEX sqlite_autoindex_entries_1 (session_id=?)
SEARCH e USING COVERING INDEX entries_by_cost (session_id=? AND kind=?)
SEARCH e USING COVERING INDEX entries_by_cost (session_id=? AND kind=?)
SEARCH entries USING INDEX sqlite_autoindex_entries_1 (session_id=? AND seq>?)
"
        );
    }
}
