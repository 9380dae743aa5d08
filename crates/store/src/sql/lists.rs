//! The questions over many sessions. None reads a body.

use std::borrow::Cow;

use inspan_core::{
    store::{SessionFilter, SessionId, SessionRow},
    stored::Standing,
};
use sqlx::{FromRow, QueryBuilder};

use super::{
    dialect::{self, Connection, Database, RawRow},
    rows::{hash, id, number, text},
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
            id, started_ms, updated_ms, head_seq, head_hash, agent, workdir, standing, stop, wake_ms,
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
    Ok(rows.into_iter().filter_map(|row| row.0).collect())
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
    Ok(rows.into_iter().filter_map(|row| row.0).collect())
}

/// `None` for one whose identifier is none that was written: nobody could name it.
struct DueRow(Option<SessionId>);

impl FromRow<'_, RawRow> for DueRow {
    fn from_row(row: &RawRow) -> sqlx::Result<Self> {
        Ok(Self(id(row, "id").ok()))
    }
}

/// The same; and what else can't be read is shown as nothing, so that one damaged row does not keep
/// the others from being seen. `inspan verify` says what is wrong with it.
struct ListRow(Option<SessionRow>);

impl FromRow<'_, RawRow> for ListRow {
    fn from_row(row: &RawRow) -> sqlx::Result<Self> {
        Ok(Self(read(row)))
    }
}

fn read(row: &RawRow) -> Option<SessionRow> {
    let some = |column| text(row, column).ok().filter(|text| !text.is_empty());
    let plain = |column| some(column).map(Cow::into_owned).unwrap_or_default();
    let count = |column| number::<u64>(row, column).unwrap_or_default();
    let (head_seq, parent_seq) = (count("head_seq"), count("parent_seq"));
    let parent = id(row, "parent_id").ok().map(|parent| (parent, parent_seq));
    Some(SessionRow {
        id: id(row, "id").ok()?,
        started_ms: number(row, "started_ms").unwrap_or_default(),
        updated_ms: number(row, "updated_ms").unwrap_or_default(),
        head_seq,
        head_hash: hash(row, "head_hash").unwrap_or_default(),
        entries: head_seq.saturating_sub(parent_seq),
        turns: number(row, "turns").unwrap_or_default(),
        title: plain("title"),
        agent: plain("agent"),
        workdir: plain("workdir"),
        standing: Standing::parse(&plain("standing")).unwrap_or_default(),
        wake_ms: number(row, "wake_ms"),
        stop: some("stop").map(Cow::into_owned),
        parent,
        tokens: count("tokens"),
        cost_nano_usd: count("cost"),
    })
}
