//! Bodies put together from bytes that were made before.

use std::sync::Arc;

use serde_json::Value;

/// Text as a JSON string.
pub(crate) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Appends bytes, each after a comma but the first. Empty ones are left out.
pub(crate) fn join<'a>(body: &mut Vec<u8>, parts: impl IntoIterator<Item = &'a Arc<[u8]>>) {
    let mut first = true;
    for part in parts.into_iter().filter(|part| !part.is_empty()) {
        if !first {
            body.push(b',');
        }
        first = false;
        body.extend_from_slice(part);
    }
}
