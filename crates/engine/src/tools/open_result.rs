//! A tool that reads what was too long for a result: pages of its text, or the lines with a word.

use std::{fmt::Write, sync::Arc};

use inspan_core::{
    Event,
    blobs::Blobs,
    effects::{Effects, Repeat},
    gate::BoxFuture,
    message::{BlobRef, ToolResult},
    store::{ENTRIES_READ_MAX, SessionId, Store, StoreError},
    tool::{Invocation, Tool, ToolError, ToolSpec},
    words::OPEN_RESULT,
};
use serde_json::{Map, Value, json};

/// Bytes of one line; what is longer counts as several.
const LINE_BYTES_MAX: usize = 4 * 1024;
/// Lines of one page where the call does not say.
const LINES_DEFAULT: u64 = 200;
/// Lines of one page.
const LINES_MAX: u64 = 2_000;
/// Bytes of one page.
const PAGE_BYTES_MAX: usize = 48 * 1024;

/// Reads long results of its session. Part of every agent that has tools and a place where their
/// long results are kept.
///
/// What it reads may be anything that another tool has read, and is labelled so. It is declared
/// `idempotent` and not `pure`, so that it starts when all entries before it can be read.
#[derive(Clone)]
pub struct OpenResult {
    spec: Arc<ToolSpec>,
    store: Arc<dyn Store>,
    blobs: Arc<dyn Blobs>,
}

impl OpenResult {
    /// The tool for the logs of `store`, whose long results are in `blobs`.
    pub fn new(store: Arc<dyn Store>, blobs: Arc<dyn Blobs>) -> Self {
        let spec = ToolSpec {
            input: json!({
                "type": "object",
                "properties": {
                    "call": {
                        "type": "string",
                        "description": "The call whose result to read, as its result says",
                    },
                    "from_line": {
                        "type": "integer",
                        "minimum": 1,
                        "description": "The first line to read; 1 if left out",
                    },
                    "lines": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": LINES_MAX,
                        "description": format!("How many; {LINES_DEFAULT} if left out"),
                    },
                    "find": {
                        "type": "string",
                        "description": "Only the lines with this text, each with its number",
                    },
                },
                "required": ["call"],
                "additionalProperties": false,
            }),
            effects: Effects { reads_private: true, reads_untrusted: true, ..Effects::NONE },
            repeat: Repeat::Idempotent,
            ..ToolSpec::new(OPEN_RESULT, "Reads a long result of an earlier call in pages.")
        };
        Self { spec: Arc::new(spec), store, blobs }
    }

    async fn open(&self, session: &SessionId, asked: &Asked) -> Result<ToolResult, ToolError> {
        let found = self.find(session, &asked.call).await?;
        let lost = |why: &str| {
            ToolError::new(format!(
                "the rest of the result of {} is lost: {why}; run the call again if you need it",
                asked.call
            ))
        };
        let bytes = match self.blobs.get(&found.hash).await {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Err(lost("it is not where it was kept")),
            Err(error @ StoreError::BlobDamaged { .. }) => return Err(lost(&error.to_string())),
            // It may only be away.
            Err(error) => {
                return Err(ToolError::new(format!(
                    "the rest of the result of {} can't be reached now: {error}; try again later",
                    asked.call
                )));
            }
        };
        let asked = asked.clone();
        let page = super::cap::aside(move || page(&String::from_utf8_lossy(&bytes), &asked));
        Ok(ToolResult::text(page.await))
    }

    /// Where the whole result of a call is. A call's name begins with the number of the entry that
    /// asked for it, so its result is looked for from there on. A call that was accepted can have a
    /// long result later.
    async fn find(&self, session: &SessionId, call: &str) -> Result<BlobRef, ToolError> {
        let seq = call.strip_prefix("call_").and_then(|rest| rest.split('_').next()?.parse().ok());
        let mut after: u64 = seq.unwrap_or(0);
        let mut why = format!("there is no result of a call {call}");
        loop {
            let read = self.store.read(session, after, ENTRIES_READ_MAX).await;
            let entries = read.map_err(|error: StoreError| ToolError::from(error))?;
            for entry in &entries {
                let Event::ToolFinished(finished) = &entry.event else { continue };
                if finished.call.0 == call {
                    match &finished.result.spilled {
                        Some(spilled) => return Ok(spilled.clone()),
                        None => why = format!("the result of {call} was shown as a whole"),
                    }
                }
            }
            match entries.last() {
                Some(last) if entries.len() == ENTRIES_READ_MAX => after = last.seq,
                _ => return Err(ToolError::new(why)),
            }
        }
    }
}

