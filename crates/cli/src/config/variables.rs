//! The variables that the person set: the environment of the process and, behind it, `.env`.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fmt,
    fs::File,
    io::{self, Read},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use inspan_providers::Lookup;
use secrecy::{ExposeSecret, SecretString};

use super::{ConfigError, Place};

/// The bits of a file's mode that let anybody but its owner at it.
const MODE_OTHERS: u32 = 0o077;

/// Variables by name. Prints none of their values. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Variables(Arc<Both>);

struct Both {
    environment: Vec<(OsString, OsString)>,
    env_file: PathBuf,
    in_file: BTreeMap<String, SecretString>,
}

impl Variables {
    /// The variables of `environment`, and those of the file at `env_file` if there is one.
    ///
    /// # Errors
    /// The file can't be read, is open to others, or a line of it is no variable.
    pub(crate) fn load(
        environment: Vec<(OsString, OsString)>,
        env_file: &Path,
    ) -> Result<Self, ConfigError> {
        let in_file = match File::open(env_file) {
            Ok(file) => read(file, env_file)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(ConfigError::unreadable(env_file, error)),
        };
        Ok(Self(Arc::new(Both { environment, env_file: env_file.to_owned(), in_file })))
    }

    /// The value of a variable. One of the environment counts before one of the file.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        let outside = self.0.environment.iter().find(|(n, _)| n == name);
        match outside {
            Some((_, value)) => Some(value.to_string_lossy().into_owned()),
            None => self.0.in_file.get(name).map(|value| value.expose_secret().to_owned()),
        }
    }

    /// [`Variables::get`] as a value to hand on.
    pub(crate) fn lookup(&self) -> Lookup {
        let variables = self.clone();
        Arc::new(move |name| variables.get(name))
    }

    /// The environment of the process, without the file.
    pub(crate) fn environment(&self) -> &[(OsString, OsString)] {
        &self.0.environment
    }

    /// Where the file is, or would be.
    pub(crate) fn env_file(&self) -> &Path {
        &self.0.env_file
    }

    /// The values of the file that may be secrets, and those of the environment that are called so:
    /// a tool can read all of it, from `/proc` if not from its own.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = String> {
        let secrets = self.0.in_file.iter().filter(|(name, _)| may_be_secret(name));
        let outside =
            self.0.environment.iter().filter(|(name, _)| is_called_secret(&name.to_string_lossy()));
        let outside = outside.map(|(_, value)| value.to_string_lossy().into_owned());
        secrets.map(|(_, value)| value.expose_secret().to_owned()).chain(outside)
    }
}

/// Whether a name says that its value is a secret. The environment holds much that is none.
fn is_called_secret(name: &str) -> bool {
    const ENDS: [&str; 9] = [
        "KEY",
        "TOKEN",
        "SECRET",
        "PASSWORD",
        "PASSWD",
        "PASSPHRASE",
        "_PASS",
        "CREDENTIAL",
        "CREDENTIALS",
    ];
    let name = name.to_ascii_uppercase();
    ENDS.iter().any(|end| name.ends_with(end))
}

/// Every variable is taken for a secret but those that by their name are addresses of servers,
/// which messages must name.
pub(super) fn may_be_secret(name: &str) -> bool {
    let is_address = |end: &str| {
        name.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('_'))
    };
    !["HOST", "BASE_URL"].into_iter().any(is_address)
}

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Variables({} and {})", self.0.environment.len(), self.0.in_file.len())
    }
}

fn read(mut file: File, path: &Path) -> Result<BTreeMap<String, SecretString>, ConfigError> {
    let mode = file.metadata().map_err(|error| ConfigError::unreadable(path, error))?.permissions();
    if mode.mode() & MODE_OTHERS != 0 {
        return Err(ConfigError::OpenToOthers { path: path.to_owned() });
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(|error| ConfigError::unreadable(path, error))?;
    dotenvy::from_read_iter(text.as_bytes())
        .map(|variable| {
            let (name, value) = variable.map_err(|error| bad_line(&error, &text, path))?;
            Ok((name, SecretString::from(value)))
        })
        .collect()
}

/// Names the line, never what stands in it: the parser's own words do.
fn bad_line(error: &dotenvy::Error, text: &str, path: &Path) -> ConfigError {
    let line = match error {
        dotenvy::Error::LineParse(bad, _) => {
            // A value in quotes may go over several lines.
            let first = bad.lines().next().unwrap_or_default();
            text.lines().position(|line| line.trim() == first.trim()).map_or(0, |at| at + 1)
        }
        _ => 0,
    };
    ConfigError::Wrong {
        at: Place { path: path.to_owned(), line: line as u64, column: 0 },
        why: "this is no variable: write NAME=VALUE, a value with spaces or $ in single quotes"
            .to_owned(),
    }
}
