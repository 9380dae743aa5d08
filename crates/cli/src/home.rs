//! The home folder of Inspan, and what is in it.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use inspan_core::{
    mask::Mask,
    store::{Archive, Blobs, SessionFilter, SessionId, Store},
};
use inspan_mcp::{self as mcp, Servers};
use inspan_store::{Files, Postgres, S3, Sqlite, Told, Watched};
use secrecy::ExposeSecret;
use tokio::sync::OnceCell;

use crate::{
    config::{Config, Database, env_file_mask},
    exit::Failure,
    launch,
    out::{NOTE, Out, styled},
};

/// How long the end of a command waits for the store.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// What the process was started with, and its store. Only here is the environment read.
pub(crate) struct Home {
    /// The folder: `INSPAN_HOME`, else `~/.agents/inspan`.
    pub folder: PathBuf,
    /// The environment.
    pub environment: Vec<(OsString, OsString)>,
    /// The working directory.
    pub workdir: PathBuf,
    /// Servers of tools, which are started when they are needed.
    pub mcp: Arc<Servers>,
    store: OnceCell<Opened>,
}

/// The store, as it must be closed.
enum Opened {
    Sqlite(Arc<Sqlite>),
    Postgres(Arc<Postgres>),
}

impl Home {
    /// Reads the environment.
    ///
    /// # Errors
    /// There is no home folder, or no working directory.
    pub(crate) fn find() -> Result<Self, Failure> {
        let environment: Vec<_> = std::env::vars_os().collect();
        let variable = |name: &str| {
            let found = environment.iter().find(|(key, _)| key == name);
            found.map(|(_, value)| PathBuf::from(value)).filter(|v| !v.as_os_str().is_empty())
        };
        let folder = variable("INSPAN_HOME")
            .or_else(|| variable("HOME").map(|home| home.join(".agents/inspan")))
            .ok_or_else(|| {
                Failure::Usage("there is no home folder: set HOME or INSPAN_HOME".to_owned())
            })?;
        let workdir = std::env::current_dir()
            .map_err(|why| Failure::File { what: "the working directory".to_owned(), why })?;
        let folder = workdir.join(folder);
        let mcp = Arc::new(Servers::new(mcp::Options {
            cache: Some(folder.join("mcp")),
            logins: Some(folder.join("logins")),
            launcher: launcher(),
            ..mcp::Options::default()
        }));
        Ok(Self { folder, environment, workdir, mcp, store: OnceCell::new() })
    }

    /// What takes the person's secrets out of everything that is shown.
    ///
    /// # Errors
    /// The configuration, which holds them, can't be read.
    pub(crate) fn mask(&self) -> Result<Mask, Failure> {
        Ok(Config::load(&self.folder, self.environment.clone())?.mask)
    }

    /// As much of [`Home::mask`] as there is where the configuration itself may be what is wrong.
    pub(crate) fn mask_at_hand(&self) -> Mask {
        self.mask().unwrap_or_else(|_| env_file_mask(&self.folder, self.environment.clone()))
    }

    /// The store, which is opened when it is first asked for: what `config.yaml` names, or
    /// `sessions.db` in the home folder.
    ///
    /// # Errors
    /// See [`Sqlite::open`] and [`Postgres::open`].
    pub(crate) async fn store(&self) -> Result<Arc<dyn Archive>, Failure> {
        let opened = self.store.get_or_try_init(async || {
            let config = Config::load(&self.folder, self.environment.clone())?;
            Ok::<_, Failure>(match config.database {
                Some(Database::Postgres(url)) => {
                    Opened::Postgres(Arc::new(Postgres::open(url.expose_secret()).await?))
                }
                Some(Database::Sqlite(path)) => {
                    Opened::Sqlite(Arc::new(Sqlite::open(self.folder.join(path)).await?))
                }
                None => {
                    Opened::Sqlite(Arc::new(Sqlite::open(self.folder.join("sessions.db")).await?))
                }
            })
        });
        Ok(match opened.await? {
            Opened::Sqlite(store) => store.clone(),
            Opened::Postgres(store) => store.clone(),
        })
    }

    /// Where blobs are kept: in the bucket of the configuration, for which a folder takes over while
    /// it is away, or in the folder that goes with the store. `told` hears of every trouble.
    ///
    /// # Errors
    /// The bucket's address makes no sense.
    pub(crate) fn blobs(
        &self,
        config: &Config,
        store: &dyn Store,
        told: Told,
    ) -> Result<Arc<dyn Blobs>, Failure> {
        let folder =
            store.blobs().unwrap_or_else(|| Arc::new(Files::new(self.folder.join("blobs"))));
        let watched = match &config.blobs {
            Some(place) => Watched::new(Arc::new(S3::new(place)?), Some(folder), told),
            None => Watched::new(folder, None, told),
        };
        Ok(Arc::new(watched))
    }

    /// Ends servers in order at the end of a command, and closes the store, so that all of it is in
    /// its one file. What takes too long is given up: it is durable without that. What the store has
    /// to tell is told then.
    pub(crate) async fn close(&self) {
        self.mcp.close().await;
        let close = async {
            match self.store.get() {
                Some(Opened::Sqlite(store)) => store.close().await,
                Some(Opened::Postgres(store)) => store.close().await,
                None => {}
            }
        };
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, close).await;
        if let Some(Opened::Sqlite(store)) = self.store.get()
            && let Some(notice) = store.notice()
        {
            Out::new(Mask::default()).progress(&format!("  {} {notice}\n", styled(NOTE, "!")));
        }
    }
}

/// The words before a server's program by which the kernel ends it with this process.
fn launcher() -> Vec<OsString> {
    let Ok(this) = std::env::current_exe() else { return Vec::new() };
    vec![this.into(), launch::WORD.into(), std::process::id().to_string().into()]
}

/// The words that the process was started with.
pub(crate) fn arguments() -> Vec<OsString> {
    std::env::args_os().collect()
}

/// Whether there is such a folder.
pub(crate) fn is_folder(path: &Path) -> bool {
    path.is_dir()
}

/// The session whose identifier is `given` or begins so.
///
/// # Errors
/// There is none, or more than one.
pub(crate) async fn session_of(store: &dyn Store, given: &str) -> Result<SessionId, Failure> {
    let rows = store.sessions(&SessionFilter::prefix(given, 3)).await?;
    let exact = rows.iter().find(|row| row.id.as_str() == given);
    match (exact, rows.as_slice()) {
        (Some(row), _) | (None, [row]) => Ok(row.id.clone()),
        (None, []) => Err(Failure::Usage(format!(
            "no session is called `{given}` or begins so; `inspan sessions` lists them"
        ))),
        (None, _) => Err(Failure::Usage(format!(
            "more than one session begins with `{given}`; write more of its identifier"
        ))),
    }
}
