//! What SQLite promises beyond the contract: files, other processes, and everything that a disk
//! can do to a database.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    sync::Arc,
};

use futures_util::future::join_all;
use inspan_core::{
    event::{Entry, Event, Head, Stop},
    hash::Hash,
    message::How,
    provider::ErrorClass,
    store::{Archive, SessionFilter, Store, StoreError, Wrong},
};
use inspan_store::Sqlite;
use sqlx::{
    AssertSqlSafe, Column, ConnectOptions, Connection, Row, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteRow},
};

use crate::log::*;

/// A folder of its own with a database in it, closed again, that has one session of 3 entries.
async fn small() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.db");
    let store = Sqlite::open(&path).await.unwrap();
    let claim = store.create(&id("one")).await.unwrap();
    store.append(&claim, Head::default(), some(Head::default(), 3)).await.unwrap();
    store.close().await;
    (folder, path)
}

async fn by_hand(path: &Path) -> SqliteConnection {
    SqliteConnectOptions::new().filename(path).create_if_missing(true).connect().await.unwrap()
}

/// Every file below `folder` with its bytes, and when it was changed.
fn files(folder: &Path) -> BTreeMap<PathBuf, (Vec<u8>, std::time::SystemTime)> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            let changed = fs::metadata(&path).unwrap().modified().unwrap();
            found.insert(path.clone(), (fs::read(&path).unwrap(), changed));
        }
    }
    found
}

/// The error's text, its path as `FILE`.
fn said(path: &Path, error: &StoreError) -> String {
    error.to_string().replace(&path.display().to_string(), "FILE")
}

#[tokio::test]
async fn an_up_to_date_database_is_opened_without_a_write() {
    let (folder, path) = small().await;
    let before = files(folder.path());
    let store = Sqlite::open(&path).await.unwrap();
    assert_eq!(store.read(&id("one"), 0, 9).await.unwrap().len(), 3);
    assert_eq!(store.sessions(&SessionFilter::all(9)).await.unwrap().len(), 1);
    store.close().await;
    assert!(files(folder.path()) == before);
}

#[tokio::test]
async fn a_database_is_made_once_by_whoever_comes_first() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/folders/log.db");
    let stores = join_all((0..8).map(|_| Sqlite::open(&path))).await;
    let stores: Vec<Sqlite> = stores.into_iter().map(Result::unwrap).collect();
    let claim = stores[0].create(&id("one")).await.unwrap();
    stores[0].append(&claim, Head::default(), some(Head::default(), 1)).await.unwrap();
    for store in &stores {
        assert_eq!(store.sessions(&SessionFilter::all(9)).await.unwrap().len(), 1);
        assert_eq!(store.claim(&id("one")).await.unwrap_err(), StoreError::InUse(id("one")));
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_link_leads_to_the_same_locks() {
    let (folder, path) = small().await;
    let link = folder.path().join("link.db");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let (store, other) = (Sqlite::open(&path).await.unwrap(), Sqlite::open(&link).await.unwrap());
    let _claim = store.claim(&id("one")).await.unwrap();
    assert_eq!(other.claim(&id("one")).await.unwrap_err(), StoreError::InUse(id("one")));
    assert!(!folder.path().join("link.db.locks").exists());
    store.close().await;
    other.close().await;
}

#[tokio::test]
async fn a_creation_that_was_cut_short_is_finished() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.db");
    let mut connection = by_hand(&path).await;
    // What a process leaves that dies before its first migration.
    sqlx::raw_sql(
        "CREATE TABLE _sqlx_migrations (
            version BIGINT PRIMARY KEY, description TEXT NOT NULL,
            installed_on TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
            success BOOLEAN NOT NULL, checksum BLOB NOT NULL, execution_time BIGINT NOT NULL)",
    )
    .execute(&mut connection)
    .await
    .unwrap();
    connection.close().await.unwrap();
    let store = Sqlite::open(&path).await.unwrap();
    assert_eq!(store.sessions(&SessionFilter::all(9)).await.unwrap(), []);
    store.close().await;
}

#[tokio::test]
async fn what_has_queued_is_written_when_the_store_is_dropped() {
    let (_folder, path) = small().await;
    let store = Sqlite::open(&path).await.unwrap();
    let claim = store.claim(&id("one")).await.unwrap();
    let mut head = head_of(&store.read(&id("one"), 0, 9).await.unwrap());
    let mut last = None;
    for entry in some(head, 100).iter() {
        last = Some(store.append(&claim, head, [entry.clone()].into()));
        head = entry.head();
    }
    drop(store);
    last.unwrap().await.unwrap();
    let store = Sqlite::open(&path).await.unwrap();
    assert_eq!(store.read(&id("one"), 0, 999).await.unwrap().len(), 103);
    store.close().await;
}