impl Tool for OpenResult {
    fn spec(&self) -> Arc<ToolSpec> {
        Arc::clone(&self.spec)
    }

    fn check(&self, arguments: Value) -> Result<Value, String> {
        Asked::read(&arguments)?;
        Ok(arguments)
    }

    fn run(&self, call: Invocation) -> BoxFuture<'static, Result<ToolResult, ToolError>> {
        let tool = self.clone();
        Box::pin(async move {
            let asked = Asked::read(&call.arguments).map_err(ToolError::new)?;
            tool.open(&call.session, &asked).await
        })
    }
}

/// The arguments of a call.
#[derive(Clone, Debug, PartialEq)]
struct Asked {
    call: String,
    from_line: u64,
    lines: u64,
    find: Option<String>,
}

impl Asked {
    fn read(arguments: &Value) -> Result<Self, String> {
        const KNOWN: [&str; 4] = ["call", "from_line", "lines", "find"];
        let Value::Object(fields) = arguments else {
            return Err("the arguments must be an object".to_owned());
        };
        if let Some(name) = fields.keys().find(|name| !KNOWN.contains(&name.as_str())) {
            let known = KNOWN.join(", ");
            return Err(format!("/{name}: there is no such argument; there are: {known}"));
        }
        let text = |name: &str| match fields.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(format!("/{name}: must be a string")),
        };
        Ok(Self {
            call: text("call")?.ok_or("/call: is missing; it must be a string")?,
            from_line: number(fields, "from_line", u64::MAX)?.unwrap_or(1),
            lines: number(fields, "lines", LINES_MAX)?.unwrap_or(LINES_DEFAULT),
            find: text("find")?.filter(|text| !text.is_empty()),
        })
    }
}

fn number(fields: &Map<String, Value>, name: &str, max: u64) -> Result<Option<u64>, String> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_u64() {
            Some(number) if (1..=max).contains(&number) => Ok(Some(number)),
            _ if max == u64::MAX => Err(format!("/{name}: must be an integer from 1 on")),
            _ => Err(format!("/{name}: must be an integer from 1 to {max}")),
        },
    }
}

/// The lines of a text without their ends; what is very long is several.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| {
        let mut rest = Some(line);
        std::iter::from_fn(move || {
            let line = rest.take()?;
            let (piece, more) = line.split_at(line.floor_char_boundary(LINE_BYTES_MAX));
            rest = (!more.is_empty()).then_some(more);
            Some(piece)
        })
    })
}

/// What a call reads of the text.
fn page(text: &str, asked: &Asked) -> String {
    let total = lines(text).count() as u64;
    let Asked { from_line, find, .. } = asked;
    let mut shown = String::new();
    let (mut count, mut next) = (0, None);
    for (line, number) in lines(text).zip(1_u64..).skip_while(|(_, number)| number < from_line) {
        if find.as_ref().is_some_and(|find| !line.contains(find.as_str())) {
            continue;
        }
        // A page has at least one line, so that the next one begins further on.
        let is_full = shown.len() + line.len() > PAGE_BYTES_MAX && count > 0;
        if count == asked.lines || is_full {
            next = Some(number);
            break;
        }
        count += 1;
        let _ = match find {
            Some(_) => writeln!(shown, "{number}: {line}"),
            None => writeln!(shown, "{line}"),
        };
    }
    let what = match find {
        Some(find) => format!("{count} lines with `{find}`, from line {from_line} of {total}"),
        None if count == 0 => format!("there is no line {from_line}: there are {total}"),
        None => format!("lines {from_line} to {} of {total}", from_line + count - 1),
    };
    let rest = next.map(|next| format!("[goes on at from_line {next}]")).unwrap_or_default();
    format!("[{what}]\n{shown}{rest}")
}

