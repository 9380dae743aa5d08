//! Reads the arguments of a call. They are repaired only without loss; what can't be read never
//! runs.

use serde::Deserialize;
use serde_json::{Map, Value};
use serde_json_lenient::Deserializer;

/// Reads arguments as a JSON object. Nothing at all and `null` are an empty object. Trailing
/// commas, comments, raw line ends and control characters inside strings are read as they are
/// meant, and an object that was written as a JSON string is taken out of it. `None` for
/// everything else: half an object, stray quotes, another kind of value.
pub fn read(text: &str) -> Option<Value> {
    let text = text.trim();
    if text.is_empty() {
        return Some(Value::Object(Map::new()));
    }
    match serde_json::from_str(text).ok().or_else(|| lenient(text))? {
        Value::Null => Some(Value::Object(Map::new())),
        Value::String(inner) => serde_json::from_str(&inner).ok().filter(Value::is_object),
        value => value.is_object().then_some(value),
    }
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
            ("\"Lisbon\"", None),
            ("Lisbon", None),
        ];
        for (text, expected) in table {
            assert_eq!(read(text), expected, "{text}");
        }
        assert_eq!(projected("{\"a\":"), json!({"_unparsed": "{\"a\":"}));
    }
}
