//! Reads the arguments of a call. They are repaired only without loss; what can't be read never
//! runs.

use serde::Deserialize;
use serde_json::{Map, Value};
use serde_json_lenient::Deserializer;

use crate::budget::JSON_DEPTH_MAX;

/// Reads arguments as a JSON object. Nothing at all and `null` are an empty object. Trailing
/// commas, comments, raw line ends and control characters inside strings are read as they are
/// meant, and an object that was written as a JSON string is taken out of it. `None` for
/// everything else: half an object, stray quotes, another kind of value, more than
/// [`JSON_DEPTH_MAX`] levels.
pub fn read(text: &str) -> Option<Value> {
    let text = text.trim();
    if text.is_empty() {
        return Some(Value::Object(Map::new()));
    }
    let object = match serde_json::from_str(text).ok().or_else(|| lenient(text))? {
        Value::Null => Value::Object(Map::new()),
        Value::String(inner) => serde_json::from_str(&inner).ok()?,
        value => value,
    };
    (object.is_object() && depth(&object) <= JSON_DEPTH_MAX).then_some(object)
}

/// How deep `value` is nested: 1 for a number or a text.
pub fn depth(value: &Value) -> usize {
    let inner = match value {
        Value::Array(items) => items.iter().map(depth).max(),
        Value::Object(fields) => fields.values().map(depth).max(),
        _ => None,
    };
    1 + inner.unwrap_or(0)
}

fn lenient(text: &str) -> Option<Value> {
    let (replace_invalid, newlines, controls, v_escapes, x_escapes) =
        (false, true, true, false, false);
    let mut reader = Deserializer::from_slice_with_options(
        text.as_bytes(),
        replace_invalid,
        newlines,
        controls,
        v_escapes,
        x_escapes,
    );
    let value = Value::deserialize(&mut reader).ok()?;
    reader.end().ok().map(|()| value)
}

/// The arguments as an object for a provider that needs one: unreadable ones stand under
/// `_unparsed`, so that the model sees what it wrote.
pub fn projected(text: &str) -> Value {
    read(text).unwrap_or_else(|| {
        let mut object = Map::new();
        object.insert("_unparsed".to_owned(), Value::String(text.to_owned()));
        Value::Object(object)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn nested(levels: usize) -> String {
        let (open, close) = ("{\"a\":".repeat(levels - 1), "}".repeat(levels - 1));
        format!("{open}1{close}")
    }

    #[test]
    fn repairs_only_without_loss() {
        let table = [
            ("", Some(json!({}))),
            ("  null ", Some(json!({}))),
            (r#"{"a":1}"#, Some(json!({"a":1}))),
            (r#"{"a":[1,2,],}"#, Some(json!({"a":[1,2]}))),
            ("{\"a\":\"one\ntwo\ttabs\"}", Some(json!({"a":"one\ntwo\ttabs"}))),
            (r#""{\"a\":1}""#, Some(json!({"a":1}))),
            (r#"{"a":"b"#, None),
            (r#"{"a":"b""}"#, None),
            (r#"{"a":1} {"b":2}"#, None),
            ("[1]", None),
            (&nested(JSON_DEPTH_MAX + 1), None),
            ("\"Lisbon\"", None),
            ("Lisbon", None),
        ];
        for (text, expected) in table {
            assert_eq!(read(text), expected, "{text}");
        }
        assert!(read(&nested(JSON_DEPTH_MAX)).is_some());
        assert_eq!(projected("{\"a\":"), json!({"_unparsed": "{\"a\":"}));
    }
}
