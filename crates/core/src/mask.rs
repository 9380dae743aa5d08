//! Text without secrets, and text without power over a terminal.
//!
//! [`Mask`] replaces what is known to be a secret, and what has the shape of one. Every text that
//! leaves a tool or a provider for the log, the model or a person passes it. [`printable`] is the
//! one function that takes escape sequences out of text before a person sees it.

use std::{borrow::Cow, fmt, ops::Range, sync::Arc};

use aho_corasick::{AhoCorasick, BuildError};

/// What stands in a text for a secret.
pub const MASKED: &str = "[masked]";

/// The length in characters from which on a known secret is looked for. Shorter ones would mask
/// ordinary words.
pub const SECRET_CHARS_MIN: usize = 8;

/// Stands for [`MASKED`] while a text is worked on: a byte that UTF-8 never has.
const MARK: u8 = 0xff;

/// Replaces secrets in texts. Cheap to clone; prints none of what it knows.
#[derive(Clone)]
pub struct Mask {
    /// How many secrets were given.
    count: usize,
    /// All their forms; none when there are no secrets. An error is kept, and masks everything.
    known: Option<Result<AhoCorasick, BuildError>>,
    /// Those of their forms that are more than one word.
    spaced: Arc<[String]>,
}

impl Mask {
    /// A mask for these secrets. Of each, the text itself, its JSON-escaped and its
    /// percent-encoded forms are looked for; white space around it is no part of it. A secret of
    /// less than [`SECRET_CHARS_MIN`] characters is left out.
    pub fn new(secrets: impl IntoIterator<Item = String>) -> Self {
        let long = |secret: &String| secret.trim().chars().count() >= SECRET_CHARS_MIN;
        let secrets: Vec<String> = secrets.into_iter().filter(long).collect();
        let mut forms: Vec<String> = secrets.iter().flat_map(|s| forms(s.trim())).collect();
        forms.sort_unstable();
        forms.dedup();
        let known = (!forms.is_empty()).then(|| AhoCorasick::new(&forms));
        forms.retain(|form| form.contains(char::is_whitespace));
        Self { count: secrets.len(), known, spaced: forms.into() }
    }

    /// The text with every known secret, and all that has the shape of one, replaced by
    /// [`MASKED`]. Masking a masked text changes nothing. Takes time linear in the text.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let Ok(known) = self.known.as_ref().map(Result::as_ref).transpose() else {
            return Cow::Borrowed(MASKED);
        };
        let marked = mark(text.as_bytes().into(), masked_ranges);
        let marked = mark(marked, |bytes| known.map_or_else(Vec::new, |k| known_ranges(k, bytes)));
        let marked = mark(marked, private_key_ranges);
        match mark(marked, shape_ranges) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            Cow::Owned(marked) => Cow::Owned(unmark(&marked)),
        }
    }

    /// Where to cut a text that is still coming, in place of `at`: no later, and never in a known
    /// secret of several words, or in what may become one.
    pub fn cut(&self, text: &str, at: usize) -> usize {
        let text = text.as_bytes();
        let straddles = |form: &[u8], start: usize, at: usize| match text.get(start..) {
            Some(rest) if rest.len() < form.len() => form.starts_with(rest),
            Some(rest) => start + form.len() > at && rest.starts_with(form),
            None => false,
        };
        let mut at = at;
        while let Some(start) = (0..at)
            .find(|start| self.spaced.iter().any(|form| straddles(form.as_bytes(), *start, at)))
        {
            at = start;
        }
        at
    }
}

impl Default for Mask {
    /// A mask without known secrets: shapes only.
    fn default() -> Self {
        Self::new([])
    }
}

impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mask({} secrets)", self.count)
    }
}

/// The forms in which a secret turns up: as it is, in JSON, in JSON inside JSON, in URLs.
fn forms(secret: &str) -> [String; 6] {
    let json = json_escaped(secret);
    let percent = |unreserved: &[u8], lower: bool| {
        let mut out = String::with_capacity(secret.len());
        for byte in secret.bytes() {
            if byte.is_ascii_alphanumeric() || unreserved.contains(&byte) {
                out.push(char::from(byte));
            } else if lower {
                out.push_str(&format!("%{byte:02x}"));
            } else {
                out.push_str(&format!("%{byte:02X}"));
            }
        }
        out
    };
    [
        secret.to_owned(),
        json_escaped(&json),
        json,
        percent(b"-_.~", false),
        percent(b"-_.~", true),
        percent(b"-_.!~*'()", false),
    ]
}

