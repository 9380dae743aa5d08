//! Entries as rows: how they are written, read and removed.

use std::{borrow::Cow, collections::BTreeSet};

use inspan_core::{
    event::{Entry, Event, Head, Stop, Unknown},
    hash::Hash,
    store::SessionId,
    stored::{self, Changes, Standing},
};
use sqlx::{FromRow, QueryBuilder, Row};

use super::{
    answers,
    dialect::{self, Connection, QueryResult, RawRow},
    lineage, snapshots,
    texts::{self, Words},
};

const INSERT_SESSION: &str = "
    INSERT INTO sessions (
        id, epoch, head_seq, head_hash, started_ms, updated_ms,
        format, agent, workdir, standing, stop, wake_ms, parent_id, parent_seq
    ) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
    ON CONFLICT (id) DO NOTHING";

const MOVE_HEAD: &str = "
    UPDATE sessions SET
        head_seq = $1, head_hash = $2, updated_ms = $3,
        format = CASE WHEN format < $4 THEN $4 ELSE format END,
        agent = COALESCE($5, agent),
        workdir = COALESCE($6, workdir),
        stop = CASE WHEN $7 IS NULL THEN stop ELSE $8 END,
        standing = COALESCE($7, standing),
        wake_ms = CASE
            WHEN $9 = 1 THEN $10
            WHEN standing = 'waiting' AND $11 IS NOT NULL THEN $11
            ELSE wake_ms
        END
    WHERE id = $12 AND epoch = $13 AND head_seq = $14 AND head_hash = $15";

const INSERT_ENTRIES: &str = "
    INSERT INTO entries (
        session_id, seq, at_ms, turn, round, kind, version, call, name, how, stop,
        input_tokens, cache_read_tokens, cache_write_tokens, output_tokens, reasoning_tokens,
        cost_nano_usd, ms, preview, hash, body
    ) ";

const INSERT_REFS: &str = "INSERT INTO blob_refs (hash, session_id, seq) ";

/// Rows in one statement at most. Each has 21 values, and SQLite takes 32,766 in a statement.
const INSERT_ROWS_MAX: usize = 256;

const RAISE_EPOCH: &str = "
    UPDATE sessions SET epoch = epoch + 1 WHERE id = $1 AND removed = 0 RETURNING epoch";

const KNOWN: &str = "
    SELECT epoch, format, head_seq, head_hash, removed FROM sessions WHERE id = $1";

const READ: &str = "
    SELECT seq, at_ms, turn, round, kind, version, hash, body FROM entries
    WHERE session_id = $1 AND seq > $2 AND seq <= $3 ORDER BY seq LIMIT $4";

/// What is known of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    /// The number of its newest claim.
    pub(crate) epoch: u64,
    /// The newest version of the log's format in it.
    pub(crate) format: u64,
    /// Where its log ends.
    pub(crate) head: Head,
    /// Whether it was removed and is kept for its forks.
    pub(crate) is_removed: bool,
}

/// How moving a head went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moving {
    /// It was moved.
    Moved,
    /// The log or the epoch is another, or a session exists that is to begin: nothing was written.
    Refused,
    /// The place where a fork is to begin does not exist: nothing was written.
    NoEntry,
}

/// Moves the head from `after` to the last of `entries`, or begins the session.
pub(crate) async fn move_head(
    connection: &mut Connection,
    session: &SessionId,
    epoch: u64,
    after: Head,
    entries: &[Entry],
) -> sqlx::Result<Moving> {
    let (Some(first), Some(last)) = (entries.first(), entries.last()) else {
        return Ok(Moving::Moved);
    };
    if let Some((parent, at)) = stored::forked_from(&first.event)
        && at == after
        && known(connection, session).await?.is_none()
    {
        return begin_fork(connection, session, epoch, (parent, at), entries).await;
    }
    let changes = Changes::of(entries);
    if after == Head::default() {
        return begin(connection, session, epoch, None, &changes, (first, last)).await;
    }
    let (standing, stop) = changes.standing.unzip();
    let done = sqlx::query(MOVE_HEAD)
        .bind(big(last.seq))
        .bind(last.hash.to_string())
        .bind(last.at_ms)
        .bind(i64::from(changes.format))
        .bind(changes.agent.map(plain))
        .bind(changes.workdir.map(plain))
        .bind(standing.map(Standing::as_str))
        .bind(stop.flatten().map(Stop::as_str))
        .bind(i64::from(changes.wake_ms.is_some()))
        .bind(changes.wake_ms.flatten())
        .bind(changes.answered_ms)
        .bind(session.as_str())
        .bind(big(epoch))
        .bind(big(after.seq))
        .bind(after.hash.to_string())
        .execute(connection)
        .await?;
    Ok(Moving::of(&done))
}