/// Neither stores nor blobs need be printable.
impl std::fmt::Debug for OpenResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenResult").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(arguments: &Value) -> Asked {
        Asked::read(arguments).unwrap()
    }

    #[test]
    fn arguments_are_checked() {
        let whole = Asked { call: "c".into(), from_line: 3, lines: 9, find: Some("x".into()) };
        let table = [
            (json!({"call": "c", "from_line": 3, "lines": 9, "find": "x"}), Ok(whole)),
            (
                json!({"call": "c", "find": "", "lines": null}),
                Ok(Asked { call: "c".into(), from_line: 1, lines: 200, find: None }),
            ),
            (json!({}), Err("/call: is missing; it must be a string")),
            (json!({"call": 3}), Err("/call: must be a string")),
            (json!({"call": "c", "from_line": 0}), Err("/from_line: must be an integer from 1 on")),
            (json!({"call": "c", "lines": 2001}), Err("/lines: must be an integer from 1 to 2000")),
            (
                json!({"call": "c", "page": 1}),
                Err("/page: there is no such argument; there are: call, from_line, lines, find"),
            ),
            (json!("c"), Err("the arguments must be an object")),
        ];
        for (arguments, expected) in table {
            assert_eq!(Asked::read(&arguments), expected.map_err(str::to_owned), "{arguments}");
        }
    }

    #[test]
    fn pages_follow_one_another() {
        let text = "one\ntwo\r\n\nfour and one";
        let table = [
            (json!({"call": "c"}), "[lines 1 to 4 of 4]\none\ntwo\n\nfour and one\n"),
            (
                json!({"call": "c", "from_line": 2, "lines": 1}),
                "[lines 2 to 2 of 4]\ntwo\n[goes on at from_line 3]",
            ),
            (json!({"call": "c", "from_line": 5}), "[there is no line 5: there are 4]\n"),
            (
                json!({"call": "c", "find": "one"}),
                "[2 lines with `one`, from line 1 of 4]\n1: one\n4: four and one\n",
            ),
            (
                json!({"call": "c", "find": "one", "lines": 1}),
                "[1 lines with `one`, from line 1 of 4]\n1: one\n[goes on at from_line 4]",
            ),
            (json!({"call": "c", "find": "five"}), "[0 lines with `five`, from line 1 of 4]\n"),
        ];
        for (arguments, expected) in table {
            assert_eq!(page(text, &asked(&arguments)), expected, "{arguments}");
        }
    }

    #[test]
    fn a_long_line_is_several_and_a_page_has_an_end() {
        let text = "é".repeat(100_000);
        let all: Vec<&str> = lines(&text).collect();
        assert_eq!((all.len(), all.concat() == text), (49, true));
        assert!(all.iter().all(|line| line.len() <= LINE_BYTES_MAX));
        let mut from_line = 1;
        let mut read = String::new();
        loop {
            let page = page(&text, &asked(&json!({"call": "c", "from_line": from_line})));
            assert!(page.len() < PAGE_BYTES_MAX + 100);
            read.extend(page.lines().filter(|line| !line.starts_with('[')));
            let Some((_, next)) = page.rsplit_once("[goes on at from_line ") else { break };
            from_line = next.trim_end_matches(']').parse().unwrap();
        }
        assert!(read == text);
        assert_eq!(lines("").count(), 0);
    }
}
