//! Where a key comes from. It is read when a request is sent and printed by nothing.

use std::{fmt, sync::Arc};

use reqwest::header::HeaderValue;
use secrecy::{ExposeSecret, SecretString};

/// Looks up a variable of the environment, or of a file that stands for it.
pub type Lookup = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Where the key of a server comes from.
#[derive(Clone)]
pub enum KeySource {
    /// A variable, looked up again for each request.
    Variable {
        /// Its name, for messages.
        name: String,
        /// Where it is looked up.
        lookup: Lookup,
        /// Whether a request without it makes no sense; false for servers that may want none.
        needed: bool,
    },
    /// A key that the configuration gave.
    Fixed(SecretString),
    /// The server wants none.
    None,
}

/// Why there is no key to send. Never says a character of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The variable is not set, or empty.
    #[error("no key: set {0}")]
    Missing(String),
    /// The key has characters that no HTTP header can carry.
    #[error("the key in {0} has characters that can't be sent; it may have been pasted badly")]
    Unsendable(String),
}

/// Looks up variables in the environment of the process.
pub fn environment() -> Lookup {
    Arc::new(|name| std::env::var(name).ok())
}

impl KeySource {
    /// The variable of this name in the environment of the process.
    pub fn env(name: impl Into<String>) -> Self {
        Self::Variable { name: name.into(), lookup: environment(), needed: true }
    }

    /// Whether there is a key that can be sent, before anything is.
    ///
    /// # Errors
    /// The variable is not set, or what it holds is no key.
    pub fn check(&self) -> Result<(), KeyError> {
        self.read().map(|_| ())
    }

    /// Where the key is, in words for a hint; `None` when there is none.
    pub(crate) fn place(&self) -> Option<&str> {
        match self {
            Self::Variable { name, .. } => Some(name),
            Self::Fixed(_) => Some("the configuration"),
            Self::None => None,
        }
    }

    /// The key, without white space around it. Only printable ASCII can be sent.
    pub(crate) fn read(&self) -> Result<Option<SecretString>, KeyError> {
        let key = match self {
            Self::Variable { name, lookup, needed } => {
                match lookup(name).filter(|key| !key.trim().is_empty()) {
                    Some(key) => SecretString::from(key.trim()),
                    None if *needed => return Err(KeyError::Missing(name.clone())),
                    None => return Ok(None),
                }
            }
            Self::Fixed(key) => SecretString::from(key.expose_secret().trim()),
            Self::None => return Ok(None),
        };
        let text = key.expose_secret();
        if !text.is_ascii() || HeaderValue::from_str(text).is_err() {
            return Err(KeyError::Unsendable(self.place().unwrap_or_default().to_owned()));
        }
        Ok(Some(key).filter(|key| !key.expose_secret().is_empty()))
    }
}

impl fmt::Debug for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable { name, .. } => write!(f, "Variable({name})"),
            Self::Fixed(_) => f.write_str("Fixed([masked])"),
            Self::None => f.write_str("None"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(value: Option<&str>, needed: bool) -> KeySource {
        let value = value.map(str::to_owned);
        KeySource::Variable {
            name: "SOME_KEY".into(),
            lookup: Arc::new(move |_| value.clone()),
            needed,
        }
    }

    #[test]
    fn keys_are_trimmed_and_checked() {
        let missing = || Err(KeyError::Missing("SOME_KEY".into()));
        let unsendable = |place: &str| Err(KeyError::Unsendable(place.into()));
        let table = [
            (variable(Some("sk-1\n"), true), Ok(Some("sk-1"))),
            (variable(Some(" sk-1 "), false), Ok(Some("sk-1"))),
            (variable(None, true), missing()),
            (variable(Some(" \n"), true), missing()),
            (variable(None, false), Ok(None)),
            (variable(Some("sk-1\nsk-2"), true), unsendable("SOME_KEY")),
            (variable(Some("sk-…"), true), unsendable("SOME_KEY")),
            (KeySource::Fixed("sk-\u{7f}".into()), unsendable("the configuration")),
            (KeySource::Fixed("sk-2 ".into()), Ok(Some("sk-2"))),
            (KeySource::None, Ok(None)),
        ];
        for (source, expected) in table {
            let read = source.read().map(|key| key.map(|key| key.expose_secret().to_owned()));
            assert_eq!(read, expected.map(|key| key.map(str::to_owned)), "{source:?}");
        }
    }

    #[test]
    fn keys_are_not_printed() {
        let printed = format!("{:?} {:?}", KeySource::Fixed("sk-1".into()), variable(None, true));
        assert_eq!(printed, "Fixed([masked]) Variable(SOME_KEY)");
    }
}