/// Begins a fork, which stands as its parent stood at its place until its own entries say more.
async fn begin_fork(
    connection: &mut Connection,
    session: &SessionId,
    epoch: u64,
    (parent, at): (&SessionId, Head),
    entries: &[Entry],
) -> sqlx::Result<Moving> {
    let (Some(place), Some(first), Some(last)) =
        (lineage::place(connection, parent, at).await?, entries.first(), entries.last())
    else {
        return Ok(Moving::NoEntry);
    };
    let shared = lineage::standing(connection, parent, at.seq).await?;
    let mut changes = Changes::of(&shared);
    changes.agent = Some(&place.agent);
    changes.workdir = Some(&place.workdir);
    entries.iter().for_each(|entry| changes.add(entry));
    // What a newer version wrote is in the fork, too.
    let known = known(connection, parent).await?.map_or(0, |known| known.format);
    changes.format = changes.format.max(u32::try_from(known).unwrap_or(u32::MAX));
    begin(connection, session, epoch, Some((parent, at.seq)), &changes, (first, last)).await
}

async fn begin(
    connection: &mut Connection,
    session: &SessionId,
    epoch: u64,
    parent: Option<(&SessionId, u64)>,
    changes: &Changes<'_>,
    (first, last): (&Entry, &Entry),
) -> sqlx::Result<Moving> {
    let (standing, stop) = changes.standing.unwrap_or_default();
    let done = sqlx::query(INSERT_SESSION)
        .bind(session.as_str())
        .bind(big(epoch))
        .bind(big(last.seq))
        .bind(last.hash.to_string())
        .bind(first.at_ms)
        .bind(last.at_ms)
        .bind(i64::from(changes.format))
        .bind(plain(changes.agent.unwrap_or_default()))
        .bind(plain(changes.workdir.unwrap_or_default()))
        .bind(standing.as_str())
        .bind(stop.map(Stop::as_str))
        .bind(changes.wake_ms.flatten())
        .bind(parent.map(|(parent, _)| parent.as_str()))
        .bind(parent.map_or(0, |(_, seq)| big(seq)))
        .execute(connection)
        .await?;
    Ok(Moving::of(&done))
}

impl Moving {
    fn of(done: &QueryResult) -> Self {
        if done.rows_affected() == 1 { Self::Moved } else { Self::Refused }
    }
}

/// An entry, and the session that it is of.
pub(crate) type Placed<'a> = (&'a SessionId, &'a Entry);

