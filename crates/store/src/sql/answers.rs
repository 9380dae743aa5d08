//! Answers that are left for whoever drives a session. They go in the transaction of the entry that
//! has them.

use inspan_core::{
    event::Event,
    gate::Choice,
    message::CallId,
    store::{ANSWERS_LEFT_MAX, AnswerLeft, SessionId},
};
use sqlx::{FromRow, Row};

use super::{
    dialect::{Connection, RawRow},
    rows::{Placed, bad, big},
};

const LEAVE: &str = "
    INSERT INTO answers (session_id, call, choice, why)
    SELECT id, $2, $3, $4 FROM sessions
    WHERE id = $1 AND removed = 0
        AND (SELECT COUNT(*) FROM answers WHERE session_id = $1) < $5
    ON CONFLICT (session_id, call) DO NOTHING";

const LEFT: &str = "
    SELECT call, choice, why FROM answers WHERE session_id = $1 ORDER BY call LIMIT $2";

/// Whether this call has an answer now.
const HAS: &str = "SELECT COUNT(*) FROM answers WHERE session_id = $1 AND call = $2";

/// Leaves an answer, unless there is one; false when there is no such session, or no room.
pub(crate) async fn leave(
    connection: &mut Connection,
    session: &SessionId,
    answer: &AnswerLeft,
) -> sqlx::Result<bool> {
    sqlx::query(LEAVE)
        .bind(session.as_str())
        .bind(&answer.call.0)
        .bind(answer.choice.as_str())
        .bind(super::rows::plain(&answer.why))
        .bind(big(ANSWERS_LEFT_MAX as u64))
        .execute(&mut *connection)
        .await?;
    let has: i64 = sqlx::query_scalar(HAS)
        .bind(session.as_str())
        .bind(&answer.call.0)
        .fetch_one(connection)
        .await?;
    Ok(has > 0)
}

/// The answers that were left.
pub(crate) async fn left(
    connection: &mut Connection,
    session: &SessionId,
) -> sqlx::Result<Vec<AnswerLeft>> {
    let rows: Vec<AnswerRow> = sqlx::query_as(LEFT)
        .bind(session.as_str())
        .bind(big(ANSWERS_LEFT_MAX as u64))
        .fetch_all(connection)
        .await?;
    Ok(rows.into_iter().map(|row| row.0).collect())
}

/// Takes away those that the entries have.
pub(crate) async fn take(connection: &mut Connection, placed: &[Placed<'_>]) -> sqlx::Result<()> {
    for (session, entry) in placed {
        if let Event::PermissionAnswered(e) = &entry.event {
            sqlx::query("DELETE FROM answers WHERE session_id = $1 AND call = $2")
                .bind(session.as_str())
                .bind(&e.call.0)
                .execute(&mut *connection)
                .await?;
        }
    }
    Ok(())
}

struct AnswerRow(AnswerLeft);

impl FromRow<'_, RawRow> for AnswerRow {
    fn from_row(row: &RawRow) -> sqlx::Result<Self> {
        let choice: &str = row.try_get("choice")?;
        Ok(Self(AnswerLeft {
            call: CallId(row.try_get("call")?),
            choice: Choice::parse(choice)
                .ok_or_else(|| bad("choice", "it is none that there is"))?,
            why: row.try_get("why")?,
        }))
    }
}
