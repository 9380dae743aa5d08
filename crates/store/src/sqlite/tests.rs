//! What can only be seen from inside: full disks in the middle of a group, the plans of questions,
//! databases of older versions.

use std::{path::Path, sync::Arc};

use inspan_core::{
    event::{CancelRequested, Entry, Head, PromptSubmitted},
    message::{Content, Labels},
    store::{Archive, SessionFilter, SessionId, Store, StoreError},
    stored::Standing,
};
use sqlx::{
    AssertSqlSafe, ConnectOptions, Connection, Row, SqlSafeStr,
    migrate::{Migration, MigrationType, Migrator},
};

use super::{
    Sqlite,
    open::{self, MIGRATIONS, Place},
    sql::{
        Writer, lists,
        writer::{Ask, QUEUE_MAX},
    },
};

/// The first append of a session: one short entry, and one with `size` characters.
fn first(name: &str, size: usize) -> Ask {
    let content = vec![Content::text("x".repeat(size))];
    let short = Entry::next(Head::default(), 1, 0, 0, CancelRequested {}.into());
    let prompt = PromptSubmitted { content, labels: Labels::default() };
    let long = Entry::next(short.head(), 2, 1, 0, prompt.into());
    let entries = [short, long].into();
    Ask::Append { session: id(name), epoch: 1, after: Head::default(), entries }
}

fn id(name: &str) -> SessionId {
    SessionId::try_from(name.to_owned()).unwrap()
}

/// A disk that is full for one write has room for another, before it and after it, in the same
/// group; and nothing is left of the one that failed.
#[tokio::test]
async fn what_fits_is_written_beside_what_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let place = Arc::new(Place::new(&folder.path().join("log.db")).unwrap());
    let mut connection = open::open(&place).await.unwrap();
    sqlx::query("PRAGMA max_page_count = 60").execute(&mut connection).await.unwrap();
    let (writer, run) = Writer::new(&place, vec![Some(connection)]);
    let asks = [first("a", 10), first("b", 1_000_000), first("c", 10)];
    let mut group: Vec<_> = asks.into_iter().map(|ask| writer.ask(ask)).collect();
    // The same once more, with another end.
    group.push(writer.ask(first("a", 20)));
    let run = tokio::spawn(run);
    let mut said = Vec::new();
    for answer in group {
        said.push(answer.await.map_err(|error| without(&place.file, &error)));
    }
    let full = "FILE can't be written: the disk is full: make room, then go on".to_owned();
    let moved = "the log of session a has moved on after entry 0: nothing was written";
    assert_eq!(said, [Ok(None), Err(full), Ok(None), Err(moved.to_owned())]);
    for (name, expected) in [("a", Some(2)), ("b", None), ("c", Some(2))] {
        let known = writer.ask(Ask::Known(id(name))).await.unwrap();
        assert_eq!(known.map(|known| known.head.seq), expected, "{name}");
    }
    drop(writer);
    run.await.unwrap();
    let mut connection = open::open(&place).await.unwrap();
    let left: Vec<(String, i64)> =
        sqlx::query_as("SELECT session_id, seq FROM entries ORDER BY session_id, seq")
            .fetch_all(&mut connection)
            .await
            .unwrap();
    let left: Vec<(&str, i64)> = left.iter().map(|(id, seq)| (id.as_str(), *seq)).collect();
    assert_eq!(left, [("a", 1), ("a", 2), ("c", 1), ("c", 2)]);
    connection.close().await.unwrap();
}

/// One write more than the queue holds is refused at once; the others are written.
#[tokio::test]
async fn the_queue_has_an_end() {
    let folder = tempfile::tempdir().unwrap();
    let place = Arc::new(Place::new(&folder.path().join("log.db")).unwrap());
    let connection = open::open(&place).await.unwrap();
    let (writer, run) = Writer::new(&place, vec![Some(connection)]);
    let written = writer.ask(first("a", 10));
    for _ in 1..QUEUE_MAX {
        drop(writer.ask(Ask::Known(id("a"))));
    }
    let refused = writer.ask(Ask::Known(id("a"))).await.unwrap_err();
    assert_eq!(without(&place.file, &refused), "FILE: too many writes are waiting");
    drop(writer);
    run.await;
    assert_eq!(written.await, Ok(None));
}

