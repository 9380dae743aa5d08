//! Whether the typed columns say what the entries do.

use inspan_core::{
    event::Entry,
    store::{ENTRIES_READ_MAX, SessionId, Wrong},
    stored::{Changes, Standing},
};
use sqlx::{FromRow, Row};

use super::{
    dialect::{Connection, RawRow},
    lineage,
    rows::{EntryRow, big, plain},
};

/// The columns that are filled from an event, in the order of [`expected`].
const COLUMNS: [&str; 13] = [
    "call",
    "name",
    "how",
    "stop",
    "input_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "output_tokens",
    "reasoning_tokens",
    "cost_nano_usd",
    "ms",
    "preview",
    "kind",
];

const PAGE: &str = "
    SELECT
        seq, at_ms, turn, round, kind, version, hash, body, call, name, how, stop, preview,
        CAST(input_tokens AS TEXT) AS input_tokens,
        CAST(cache_read_tokens AS TEXT) AS cache_read_tokens,
        CAST(cache_write_tokens AS TEXT) AS cache_write_tokens,
        CAST(output_tokens AS TEXT) AS output_tokens,
        CAST(reasoning_tokens AS TEXT) AS reasoning_tokens,
        CAST(cost_nano_usd AS TEXT) AS cost_nano_usd,
        CAST(ms AS TEXT) AS ms
    FROM entries WHERE session_id = $1 AND seq > $2 ORDER BY seq LIMIT $3";

const SESSION: [&str; 6] = ["agent", "workdir", "standing", "stop", "wake_ms", "format"];

const SESSION_ROW: &str = "
    SELECT
        agent, workdir, standing, stop, CAST(wake_ms AS TEXT) AS wake_ms,
        CAST(format AS TEXT) AS format
    FROM sessions WHERE id = $1";

/// The typed columns of a session's own rows that are not what its entries say.
pub(crate) async fn check(
    connection: &mut Connection,
    session: &SessionId,
) -> sqlx::Result<Vec<Wrong>> {
    let mut wrong = Vec::new();
    let mut entries: Vec<Entry> = Vec::new();
    loop {
        let after = entries.last().map_or(0, |entry| entry.seq);
        let rows = sqlx::query(PAGE)
            .bind(session.as_str())
            .bind(big(after))
            .bind(big(ENTRIES_READ_MAX as u64))
            .fetch_all(&mut *connection)
            .await?;
        for row in &rows {
            let EntryRow(entry) = EntryRow::from_row(row)?;
            compare(row, &COLUMNS, &expected(&entry), entry.seq, &mut wrong)?;
            entries.push(entry);
        }
        if rows.len() < ENTRIES_READ_MAX {
            break;
        }
    }
    let shared = match lineage::parent(connection, session).await? {
        Some((parent, seq)) => lineage::standing(connection, &parent, seq).await?,
        None => Vec::new(),
    };
    let mut changes = Changes::of(&shared);
    entries.iter().for_each(|entry| changes.add(entry));
    if let Some(row) =
        sqlx::query(SESSION_ROW).bind(session.as_str()).fetch_optional(connection).await?
    {
        compare(&row, &SESSION, &expected_of(&changes, &row)?, 0, &mut wrong)?;
    }
    Ok(wrong)
}

fn compare(
    row: &RawRow,
    columns: &[&'static str],
    expected: &[Option<String>],
    seq: u64,
    wrong: &mut Vec<Wrong>,
) -> sqlx::Result<()> {
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "nothing".to_owned());
    for (column, expected) in columns.iter().zip(expected) {
        let found: Option<String> = row.try_get(*column)?;
        if found != *expected {
            wrong.push(Wrong { seq, column, found: text(&found), expected: text(expected) });
        }
    }
    Ok(())
}

fn expected(entry: &Entry) -> [Option<String>; 13] {
    let columns = entry.columns();
    let text = |text: Option<&str>| text.map(|text| plain(text).into_owned());
    let number = |number: Option<u64>| number.map(|number| big(number).to_string());
    [
        text(columns.call),
        text(columns.name),
        text(columns.how),
        text(columns.stop),
        number(columns.usage.input),
        number(columns.usage.cache_read),
        number(columns.usage.cache_write),
        number(columns.usage.output),
        number(columns.usage.reasoning),
        number(columns.cost_nano_usd),
        number(columns.ms),
        text(columns.preview.as_deref()),
        text(Some(entry.event.kind())),
    ]
}

/// What a fork took over from its parent, and its own entries leave as it is, counts as it stands.
fn expected_of(changes: &Changes<'_>, row: &RawRow) -> sqlx::Result<[Option<String>; 6]> {
    let text = |text: &str| Some(plain(text).into_owned());
    let stands = |column: &str| row.try_get::<Option<String>, _>(column);
    let (standing, stop) = changes.standing.unwrap_or((Standing::Idle, None));
    Ok([
        changes.agent.map_or_else(|| stands("agent"), |agent| Ok(text(agent)))?,
        changes.workdir.map_or_else(|| stands("workdir"), |workdir| Ok(text(workdir)))?,
        text(standing.as_str()),
        stop.and_then(|stop| text(stop.as_str())),
        changes.wake_ms.flatten().map(|wake_ms| wake_ms.to_string()),
        text(&changes.format.to_string()),
    ])
}
