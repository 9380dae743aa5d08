//! From a URL to a database of the right version.

use std::{fmt, str::FromStr, time::Duration};

use inspan_core::store::StoreError;
use sqlx::{
    ConnectOptions, PgConnection, SqlSafeStr,
    migrate::{Migration, MigrationType, Migrator},
    postgres::{PgConnectOptions, PgPool, PgPoolOptions},
};
use tokio::time::Instant;

use super::fault;

/// How long a connection to the database may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a write waits for a database that is away, such as one that restarts.
const AWAY_TIMEOUT: Duration = Duration::from_secs(15);

/// Between two attempts to reach it.
const AWAY_LOOK: Duration = Duration::from_millis(250);

/// The migrations in their order: version, name and text. Each runs in a transaction of its own.
const MIGRATIONS: [(i64, &str, &str); 5] = [
    (1, "log", include_str!("../../migrations/0001_log.sql")),
    (2, "sessions", include_str!("../../migrations/0002_sessions.sql")),
    (3, "postgres", include_str!("../../migrations/0003_postgres.sql")),
    (4, "answers", include_str!("../../migrations/0004_answers.sql")),
    (5, "snapshots", include_str!("../../migrations/0005_postgres.sql")),
];

/// The version that this build writes.
const LATEST: i64 = MIGRATIONS[MIGRATIONS.len() - 1].0;

/// Where a database is.
#[derive(Debug)]
pub(super) struct Place {
    options: PgConnectOptions,
    /// Without a password.
    name: String,
}

impl Place {
    /// The place that `url` names.
    pub(super) fn new(url: &str) -> Result<Self, StoreError> {
        let options = PgConnectOptions::from_str(url).map_err(|error| StoreError::Other {
            what: "the address of the Postgres database".into(),
            why: format!("{error}: write postgres://USER:PASSWORD@HOST:PORT/DATABASE"),
        })?;
        let host = options.get_socket().map_or_else(
            || format!("{}:{}", options.get_host(), options.get_port()),
            |socket| socket.display().to_string(),
        );
        let database = options.get_database().unwrap_or_else(|| options.get_username());
        let name = format!("postgres://{}@{host}/{database}", options.get_username());
        let options = match options.get_application_name() {
            Some(_) => options,
            None => options.application_name("inspan"),
        };
        let options = options.disable_statement_logging();
        Ok(Self { options, name })
    }

    /// One connection.
    pub(super) async fn connect(&self) -> sqlx::Result<PgConnection> {
        let silent = || std::io::Error::new(std::io::ErrorKind::TimedOut, "no answer in time");
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, self.options.connect()).await;
        connected.unwrap_or_else(|_| Err(silent().into()))
    }

    /// One connection, waiting for a while if the database is away.
    pub(super) async fn connect_again(&self) -> sqlx::Result<PgConnection> {
        let end = Instant::now() + AWAY_TIMEOUT;
        loop {
            match self.connect().await {
                Err(error) if fault::is_lost(&error) && Instant::now() < end => {
                    tokio::time::sleep(AWAY_LOOK).await;
                }
                done => return done,
            }
        }
    }

    /// Connections for reading, each made when it is first needed.
    pub(super) fn pool(&self, count_max: u32) -> PgPool {
        PgPoolOptions::new()
            .max_connections(count_max)
            .acquire_timeout(AWAY_TIMEOUT)
            .connect_lazy_with(self.options.clone())
    }

    /// Whoever reads the server's own log hears of it.
    pub(super) fn say_words_are_damaged(&self) {}

    /// The database's error in the store's words.
    pub(super) fn fault(&self, error: &sqlx::Error) -> StoreError {
        fault::of_database(self, error)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Opens the database and brings it up to date where it is empty or older.
pub(super) async fn open(place: &Place) -> Result<PgConnection, StoreError> {
    let mut connection = place.connect().await.map_err(|error| place.fault(&error))?;
    if version(place, &mut connection).await? < LATEST {
        migrate(place, &mut connection).await?;
    }
    Ok(connection)
}

/// The version of the database; 0 for an empty one.
async fn version(place: &Place, connection: &mut PgConnection) -> Result<i64, StoreError> {
    let fault = |error| place.fault(&error);
    let has = |name: &'static str| {
        sqlx::query_scalar::<_, bool>("SELECT to_regclass($1) IS NOT NULL").bind(name)
    };
    let foreign = || StoreError::Damaged {
        what: place.to_string(),
        why: "it has tables of another program: give another database, or a schema of its own \
              with ?options=-csearch_path=SCHEMA"
            .into(),
    };
    let is_ours = has("entries").fetch_one(&mut *connection).await.map_err(fault)?
        && has("sessions").fetch_one(&mut *connection).await.map_err(fault)?;
    let has_list = has("_sqlx_migrations").fetch_one(&mut *connection).await.map_err(fault)?;
    if !has_list {
        return if is_ours { Err(foreign()) } else { Ok(0) };
    }
    let version: i64 = sqlx::query_scalar("SELECT COALESCE(MAX(version), 0) FROM _sqlx_migrations")
        .fetch_one(connection)
        .await
        .map_err(fault)?;
    match version {
        0 => Ok(0),
        _ if !is_ours => Err(foreign()),
        version if version > LATEST => {
            Err(StoreError::Newer { what: format!("{place} (version {version} of {LATEST})") })
        }
        version => Ok(version),
    }
}

/// Several processes may open an empty database at once: the first makes it, the others wait.
async fn migrate(place: &Place, connection: &mut PgConnection) -> Result<(), StoreError> {
    let migrations = MIGRATIONS.map(|(version, name, sql)| {
        Migration::new(version, name.into(), MigrationType::Simple, sql.into_sql_str(), false)
    });
    Migrator::with_migrations(migrations.into()).run(connection).await.map_err(|error| {
        use sqlx::migrate::MigrateError::{Execute, ExecuteMigration};
        match error {
            Execute(error) | ExecuteMigration(error, _) => place.fault(&error),
            other => StoreError::Damaged { what: place.to_string(), why: other.to_string() },
        }
    })
}
