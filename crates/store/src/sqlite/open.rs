//! From a path to a database of the right version. One that is up to date is only read.

use std::{
    fmt,
    fs::{self, OpenOptions},
    io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use inspan_core::store::StoreError;
use sqlx::{
    ConnectOptions, Connection, SqlSafeStr, SqliteConnection,
    migrate::{Migration, MigrationType, Migrator},
    sqlite::{SqliteConnectOptions, SqliteSynchronous},
};

use super::{
    fault,
    fill::{Filled, can_be_read, fill, is_filled},
    lock::Lock,
};
use crate::disk::{make_folder, of_file, only_for_owner};

/// How long a write waits for another process that is writing.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// The migrations in their order: version, name and text. Each runs in a transaction of its own.
pub(super) const MIGRATIONS: [(i64, &str, &str); 5] = [
    (1, "log", include_str!("../../migrations/0001_log.sql")),
    (2, "sessions", include_str!("../../migrations/0002_sessions.sql")),
    (3, "sqlite", include_str!("../../migrations/0003_sqlite.sql")),
    (4, "answers", include_str!("../../migrations/0004_answers.sql")),
    (5, "snapshots", include_str!("../../migrations/0005_sqlite.sql")),
];

/// The version that this build writes.
const LATEST: i64 = MIGRATIONS[MIGRATIONS.len() - 1].0;

/// Said when entries were written whose words could not be kept.
const WORDS_DAMAGED: &str = "the words that `inspan search` looks through are damaged: nothing of \
    the log is lost, and they are made anew when Inspan is started next";

/// Said when they were made anew.
const WORDS_MADE_ANEW: &str =
    "the words that `inspan search` looks through were damaged, and have been made anew";

/// Where a database and what belongs to it lie.
#[derive(Debug)]
pub(super) struct Place {
    /// The database.
    pub(super) file: PathBuf,
    /// The folder of lock files.
    pub(super) locks: PathBuf,
    access: Access,
    notice: Mutex<Option<&'static str>>,
}

/// What may be done with a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Write,
    Read,
    /// Nor can anybody else write it: it is all in its one file.
    ReadAlone,
}

impl Place {
    /// The place of the database at `path`. It is made absolute, so that SQLite takes no name for
    /// an address (`file:…`, `:memory:`), and a link to a database is followed, so that all who
    /// open it meet at the same lock files.
    pub(super) fn new(path: &Path) -> Result<Self, StoreError> {
        let said = |error| of_file(path, &error);
        let mut file = std::path::absolute(path).map_err(said)?;
        if file.is_symlink() && file.exists() {
            file = fs::canonicalize(file).map_err(said)?;
        }
        let locks = beside(&file, ".locks");
        Ok(Self { locks, access: Access::Write, file, notice: Mutex::default() })
    }

    /// How a connection is opened.
    pub(super) fn options(&self) -> SqliteConnectOptions {
        SqliteConnectOptions::new()
            .filename(&self.file)
            .read_only(self.access != Access::Write)
            .immutable(self.access == Access::ReadAlone)
            .foreign_keys(true)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(BUSY_TIMEOUT)
            .disable_statement_logging()
    }

    /// Refuses what would write, where the database may only be read.
    pub(super) fn check_writable(&self) -> Result<(), StoreError> {
        match self.access {
            Access::Write => Ok(()),
            Access::Read | Access::ReadAlone => Err(fault::read_only(&self.file)),
        }
    }

    /// What a person should be told of the database, once.
    pub(super) fn notice(&self) -> Option<&'static str> {
        self.notice.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The words are damaged, and entries are written without them.
    pub(super) fn say_words_are_damaged(&self) {
        self.say(WORDS_DAMAGED);
    }

    fn say(&self, notice: &'static str) {
        *self.notice.lock().unwrap_or_else(PoisonError::into_inner) = Some(notice);
    }

    /// Another connection: for what can't wait for the writer.
    pub(super) async fn connect_again(&self) -> sqlx::Result<SqliteConnection> {
        self.options().connect().await
    }

    /// The database's error in the store's words.
    pub(super) fn fault(&self, error: &sqlx::Error) -> StoreError {
        fault::of_database(&self.file, error)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.file.display(), f)
    }
}

/// Opens the database, makes it where there is none, and brings it up to date where it is older.
pub(super) async fn open(place: &Place) -> Result<SqliteConnection, StoreError> {
    if let Some(folder) = place.file.parent() {
        make_folder(folder)?;
    }
    check_log(&place.file)?;
    make_file(&place.file)?;
    let mut connection = place.options().connect().await.map_err(|e| place.fault(&e))?;
    match bring_up_to_date(place, &mut connection).await {
        Ok(()) => Ok(connection),
        Err(error) => {
            // The error matters; what closing says then adds nothing to it.
            let _ = connection.close().await;
            Err(error)
        }
    }
}

