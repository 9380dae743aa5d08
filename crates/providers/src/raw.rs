//! What goes over the wire, shown to a person who asked for it, with every secret masked.

use std::sync::Arc;

use bytes::Bytes;
use inspan_core::mask::{MASKED, Mask};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue, SET_COOKIE};

/// A piece of an exchange with a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RawPiece<'a> {
    /// A request is sent.
    Request {
        /// Always `POST` so far.
        method: &'a str,
        /// Where to.
        url: &'a str,
        /// Names in lower case, and values; keys are masked.
        headers: &'a [(String, String)],
        /// The body.
        body: &'a str,
    },
    /// The answer begins.
    Answer {
        /// Its status.
        status: u16,
        /// Names in lower case, and values; cookies are masked.
        headers: &'a [(String, String)],
    },
    /// More of the answer's body: whole lines as they arrive, because a secret may be cut in two
    /// by the pieces of the network; the last one may be without its end.
    Body(&'a str),
}

/// Takes what goes over the wire. It is called between two reads, so it should be quick.
pub type Raw = Arc<dyn Fn(RawPiece<'_>) + Send + Sync>;

/// The pieces of one call on their way to a [`Raw`], if there is one.
pub(crate) struct Tap {
    raw: Option<(Raw, Mask)>,
    line: Vec<u8>,
}

impl Tap {
    pub(crate) fn new(raw: Option<(Raw, Mask)>) -> Self {
        Self { raw, line: Vec::new() }
    }

    /// Whether somebody asked for it.
    pub(crate) fn is_wanted(&self) -> bool {
        self.raw.is_some()
    }

    pub(crate) fn request(&self, request: &reqwest::Request, body: &Bytes) {
        if let Some((raw, mask)) = &self.raw {
            raw(RawPiece::Request {
                method: request.method().as_str(),
                url: &mask.text(request.url().as_str()),
                headers: &shown(request.headers(), mask),
                body: &mask.text(&String::from_utf8_lossy(body)),
            });
        }
    }

    pub(crate) fn answer(&self, status: u16, headers: &HeaderMap) {
        if let Some((raw, mask)) = &self.raw {
            raw(RawPiece::Answer { status, headers: &shown(headers, mask) });
        }
    }

    pub(crate) fn body(&mut self, piece: &[u8]) {
        if self.raw.is_none() {
            return;
        }
        self.line.extend_from_slice(piece);
        if let Some(end) = piece.iter().rposition(|byte| *byte == b'\n') {
            let rest = self.line.split_off(self.line.len() - piece.len() + end + 1);
            self.flush();
            self.line = rest;
        }
    }

    fn flush(&mut self) {
        if let (Some((raw, mask)), false) = (&self.raw, self.line.is_empty()) {
            raw(RawPiece::Body(&mask.text(&String::from_utf8_lossy(&self.line))));
            self.line.clear();
        }
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.flush();
    }
}

/// The headers as they may be shown.
fn shown(headers: &HeaderMap, mask: &Mask) -> Vec<(String, String)> {
    // Whoever has a cookie of the answer can go on in the server's session.
    let is_secret =
        |name: &HeaderName, value: &HeaderValue| value.is_sensitive() || *name == SET_COOKIE;
    let shown = |(name, value): (&HeaderName, &HeaderValue)| {
        let text = match is_secret(name, value) {
            true => MASKED.to_owned(),
            false => mask.text(&String::from_utf8_lossy(value.as_bytes())).into_owned(),
        };
        (name.to_string(), text)
    };
    headers.iter().map(shown).collect()
}
