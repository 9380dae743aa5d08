//! What does not fit, in words that a model can act on: the place, what was found there, what is
//! expected. Short, because it is read for as long as the session goes on.

use jsonschema::{
    JsonType, ReferencingError, ValidationError,
    error::{TypeKind, ValidationErrorKind as Kind},
};
use serde_json::Value;

/// Violations told at most.
const VIOLATIONS_MAX: usize = 5;

/// Violations looked at at most.
const ERRORS_MAX: usize = 1_000;

/// Names or values listed at most.
const LISTED_MAX: usize = 12;

/// Characters of a found value that are shown at most.
const FOUND_CHARS_MAX: usize = 60;

/// From here on, a name is near enough to another to be meant (1 is equal).
const NEAR: f64 = 0.5;

/// Why a schema is none.
pub(crate) fn schema(error: &ValidationError<'_>) -> String {
    match error.kind() {
        Kind::Referencing(ReferencingError::Unretrievable { uri, .. }) => {
            format!("`{uri}` leads out of the schema: only references inside it are followed")
        }
        Kind::Referencing(ReferencingError::PointerToNowhere { pointer }) => {
            format!("it refers to `{pointer}`, which it does not have")
        }
        Kind::Referencing(ReferencingError::UnknownSpecification { specification }) => {
            format!("`/$schema`: `{specification}` is no version of JSON Schema that is known here")
        }
        Kind::Referencing(reference) => reference.to_string(),
        _ => format!("`{}`: {}", place(error), violation(&Value::Null, error)),
    }
}

/// What is wrong with a value, a line for each place and rule.
pub(crate) fn violations<'e>(
    schema: &Value,
    errors: impl Iterator<Item = ValidationError<'e>>,
) -> String {
    let errors: Vec<_> = errors.take(ERRORS_MAX).collect();
    let told = tell(schema, &errors);
    // An array of a hundred strings where numbers are wanted is one mistake, not a hundred.
    let more = match told.len().saturating_sub(VIOLATIONS_MAX) {
        0 => None,
        _ if errors.len() == ERRORS_MAX => Some("and many more".to_owned()),
        more => Some(format!("and {more} more")),
    };
    let lines = told.into_iter().take(VIOLATIONS_MAX);
    let lines: Vec<String> =
        lines.map(|(place, what)| format!("`{place}`: {what}")).chain(more).collect();
    lines.join("\n")
}

/// The place of each of `errors` and what is wrong there; all that is missing in one place is told
/// together.
fn tell(schema: &Value, errors: &[ValidationError<'_>]) -> Vec<(String, String)> {
    let is_missing = |error: &ValidationError<'_>| matches!(error.kind(), Kind::Required { .. });
    let mut told: Vec<(String, String)> = Vec::new();
    for (at, error) in errors.iter().enumerate() {
        let what = if is_missing(error) {
            let beside = |other: &&ValidationError<'_>| {
                is_missing(other) && other.instance_path() == error.instance_path()
            };
            if errors.iter().take(at).any(|other| beside(&other)) {
                continue;
            }
            missing(errors.iter().filter(beside))
        } else {
            violation(schema, error)
        };
        told.push((place(error), what));
    }
    told
}

fn place(error: &ValidationError<'_>) -> String {
    let path = error.instance_path().to_string();
    if path.is_empty() { "/".to_owned() } else { path }
}

fn missing<'e>(errors: impl Iterator<Item = &'e ValidationError<'e>>) -> String {
    let names = errors.filter_map(|error| match error.kind() {
        Kind::Required { property } => property.as_str().map(str::to_owned),
        _ => None,
    });
    format!("missing {}", quoted(names, "and"))
}

fn violation(schema: &Value, error: &ValidationError<'_>) -> String {
    let expected = match error.kind() {
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            return unknown(unexpected, &known(schema, error));
        }
        Kind::Required { .. } => return missing([error].into_iter()),
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
            return no_form(schema, error, context);
        }
        Kind::OneOfMultipleValid { .. } => {
            return "fits more than one of the forms of which it must have exactly one".to_owned();
        }
        Kind::Not { schema } => return format!("must not be of the form {}", found(schema)),
        Kind::FalseSchema => return "must be left out".to_owned(),
        Kind::UniqueItems => return "has the same item more than once".to_owned(),
        Kind::Type { kind } => types(kind),
        Kind::Enum { options } => match options.as_array() {
            Some(options) => format!("one of {}", listed(options.iter().map(Value::to_string))),
            None => options.to_string(),
        },
        Kind::Constant { expected_value } => expected_value.to_string(),
        Kind::Minimum { limit } => format!("at least {limit}"),
        Kind::Maximum { limit } => format!("at most {limit}"),
        Kind::ExclusiveMinimum { limit } => format!("more than {limit}"),
        Kind::ExclusiveMaximum { limit } => format!("less than {limit}"),
        Kind::MultipleOf { multiple_of } => format!("a multiple of {multiple_of}"),
        Kind::MinLength { limit } => {
            format!("at least {}", counted(*limit, "character", "characters"))
        }
        Kind::MaxLength { limit } => {
            format!("at most {}", counted(*limit, "character", "characters"))
        }
        Kind::MinItems { limit } => format!("at least {}", counted(*limit, "item", "items")),
        Kind::MaxItems { limit } => format!("at most {}", counted(*limit, "item", "items")),
        Kind::MinProperties { limit } => {
            format!("at least {}", counted(*limit, "property", "properties"))
        }
        Kind::MaxProperties { limit } => {
            format!("at most {}", counted(*limit, "property", "properties"))
        }
        Kind::Pattern { pattern } => format!("text that matches {pattern}"),
        Kind::Format { format } => format!("text of the format {format}"),
        _ => return error.masked_with("the value").to_string(),
    };
    format!("found {}, expected {expected}", found(error.instance()))
}

