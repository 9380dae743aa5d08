//! Bodies put together from bytes that were made before.

use std::sync::Arc;

use serde_json::Value;

/// Text as a JSON string.
pub(crate) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Appends bytes, each after a comma but the first. Empty ones are left out.
pub(crate) fn join<'a, P>(body: &mut Vec<u8>, parts: P)
where
    P: IntoIterator<Item = &'a Arc<[u8]>, IntoIter: Clone>,
{
    let parts = parts.into_iter();
    body.reserve(parts.clone().map(|part| part.len() + 1).sum());
    let mut first = true;
    for part in parts.filter(|part| !part.is_empty()) {
        if !first {
            body.push(b',');
        }
        first = false;
        body.extend_from_slice(part);
    }
}