/// Opens a database that may not be written, if it is there and up to date. Where not even the
/// files beside it can be made, what they would hold must be in it already.
pub(super) async fn open_to_read(place: &Place) -> Option<(Place, SqliteConnection)> {
    for access in [Access::Read, Access::ReadAlone] {
        let has_log = check_log(&place.file).is_err() || bytes(&beside(&place.file, "-wal")) > 0;
        if access == Access::ReadAlone && has_log {
            break;
        }
        let (file, locks) = (place.file.clone(), place.locks.clone());
        let place = Place { file, locks, access, notice: Mutex::default() };
        let Ok(mut connection) = place.options().connect().await else { continue };
        let is_ours = version(&place, &mut connection).await.is_ok_and(|found| found == LATEST);
        if is_ours && can_be_read(&mut connection).await.unwrap_or(false) {
            return Some((place, connection));
        }
    }
    None
}

async fn bring_up_to_date(
    place: &Place,
    connection: &mut SqliteConnection,
) -> Result<(), StoreError> {
    let found = version(place, connection).await?;
    make_folder(&place.locks)?;
    let fault = |error| place.fault(&error);
    if found == LATEST && is_filled(connection).await.map_err(fault)? {
        return Ok(());
    }
    // No session is called so: their names have no full stop.
    let path = place.locks.join(".migration");
    let waited = tokio::task::spawn_blocking(move || Lock::wait(&path)).await;
    let _lock = waited.map_err(|error| StoreError::Other {
        what: place.file.display().to_string(),
        why: error.to_string(),
    })??;
    if version(place, connection).await? < LATEST {
        migrate(place, connection).await?;
    }
    if !is_filled(connection).await.map_err(fault)? {
        match fill(connection).await.map_err(fault)? {
            Filled::All => {}
            Filled::Words => place.say(WORDS_MADE_ANEW),
            Filled::Nothing => place.say(WORDS_DAMAGED),
        }
    }
    Ok(())
}

/// The version of the database; 0 for an empty one.
async fn version(place: &Place, connection: &mut SqliteConnection) -> Result<i64, StoreError> {
    let names: Vec<String> =
        sqlx::query_scalar("SELECT name FROM sqlite_schema WHERE type = 'table'")
            .fetch_all(&mut *connection)
            .await
            .map_err(|e| place.fault(&e))?;
    let has = |name: &str| names.iter().any(|n| n == name);
    let ours = has("entries") && has("sessions") && has("_sqlx_migrations");
    if !ours {
        // A process that died while it made the database leaves at most the list of migrations.
        let empty = names.iter().all(|name| name == "_sqlx_migrations");
        return if empty { Ok(0) } else { Err(foreign(place)) };
    }
    let version: i64 = sqlx::query_scalar("SELECT COALESCE(MAX(version), 0) FROM _sqlx_migrations")
        .fetch_one(connection)
        .await
        .map_err(|e| place.fault(&e))?;
    if version > LATEST {
        let file = place.file.display();
        return Err(StoreError::Newer { what: format!("{file} (version {version} of {LATEST})") });
    }
    Ok(version)
}

fn foreign(place: &Place) -> StoreError {
    StoreError::Damaged {
        what: place.file.display().to_string(),
        why: "it is the database of another program: give another path".into(),
    }
}

async fn migrate(place: &Place, connection: &mut SqliteConnection) -> Result<(), StoreError> {
    // The mode is kept in the file: later openings find it there.
    sqlx::query("PRAGMA journal_mode = WAL")
        .execute(&mut *connection)
        .await
        .map_err(|e| place.fault(&e))?;
    let migrations = MIGRATIONS.map(|(version, name, sql)| {
        Migration::new(version, name.into(), MigrationType::Simple, sql.into_sql_str(), false)
    });
    Migrator::with_migrations(migrations.into()).run(connection).await.map_err(|error| {
        use sqlx::migrate::MigrateError::{Execute, ExecuteMigration};
        match error {
            Execute(error) | ExecuteMigration(error, _) => place.fault(&error),
            other => fault::damaged(&place.file, &other.to_string()),
        }
    })
}

/// Refuses a database that was moved away or emptied without its log. The log is looked at first:
/// another process that makes the database right now fills the file before it.
fn check_log(path: &Path) -> Result<(), StoreError> {
    match (bytes(&beside(path, "-wal")), bytes(path)) {
        (1.., 0) => Err(fault::only_its_log(path)),
        _ => Ok(()),
    }
}

fn bytes(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |found| found.len())
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.to_owned().into_os_string();
    name.push(suffix);
    PathBuf::from(name)
}

/// Makes an empty file for the owner alone where there is none. What SQLite puts beside it gets
/// the same permissions.
fn make_file(path: &Path) -> Result<(), StoreError> {
    if fs::exists(path).unwrap_or(false) {
        return Ok(());
    }
    let mut options = OpenOptions::new();
    options.create_new(true).write(true);
    only_for_owner(&mut options);
    match options.open(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(of_file(path, &error)),
        _ => Ok(()),
    }
}