fn json_escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted.strip_prefix('"').and_then(|t| t.strip_suffix('"')).unwrap_or(&quoted).to_owned()
}

/// Puts one [`MARK`] in the place of each range.
fn mark(text: Cow<'_, [u8]>, find: impl Fn(&[u8]) -> Vec<Range<usize>>) -> Cow<'_, [u8]> {
    let ranges = find(&text);
    if ranges.is_empty() {
        return text;
    }
    let mut out = Vec::with_capacity(text.len());
    let mut done = 0;
    for range in ranges {
        out.extend_from_slice(&text[done..range.start]);
        out.push(MARK);
        done = range.end;
    }
    out.extend_from_slice(&text[done..]);
    Cow::Owned(out)
}

fn unmark(marked: &[u8]) -> String {
    let pieces: Vec<_> = marked.split(|b| *b == MARK).map(String::from_utf8_lossy).collect();
    pieces.join(MASKED)
}

/// What was masked before.
fn masked_ranges(text: &[u8]) -> Vec<Range<usize>> {
    let starts = (0..text.len()).filter(|at| text[*at..].starts_with(MASKED.as_bytes()));
    starts.map(|at| at..at + MASKED.len()).collect()
}

/// Known secrets; those that overlap are one range.
fn known_ranges(known: &AhoCorasick, text: &[u8]) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    // Matches come in the order of their ends, so a longer one may begin before earlier ones.
    for found in known.find_overlapping_iter(text) {
        let mut start = found.start();
        while let Some(last) = ranges.pop_if(|last| last.end > start) {
            start = start.min(last.start);
        }
        ranges.push(start..found.end());
    }
    ranges
}

/// PEM blocks of private keys, up to their end line or, when that was cut off, as far as they go.
fn private_key_ranges(text: &[u8]) -> Vec<Range<usize>> {
    const BEGIN: &[u8] = b"-----BEGIN ";
    const DASHES: &[u8] = b"-----";
    const HEADER_BYTES_MAX: usize = 64;
    let in_body = |rest: &[u8], at: usize| {
        let b = rest[at];
        let in_class = b.is_ascii_alphanumeric() || b.is_ascii_whitespace();
        in_class || b"-+/=\\:,.\xff".contains(&b) && !rest[at..].starts_with(DASHES)
    };

    let mut ranges = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let header = rest.strip_prefix(BEGIN).and_then(|after| {
            let window = &after[..after.len().min(HEADER_BYTES_MAX)];
            let end = window.windows(DASHES.len()).position(|w| w == DASHES)?;
            window[..end].ends_with(b"PRIVATE KEY").then_some(BEGIN.len() + end + DASHES.len())
        });
        let Some(header) = header else {
            at += 1;
            continue;
        };
        let body = (header..rest.len()).find(|at| !in_body(rest, *at)).unwrap_or(rest.len());
        let end = rest[body..].strip_prefix(b"-----END ").and_then(|after| {
            let window = &after[..after.len().min(HEADER_BYTES_MAX)];
            let end = window.windows(DASHES.len()).position(|w| w == DASHES)?;
            Some(body + b"-----END ".len() + end + DASHES.len())
        });
        let end = end.unwrap_or(body);
        ranges.push(at..at + end);
        at += end;
    }
    ranges
}

/// A token that begins with `prefix` and goes on with at least `len_min` bytes of `class`.
struct Shape {
    prefix: &'static str,
    class: fn(u8) -> bool,
    len_min: usize,
}

const fn shape(prefix: &'static str, class: fn(u8) -> bool, len_min: usize) -> Shape {
    Shape { prefix, class, len_min }
}

