//! A YAML file that is being read: its places, its variables, and its errors in our words.

use std::{cell::RefCell, fs, io, path::PathBuf};

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use serde_saphyr::{Error as YamlError, Location, Spanned};

use super::{
    Ceiling, ConfigError, Figure, Place, Variables,
    substitute::{SubstituteError, substitute},
    variables::may_be_secret,
};

/// A text with its place.
pub(crate) type Text = Spanned<String>;

/// A figure as it is written, with its place; `None` for `null`.
pub(crate) type Scalar = Spanned<Option<String>>;

/// The file that is read.
pub(crate) struct Source<'a> {
    path: PathBuf,
    /// What `${NAME}` in texts stands for; without it texts are taken as they are.
    variables: Option<&'a Variables>,
    /// Values of variables that may be secrets, as far as texts that are sent took them in.
    taken_in: RefCell<Vec<String>>,
}

impl<'a> Source<'a> {
    /// The file at `path`.
    pub(crate) fn new(path: PathBuf, variables: Option<&'a Variables>) -> Self {
        Self { path, variables, taken_in: RefCell::default() }
    }

    /// What the file says; nothing when there is none.
    pub(crate) fn parse_if_there<T: DeserializeOwned + Default>(&self) -> Result<T, ConfigError> {
        match fs::read_to_string(&self.path) {
            Ok(text) => self.parse(&text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(T::default()),
            Err(error) => Err(ConfigError::unreadable(&self.path, error)),
        }
    }

    /// What `text`, the content of the file, says.
    pub(crate) fn parse<T: DeserializeOwned>(&self, text: &str) -> Result<T, ConfigError> {
        let options = serde_saphyr::options! { with_snippet: false };
        serde_saphyr::from_str_with_options(text, options).map_err(|error| self.error(&error))
    }

    /// The text, its variables replaced. An error about it quotes it as it is written: a variable
    /// may hold a secret that is used in the wrong place.
    pub(crate) fn text(&self, text: &Text) -> Result<String, ConfigError> {
        self.substituted(&text.value, text.referenced)
    }

    /// The same for a text that is sent to a server: see [`Source::taken_in`].
    pub(crate) fn sent_text(&self, text: &Text) -> Result<String, ConfigError> {
        self.sent(&text.value, text.referenced)
    }

    /// The one of `known` that the text at `key` is.
    pub(crate) fn one_of<T: Copy>(
        &self,
        key: &str,
        text: &Text,
        known: &[(&str, T)],
    ) -> Result<T, ConfigError> {
        let name = self.text(text)?;
        let found = known.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| *value).ok_or_else(|| {
            let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            let hint = near(&name, &names);
            self.wrong(text, format!("{key}: `{}` is not known{hint}", text.value))
        })
    }

    /// The values of variables that are part of what is sent to a server, but for those that by
    /// their name say where something is.
    pub(crate) fn taken_in(&self) -> Vec<String> {
        self.taken_in.borrow().clone()
    }

    /// The value, which is sent to a server, the variables in all its texts replaced.
    pub(crate) fn object(
        &self,
        object: &Spanned<Map<String, Value>>,
    ) -> Result<Map<String, Value>, ConfigError> {
        let fields = object.value.clone().into_iter();
        fields.map(|(key, value)| Ok((key, self.value(value, object.referenced)?))).collect()
    }

    fn value(&self, value: Value, at: Location) -> Result<Value, ConfigError> {
        match value {
            Value::String(text) => self.sent(&text, at).map(Value::String),
            Value::Array(items) => {
                items.into_iter().map(|item| self.value(item, at)).collect::<Result<_, _>>()
            }
            Value::Object(fields) => {
                let fields = fields.into_iter();
                let fields: Result<Map<_, _>, _> =
                    fields.map(|(key, value)| Ok((key, self.value(value, at)?))).collect();
                fields.map(Value::Object)
            }
            plain @ (Value::Null | Value::Bool(_) | Value::Number(_)) => Ok(plain),
        }
    }

