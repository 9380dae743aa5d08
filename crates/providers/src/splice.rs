//! Bodies put together from bytes that were made before.

use serde_json::Value;

/// Text as a JSON string.
pub(crate) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Appends bytes, each after a comma but the first. Empty ones are left out.
pub(crate) fn join<'a, B, P>(body: &mut Vec<u8>, parts: P)
where
    B: AsRef<[u8]> + ?Sized + 'a,
    P: IntoIterator<Item = &'a B, IntoIter: Clone>,
{
    let parts = parts.into_iter().map(AsRef::as_ref);
    body.reserve(parts.clone().map(|part: &[u8]| part.len() + 1).sum());
    let mut first = true;
    for part in parts.filter(|part| !part.is_empty()) {
        if !first {
            body.push(b',');
        }
        first = false;
        body.extend_from_slice(part);
    }
}