#[tokio::test]
async fn a_closed_store_says_so() {
    let (_folder, path) = small().await;
    let store = Sqlite::open(&path).await.unwrap();
    let claim = store.claim(&id("one")).await.unwrap();
    let head = head_of(&store.read(&id("one"), 0, 9).await.unwrap());
    let queued = store.append(&claim, head, some(head, 1));
    store.close().await;
    assert_eq!(queued.await, Ok(()));
    store.close().await;
    let head = Head { seq: head.seq + 1, ..head };
    let late = store.append(&claim, head, some(head, 1)).await.unwrap_err();
    assert_eq!(said(&path, &late), "FILE: the store is closed");
    let late = store.read(&id("one"), 0, 9).await.unwrap_err();
    assert_eq!(said(&path, &late), "FILE: the store is closed");
}

#[tokio::test]
async fn a_newer_database_is_left_alone() {
    let (folder, path) = small().await;
    let mut connection = by_hand(&path).await;
    sqlx::query("INSERT INTO _sqlx_migrations VALUES (7, 'later', '2027-01-01', TRUE, x'00', 1)")
        .execute(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();
    let before = files(folder.path());
    let error = Sqlite::open(&path).await.unwrap_err();
    assert_eq!(
        said(&path, &error),
        "FILE (version 7 of 5) was written by a newer version of Inspan: nothing was changed"
    );
    assert!(files(folder.path()) == before);
}

#[tokio::test]
async fn what_is_no_log_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("notes.txt");
    fs::write(&text, "These are my notes, and there are more than sixteen bytes of them.").unwrap();
    let other = folder.path().join("other.db");
    let mut connection = by_hand(&other).await;
    sqlx::query("CREATE TABLE songs (title TEXT)").execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    let directory = folder.path().join("directory");
    fs::create_dir(&directory).unwrap();
    let below = text.join("log.db");
    let before = files(folder.path());
    let table = [
        (
            &text,
            "FILE can't be read as a log: it is no SQLite database: move it away together with \
             FILE-wal and FILE-shm, if they are there, and a new one is made",
        ),
        (
            &other,
            "FILE can't be read as a log: it is the database of another program: give another path",
        ),
        (
            &directory,
            "FILE can't be written: unable to open database file: check that it is a file and \
             that its folder is writable",
        ),
    ];
    for (path, expected) in table {
        let error = Sqlite::open(path).await.unwrap_err();
        assert_eq!(said(path, &error), expected);
    }
    let error = Sqlite::open(&below).await.unwrap_err();
    assert_eq!(said(&text, &error), "FILE can't be written: File exists (os error 17)");
    assert!(files(folder.path()) == before);
}

#[tokio::test]
async fn damage_is_told_with_what_can_be_done() {
    let (_folder, path) = small().await;
    let mut bytes = fs::read(&path).unwrap();
    // The first page, which says what there is, stays; all others are lost.
    bytes[4096..].fill(0xAA);
    fs::write(&path, bytes).unwrap();
    let advice = "move it away together with FILE-wal and FILE-shm, if they are there, to begin a \
                  new one, or save what can be saved with `sqlite3 FILE .recover`";
    let expected =
        format!("FILE can't be read as a log: database disk image is malformed: {advice}");
    let error = Sqlite::open(&path).await.unwrap_err();
    assert_eq!(said(&path, &error), expected);
}