/// Writes the entries' rows, and what is kept beside them. Every statement has its way to the
/// database and back, so rows share one, those of several sessions, too.
pub(crate) async fn insert(
    connection: &mut Connection,
    placed: &[Placed<'_>],
    words: Words,
) -> sqlx::Result<()> {
    for placed in placed.chunks(INSERT_ROWS_MAX) {
        let mut query = QueryBuilder::new(INSERT_ENTRIES);
        query.push_values(placed, |mut row, (session, entry)| {
            let columns = entry.columns();
            row.push_bind(session.as_str())
                .push_bind(big(entry.seq))
                .push_bind(entry.at_ms)
                .push_bind(i64::from(entry.turn))
                .push_bind(i64::from(entry.round))
                .push_bind(plain(entry.event.kind()))
                .push_bind(i64::from(entry.version))
                .push_bind(columns.call.map(plain))
                .push_bind(columns.name.map(plain))
                .push_bind(columns.how)
                .push_bind(columns.stop)
                .push_bind(columns.usage.input.map(big))
                .push_bind(columns.usage.cache_read.map(big))
                .push_bind(columns.usage.cache_write.map(big))
                .push_bind(columns.usage.output.map(big))
                .push_bind(columns.usage.reasoning.map(big))
                .push_bind(columns.cost_nano_usd.map(big))
                .push_bind(columns.ms.map(big))
                .push_bind(columns.preview.as_deref().map(|text| plain(text).into_owned()))
                .push_bind(entry.hash.to_string())
                .push_bind(&*entry.body);
        });
        query.build().execute(&mut *connection).await?;
        insert_refs(connection, placed).await?;
        texts::keep(connection, placed, words).await?;
        answers::take(connection, placed).await?;
    }
    Ok(())
}

/// Writes which blobs the entries name.
pub(crate) async fn insert_refs(
    connection: &mut Connection,
    placed: &[Placed<'_>],
) -> sqlx::Result<()> {
    let named = placed.iter().flat_map(|(session, entry)| {
        stored::blobs(&entry.event).into_iter().map(|hash| (*session, entry.seq, hash))
    });
    let named: Vec<(&SessionId, u64, Hash)> = named.collect::<BTreeSet<_>>().into_iter().collect();
    for named in named.chunks(INSERT_ROWS_MAX) {
        let mut query = QueryBuilder::new(INSERT_REFS);
        query.push_values(named, |mut row, (session, seq, hash)| {
            row.push_bind(hash.to_string()).push_bind(session.as_str()).push_bind(big(*seq));
        });
        query.push(" ON CONFLICT DO NOTHING").build().execute(&mut *connection).await?;
    }
    Ok(())
}

/// Raises the epoch of a session and gives the new one; `None` when there is no such session.
pub(crate) async fn raise_epoch(
    connection: &mut Connection,
    session: &SessionId,
) -> sqlx::Result<Option<u64>> {
    let epoch: Option<i64> =
        sqlx::query_scalar(RAISE_EPOCH).bind(session.as_str()).fetch_optional(connection).await?;
    Ok(epoch.map(i64::unsigned_abs))
}

/// What is known of a session, hidden or not; `None` when there is no such session.
pub(crate) async fn known(
    connection: &mut Connection,
    session: &SessionId,
) -> sqlx::Result<Option<Known>> {
    let row = sqlx::query(KNOWN).bind(session.as_str()).fetch_optional(connection).await?;
    // What can't be read here is no place where the log ends; whoever goes on with it says so.
    Ok(row.map(|row| Known {
        epoch: number(&row, "epoch").unwrap_or_default(),
        format: number(&row, "format").unwrap_or_default(),
        head: Head {
            seq: number(&row, "head_seq").unwrap_or_default(),
            hash: hash(&row, "head_hash").unwrap_or_default(),
        },
        is_removed: number::<i64>(&row, "removed").is_some_and(|removed| removed != 0),
    }))
}

/// A page of the entries that a session itself has: those after `after`, up to `upto`.
pub(crate) async fn read_own(
    connection: &mut Connection,
    session: &SessionId,
    after: u64,
    upto: u64,
    count_max: usize,
) -> sqlx::Result<Vec<Entry>> {
    let rows: Vec<EntryRow> = sqlx::query_as(READ)
        .bind(session.as_str())
        .bind(big(after))
        .bind(big(upto))
        .bind(i64::try_from(count_max).unwrap_or(i64::MAX))
        .fetch_all(connection)
        .await?;
    Ok(rows.into_iter().map(|row| row.0).collect())
}

/// Those of `hashes` that no entry names.
pub(crate) async fn unreferenced(
    connection: &mut Connection,
    hashes: &[Hash],
) -> sqlx::Result<Vec<Hash>> {
    let mut named = BTreeSet::new();
    for hashes in hashes.chunks(INSERT_ROWS_MAX) {
        let mut query = QueryBuilder::new("SELECT DISTINCT hash FROM blob_refs WHERE hash IN (");
        let mut list = query.separated(", ");
        hashes.iter().for_each(|hash| {
            list.push_bind(hash.to_string());
        });
        list.push_unseparated(")");
        let found: Vec<String> = query.build_query_scalar().fetch_all(&mut *connection).await?;
        named.extend(found.iter().filter_map(|hash| Hash::parse(hash)));
    }
    Ok(hashes.iter().filter(|hash| !named.contains(*hash)).copied().collect())
}

/// When the database was made, in milliseconds since 1970. Its own note has no fractions, so it
/// counts up to the end of that second; `None` when the note can't be read.
pub(crate) async fn made_ms(connection: &mut Connection) -> sqlx::Result<Option<i64>> {
    let made_s: Option<i64> =
        sqlx::query_scalar(dialect::MADE_S).fetch_optional(connection).await?.flatten();
    Ok(made_s.map(|made_s| made_s.saturating_add(1).saturating_mul(1_000)))
}

/// Removes a session, or hides it while it has forks; false when there is no such session. With
/// the last fork of a hidden session, that one goes, too.
pub(crate) async fn remove(
    connection: &mut Connection,
    session: &SessionId,
    words: Words,
) -> sqlx::Result<bool> {
    if known(connection, session).await?.is_none_or(|known| known.is_removed) {
        return Ok(false);
    }
    texts::forget(connection, session, words).await?;
    execute(connection, snapshots::FORGET, session).await?;
    execute(connection, "DELETE FROM answers WHERE session_id = $1", session).await?;
    if has_forks(connection, session).await? {
        let hide = "UPDATE sessions SET removed = 1, epoch = epoch + 1, standing = 'idle'
            WHERE id = $1";
        execute(connection, hide, session).await?;
        return Ok(true);
    }
    let mut gone = session.clone();
    loop {
        let parent = lineage::parent(connection, &gone).await?;
        execute(connection, "DELETE FROM blob_refs WHERE session_id = $1", &gone).await?;
        execute(connection, "DELETE FROM entries WHERE session_id = $1", &gone).await?;
        execute(connection, "DELETE FROM sessions WHERE id = $1", &gone).await?;
        match parent {
            Some((parent, _))
                if known(connection, &parent).await?.is_some_and(|known| known.is_removed)
                    && !has_forks(connection, &parent).await? =>
            {
                gone = parent;
            }
            _ => return Ok(true),
        }
    }
}

async fn has_forks(connection: &mut Connection, session: &SessionId) -> sqlx::Result<bool> {
    let forks: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM sessions WHERE parent_id = $1")
        .bind(session.as_str())
        .fetch_one(connection)
        .await?;
    Ok(forks > 0)
}

/// Carries out a statement about one session.
pub(crate) async fn execute(
    connection: &mut Connection,
    sql: &'static str,
    session: &SessionId,
) -> sqlx::Result<()> {
    sqlx::query(sql).bind(session.as_str()).execute(connection).await.map(drop)
}

/// SQL has no unsigned integers. What does not fit is no count of anything.
pub(crate) fn big(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Text as a column takes it: Postgres has no text with a NUL in it. Bodies have none: JSON
/// escapes it.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { text.replace('\0', "\u{FFFD}").into() } else { text.into() }
}

/// An entry from the columns of [`READ`]. A row that is not what any version wrote is an event that
/// nobody can read, as a body is that is no JSON: it keeps its place, and the others can be read.
pub(crate) struct EntryRow(pub(crate) Entry);

impl FromRow<'_, RawRow> for EntryRow {
    fn from_row(row: &RawRow) -> sqlx::Result<Self> {
        let (kind, body) = (text(row, "kind"), text(row, "body"));
        let (at_ms, version) = (number(row, "at_ms"), number(row, "version"));
        let hash = hash(row, "hash");
        let is_whole =
            kind.is_ok() && body.is_ok() && at_ms.is_some() && version.is_some() && hash.is_some();
        let kind = kind.unwrap_or_else(Cow::Owned);
        let version = version.unwrap_or(0);
        let mut entry = Entry::read(
            count(row, "seq")?,
            at_ms.unwrap_or(0),
            number(row, "turn").unwrap_or(0),
            number(row, "round").unwrap_or(0),
            &kind,
            version,
            body.unwrap_or_else(Cow::Owned).into(),
            hash.unwrap_or_default(),
        );
        if !is_whole {
            entry.event = Event::Unknown(Unknown { kind: kind.into_owned(), version });
        }
        Ok(Self(entry))
    }
}

/// The text in a column, whatever its type: SQLite keeps in a column what it is given. The error is
/// what can be shown of bytes that are no text.
pub(crate) fn text<'r>(row: &'r RawRow, column: &str) -> Result<Cow<'r, str>, String> {
    let bytes = row.try_get_unchecked::<Option<&[u8]>, _>(column);
    let bytes = bytes.ok().flatten().unwrap_or_default();
    str::from_utf8(bytes).map(Cow::Borrowed).map_err(|_| String::from_utf8_lossy(bytes).into())
}

/// A number in a column; `None` for anything else.
pub(crate) fn number<T: TryFrom<i64>>(row: &RawRow, column: &str) -> Option<T> {
    T::try_from(row.try_get::<Option<i64>, _>(column).ok()??).ok()
}

/// A hash in a column; `None` for anything else.
pub(crate) fn hash(row: &RawRow, column: &str) -> Option<Hash> {
    Hash::parse(&text(row, column).ok()?)
}

pub(crate) fn id(row: &RawRow, column: &str) -> sqlx::Result<SessionId> {
    let id: String = row.try_get(column)?;
    SessionId::try_from(id).map_err(|why| bad(column, &why))
}

/// A column that counts something; NULL counts nothing.
pub(crate) fn count<T: TryFrom<i64>>(row: &RawRow, column: &str) -> sqlx::Result<T> {
    let value: Option<i64> = row.try_get(column)?;
    T::try_from(value.unwrap_or(0)).map_err(|_| bad(column, "the number is out of range"))
}

pub(crate) fn bad(column: &str, why: &str) -> sqlx::Error {
    sqlx::Error::ColumnDecode { index: column.into(), source: why.into() }
}
