//! The questions over many sessions. None reads a body.

use inspan_core::{
    store::{SessionFilter, SessionId, SessionRow},
    stored::Standing,
};
use sqlx::{FromRow, QueryBuilder, Row};

use super::{
    dialect::{self, Connection, Database, RawRow},
    rows::{bad, count, id},
};
use crate::words::Query;

const COLUMNS: &str = "
    SELECT
        s.*,
        (SELECT e.turn FROM entries e WHERE e.session_id = s.id AND e.seq = s.head_seq) AS turns,
        (SELECT e.preview FROM entries e
            WHERE e.session_id = s.id AND e.kind = 'PromptSubmitted'
            ORDER BY e.seq LIMIT 1) AS title,
        (SELECT CAST(SUM(COALESCE(e.input_tokens, 0) + COALESCE(e.cache_read_tokens, 0)
                + COALESCE(e.cache_write_tokens, 0) + COALESCE(e.output_tokens, 0)) AS BIGINT)
            FROM entries e
            WHERE e.session_id = s.id AND e.kind IN ('ModelReplied', 'ModelFailed')) AS tokens,
        (SELECT CAST(SUM(e.cost_nano_usd) AS BIGINT) FROM entries e
            WHERE e.session_id = s.id AND e.kind IN ('ModelReplied', 'ModelFailed')) AS cost
    FROM (
        SELECT
            id, started_ms, updated_ms, head_seq, agent, workdir, standing, stop, wake_ms,
            parent_id, parent_seq
        FROM sessions
        WHERE removed = 0 AND substr(id, 1, length(";

const DUE: &str = "
    SELECT id FROM sessions
    WHERE removed = 0 AND standing <> 'idle' AND (standing = 'open'
        OR standing = 'waiting' AND EXISTS (SELECT 1 FROM answers a WHERE a.session_id = sessions.id)
        OR wake_ms <= ";

/// The sessions that `filter` keeps, those changed last first.
pub(crate) async fn list(
    connection: &mut Connection,
    filter: &SessionFilter,
) -> sqlx::Result<Vec<SessionRow>> {
    let Some(mut query) = list_query(filter) else { return Ok(Vec::new()) };
    let rows: Vec<ListRow> = query.build_query_as().fetch_all(connection).await?;
    Ok(rows.into_iter().map(|row| row.0).collect())
}

/// The question for a list; `None` when nothing can be in it.
pub(crate) fn list_query(filter: &SessionFilter) -> Option<QueryBuilder<Database>> {
    let mut sql = QueryBuilder::new(COLUMNS);
    sql.push_bind(filter.prefix.clone()).push(")) = ").push_bind(filter.prefix.clone());
    let texts = [
        (" AND agent = ", filter.agent.clone()),
        (" AND workdir = ", filter.workdir.clone()),
        (" AND standing = ", filter.standing.map(|standing| standing.as_str().to_owned())),
        (" AND stop = ", filter.stop.map(|stop| stop.as_str().to_owned())),
    ];
    for (sign, text) in texts {
        if let Some(text) = text {
            sql.push(sign).push_bind(text);
        }
    }
    let times = [(" AND updated_ms >= ", filter.since_ms), (" AND updated_ms < ", filter.until_ms)];
    for (sign, time) in times {
        if let Some(time) = time {
            sql.push(sign).push_bind(time);
        }
    }
    if let Some(words) = &filter.words {
        sql.push(dialect::FOUND_SESSIONS)
            .push_bind(dialect::query(&Query::parse(words)?))
            .push(dialect::FOUND_SESSIONS_END);
    }
    sql.push(" ORDER BY updated_ms DESC, id DESC LIMIT ")
        .push_bind(i64::try_from(filter.count_max).unwrap_or(i64::MAX))
        .push(") AS s ORDER BY s.updated_ms DESC, s.id DESC");
    Some(sql)
}

/// Sessions that can be driven now as far as the database knows, the longest waiting first.
pub(crate) async fn due(
    connection: &mut Connection,
    now_ms: i64,
    count_max: usize,
) -> sqlx::Result<Vec<SessionId>> {
    let mut sql = QueryBuilder::new(DUE);
    sql.push_bind(now_ms).push(")");
    dialect::nobody_holds(&mut sql);
    sql.push(" ORDER BY updated_ms, id LIMIT ")
        .push_bind(i64::try_from(count_max).unwrap_or(i64::MAX));
    let rows: Vec<DueRow> = sql.build_query_as().fetch_all(connection).await?;
    Ok(rows.into_iter().map(|row| row.0).collect())
}

struct DueRow(SessionId);

impl FromRow<'_, RawRow> for DueRow {
    fn from_row(row: &RawRow) -> sqlx::Result<Self> {
        Ok(Self(id(row, "id")?))
    }
}

struct ListRow(SessionRow);

impl FromRow<'_, RawRow> for ListRow {
    fn from_row(row: &RawRow) -> sqlx::Result<Self> {
        let title: Option<String> = row.try_get("title")?;
        let standing: &str = row.try_get("standing")?;
        let (head_seq, parent_seq) = (count(row, "head_seq")?, count(row, "parent_seq")?);
        let parent = match row.try_get::<Option<&str>, _>("parent_id")? {
            Some(_) => Some((id(row, "parent_id")?, parent_seq)),
            None => None,
        };
        Ok(Self(SessionRow {
            id: id(row, "id")?,
            started_ms: row.try_get("started_ms")?,
            updated_ms: row.try_get("updated_ms")?,
            head_seq,
            entries: head_seq.saturating_sub(parent_seq),
            turns: count(row, "turns")?,
            title: title.unwrap_or_default(),
            agent: row.try_get("agent")?,
            workdir: row.try_get("workdir")?,
            standing: Standing::parse(standing)
                .ok_or_else(|| bad("standing", "it is none that there is"))?,
            wake_ms: row.try_get("wake_ms")?,
            stop: row.try_get("stop")?,
            parent,
            tokens: count(row, "tokens")?,
            cost_nano_usd: count(row, "cost")?,
        }))
    }
}