const SHAPES: [Shape; 27] = [
    shape("sk-", in_key, 16),
    shape("ghp_", in_word, 20),
    shape("gho_", in_word, 20),
    shape("ghu_", in_word, 20),
    shape("ghs_", in_word, 20),
    shape("ghr_", in_word, 20),
    shape("github_pat_", in_word, 20),
    shape("AKIA", in_capitals, 16),
    shape("ASIA", in_capitals, 16),
    shape("AIza", in_key, 35),
    shape("xoxb-", in_key, 10),
    shape("xoxa-", in_key, 10),
    shape("xoxp-", in_key, 10),
    shape("xoxr-", in_key, 10),
    shape("xoxs-", in_key, 10),
    shape("xapp-", in_key, 20),
    shape("glpat-", in_key, 20),
    shape("gsk_", in_word, 40),
    shape("hf_", in_word, 30),
    shape("npm_", in_word, 36),
    shape("pypi-", in_key, 50),
    shape("sk_live_", in_word, 20),
    shape("sk_test_", in_word, 20),
    shape("rk_live_", in_word, 20),
    shape("ya29.", in_key, 20),
    shape("dckr_pat_", in_key, 20),
    shape("AGE-SECRET-KEY-1", in_capitals, 50),
];

fn in_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_'
}

fn in_key(b: u8) -> bool {
    in_word(b) || b == b'-'
}

fn in_capitals(b: u8) -> bool {
    b.is_ascii_uppercase() || b.is_ascii_digit()
}

/// What has the shape of a secret: keys by their prefix, bearer tokens, passwords in URLs.
fn shape_ranges(text: &[u8]) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let after_mark = ranges.last().is_some_and(|last| last.end == at);
        let starts_word =
            at == 0 || after_mark || !in_key(text[at - 1]) || ends_in_escape(&text[..at]);
        let rest = &text[at..];
        let found = match text[at] {
            b'A' | b'd' | b'g' | b'h' | b'n' | b'p' | b'r' | b's' | b'x' | b'y' if starts_word => {
                key(rest)
            }
            b'b' | b'B' if starts_word => bearer(rest),
            b'e' if starts_word => web_token(rest),
            b':' => password(rest),
            _ => None,
        };
        if let Some(found) = found {
            ranges.push(at + found.start..at + found.end);
            at += found.end;
        } else {
            at += 1;
        }
    }
    ranges
}

/// Whether text ends in an escape of JSON, such as `\n` or `\u001b`, or in one that colours a
/// terminal: their letters are no part of the word that follows.
fn ends_in_escape(text: &[u8]) -> bool {
    match text {
        [.., b'\\', b'b' | b'f' | b'n' | b'r' | b't'] => true,
        [.., b'\\', b'u', a, b, c, d] if [a, b, c, d].iter().all(|b| b.is_ascii_hexdigit()) => true,
        [start @ .., b'm'] => {
            let in_colour = |b: &u8| b.is_ascii_digit() || b";:".contains(b);
            let figures = start.iter().rev().take_while(|b| in_colour(b)).count();
            let start = &start[..start.len() - figures];
            start.ends_with(b"\x1b[") || start.ends_with(b"\\u001b[")
        }
        _ => false,
    }
}

fn key(rest: &[u8]) -> Option<Range<usize>> {
    let shape = SHAPES.iter().find(|shape| rest.starts_with(shape.prefix.as_bytes()))?;
    let after = &rest[shape.prefix.len()..];
    let len = after.iter().take_while(|b| (shape.class)(**b)).count();
    (len >= shape.len_min).then(|| 0..shape.prefix.len() + run(after, shape.class))
}

/// A JSON Web Token: two objects of JSON in base64, which begins so, and what they were signed with.
fn web_token(rest: &[u8]) -> Option<Range<usize>> {
    const OBJECT: &[u8] = b"eyJ";
    let part = |from: usize| rest.get(from..).map_or(0, |part| run(part, in_key));
    let head = part(0);
    let body = head + 1;
    let is_token = head >= 12
        && rest.starts_with(OBJECT)
        && rest.get(head) == Some(&b'.')
        && rest.get(body..).is_some_and(|rest| rest.starts_with(OBJECT))
        && part(body) >= 8;
    let end = body + part(body);
    let signed = if rest.get(end) == Some(&b'.') { 1 + part(end + 1) } else { 0 };
    is_token.then(|| 0..end + signed)
}