    /// The figure at `key`, if one is given.
    pub(crate) fn figure<T: Figure>(
        &self,
        key: &str,
        scalar: Option<&Scalar>,
    ) -> Result<Option<T>, ConfigError> {
        let Some(scalar) = scalar else { return Ok(None) };
        let written = scalar.value.as_deref().unwrap_or("null");
        let text = self.substituted(written, scalar.referenced)?;
        let figure = T::read(&text);
        figure.map(Some).map_err(|why| self.wrong(scalar, format!("{key}: `{written}` {why}")))
    }

    /// The limit at `key`, if one is given; `null` lifts it.
    pub(crate) fn ceiling<T: Figure>(
        &self,
        key: &str,
        scalar: Option<&Scalar>,
    ) -> Result<Option<Ceiling<T>>, ConfigError> {
        match scalar {
            Some(Spanned { value: None, .. }) => Ok(Some(Ceiling::Lifted)),
            scalar => self.figure(key, scalar),
        }
    }

    /// An error at a value.
    pub(crate) fn wrong<T>(&self, at: &Spanned<T>, why: impl Into<String>) -> ConfigError {
        ConfigError::Wrong { at: self.place(at.referenced), why: why.into() }
    }

    fn substituted(&self, text: &str, at: Location) -> Result<String, ConfigError> {
        self.substituted_with(text, at, |_, _| {})
    }

    fn sent(&self, text: &str, at: Location) -> Result<String, ConfigError> {
        self.substituted_with(text, at, |name, value| {
            if may_be_secret(name) {
                self.taken_in.borrow_mut().push(value.to_owned());
            }
        })
    }

    /// `note` is told the name and value of each variable.
    fn substituted_with(
        &self,
        text: &str,
        at: Location,
        note: impl Fn(&str, &str),
    ) -> Result<String, ConfigError> {
        let Some(variables) = self.variables else { return Ok(text.to_owned()) };
        let lookup = |name: &str| variables.get(name).inspect(|value| note(name, value));
        substitute(text, lookup).map_err(|error| match error {
            SubstituteError::Unset(name) => ConfigError::Unset {
                at: self.place(at),
                name,
                env_file: variables.env_file().to_owned(),
            },
            error => ConfigError::Wrong { at: self.place(at), why: error.to_string() },
        })
    }

    fn place(&self, at: Location) -> Place {
        Place { path: self.path.clone(), line: at.line(), column: at.column() }
    }

    fn error(&self, error: &YamlError) -> ConfigError {
        let at = self.place(error.location().unwrap_or(Location::UNKNOWN));
        let why = match error.without_snippet() {
            YamlError::SerdeUnknownField { field, expected, .. } => {
                let hint = near(field, expected);
                return ConfigError::UnknownKey { at, key: field.clone(), hint };
            }
            YamlError::SerdeUnknownVariant { variant, expected, .. } => {
                format!("`{variant}` is not known here{}", near(variant, expected))
            }
            YamlError::SerdeMissingField { field, .. } => format!("`{field}` is missing"),
            YamlError::DuplicateMappingKey { key: Some(key), .. } => {
                format!("`{key}` stands here twice")
            }
            YamlError::MultipleDocuments { .. } => "there must be one document only".to_owned(),
            other => {
                // Its own words end with the place, which stands at the beginning of ours.
                let words = other.to_string();
                let end = format!(" at line {}, column {}", at.line, at.column);
                match words.strip_suffix(&end).unwrap_or(&words) {
                    "expected sequence start" => "a list is expected here: [one, two]".to_owned(),
                    "expected mapping start" => {
                        "keys with values are expected here: { key: value }".to_owned()
                    }
                    "expected string scalar" => "one value is expected here".to_owned(),
                    words => words.to_owned(),
                }
            }
        };
        ConfigError::Wrong { at, why }
    }
}

/// A hint for a word that is not known: the nearest of those that are, or all of them.
pub(crate) fn near(word: &str, known: &[impl AsRef<str>]) -> String {
    let distance = |known: &str| strsim::damerau_levenshtein(word, known);
    let nearest = known.iter().map(AsRef::as_ref).min_by_key(|known| distance(known));
    match nearest {
        Some(nearest) if distance(nearest) * 3 <= nearest.len().max(3) => {
            format!("; did you mean `{nearest}`?")
        }
        Some(_) => {
            let known: Vec<&str> = known.iter().map(AsRef::as_ref).collect();
            format!("; there are: {}", known.join(", "))
        }
        None => String::new(),
    }
}
