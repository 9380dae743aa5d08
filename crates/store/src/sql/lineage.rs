//! Forks: a log that begins with another one's entries, which are read and never copied.

use inspan_core::{
    event::{Entry, Head},
    store::SessionId,
};
use sqlx::Row;

use super::{
    dialect::Connection,
    rows::{self, bad, big, count, id, read_own},
};

/// Forks of forks at most. Only a damaged table has more.
const LINEAGE_MAX: usize = 10_000;

const PARENT: &str = "SELECT parent_id, parent_seq FROM sessions WHERE id = $1";

const PLACE: &str = "
    SELECT s.agent, s.workdir FROM entries e JOIN sessions s ON s.id = $1
    WHERE e.session_id = $2 AND e.seq = $3 AND e.hash = $4 AND s.removed = 0";

/// A part of a log that one session has: the entries after `above`, up to `upto`.
struct Stretch {
    session: SessionId,
    above: u64,
    upto: u64,
}

/// What a fork takes over with the place where it begins.
#[derive(Default)]
pub(crate) struct Place {
    pub(crate) agent: String,
    pub(crate) workdir: String,
}

/// A page of a log, of the entries after `after`; `None` when there is no such session.
pub(crate) async fn read(
    connection: &mut Connection,
    session: &SessionId,
    after: u64,
    count_max: usize,
) -> sqlx::Result<Option<Vec<Entry>>> {
    if rows::known(connection, session).await?.is_none_or(|known| known.is_removed) {
        return Ok(None);
    }
    let lineage = lineage(connection, session).await?;
    let mut page: Vec<Entry> = Vec::new();
    for Stretch { session, above, upto } in lineage.iter().rev().filter(|part| part.upto > after) {
        let left = count_max - page.len();
        if left == 0 {
            break;
        }
        page.extend(read_own(connection, session, after.max(*above), *upto, left).await?);
    }
    Ok(Some(page))
}

/// The parent of a session, and the last entry that they share.
pub(crate) async fn parent(
    connection: &mut Connection,
    session: &SessionId,
) -> sqlx::Result<Option<(SessionId, u64)>> {
    let row = sqlx::query(PARENT).bind(session.as_str()).fetch_optional(connection).await?;
    let Some(row) = row else { return Ok(None) };
    if row.try_get::<Option<&str>, _>("parent_id")?.is_none() {
        return Ok(None);
    }
    Ok(Some((id(&row, "parent_id")?, count(&row, "parent_seq")?)))
}

/// The place in the log of a session where a fork can begin; `None` when it is not there.
pub(crate) async fn place(
    connection: &mut Connection,
    session: &SessionId,
    at: Head,
) -> sqlx::Result<Option<Place>> {
    for part in lineage(connection, session).await? {
        if (part.above + 1..=part.upto).contains(&at.seq) {
            let row = sqlx::query(PLACE)
                .bind(session.as_str())
                .bind(part.session.as_str())
                .bind(big(at.seq))
                .bind(at.hash.to_string())
                .fetch_optional(connection)
                .await?;
            let place = |row| {
                Ok(Place {
                    agent: Row::try_get(row, "agent")?,
                    workdir: Row::try_get(row, "workdir")?,
                })
            };
            return row.as_ref().map(place).transpose();
        }
    }
    Ok(None)
}

const STANDING: &str = "
    SELECT seq, at_ms, turn, round, kind, version, hash, body FROM entries
    WHERE session_id = $1 AND seq > $2 AND seq <= $3
        AND kind IN ('PromptSubmitted', 'Woken', 'RoundStarted', 'Parked', 'TurnEnded')
    ORDER BY seq DESC LIMIT 2";

/// The entries that say how a session stood after entry `upto`.
pub(crate) async fn standing(
    connection: &mut Connection,
    session: &SessionId,
    upto: u64,
) -> sqlx::Result<Vec<Entry>> {
    for part in lineage(connection, session).await? {
        let rows: Vec<rows::EntryRow> = sqlx::query_as(STANDING)
            .bind(part.session.as_str())
            .bind(big(part.above))
            .bind(big(part.upto.min(upto)))
            .fetch_all(&mut *connection)
            .await?;
        if !rows.is_empty() {
            return Ok(rows.into_iter().rev().map(|row| row.0).collect());
        }
    }
    Ok(Vec::new())
}

/// The parts of a session's log, its own first.
async fn lineage(connection: &mut Connection, session: &SessionId) -> sqlx::Result<Vec<Stretch>> {
    let mut parts: Vec<Stretch> = Vec::new();
    let (mut session, mut upto) = (session.clone(), u64::MAX);
    while parts.len() < LINEAGE_MAX {
        let parent = parent(connection, &session).await?;
        let above = parent.as_ref().map_or(0, |(_, seq)| *seq);
        parts.push(Stretch { session, above, upto });
        let Some((parent, seq)) = parent else { return Ok(parts) };
        (session, upto) = (parent, upto.min(seq));
    }
    Err(bad("parent_id", "it leads to no first session"))
}