#[tokio::test]
async fn a_log_without_its_database_is_not_lost() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.db");
    let store = Sqlite::open(&path).await.unwrap();
    let claim = store.create(&id("one")).await.unwrap();
    store.append(&claim, Head::default(), some(Head::default(), 3)).await.unwrap();
    // What a process that is killed now leaves, as somebody takes it apart.
    let apart = tempfile::tempdir().unwrap();
    let copy = apart.path().join("log.db");
    for name in ["log.db", "log.db-wal"] {
        fs::copy(folder.path().join(name), apart.path().join(name)).unwrap();
    }
    store.close().await;
    let away = apart.path().join("away.db");
    fs::rename(&copy, &away).unwrap();
    let expected = "FILE can't be read as a log: it is missing or empty, but what was written \
                    last to it is in FILE-wal: bring it back, or move away FILE-wal too to begin \
                    a new one";
    let error = Sqlite::open(&copy).await.unwrap_err();
    assert_eq!(said(&copy, &error), expected);
    fs::write(&copy, "").unwrap();
    let error = Sqlite::open(&copy).await.unwrap_err();
    assert_eq!(said(&copy, &error), expected);

    fs::rename(&away, &copy).unwrap();
    let store = Sqlite::open(&copy).await.unwrap();
    assert_eq!(store.read(&id("one"), 0, 9).await.unwrap().len(), 3);
    store.close().await;
    let left: Vec<_> = files(apart.path()).into_keys().collect();
    assert_eq!(left, [copy], "a closed database is one file");
}

/// SQLite keeps in a column whatever it is given, and a disk gives back whatever it has.
#[tokio::test]
async fn a_damaged_entry_does_not_take_the_others_with_it() {
    for damage in [
        "hash = 'x'",
        "hash = x'00ff'",
        "at_ms = 'noon'",
        "version = 'one'",
        "version = -1",
        "kind = CAST(x'ff' AS TEXT)",
        "body = CAST(x'7b7dff' AS TEXT)",
        "body = 7",
    ] {
        let (_folder, path) = small().await;
        let store = Sqlite::open(&path).await.unwrap();
        let whole = store.read(&id("one"), 0, 9).await.unwrap();
        store.close().await;
        let mut connection = by_hand(&path).await;
        let sql = format!("UPDATE entries SET {damage} WHERE seq = 2");
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        let store = Sqlite::open(&path).await.unwrap();
        let log = store.read(&id("one"), 0, 9).await.unwrap();
        assert_eq!((&log[0], &log[2], log.len()), (&whole[0], &whole[2], 3), "{damage}");
        assert!(matches!(log[1].event, Event::Unknown(_)), "{damage}: {:?}", log[1]);
        assert!(!log[1].follows(log[0].head()) || !log[2].follows(log[1].head()), "{damage}");
        let claim = store.claim(&id("one")).await.unwrap();
        store.append(&claim, log[2].head(), some(log[2].head(), 1)).await.unwrap();
        store.close().await;
    }
}

/// A row of a session that can't be read is shown as far as it can, and keeps no other from being
/// seen; what is wrong with it is told by name.
#[tokio::test]
async fn a_damaged_session_does_not_take_the_others_with_it() {
    let table = [
        ("updated_ms = 'noon'", ("updated_ms", "noon", "2")),
        ("started_ms = x'ff'", ("started_ms", "\u{fffd}", "0")),
        ("standing = 'up'", ("standing", "up", "idle")),
        ("head_seq = 2", ("head_seq", "2", "3")),
        ("head_hash = 'x'", ("head_hash", "x", "HASH")),
        ("parent_seq = 1", ("parent_seq", "1", "0")),
    ];
    for (damage, (column, found, expected)) in table {
        let (_folder, path) = small().await;
        let mut connection = by_hand(&path).await;
        let sql = format!("UPDATE sessions SET {damage}");
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        let store = Sqlite::open(&path).await.unwrap();
        let claim = store.create(&id("two")).await.unwrap();
        store.append(&claim, Head::default(), some(Head::default(), 1)).await.unwrap();
        let rows = store.sessions(&SessionFilter::all(9)).await.unwrap();
        let names: BTreeSet<&str> = rows.iter().map(|row| row.id.as_str()).collect();
        assert_eq!(names, BTreeSet::from(["one", "two"]), "{damage}");
        let log = store.read(&id("one"), 0, 9).await.unwrap();
        let expected = expected.replace("HASH", &log[2].hash.to_string());
        let wrong = Wrong { seq: 0, column, found: found.into(), expected };
        assert_eq!(store.check(&id("one")).await.unwrap(), [wrong], "{damage}");
        store.close().await;
    }
}

/// Which blobs an entry names is kept beside it, and a sweep believes it.
#[tokio::test]
async fn what_entries_name_is_compared_with_what_is_kept_of_it() {
    let (_folder, path) = small().await;
    let hash = "ab".repeat(32);
    let mut connection = by_hand(&path).await;
    let sql = format!("INSERT INTO blob_refs VALUES ('{hash}', 'one', 2)");
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    let store = Sqlite::open(&path).await.unwrap();
    let wrong = Wrong { seq: 2, column: "blob_refs", found: hash, expected: "nothing".to_owned() };
    assert_eq!(store.check(&id("one")).await.unwrap(), [wrong]);
    store.close().await;
}

