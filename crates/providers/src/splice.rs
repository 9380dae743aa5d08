//! Bodies put together from bytes that were made before.

use std::{mem, sync::Arc};

use bytes::Bytes;
use serde_json::Value;

/// Bytes of a body that are put together at once, but for a part that is longer; a shorter body is
/// one piece.
const PIECE_BYTES: usize = 32 * 1024;

/// What closes a body: its list of messages is last.
const END: &[u8] = b"]}";

/// Text as a JSON string.
pub(crate) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// A body of parts that were made before. They are put together piece by piece as they are sent,
/// so that a long request is not in memory twice.
#[derive(Clone, Debug)]
pub(crate) struct Body {
    head: Vec<u8>,
    parts: Arc<Vec<Arc<[u8]>>>,
}

impl Body {
    /// A body that begins with `head`, up to the bracket that opens a list of `parts`. Empty parts
    /// are left out.
    pub(crate) fn new(head: Vec<u8>, parts: Arc<Vec<Arc<[u8]>>>) -> Self {
        Self { head, parts }
    }

    /// Its bytes.
    pub(crate) fn len(&self) -> usize {
        let parts = self.parts.iter().filter(|part| !part.is_empty());
        let (count, bytes) =
            parts.fold((0, 0), |(count, bytes), part| (count + 1, bytes + part.len()));
        self.head.len() + bytes + usize::saturating_sub(count, 1) + END.len()
    }

    /// All of it in one piece.
    pub(crate) fn whole(&self) -> Bytes {
        let mut whole = Vec::with_capacity(self.len());
        self.clone().into_pieces().for_each(|piece| whole.extend_from_slice(&piece));
        whole.into()
    }

    /// All of it, its list closed, in pieces.
    pub(crate) fn into_pieces(self) -> impl Iterator<Item = Bytes> + Send + 'static {
        let Self { head: mut piece, parts } = self;
        let (mut next, mut comma, mut is_over) = (0, false, false);
        std::iter::from_fn(move || {
            while let Some(part) = parts.get(next)
                && (piece.is_empty() || piece.len() + part.len() < PIECE_BYTES)
            {
                next += 1;
                if !part.is_empty() {
                    piece.extend(mem::replace(&mut comma, true).then_some(b','));
                    piece.extend_from_slice(part);
                }
            }
            if next == parts.len() && !mem::replace(&mut is_over, true) {
                piece.extend_from_slice(END);
            }
            let piece = mem::replace(&mut piece, Vec::with_capacity(PIECE_BYTES));
            (!piece.is_empty()).then(|| piece.into())
        })
    }

    /// Whether it is sent in pieces, so that its length must be told beside it.
    pub(crate) fn is_long(&self) -> bool {
        self.len() > PIECE_BYTES
    }

    /// What is sent.
    pub(crate) fn into_sent(self) -> reqwest::Body {
        if !self.is_long() {
            return self.whole().into();
        }
        let pieces = self.into_pieces().map(Ok::<_, std::convert::Infallible>);
        reqwest::Body::wrap_stream(futures_util::stream::iter(pieces))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(parts: &[&str]) -> Body {
        let parts = parts.iter().map(|part| Arc::from(part.as_bytes())).collect();
        Body::new(b"{\"messages\":[".to_vec(), Arc::new(parts))
    }

    #[test]
    fn parts_become_a_list() {
        let whole = |parts: &[&str]| {
            let body = body(parts);
            assert_eq!(body.whole().len(), body.len());
            String::from_utf8_lossy(&body.whole()).into_owned()
        };
        assert_eq!(whole(&[]), r#"{"messages":[]}"#);
        assert_eq!(whole(&["", "1", "", "2"]), r#"{"messages":[1,2]}"#);
    }

    #[test]
    fn a_long_body_comes_in_pieces_that_are_the_same_bytes() {
        let long = format!("\"{}\"", "x".repeat(PIECE_BYTES / 3));
        let body = body(&[&*long; 10]);
        let pieces: Vec<Bytes> = body.clone().into_pieces().collect();
        let expected = format!("{{\"messages\":[{}]}}", [&*long; 10].join(","));
        assert_eq!((pieces.len(), pieces.concat()), (5, expected.clone().into_bytes()));
        assert_eq!((body.len(), body.whole()), (expected.len(), expected.into()));
    }
}
