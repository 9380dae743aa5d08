//! Whether the typed columns say what the entries do.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use inspan_core::{
    event::Entry,
    hash::Hash,
    store::{ENTRIES_READ_MAX, SessionId, Wrong},
    stored::{self, Changes, Standing},
};
use sqlx::{FromRow, Row};

use super::{
    dialect::{Connection, RawRow},
    lineage,
    rows::{EntryRow, big, number, plain, text},
};

/// Told where nothing stands.
const NOTHING: &str = "nothing";

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

const SESSION: [&str; 12] = [
    "agent",
    "workdir",
    "standing",
    "stop",
    "wake_ms",
    "format",
    "head_seq",
    "head_hash",
    "started_ms",
    "updated_ms",
    "parent_id",
    "parent_seq",
];

const SESSION_ROW: &str = "
    SELECT
        agent, workdir, standing, stop, head_hash, parent_id,
        CAST(wake_ms AS TEXT) AS wake_ms,
        CAST(format AS TEXT) AS format,
        CAST(head_seq AS TEXT) AS head_seq,
        CAST(started_ms AS TEXT) AS started_ms,
        CAST(updated_ms AS TEXT) AS updated_ms,
        CAST(parent_seq AS TEXT) AS parent_seq
    FROM sessions WHERE id = $1";

const REFS: &str = "SELECT seq, hash FROM blob_refs WHERE session_id = $1 ORDER BY seq, hash";

/// What stands beside a session's own entries and is not what they say: their typed columns, the
/// blobs that they name, the session's row.
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
            compare(row, &COLUMNS, &expected(&entry), entry.seq, &mut wrong);
            entries.push(entry);
        }
        if rows.len() < ENTRIES_READ_MAX {
            break;
        }
    }
    check_refs(connection, session, &entries, &mut wrong).await?;
    let shared = match lineage::parent(connection, session).await {
        Ok(Some((parent, seq))) => lineage::standing(connection, &parent, seq).await?,
        Ok(None) | Err(sqlx::Error::ColumnDecode { .. }) => Vec::new(),
        Err(error) => return Err(error),
    };
    let mut changes = Changes::of(&shared);
    entries.iter().for_each(|entry| changes.add(entry));
    let row = sqlx::query(SESSION_ROW).bind(session.as_str()).fetch_optional(connection).await?;
    if let (Some(row), Some(first), Some(last)) = (row, entries.first(), entries.last()) {
        compare(&row, &SESSION, &expected_of(&changes, (first, last), &row), 0, &mut wrong);
    }
    Ok(wrong)
}

async fn check_refs(
    connection: &mut Connection,
    session: &SessionId,
    entries: &[Entry],
    wrong: &mut Vec<Wrong>,
) -> sqlx::Result<()> {
    let mut refs: BTreeMap<u64, [Vec<String>; 2]> = BTreeMap::new();
    let rows = sqlx::query(REFS).bind(session.as_str()).fetch_all(connection).await?;
    for row in &rows {
        let [found, _] = refs.entry(number(row, "seq").unwrap_or_default()).or_default();
        found.push(text(row, "hash").unwrap_or_else(Cow::Owned).into_owned());
    }
    for entry in entries {
        let named: BTreeSet<Hash> = stored::blobs(&entry.event).into_iter().collect();
        if !named.is_empty() {
            let [_, expected] = refs.entry(entry.seq).or_default();
            expected.extend(named.iter().map(ToString::to_string));
        }
    }
    let told = |hashes: &[String]| match hashes {
        [] => NOTHING.to_owned(),
        hashes => hashes.join(", "),
    };
    let differ = refs.iter().filter(|(_, [found, expected])| found != expected);
    wrong.extend(differ.map(|(seq, [found, expected])| Wrong {
        seq: *seq,
        column: "blob_refs",
        found: told(found),
        expected: told(expected),
    }));
    Ok(())
}

fn compare(
    row: &RawRow,
    columns: &[&'static str],
    expected: &[Option<String>],
    seq: u64,
    wrong: &mut Vec<Wrong>,
) {
    let told = |value: &Option<String>| value.clone().unwrap_or_else(|| NOTHING.to_owned());
    for (column, expected) in columns.iter().zip(expected) {
        let found = stands(row, column);
        if found != *expected {
            wrong.push(Wrong { seq, column, found: told(&found), expected: told(expected) });
        }
    }
}

/// What stands in a column, as far as it is text.
fn stands(row: &RawRow, column: &str) -> Option<String> {
    let found = row.try_get::<Option<String>, _>(column);
    found.unwrap_or_else(|_| Some(text(row, column).unwrap_or_else(Cow::Owned).into_owned()))
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
fn expected_of(
    changes: &Changes<'_>,
    (first, last): (&Entry, &Entry),
    row: &RawRow,
) -> [Option<String>; 12] {
    let text = |text: &str| Some(plain(text).into_owned());
    let (standing, stop) = changes.standing.unwrap_or((Standing::Idle, None));
    let parent = stored::forked_from(&first.event);
    [
        changes.agent.map_or_else(|| stands(row, "agent"), text),
        changes.workdir.map_or_else(|| stands(row, "workdir"), text),
        text(standing.as_str()),
        stop.and_then(|stop| text(stop.as_str())),
        changes.wake_ms.flatten().map(|wake_ms| wake_ms.to_string()),
        text(&changes.format.to_string()),
        text(&last.seq.to_string()),
        text(&last.hash.to_string()),
        text(&first.at_ms.to_string()),
        text(&last.at_ms.to_string()),
        parent.map(|(parent, _)| parent.to_string()),
        text(&parent.map_or(0, |(_, at)| at.seq).to_string()),
    ]
}