/// None of the forms that a value may have fits. Where all of them only ask for a type, that is
/// the news; else the form with the fewest violations is taken for the one that was meant.
fn no_form(
    schema: &Value,
    error: &ValidationError<'_>,
    forms: &[Vec<ValidationError<'_>>],
) -> String {
    let type_wanted = |form: &Vec<ValidationError<'_>>| match form.as_slice() {
        [one] if one.instance_path() == error.instance_path() => match one.kind() {
            Kind::Type { kind } => Some(types(kind)),
            _ => None,
        },
        _ => None,
    };
    if let Some(wanted) = forms.iter().map(type_wanted).collect::<Option<Vec<String>>>() {
        return format!("found {}, expected {}", found(error.instance()), joined(wanted, "or"));
    }
    // A form of another type altogether was not meant, if there is one of this type.
    let meant = forms.iter().min_by_key(|form| (type_wanted(form).is_some(), form.len()));
    let text = format!("fits none of the {} forms that are allowed", forms.len());
    let Some(meant) = meant else { return text };
    let here = place(error);
    let nearest = tell(schema, meant)
        .into_iter()
        .take(VIOLATIONS_MAX)
        .map(|(place, what)| if place == here { what } else { format!("`{place}`: {what}") });
    format!("{text}; nearest: {}", nearest.collect::<Vec<_>>().join("; "))
}

/// The properties that the failing part of the schema names. Where it is reached through a
/// reference, its place in the schema still says which part it was.
fn known<'s>(schema: &'s Value, error: &ValidationError<'_>) -> Vec<&'s str> {
    let place = error.schema_path().to_string();
    let part = place.rsplit_once('/').and_then(|(parent, _)| schema.pointer(parent));
    let properties = part.and_then(|part| part.get("properties")).and_then(Value::as_object);
    properties.map(|all| all.keys().map(String::as_str).collect()).unwrap_or_default()
}

fn unknown(names: &[String], known: &[&str]) -> String {
    let describe = |name: &String| match nearest(name, known) {
        Some(near) => format!("`{name}` (did you mean `{near}`?)"),
        None => format!("`{name}`"),
    };
    let text = format!("unknown {}", listed(names.iter().map(describe)));
    match known {
        [] => text,
        _ if names.iter().all(|name| nearest(name, known).is_some()) => text,
        _ => format!("{text}; known: {}", listed(known.iter().map(|name| format!("`{name}`")))),
    }
}

fn nearest<'s>(name: &str, known: &[&'s str]) -> Option<&'s str> {
    let near = |other: &&str| {
        strsim::normalized_damerau_levenshtein(&name.to_lowercase(), &other.to_lowercase())
    };
    let best = known.iter().max_by(|a, b| near(a).total_cmp(&near(b)))?;
    (near(best) >= NEAR).then_some(*best)
}

fn types(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(wanted) => type_words(*wanted).to_owned(),
        TypeKind::Multiple(wanted) => {
            joined(wanted.iter().map(|one| type_words(one).to_owned()).collect(), "or")
        }
    }
}

fn type_words(wanted: JsonType) -> &'static str {
    match wanted {
        JsonType::Null => "null",
        JsonType::Boolean => "true or false",
        JsonType::Integer => "an integer",
        JsonType::Number => "a number",
        JsonType::String => "a string",
        JsonType::Array => "an array",
        JsonType::Object => "an object",
    }
}

/// The beginning of a value's JSON text.
fn found(value: &Value) -> String {
    let text = value.to_string();
    let mut head: String = text.chars().take(FOUND_CHARS_MAX).collect();
    if head.len() < text.len() {
        // Half a word may be half a secret, which no mask knows.
        head.truncate(head.trim_end_matches(|c: char| c.is_ascii_graphic()).len());
        head.push('…');
    }
    head
}

fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

fn quoted(names: impl Iterator<Item = String>, last: &str) -> String {
    joined(names.map(|name| format!("`{name}`")).collect(), last)
}

/// `a, b or c`.
fn joined(mut words: Vec<String>, last: &str) -> String {
    match words.pop() {
        Some(end) if words.is_empty() => end,
        Some(end) => format!("{} {last} {end}", words.join(", ")),
        None => String::new(),
    }
}

/// The first few, and how many more there are.
fn listed(words: impl Iterator<Item = String>) -> String {
    let mut words: Vec<String> = words.collect();
    let more = words.len().saturating_sub(LISTED_MAX);
    words.truncate(LISTED_MAX);
    if more > 0 {
        words.push(format!("and {more} more"));
    }
    words.join(", ")
}