/// A body that is no JSON any more is kept as an unknown event; the log goes on.
#[tokio::test]
async fn a_damaged_body_does_no_harm() {
    let (_folder, path) = small().await;
    let mut connection = by_hand(&path).await;
    for sql in [
        "UPDATE entries SET body = '{\"torn' WHERE seq = 2",
        "UPDATE entries SET how = 'ok', ms = 7 WHERE seq = 3",
        "UPDATE sessions SET standing = 'open'",
    ] {
        sqlx::query(sql).execute(&mut connection).await.unwrap();
    }
    connection.close().await.unwrap();
    let store = Sqlite::open(&path).await.unwrap();
    let log = store.read(&id("one"), 0, 9).await.unwrap();
    let kinds: Vec<_> = log.iter().map(|entry| matches!(entry.event, Event::Unknown(_))).collect();
    assert_eq!(kinds, [false, true, false]);
    assert!(!log[1].follows(log[0].head()));
    let claim = store.claim(&id("one")).await.unwrap();
    let head = head_of(&log);
    store.append(&claim, head, some(head, 1)).await.unwrap();
    // The columns that lists read are compared with what the entries say.
    let wrong = |seq, column, found: &str, expected: &str| Wrong {
        seq,
        column,
        found: found.into(),
        expected: expected.into(),
    };
    assert_eq!(
        store.check(&id("one")).await.unwrap(),
        [
            wrong(3, "how", "ok", "nothing"),
            wrong(3, "ms", "7", "nothing"),
            wrong(0, "standing", "open", "idle"),
        ]
    );
    store.close().await;
}

#[tokio::test]
async fn a_long_read_does_not_hold_up_the_writer() {
    let (_folder, path) = small().await;
    let mut reader = by_hand(&path).await;
    let count = "SELECT COUNT(*) FROM entries";
    let mut snapshot = reader.begin().await.unwrap();
    let before: i64 = sqlx::query_scalar(count).fetch_one(&mut *snapshot).await.unwrap();
    let store = Sqlite::open(&path).await.unwrap();
    let claim = store.claim(&id("one")).await.unwrap();
    let head = head_of(&store.read(&id("one"), 0, 9).await.unwrap());
    store.append(&claim, head, some(head, 5)).await.unwrap();
    let during: i64 = sqlx::query_scalar(count).fetch_one(&mut *snapshot).await.unwrap();
    snapshot.commit().await.unwrap();
    let after: i64 = sqlx::query_scalar(count).fetch_one(&mut reader).await.unwrap();
    assert_eq!((before, during, after), (3, 3, 8));
    reader.close().await.unwrap();
    store.close().await;
}

#[cfg(unix)]
#[tokio::test]
async fn files_belong_to_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("home/log.db");
    let store = Sqlite::open(&path).await.unwrap();
    let claim = store.create(&id("one")).await.unwrap();
    store.append(&claim, Head::default(), some(Head::default(), 1)).await.unwrap();
    let blobs = store.blobs().unwrap();
    let hash = blobs.put(Arc::from(*b"a picture")).await.unwrap().to_string();
    let blob = format!("log.db.blobs/{}/{hash}", shelf(&hash));
    let mode = |name: &str| {
        fs::metadata(folder.path().join("home").join(name)).unwrap().permissions().mode() & 0o777
    };
    let shelf = blob.rsplit_once('/').unwrap().0;
    for name in ["", "log.db.locks", "log.db.blobs", shelf] {
        assert_eq!(mode(name), 0o700, "{name}");
    }
    for name in ["log.db", "log.db-wal", "log.db-shm", "log.db.locks/one", &blob] {
        assert_eq!(mode(name), 0o600, "{name}");
    }
    store.close().await;
}

/// The folder of a blob.
fn shelf(hash: &str) -> String {
    hash.chars().take(2).collect()
}