/// The token after `Bearer`. Words of prose are let through: they are short, or without digits.
fn bearer(rest: &[u8]) -> Option<Range<usize>> {
    const WORD: &[u8] = b"bearer ";
    let in_token = |b: u8| b.is_ascii_alphanumeric() || b"-._~+/=".contains(&b);
    let (word, after) = rest.split_at_checked(WORD.len())?;
    let len = after.iter().take_while(|b| in_token(**b)).count();
    let like_token = len >= 16 || (len >= 6 && after[..len].iter().any(u8::is_ascii_digit));
    (word.eq_ignore_ascii_case(WORD) && like_token)
        .then(|| WORD.len()..WORD.len() + run(after, in_token))
}

/// The password in `://user:password@host`; `rest` begins at the first colon.
fn password(rest: &[u8]) -> Option<Range<usize>> {
    const SLASHES: &[u8] = b"://";
    let after = rest.strip_prefix(SLASHES)?;
    let ends =
        |b: &u8| b.is_ascii_whitespace() || b.is_ascii_control() || b"/?#\"'`<>\\".contains(b);
    let len = after.iter().position(ends).unwrap_or(after.len());
    let at = after[..len].iter().rposition(|b| *b == b'@')?;
    let colon = after[..at].iter().position(|b| *b == b':')?;
    (colon + 1 < at).then(|| SLASHES.len() + colon + 1..SLASHES.len() + at)
}

/// How far `class` goes, over what is marked already.
fn run(text: &[u8], class: impl Fn(u8) -> bool) -> usize {
    text.iter().take_while(|b| class(**b) || **b == MARK).count()
}

/// The text without anything that could act on a terminal: escape sequences with their
/// parameters, control characters but tab and new line, and the characters that turn the
/// direction of writing. A sequence that never ends loses its beginning only, so that it can't
/// hide what follows. Takes time linear in the text.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(acts) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(acts) {
        let (plain, acting) = rest.split_at(at);
        out.push_str(plain);
        rest = after_sequence(acting);
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Whether a terminal would do something for this character other than show it.
fn acts(c: char) -> bool {
    let turns = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || (c.is_control() && !matches!(c, '\t' | '\n'))
}

/// What follows the acting character at the beginning of `text`, or the sequence that it begins.
fn after_sequence(text: &str) -> &str {
    let mut chars = text.chars();
    let (first, after) = (chars.next(), chars.as_str());
    let (introducer, after) = match first {
        Some('\u{1b}') => (chars.next(), chars.as_str()),
        // The one-character forms of the same introducers.
        Some(c @ '\u{80}'..='\u{9f}') => (char::from_u32(c as u32 - 0x40), after),
        _ => (None, after),
    };
    match introducer {
        Some('[') => {
            let after = after.trim_start_matches(|c| matches!(c, '\x20'..='\x3f'));
            after.strip_prefix(|c| matches!(c, '\x40'..='\x7e')).unwrap_or(after)
        }
        Some(']' | 'P' | 'X' | '^' | '_') => after_string(after).unwrap_or(after),
        Some('\x20'..='\x2f') => {
            let after = after.trim_start_matches(|c| matches!(c, '\x20'..='\x2f'));
            after.strip_prefix(|c| matches!(c, '\x30'..='\x7e')).unwrap_or(after)
        }
        Some('\x30'..='\x7e') => after,
        // A lone escape character: what follows is looked at for itself.
        _ => first.and_then(|c| text.strip_prefix(c)).unwrap_or(""),
    }
}

