//! Strings that hold the JSON text of what is wanted, as models write them: `"3"` for 3.
//!
//! A string is replaced only where it does not fit itself, only by a value of the type (or out of
//! the list) that is wanted there, and only if the text says neither more nor less than the value.

use std::collections::{HashMap, HashSet, VecDeque};

use jsonschema::{
    JsonType, ValidationError, Validator,
    error::{TypeKind, ValidationErrorKind as Kind},
};
use serde_json::{Value, value::RawValue};

/// How deep strings within strings are looked into.
const PASSES_MAX: usize = 8;

/// Forms of a value that are tried at most.
const FORMS_MAX: usize = 16;

/// A place and the value to put there.
type Change = (String, Value);

/// Replaces the strings of `value` that can be without loss.
pub(crate) fn coerce(validator: &Validator, mut value: Value) -> Value {
    for _ in 0..PASSES_MAX {
        let Some(next) = pass(validator, &value) else { break };
        value = next;
    }
    value
}

/// `value` with what can be replaced at once; `None` when there is nothing.
fn pass(validator: &Validator, value: &Value) -> Option<Value> {
    let mut next = value.clone();
    let mut changed = false;
    let mut forks = Vec::new();
    for error in validator.iter_errors(value) {
        if let Kind::AnyOf { context } | Kind::OneOfNotValid { context } = error.kind() {
            let forms = context.iter().map(|form| changes(form));
            let forms = forms.filter(|changes| !changes.is_empty()).take(FORMS_MAX).collect();
            forks.push((key(&error), forms));
        } else {
            let changes = changes(std::slice::from_ref(&error));
            changed |= !changes.is_empty();
            apply(&mut next, &changes);
        }
    }
    for changes in fitting_forms(validator, value, forks) {
        changed = true;
        apply(&mut next, &changes);
    }
    changed.then_some(next)
}

/// Where an error is, in the value and in the schema.
type Key = (String, String);

fn key(error: &ValidationError<'_>) -> Key {
    (error.instance_path().to_string(), error.evaluation_path().to_string())
}

/// For each place where a value may have one of several forms: the changes towards the first form
/// that it then has. Changing it towards another would only mislead. All places are tried at
/// once, so that the value is checked as often as a place has forms, and not more.
fn fitting_forms(
    validator: &Validator,
    value: &Value,
    mut forks: Vec<(Key, VecDeque<Vec<Change>>)>,
) -> Vec<Vec<Change>> {
    let mut fitting = Vec::new();
    loop {
        forks.retain(|(_, forms)| !forms.is_empty());
        if forks.is_empty() {
            return fitting;
        }
        let mut tried = value.clone();
        forks.iter().for_each(|(_, forms)| apply(&mut tried, &forms[0]));
        let failing: HashSet<Key> =
            validator.iter_errors(&tried).map(|error| key(&error)).collect();
        for (key, forms) in &mut forks {
            let changes = forms.pop_front();
            if !failing.contains(key) {
                fitting.extend(changes);
                forms.clear();
            }
        }
    }
}

fn apply(value: &mut Value, changes: &[Change]) {
    for (place, new) in changes {
        if let Some(old) = value.pointer_mut(place) {
            *old = new.clone();
        }
    }
}

fn changes(errors: &[ValidationError<'_>]) -> Vec<Change> {
    let change = |error: &ValidationError<'_>| {
        let text = error.instance().as_str()?;
        let value = lossless(text)?;
        let wanted = match error.kind() {
            Kind::Type { kind } => is_of(&value, kind),
            Kind::Enum { options } => options.as_array().is_some_and(|all| all.contains(&value)),
            Kind::Constant { expected_value } => **expected_value == value,
            _ => false,
        };
        wanted.then(|| (error.instance_path().to_string(), value))
    };
    errors.iter().filter_map(change).collect()
}

fn is_of(value: &Value, kind: &TypeKind) -> bool {
    let is = |wanted: JsonType| match (wanted, value) {
        (JsonType::Null, Value::Null)
        | (JsonType::Boolean, Value::Bool(_))
        | (JsonType::Number, Value::Number(_))
        | (JsonType::Array, Value::Array(_))
        | (JsonType::Object, Value::Object(_)) => true,
        (JsonType::Integer, Value::Number(number)) => number.is_i64() || number.is_u64(),
        _ => false,
    };
    match kind {
        TypeKind::Single(wanted) => is(*wanted),
        TypeKind::Multiple(wanted) => wanted.iter().any(is),
    }
}

/// The value whose JSON text `text` is, if it is one that reads back the same. Around and inside
/// arrays and objects there may be white space; a lone number or word must stand alone.
fn lossless(text: &str) -> Option<Value> {
    let value: Value = serde_json::from_str(text).ok()?;
    let same = match &value {
        Value::String(_) => false,
        Value::Array(_) | Value::Object(_) => keeps_numbers(&value, text),
        _ => writes(&value, text),
    };
    same.then_some(value)
}

/// Whether every number in `value` is the one that stands in `text`, its JSON text.
fn keeps_numbers(value: &Value, text: &str) -> bool {
    match value {
        Value::Array(items) => {
            let texts: Vec<&RawValue> = serde_json::from_str(text).unwrap_or_default();
            items.len() == texts.len()
                && items.iter().zip(texts).all(|(item, text)| keeps_numbers(item, text.get()))
        }
        Value::Object(members) => {
            let texts: HashMap<String, &RawValue> = serde_json::from_str(text).unwrap_or_default();
            members.iter().all(|(name, member)| {
                texts.get(name).is_some_and(|text| keeps_numbers(member, text.get()))
            })
        }
        Value::Number(_) => writes(value, text),
        _ => true,
    }
}

/// Whether `text` is how `value` is written, to the letter.
fn writes(value: &Value, text: &str) -> bool {
    let written = value.to_string();
    written == text
}
