//! Snapshots as rows: number 0 is the fold without its pieces, which have the numbers after it.

use std::sync::Arc;

use inspan_core::store::{NewPieces, SessionId, Snapshot};
use sqlx::Row;

use super::{
    dialect::Connection,
    rows::{big, count},
};

/// Throws away what is kept of a session.
pub(crate) const FORGET: &str = "DELETE FROM snapshots WHERE session_id = $1";

const CLEAR: &str = "
    DELETE FROM snapshots WHERE session_id = $1 AND (number = 0 OR number > $3)
        AND EXISTS (SELECT 1 FROM sessions WHERE id = $1 AND epoch = $2)";

const KEEP: &str = "
    INSERT INTO snapshots (session_id, number, seq, version, body)
    SELECT id, $3, $4, $5, $6 FROM sessions WHERE id = $1 AND epoch = $2";

const READ: &str = "
    SELECT p.seq, p.version, p.body FROM snapshots p JOIN sessions s ON s.id = p.session_id
    WHERE p.session_id = $1 AND p.number = $2 AND s.removed = 0";

/// Keeps a snapshot and its pieces; nothing happens under an older epoch.
pub(crate) async fn keep(
    connection: &mut Connection,
    (session, epoch): (&SessionId, u64),
    snapshot: &Snapshot,
    pieces: &NewPieces,
) -> sqlx::Result<()> {
    sqlx::query(CLEAR)
        .bind(session.as_str())
        .bind(big(epoch))
        .bind(i64::from(pieces.before))
        .execute(&mut *connection)
        .await?;
    let new = (i64::from(pieces.before) + 1..).zip(&pieces.bytes);
    for (number, bytes) in std::iter::once((0, &snapshot.bytes)).chain(new) {
        sqlx::query(KEEP)
            .bind(session.as_str())
            .bind(big(epoch))
            .bind(number)
            .bind(big(snapshot.seq))
            .bind(i64::from(snapshot.version))
            .bind(&**bytes)
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}

/// The snapshot that was kept last.
pub(crate) async fn read(
    connection: &mut Connection,
    session: &SessionId,
) -> sqlx::Result<Option<Snapshot>> {
    let row =
        sqlx::query(READ).bind(session.as_str()).bind(0_i64).fetch_optional(connection).await?;
    row.map(|row| {
        let bytes: &[u8] = row.try_get("body")?;
        Ok(Snapshot {
            seq: count(&row, "seq")?,
            version: count(&row, "version")?,
            bytes: bytes.into(),
        })
    })
    .transpose()
}

/// One of its pieces.
pub(crate) async fn read_piece(
    connection: &mut Connection,
    session: &SessionId,
    number: u32,
) -> sqlx::Result<Option<Arc<[u8]>>> {
    let row = sqlx::query(READ)
        .bind(session.as_str())
        .bind(i64::from(number) + 1)
        .fetch_optional(connection)
        .await?;
    row.map(|row| row.try_get::<&[u8], _>("body").map(Arc::from)).transpose()
}