fn without(file: &Path, error: &StoreError) -> String {
    error.to_string().replace(&file.display().to_string(), "FILE")
}

/// No question reads past bodies that it does not need: a list finds each session's costs in an
/// index, the rest at one end of its log.
#[tokio::test]
async fn questions_are_answered_by_indexes() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::new(&folder.path().join("log.db")).unwrap();
    let mut connection = open::open(&place).await.unwrap();
    let sql = lists::list_query(&SessionFilter::all(9)).unwrap().sql();
    let sql = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {}", sql.as_str()));
    let rows = sqlx::query(sql).bind("").bind("").bind(9).fetch_all(&mut connection).await.unwrap();
    let mut plan = String::new();
    for row in rows {
        let step: String = row.get("detail");
        if step.starts_with("SEARCH") || step.starts_with("SCAN") {
            plan += &format!("{step}\n");
        }
    }
    assert_eq!(
        plan,
        "\
SCAN sessions USING INDEX sessions_by_change
SCAN s
SEARCH e USING INDEX sqlite_autoindex_entries_1 (session_id=? AND seq=?)
SEARCH e USING INDEX sqlite_autoindex_entries_1 (session_id=?)
SEARCH e USING COVERING INDEX entries_by_cost (session_id=? AND kind=?)
SEARCH e USING COVERING INDEX entries_by_cost (session_id=? AND kind=?)
"
    );
    connection.close().await.unwrap();
}

/// What stands beside the entries is made for those that an older version wrote; an entry that
/// can't be read holds up nothing.
#[tokio::test]
async fn an_older_database_is_brought_up_to_date() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::new(&folder.path().join("log.db")).unwrap();
    std::fs::write(&place.file, "").unwrap();
    let mut connection = place.options().connect().await.unwrap();
    let (version, name, sql) = MIGRATIONS[0];
    let kind = MigrationType::Simple;
    let migration = Migration::new(version, name.into(), kind, sql.into_sql_str(), false);
    Migrator::with_migrations(vec![migration]).run(&mut connection).await.unwrap();
    let Ask::Append { entries, .. } = first("a", 10) else { panic!("it appends") };
    for (session, hash) in [("a", entries[1].hash.to_string()), ("torn", "no hash".to_owned())] {
        sqlx::query("INSERT INTO sessions VALUES ($1, 1, 2, $2, 1, 2)")
            .bind(session)
            .bind(entries[1].hash.to_string())
            .execute(&mut connection)
            .await
            .unwrap();
        for (entry, hash) in [(&entries[0], entries[0].hash.to_string()), (&entries[1], hash)] {
            sqlx::query(
                "INSERT INTO entries
                    (session_id, seq, at_ms, turn, round, kind, version, hash, body)
                VALUES ($1, $2, $3, $4, 0, $5, 1, $6, $7)",
            )
            .bind(session)
            .bind(entry.seq as i64)
            .bind(entry.at_ms)
            .bind(i64::from(entry.turn))
            .bind(entry.event.kind())
            .bind(hash)
            .bind(&*entry.body)
            .execute(&mut connection)
            .await
            .unwrap();
        }
    }
    connection.close().await.unwrap();
    let store = Sqlite::open(&place.file).await.unwrap();
    let rows = store.sessions(&SessionFilter::all(9)).await.unwrap();
    let stand: Vec<_> = rows.iter().map(|row| (row.id.as_str(), row.standing)).collect();
    assert_eq!(stand, [("torn", Standing::Idle), ("a", Standing::Open)]);
    let found = store.search(&"x".repeat(10), 9).await.unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!((&found[0].session, &found[0].entry), (&id("a"), &entries[1]));
    assert_eq!(store.read(&id("a"), 0, 9).await.unwrap(), entries.to_vec());
    assert_eq!(store.read(&id("torn"), 0, 1).await.unwrap(), entries[..1]);
    store.close().await;
}