/// What follows the end of a string sequence; `None` when another acting character comes first.
fn after_string(text: &str) -> Option<&str> {
    let end = text.find(|c: char| acts(c) || c == '\n')?;
    let (_, end) = text.split_at(end);
    ["\u{7}", "\u{1b}\\", "\u{9c}"].iter().find_map(|terminator| end.strip_prefix(terminator))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn masks_known_secrets_and_shapes() {
        let mask = Mask::new(
            [
                "hunter2hunter2",
                "a \"b\" \\ c/d\ne",
                "short",
                "overlap-one",
                "one-and-two",
                " padded-key\n",
            ]
            .map(String::from),
        );
        let key40 = "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0dF3gH6jK9m";
        let table = [
            ("nothing here, sk-ip it", "nothing here, sk-ip it"),
            ("short words stay", "short words stay"),
            ("pw=hunter2hunter2.", "pw=[masked]."),
            // It overlaps itself.
            ("hunter2hunter2hunter2hunter2", "[masked]"),
            ("an overlap-one-and-two here", "an [masked] here"),
            ("key: padded-key!", "key: [masked]!"),
            ("raw a \"b\" \\ c/d\ne", "raw [masked]"),
            (r#"{"k":"a \"b\" \\ c/d\ne"}"#, r#"{"k":"[masked]"}"#),
            (r#""{\"k\":\"a \\\"b\\\" \\\\ c/d\\ne\"}""#, r#""{\"k\":\"[masked]\"}""#),
            ("?q=a%20%22b%22%20%5C%20c%2Fd%0Ae&r", "?q=[masked]&r"),
            ("?q=a%20%22b%22%20%5c%20c%2fd%0ae&r", "?q=[masked]&r"),
            (&format!("key sk-{key40}, ok"), "key [masked], ok"),
            (&format!("x-api-key:sk-ant-api03-{key40}_-x"), "x-api-key:[masked]"),
            (&format!("a task-{key40}"), &format!("a task-{key40}")),
            (&format!("ghp_{key40} github_pat_11AA_{key40}"), "[masked] [masked]"),
            ("AKIAIOSFODNN7EXAMPLE is it", "[masked] is it"),
            ("xoxb-123456789012-abcDEF", "[masked]"),
            (&format!("glpat-{key40} gsk_{key40}a hf_{key40}"), "[masked] [masked] [masked]"),
            (&format!("npm_{key40}; pypi-{key40}{key40}"), "[masked]; [masked]"),
            (&format!("sk_live_{key40} rk_live_{key40}"), "[masked] [masked]"),
            (&format!("ya29.{key40} xapp-1-{key40}"), "[masked] [masked]"),
            (&format!("dckr_pat_{key40} sk_test_{key40}"), "[masked] [masked]"),
            (&format!("AGE-SECRET-KEY-1{}", "Q5".repeat(29)), "[masked]"),
            // In JSON, and in JSON within JSON.
            (
                &format!(r#"{{"k":"a\nsk-{key40}\tghp_{key40}"}}"#),
                r#"{"k":"a\n[masked]\t[masked]"}"#,
            ),
            (&format!(r#""{{\"k\":\"a\\nsk-{key40}\"}}""#), r#""{\"k\":\"a\\n[masked]\"}""#),
            (&format!(r#""\u001bsk-{key40}""#), r#""\u001b[masked]""#),
            (&format!("\x1b[1;33mghp_{key40}\x1b[0m"), "\x1b[1;33m[masked]\x1b[0m"),
            (&format!(r"\u001b[33mghp_{key40}"), r"\u001b[33m[masked]"),
            (&format!("33mghp_{key40}"), &format!("33mghp_{key40}")),
            (&format!(r"\u01bsk-{key40}"), &format!(r"\u01bsk-{key40}")),
            (
                "jwt=eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.SflKxwRJSMeKKF2QT4-_x; and so on",
                "jwt=[masked]; and so on",
            ),
            ("(eyJhbGciOiJub25lIn0.eyJzdWIiOiIxMjM0In0.)", "([masked])"),
            ("eyJhbGciOiJIUzI1NiJ9 eyJ.eyJ.x", "eyJhbGciOiJIUzI1NiJ9 eyJ.eyJ.x"),
            ("npm_config_cache hf_home pypi-server", "npm_config_cache hf_home pypi-server"),
            ("Authorization: Bearer abc.def-123~x/y+z==\r\n", "Authorization: Bearer [masked]\r\n"),
            ("a bearer token, the bearer certificate", "a bearer token, the bearer certificate"),
            ("postgres://app:p@ss:w0rd@db/x", "postgres://app:[masked]@db/x"),
            ("ssh://git@host/x http://host:8080/a@b", "ssh://git@host/x http://host:8080/a@b"),
            ("it is [masked] already", "it is [masked] already"),
            ("größe hunter2hunter2 größe", "größe [masked] größe"),
            (
                "k\n-----BEGIN RSA PRIVATE KEY-----\nDEK-Info: A-1,9\n\nMIIE+/=\n\
                 -----END RSA PRIVATE KEY-----\nafter",
                "k\n[masked]\nafter",
            ),
            (
                r#"{"k":"-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\n"}"#,
                r#"{"k":"[masked]\n"}"#,
            ),
            ("-----BEGIN PRIVATE KEY-----\nMIIEcut", "[masked]"),
            (
                "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----",
                "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----",
            ),
        ];
        for (text, masked) in table {
            assert_eq!(mask.text(text), masked, "{text}");
            assert_eq!(mask.text(masked), masked, "twice: {text}");
        }
        assert_eq!(format!("{mask:?}"), "Mask(5 secrets)");
        assert!(matches!(mask.text("plain"), Cow::Borrowed("plain")));
    }

    #[test]
    fn a_text_that_is_still_coming_is_not_cut_in_a_secret() {
        let mask = Mask::new(["one two three", "three four", "oneword-secret"].map(String::from));
        let table = [
            ("so one two th", 11, 3),
            ("so one two thing", 11, 11),
            ("so one two three.", 11, 3),
            ("so one two three and", 17, 17),
            ("one two three four x", 14, 0),
            ("oneword-secret x", 15, 15),
            ("größe one", 8, 8),
            ("", 0, 0),
        ];
        for (text, at, cut) in table {
            assert_eq!(mask.cut(text, at), cut, "{text}");
        }
    }

    #[test]
    fn nothing_acts_on_a_terminal() {
        let table = [
            ("plain\ttext\n", "plain\ttext\n"),
            ("größe 日本 🦀", "größe 日本 🦀"),
            ("\x1b[1;31mred\x1b[0m", "red"),
            ("\u{9b}2Jgone", "gone"),
            ("\x1b]0;title\x07a\x1b]8;;http://x\x1b\\link\x1b]8;;\u{9c}", "alink"),
            ("\x1bPq#0;\x1b\\b\x1b_apc\x1b\\c\u{9d}52;c;eA==\x07d", "bcd"),
            ("\x1b(B\x1b7\x1bcx", "x"),
            ("10%\r20%\r\nbell\x07 back\x08space del\x7f nul\0", "10%20%\nbell backspace del nul"),
            ("\x1b]0;never ended\nhidden?", "0;never ended\nhidden?"),
            ("\x1b]0;a\x1b[1mb", "0;ab"),
            ("\x1b\x1b[1mx\x1b", "x"),
            ("user\u{202e}txt.exe\u{2066}", "usertxt.exe"),
            ("\x1b[38;5;1", ""),
            ("\x1bé", "é"),
        ];
        for (text, clean) in table {
            assert_eq!(printable(text), clean, "{text:?}");
        }
        assert!(matches!(printable("plain"), Cow::Borrowed("plain")));
    }

    /// Text in which secrets, shapes, half shapes and other text meet in any order.
    fn texts(secrets: Vec<String>) -> impl Strategy<Value = (Vec<String>, String)> {
        let pieces = [
            "sk-",
            "ghp_",
            "AKIA",
            "Bearer ",
            "://",
            "u:",
            "@",
            "[masked]",
            "[mas",
            "ked]",
            "-----",
            "-----BEGIN PRIVATE KEY-----",
            "-----END PRIVATE KEY-----",
            " ",
            "\n",
            "é",
            "/",
            "x",
        ];
        let piece = prop_oneof![
            proptest::sample::select(pieces.map(String::from).to_vec()),
            proptest::sample::select(secrets.clone()),
            "[A-Z0-9]{15,16}",
            "[ -~]{0,20}",
        ];
        proptest::collection::vec(piece, 0..12).prop_map(move |p| (secrets.clone(), p.concat()))
    }

    proptest! {
        #[test]
        fn no_secret_survives(
            (secrets, text) in proptest::collection::vec("[!-~é]{8,14}", 1..4)
                .prop_filter("no part of the mask", |s| s.iter().all(|s| !s.contains(['[', ']'])))
                .prop_flat_map(texts)
        ) {
            let mask = Mask::new(secrets.clone());
            let masked = mask.text(&text);
            for secret in &secrets {
                prop_assert!(!masked.contains(secret.as_str()), "{text:?} gave {masked:?}");
            }
            prop_assert_eq!(mask.text(&masked), masked.as_ref());
        }

        #[test]
        fn printable_text_stays_printable(
            text in "(\\PC|[\x00-\x1f\u{7f}-\u{9f}]|\x1b[\\[\\]P]){0,40}"
        ) {
            let clean = printable(&text);
            prop_assert!(!clean.chars().any(acts), "{clean:?}");
            prop_assert_eq!(printable(&clean), clean.as_ref());
        }
    }
}