/// A table as text: its names, and a line for each row; `-` for what is unknown.
async fn table(connection: &mut SqliteConnection, sql: &'static str) -> String {
    let rows = sqlx::query(sql).fetch_all(connection).await.unwrap();
    let names = rows[0].columns().iter().map(|column| column.name().to_owned()).collect();
    let cell = |row: &SqliteRow, at: usize| match row.try_get::<Option<i64>, _>(at) {
        Ok(number) => number.map_or("-".to_owned(), |number| number.to_string()),
        Err(_) => row.get::<String, _>(at),
    };
    let line = |row: &SqliteRow| (0..row.len()).map(|at| cell(row, at)).collect::<Vec<_>>();
    let lines: Vec<Vec<String>> = [names].into_iter().chain(rows.iter().map(line)).collect();
    lines.iter().map(|cells| cells.join(" | ") + "\n").collect()
}

#[tokio::test]
async fn the_views_are_whole_tables() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.db");
    let store = Sqlite::open(&path).await.unwrap();
    let lines = [
        (10, 0, 0, started()),
        (11, 1, 0, prompt("Is it warm?")),
        (12, 1, 1, round(1)),
        (13, 1, 1, failed(ErrorClass::Overloaded, 40)),
        (14, 1, 1, replied("I look.", [1, 10, 100, 1_000, 500], Some(7), 50)),
        (15, 1, 1, finished("weather", How::Ok, 60)),
        (16, 1, 1, finished("wether", How::UnknownTool, 0)),
        (17, 1, 2, replied("Yes.", [2, 20, 200, 2_000, 0], Some(8), 70)),
        (18, 1, 2, ended(Stop::End)),
        (19, 1, 2, started()),
        (20, 2, 0, prompt("And there?")),
        (21, 2, 1, failed(ErrorClass::Auth, 80)),
        (22, 2, 1, ended(Stop::Failed)),
        (23, 3, 0, prompt("Later")),
        (24, 3, 1, ended(Stop::Parked)),
        (25, 3, 1, woken()),
    ];
    let claim = store.create(&id("one")).await.unwrap();
    store.append(&claim, Head::default(), chain(Head::default(), lines)).await.unwrap();
    store.close().await;
    let mut connection = by_hand(&path).await;
    assert_eq!(
        table(&mut connection, "SELECT * FROM turns ORDER BY session, turn").await,
        "\
session | turn | started_ms | ended_ms | stop | rounds | model_calls | tool_calls | input_tokens \
| cache_read_tokens | cache_write_tokens | output_tokens | reasoning_tokens | cost_nano_usd | title
one | 1 | 11 | 18 | end | 2 | 3 | 2 | 3 | 30 | 300 | 3000 | 500 | 15 | Is it warm?
one | 2 | 20 | 22 | failed | 1 | 1 | 0 | - | - | - | - | - | - | And there?
one | 3 | 23 | - | - | 1 | 0 | 0 | - | - | - | - | - | - | Later
"
    );
    assert_eq!(
        table(&mut connection, "SELECT * FROM steps ORDER BY session, seq").await,
        "\
session | turn | round | seq | at_ms | what | name | how | input_tokens | cache_read_tokens \
| cache_write_tokens | output_tokens | reasoning_tokens | cost_nano_usd | ms
one | 1 | 1 | 4 | 13 | model | - | overloaded | - | - | - | - | - | - | 40
one | 1 | 1 | 5 | 14 | model | anthropic/claude | ok | 1 | 10 | 100 | 1000 | 500 | 7 | 50
one | 1 | 1 | 6 | 15 | tool | weather | ok | - | - | - | - | - | - | 60
one | 1 | 1 | 7 | 16 | tool | wether | unknown_tool | - | - | - | - | - | - | 0
one | 1 | 2 | 8 | 17 | model | anthropic/claude | ok | 2 | 20 | 200 | 2000 | 0 | 8 | 70
one | 2 | 1 | 12 | 21 | model | - | auth | - | - | - | - | - | - | 80
"
    );
    connection.close().await.unwrap();
}

/// Another process of this program; see [`as_another_process`].
struct Other {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

const TASK: &str = "INSPAN_STORE_TEST_TASK";
const FILE: &str = "INSPAN_STORE_TEST_FILE";

impl Other {
    fn command(program: &Path, task: &str, file: &Path) -> Command {
        let mut command = Command::new(program);
        command.args(["--exact", "sqlite_only::as_another_process", "--nocapture"]);
        command.env(TASK, task).env(FILE, file).stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }

    fn start(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The next line that it says; `None` when it has ended.
    fn hear(&mut self) -> Option<String> {
        self.lines.find_map(|line| line.unwrap().strip_prefix("> ").map(str::to_owned))
    }

    /// Kills it as `kill -9` does, and waits until it is gone.
    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn say(text: &str) {
    // Not `println`, which a test's harness may keep to itself.
    std::io::stdout().write_all(format!("\n> {text}\n").as_bytes()).unwrap();
}

/// Does nothing among the tests; what [`Other`] runs in a process of its own.
#[tokio::test]
async fn as_another_process() {
    let (Ok(task), Some(file)) = (std::env::var(TASK), std::env::var_os(FILE)) else {
        return;
    };
    let file = PathBuf::from(file);
    match task.as_str() {
        "hold" => {
            let store = Sqlite::open(&file).await.unwrap();
            let _claim = store.claim(&id("one")).await.unwrap();
            say("held");
            // Until the other side closes it, or for ever.
            std::io::stdin().read_line(&mut String::new()).unwrap();
        }
        "write" => {
            let store = Sqlite::open(&file).await.unwrap();
            let claim = store.claim(&id("one")).await.unwrap();
            let mut head = head_of(&store.read(&id("one"), 0, usize::MAX).await.unwrap());
            loop {
                let entries = some(head, 3);
                store.append(&claim, head, entries.clone()).await.unwrap();
                head = head_of(&entries);
                say(&head.seq.to_string());
            }
        }
        "try" => say(&try_everything(&file).await),
        other => panic!("{other}"),
    }
}

/// Opens, reads and writes; what came of each.
async fn try_everything(file: &Path) -> String {
    let store = match Sqlite::open(file).await {
        Ok(store) => store,
        Err(error) => return said(file, &error),
    };
    let read = match store.read(&id("one"), 0, 9).await {
        Ok(entries) => format!("{} entries", entries.len()),
        Err(error) => said(file, &error),
    };
    let claimed = match store.claim(&id("one")).await {
        Ok(claim) => format!("epoch {}", claim.epoch),
        Err(error) => said(file, &error),
    };
    format!("{read}; {claimed}")
}

#[tokio::test]
async fn a_killed_process_frees_its_session_at_once() {
    let (_folder, path) = small().await;
    let this = std::env::current_exe().unwrap();
    let mut other = Other::start(Other::command(&this, "hold", &path));
    assert_eq!(other.hear().as_deref(), Some("held"));
    let store = Sqlite::open(&path).await.unwrap();
    assert_eq!(store.claim(&id("one")).await.unwrap_err(), StoreError::InUse(id("one")));
    assert_eq!(store.read(&id("one"), 0, 9).await.unwrap().len(), 3);
    other.kill();
    // Epoch 1 made the session, 2 was the other's.
    assert_eq!(store.claim(&id("one")).await.unwrap().epoch, 3);
    store.close().await;
}

#[tokio::test]
async fn what_was_durable_survives_a_kill() {
    let (_folder, path) = small().await;
    let this = std::env::current_exe().unwrap();
    for _ in 0..3 {
        let mut other = Other::start(Other::command(&this, "write", &path));
        let told: Vec<u64> = (0..20).map(|_| other.hear().unwrap().parse().unwrap()).collect();
        other.kill();
        let store = Sqlite::open(&path).await.unwrap();
        let log = store.read(&id("one"), 0, usize::MAX).await.unwrap();
        // No less than was told, and no append in part.
        assert!(log.len() as u64 >= told[19], "{} of {}", log.len(), told[19]);
        assert_eq!(log.len() % 3, 0);
        let mut head = Head::default();
        for entry in &log {
            assert!(entry.follows(head), "entry {}", entry.seq);
            head = entry.head();
        }
        store.close().await;
    }
}

#[tokio::test]
async fn two_processes_write_side_by_side() {
    let (_folder, path) = small().await;
    let this = std::env::current_exe().unwrap();
    let mut other = Other::start(Other::command(&this, "write", &path));
    let store = Sqlite::open(&path).await.unwrap();
    let claim = store.create(&id("two")).await.unwrap();
    let entries = some(Head::default(), 30);
    let mut head = Head::default();
    for entry in entries.iter() {
        // The other one is writing all the time.
        other.hear().unwrap();
        store.append(&claim, head, [entry.clone()].into()).await.unwrap();
        head = entry.head();
    }
    other.kill();
    assert_eq!(store.read(&id("two"), 0, 99).await.unwrap(), entries.to_vec());
    assert!(store.read(&id("one"), 0, 9_999).await.unwrap().len() >= 3 + 30 * 3);
    store.close().await;
}

/// Runs `try` with `mode` on the database and `folder_mode` on its folder, as somebody whom
/// permissions bind.
#[cfg(unix)]
async fn with_modes(mode: u32, folder_mode: u32) -> String {
    use std::os::unix::{
        fs::{PermissionsExt, chown},
        process::CommandExt,
    };
    const NOBODY: u32 = 65534;
    let (folder, path) = small().await;
    let program = folder.path().join("program");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let mut command = Other::command(&program, "try", &path);
    let all = [folder.path().to_owned(), path.with_extension("db.locks"), path.clone(), program];
    // Root may do everything, so for root somebody else tries.
    if all.iter().all(|path| chown(path, Some(NOBODY), None).is_ok()) {
        command.uid(NOBODY).gid(NOBODY);
    }
    let set = |path: &Path, mode| fs::set_permissions(path, PermissionsExt::from_mode(mode));
    for lock in fs::read_dir(path.with_extension("db.locks")).unwrap() {
        let _ = chown(lock.unwrap().path(), Some(NOBODY), None);
    }
    set(&path, mode).unwrap();
    set(folder.path(), folder_mode).unwrap();
    let mut other = Other::start(command);
    let heard = other.hear();
    other.child.wait().unwrap();
    set(folder.path(), 0o700).unwrap();
    heard.unwrap()
}

#[cfg(unix)]
#[tokio::test]
async fn a_read_only_place_is_told() {
    let read_only = "FILE can't be written: attempt to write a readonly database: check the \
                     permissions of the file and its folder";
    let cant_open = "FILE can't be written: unable to open database file: check that it is a file \
                     and that its folder is writable";
    assert_eq!(with_modes(0o600, 0o700).await, "3 entries; epoch 2");
    assert_eq!(with_modes(0o400, 0o700).await, format!("3 entries; {read_only}"));
    assert_eq!(with_modes(0o600, 0o500).await, format!("3 entries; {read_only}"));
    assert_eq!(with_modes(0o000, 0o700).await, cant_open);
}

/// A disk of 1 MiB, gone when this is dropped; `None` where no disk can be mounted.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(folder.path());
        let mounted = mount.stderr(Stdio::null()).status().is_ok_and(|status| status.success());
        mounted.then(|| Self(folder))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

/// Where no disk can be mounted, the test of the writer with a limit on its pages stands alone.
#[tokio::test]
async fn a_full_disk_is_told_and_survived() {
    let Some(disk) = SmallDisk::mount() else {
        return;
    };
    let folder = disk.0.path();
    let path = folder.join("log.db");
    let store = Sqlite::open(&path).await.unwrap();
    let claim = store.create(&id("one")).await.unwrap();
    let long = |head, number| {
        chain(head, [(number, 1, 0, prompt(&"x".repeat(10_000))), (number, 1, 0, cancelled())])
    };
    let mut log: Vec<Entry> = Vec::new();
    // More than fits, in the end.
    let error = loop {
        let head = head_of(&log);
        let entries = long(head, log.len() as i64);
        match store.append(&claim, head, entries.clone()).await {
            Ok(()) => log.extend_from_slice(&entries),
            Err(error) => break error,
        }
        assert!(log.len() < 400);
    };
    let full = "FILE can't be written: the disk is full: make room, then go on";
    assert_eq!(said(&path, &error), full);
    let error = store.blobs().unwrap().put(vec![7; 2_000_000].into()).await.unwrap_err();
    let blob = Hash::of_bytes(&[7; 2_000_000]).to_string();
    assert_eq!(
        said(&path, &error),
        full.replace("FILE", &format!("FILE.blobs/{}/{blob}", shelf(&blob)))
    );
    assert_eq!(store.read(&id("one"), 0, usize::MAX).await.unwrap(), log);
    let grown = Command::new("mount").args(["-o", "remount,size=8m"]).arg(folder).status().unwrap();
    assert!(grown.success());
    for number in 0..40 {
        let head = head_of(&log);
        let entries = long(head, number);
        store.append(&claim, head, entries.clone()).await.unwrap();
        log.extend_from_slice(&entries);
    }
    assert_eq!(store.read(&id("one"), 0, usize::MAX).await.unwrap(), log);
    store.close().await;
    let store = Sqlite::open(&path).await.unwrap();
    assert_eq!(store.read(&id("one"), 0, usize::MAX).await.unwrap(), log);
    store.close().await;
}
