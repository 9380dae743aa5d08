//! Reads the arguments of a call. They are repaired only without loss; what can't be read never
//! runs.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer as Source,
    de::{Error, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Number, Value};
use serde_json_lenient::Deserializer;

use crate::budget::JSON_DEPTH_MAX;

/// Reads arguments as a JSON object. Nothing at all and `null` are an empty object. Trailing
/// commas, comments, raw line ends and control characters inside strings are read as they are
/// meant, and an object that was written as a JSON string is taken out of it. `None` for
/// everything else: half an object, stray quotes, another kind of value, a field that stands there
/// twice, more than [`JSON_DEPTH_MAX`] levels. A whole number beyond 64 bits is read as a text
/// with its digits: as a number it would lose some.
pub fn read(text: &str) -> Option<Value> {
    let text = text.trim();
    if text.is_empty() {
        return Some(Value::Object(Map::new()));
    }
    let text = long_numbers_quoted(text);
    let object = match strict(&text).or_else(|| lenient(&text))? {
        Value::Null => Value::Object(Map::new()),
        Value::String(inner) => strict(&long_numbers_quoted(&inner))?,
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

fn strict(text: &str) -> Option<Value> {
    serde_json::from_str::<Once>(text).ok().map(|Once(value)| value)
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
    let Once(value) = Once::deserialize(&mut reader).ok()?;
    reader.end().ok().map(|()| value)
}

/// The text with quotes around every whole number that 64 bits can't hold.
fn long_numbers_quoted(text: &str) -> Cow<'_, str> {
    let mut quoted = String::new();
    let mut copied = 0;
    let mut in_string = false;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => in_string = !in_string,
            '\\' if in_string => drop(chars.next()),
            '-' | '0'..='9' if !in_string => {
                let of_number = |c: char| c.is_ascii_alphanumeric() || ".+-".contains(c);
                while chars.next_if(|(_, c)| of_number(*c)).is_some() {}
                let end = chars.peek().map_or(text.len(), |(at, _)| *at);
                let number = text.get(at..end).unwrap_or_default();
                if is_too_long(number) {
                    quoted.push_str(text.get(copied..at).unwrap_or_default());
                    quoted.push_str(&format!("\"{number}\""));
                    copied = end;
                }
            }
            _ => {}
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    quoted.push_str(text.get(copied..).unwrap_or_default());
    Cow::Owned(quoted)
}

fn is_too_long(number: &str) -> bool {
    let digits = number.strip_prefix('-').unwrap_or(number);
    let is_whole = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    is_whole
        && !digits.starts_with('0')
        && number.parse::<u64>().is_err()
        && number.parse::<i64>().is_err()
}

/// JSON in which no field stands twice in one object: which of the two was meant, nobody knows.
struct Once(Value);

impl<'de> Deserialize<'de> for Once {
    fn deserialize<S: Source<'de>>(source: S) -> Result<Self, S::Error> {
        source.deserialize_any(OnceVisitor).map(Self)
    }
}

struct OnceVisitor;

impl<'de> Visitor<'de> for OnceVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON without a field that stands there twice")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("no finite number"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(Once(item)) = items.next_element()? {
            all.push(item);
        }
        Ok(Value::Array(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        while let Some((name, Once(value))) = fields.next_entry::<String, Once>()? {
            if all.contains_key(&name) {
                return Err(A::Error::custom(format!("`{name}` stands there twice")));
            }
            all.insert(name, value);
        }
        Ok(Value::Object(all))
    }
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
            (r#"{"a":1,"a":2}"#, None),
            (r#"{"a":[{"b":1,"c":2,"b":1}]}"#, None),
            (r#"{"a":{"b":1},"c":{"b":1}}"#, Some(json!({"a":{"b":1},"c":{"b":1}}))),
            (
                r#"{"n":123456789012345678901,"m":[-123456789012345678901],"s":"\"1 2"}"#,
                Some(json!({"n":"123456789012345678901","m":["-123456789012345678901"],
                    "s":"\"1 2"})),
            ),
            (
                r#"{"n":18446744073709551615,"m":-9223372036854775808,"f":1e30,"g":0.5}"#,
                Some(json!({"n":18_446_744_073_709_551_615_u64,"m":i64::MIN,"f":1e30,"g":0.5})),
            ),
            (r#"{"s":"123456789012345678901",}"#, Some(json!({"s":"123456789012345678901"}))),
            (r#""{\"n\":123456789012345678901}""#, Some(json!({"n":"123456789012345678901"}))),
            (r#"{"n":0123456789012345678901}"#, None),
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
