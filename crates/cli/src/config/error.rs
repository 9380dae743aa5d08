//! What can be wrong with a configuration, in words that say where and what to do.

use std::{
    fmt,
    path::{Path, PathBuf},
};

/// A place in a file, as compilers and editors write it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The file.
    pub path: PathBuf,
    /// The line, from 1; 0 when it is not known.
    pub line: u64,
    /// The column in characters, from 1; 0 when it is not known.
    pub column: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        match (self.line, self.column) {
            (0, _) => Ok(()),
            (line, 0) => write!(f, ":{line}"),
            (line, column) => write!(f, ":{line}:{column}"),
        }
    }
}

/// What is wrong with `config.yaml`, `.env` or an agent's folder. Never says a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConfigError {
    /// The system does not give the file.
    #[error("{path} can't be read: {why}", path = .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        why: String,
    },
    /// A file with secrets is open to others.
    #[error(
        "{path} holds keys and other users can get at it; run: chmod 600 {quoted}",
        path = .path.display(),
        quoted = quoted(.path)
    )]
    OpenToOthers {
        /// The file.
        path: PathBuf,
    },
    /// The file has a key that means nothing.
    #[error("{at}: unknown key `{key}`{hint}")]
    UnknownKey {
        /// Where the key stands.
        at: Place,
        /// The key.
        key: String,
        /// The one that was probably meant, or those that there are.
        hint: String,
    },
    /// A variable is not set.
    #[error(
        "{at}: the variable {name} is not set; set it in the environment or in {env_file}, or \
         write ${{{name}:-DEFAULT}}",
        env_file = .env_file.display()
    )]
    Unset {
        /// Where it is asked for.
        at: Place,
        /// Its name.
        name: String,
        /// The file in which it could stand.
        env_file: PathBuf,
    },
    /// Anything else that is not as it must be.
    #[error("{at}: {why}")]
    Wrong {
        /// Where.
        at: Place,
        /// What is wrong, and what to write.
        why: String,
    },
}

impl ConfigError {
    pub(crate) fn unreadable(path: &Path, why: impl fmt::Display) -> Self {
        Self::Unreadable { path: path.to_owned(), why: why.to_string() }
    }
}

/// The path as a shell takes it.
fn quoted(path: &Path) -> String {
    let path = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if path.chars().all(plain) { path } else { format!("'{}'", path.replace('\'', r"'\''")) }
}
