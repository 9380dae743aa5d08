//! What kind of failure it was: from a status and a body, from an error object in a stream, from
//! a connection that broke.

use std::time::SystemTime;

use inspan_core::provider::ErrorClass;
use reqwest::header::HeaderMap;
use serde_json::Value;

use crate::{
    refused::{self, Part},
    retry,
};

/// The longest text of a server that is passed on, in characters.
const TEXT_CHARS_MAX: usize = 600;

/// How many errors may be wrapped in one another: a router's, with that of the server behind it.
const WRAPPED_MAX: usize = 4;

/// A failed call, before it is said where: see `Endpoint::say`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub(crate) struct Failure {
    /// What kind.
    pub(crate) class: ErrorClass,
    /// The status of the answer, when it is the reason.
    pub(crate) status: Option<u16>,
    /// What happened, in words that follow the server's name.
    pub(crate) what: String,
    /// How long the server asks to wait.
    pub(crate) retry_after_ms: Option<u64>,
    /// What of the request was refused.
    pub(crate) part: Option<Part>,
}

impl Failure {
    pub(crate) fn new(class: ErrorClass, what: impl Into<String>) -> Self {
        Self { class, status: None, what: what.into(), retry_after_ms: None, part: None }
    }

    /// A stream that broke or made no sense.
    pub(crate) fn network(what: impl Into<String>) -> Self {
        Self::new(ErrorClass::Network, what)
    }

    /// An answer with a status that is no success.
    pub(crate) fn of_answer(
        status: u16,
        headers: &HeaderMap,
        body: &[u8],
        now: SystemTime,
    ) -> Self {
        let told = match serde_json::from_slice::<Value>(body) {
            Ok(body) => Told::of(&body),
            Err(_) => Told { text: String::from_utf8_lossy(body).into(), ..Told::default() },
        };
        let class = match (told.class(Some(status)), retry::should_retry(headers)) {
            (ErrorClass::RateLimited, Some(false)) => ErrorClass::Quota,
            (class, Some(false)) if class.is_passing() => ErrorClass::BadRequest,
            // What is too long stays so, and a redirection is not followed the second time either.
            (class, Some(true)) if class == ErrorClass::TooLong || status < 400 => class,
            (class, Some(true)) if !class.is_passing() => ErrorClass::Overloaded,
            (class, _) => class,
        };
        let what = match (status, headers.get("location")) {
            (300..400, Some(to)) => format!(
                "answered {status} and sends on to {}, which is not followed because the key \
                 would go there too; if that is right, set it as the base URL",
                shortened(&String::from_utf8_lossy(to.as_bytes()))
            ),
            _ => match shortened(&told.text) {
                text if text.is_empty() => format!("answered {status}"),
                text => format!("answered {status}: {text}"),
            },
        };
        let limited = matches!(class, ErrorClass::RateLimited | ErrorClass::Quota);
        let told_ms = || retry::told_ms(&told.error, &told.text, Some(now));
        let retry_after_ms = retry::retry_after_ms(headers, now)
            .or_else(|| limited.then(told_ms).flatten())
            .or_else(|| limited.then(|| retry::reset_ms(headers, now)).flatten());
        Self { class, status: Some(status), what, retry_after_ms, part: told.part(class) }
    }

    /// The failure that an object in a 200 answer tells of, if it does.
    pub(crate) fn in_object(object: &Value) -> Option<Self> {
        let error = object.get("error").filter(|error| !error.is_null());
        if error.is_none() && object["type"] != "error" && object["object"] != "error" {
            return None;
        }
        let told = Told::of(object);
        let code = &error.unwrap_or(object)["code"];
        let code = code.as_u64().or_else(|| code.as_str()?.parse().ok());
        let status = code.and_then(|code| u16::try_from(code).ok());
        let status = status.filter(|code| (400..600).contains(code));
        let what = match shortened(&told.text) {
            text if text.is_empty() => "sent an error in its answer".to_owned(),
            text => format!("sent an error in its answer: {text}"),
        };
        let class = told.class(status);
        let limited = matches!(class, ErrorClass::RateLimited | ErrorClass::Quota);
        let told_ms = || retry::told_ms(&told.error, &told.text, None);
        let retry_after_ms = limited.then(told_ms).flatten();
        Some(Self { class, status, what, retry_after_ms, part: told.part(class) })
    }

    /// A connection that was not made, or broke.
    pub(crate) fn of_transport(error: reqwest::Error) -> Self {
        let error = error.without_url();
        let mut cause: &dyn std::error::Error = &error;
        while let Some(deeper) = cause.source() {
            cause = deeper;
        }
        let refused = cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|e| e.kind() == std::io::ErrorKind::ConnectionRefused);
        if error.is_connect() && error.is_timeout() {
            Self::new(ErrorClass::Stalled, "no connection in time")
        } else if refused {
            Self::network("refused the connection; is the server running?")
        } else if error.is_connect() {
            Self::network(format!("can't be reached: {cause}"))
        } else if error.is_builder() {
            Self::new(ErrorClass::BadRequest, format!("can't be asked: {cause}"))
        } else {
            Self::network(format!("the connection broke: {cause}"))
        }
    }

    /// Whether the server misses reasoning that it had sent before.
    pub(crate) fn misses_reasoning(&self) -> bool {
        let what = self.what.to_lowercase();
        self.class == ErrorClass::BadRequest
            && what.contains("reasoning_content")
            && ["must be passed back", "is missing", "missing `"].iter().any(|t| what.contains(t))
    }
}

/// What a body says of an error, whatever its shape.
#[derive(Default)]
struct Told {
    /// Types, codes and parameters, joined, in lower case.
    words: String,
    /// The sentence for people.
    text: String,
    /// The object that tells it.
    error: Value,
}

impl Told {
    fn of(body: &Value) -> Self {
        Self::within(body, WRAPPED_MAX)
    }

    fn within(body: &Value, wrapped_max: usize) -> Self {
        // Gemini's list of one.
        let body = body.get(0).unwrap_or(body);
        let error = match &body["error"] {
            Value::Null => body,
            error => error,
        };
        let words =
            [&error["type"], &error["code"], &error["param"], &error["details"]["error_code"]];
        let words: Vec<&str> = words.into_iter().filter_map(Value::as_str).collect();
        let text = [error, &error["message"], &body["message"], &body["detail"]]
            .into_iter()
            .find_map(Value::as_str)
            .map_or_else(|| body.to_string(), str::to_owned);
        let told = Self { words: words.join(" ").to_lowercase(), text, error: error.clone() };
        told.unwrapped(wrapped_max)
    }

    /// Routers put the error of the server behind them into theirs, as text: that one says more.
    fn unwrapped(self, wrapped_max: usize) -> Self {
        let raw = self.error["metadata"]["raw"].as_str().unwrap_or(&self.text);
        if wrapped_max == 0 || raw.is_empty() {
            return self;
        }
        let start = raw.find('{').unwrap_or(raw.len());
        let inner = match serde_json::from_str::<Value>(raw.split_at(start).1) {
            Ok(inner) if is_error(&inner) => Self::within(&inner, wrapped_max - 1),
            _ if raw == self.text => return self,
            _ => Self { text: raw.to_owned(), ..Self::default() },
        };
        let error =
            if inner.error.is_null() { self.error } else { merged(self.error, inner.error) };
        Self { words: format!("{} {}", self.words, inner.words), text: inner.text, error }
    }

    fn class(&self, status: Option<u16>) -> ErrorClass {
        let text = self.text.to_lowercase();
        let says = |known: &[&str]| known.iter().any(|known| self.words.contains(known));
        let tells = |known: &[&str]| known.iter().any(|known| text.contains(known));
        // Words are more exact than statuses, so they come first.
        if !tells(QUOTA_TEXTS) && tells(MINUTE_TEXTS) {
            return ErrorClass::RateLimited;
        }
        if says(QUOTA_WORDS) || tells(QUOTA_TEXTS) {
            return ErrorClass::Quota;
        }
        let too_long = says(TOO_LONG_WORDS) || tells(TOO_LONG_TEXTS);
        if tells(NEVER_TEXTS) || (status != Some(429) && too_long) {
            return ErrorClass::TooLong;
        }
        match status {
            Some(401 | 403 | 407) => ErrorClass::Auth,
            Some(402) => ErrorClass::Quota,
            Some(408) => ErrorClass::Stalled,
            Some(413) => ErrorClass::TooLong,
            Some(429) => ErrorClass::RateLimited,
            // What the server can't do at all it can't do later.
            Some(501 | 505) => ErrorClass::BadRequest,
            // Servers that fail in the middle of a request they don't understand.
            Some(500) | None if self.names_part() || tells(TEMPLATE_TEXTS) => {
                ErrorClass::BadRequest
            }
            Some(409 | 425 | 500..) => ErrorClass::Overloaded,
            Some(_) if says(&["timeout"]) || tells(TIMEOUT_TEXTS) => ErrorClass::Stalled,
            Some(_) => ErrorClass::BadRequest,
            None if says(&["authentication", "permission", "invalid_api_key"]) => ErrorClass::Auth,
            None if says(&["rate_limit"]) => ErrorClass::RateLimited,
            None if says(&["overloaded", "api_error", "server_error"]) => ErrorClass::Overloaded,
            None if says(&["timeout"]) => ErrorClass::Stalled,
            None if says(&["invalid_request", "not_found"]) => ErrorClass::BadRequest,
            None => ErrorClass::Network,
        }
    }

    /// What of the request was refused, if that is why it failed.
    fn part(&self, class: ErrorClass) -> Option<Part> {
        match class {
            ErrorClass::TooLong => Some(Part::Told(refused::size(&self.text, &self.error))),
            ErrorClass::BadRequest => refused::part(&self.text, &self.words),
            _ => None,
        }
    }

    fn names_part(&self) -> bool {
        refused::part(&self.text, &self.words).is_some()
    }
}

/// Whether it tells of an error: a schema that a sentence quotes does not.
fn is_error(value: &Value) -> bool {
    ["error", "message", "detail"].iter().any(|name| value.get(name).is_some_and(|v| !v.is_null()))
}

/// The fields of both; the inner one's count.
fn merged(outer: Value, inner: Value) -> Value {
    match (outer, inner) {
        (Value::Object(mut outer), Value::Object(inner)) => {
            outer.extend(inner);
            Value::Object(outer)
        }
        (_, inner) => inner,
    }
}

const QUOTA_WORDS: &[&str] = &[
    "insufficient_quota",
    "billing",
    "credit_balance",
    "spend_limit",
    "exceeded_current_quota",
    "usage_limit_reached",
    "insufficient_balance",
    "arrearage",
    "freetieronly",
];
const QUOTA_TEXTS: &[&str] = &[
    "credit balance is too low",
    "insufficient balance",
    "insufficient credits",
    "requires more credits",
    "reached your usage limit",
    "reached your weekly",
    "reached your specified api usage limits",
    "usage limit reached",
    "usage limit has been reached",
    "quota will reset",
    "free-models-per-day",
    "hour allocated quota exceeded",
    "week allocated quota exceeded",
    "month allocated quota exceeded",
];
/// A quota by the minute, under the words of one that is spent.
const MINUTE_TEXTS: &[&str] = &["#token-limit", "allocated quota exceeded, please"];
const TOO_LONG_WORDS: &[&str] =
    &["context_length_exceeded", "request_too_large", "exceed_context_size"];
const TOO_LONG_TEXTS: &[&str] = &[
    "prompt is too long",
    "input is too long",
    "prompt too long",
    "maximum context length",
    "maximum prompt length",
    "exceed context limit",
    "exceeds the context window",
    "exceeds the available context",
    "exceed the context window",
    "exceeds the model's context length",
    "exceeded max context length",
    "context length exceeded",
    "context length of only",
    "context window exceeds limit",
    "exceeded model token limit",
    "exceeds the maximum number of tokens allowed",
    "range of input length should be",
    "prompt exceeds max length",
    "reduce the length of the messages",
    "request exceeds the maximum size",
    "request entity too large",
];
/// More than a limit by the minute allows for one request: no wait makes it fit.
const NEVER_TEXTS: &[&str] = &["request too large for"];
/// A template of a local model that does not know such a row of messages.
const TEMPLATE_TEXTS: &[&str] = &["roles must alternate", "error rendering prompt with jinja"];
const TIMEOUT_TEXTS: &[&str] = &["timed out", "request timeout"];

/// One line of at most [`TEXT_CHARS_MAX`] characters.
fn shortened(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(TEXT_CHARS_MAX) {
        None => line,
        Some((end, _)) => format!("{}…", line.split_at(end).0),
    }
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;
    use serde_json::json;

    use super::*;

    fn class(status: u16, body: &Value) -> ErrorClass {
        let body = body.to_string();
        let now = SystemTime::UNIX_EPOCH;
        Failure::of_answer(status, &HeaderMap::new(), body.as_bytes(), now).class
    }

    fn anthropic(kind: &str, message: &str) -> Value {
        json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "r"})
    }

    fn openai(kind: &str, code: &str, message: &str) -> Value {
        json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
    }

    #[test]
    fn answers_have_a_class() {
        use ErrorClass::*;
        let invalid = |message| anthropic("invalid_request_error", message);
        let table = [
            (400, invalid("messages: at least one is needed"), BadRequest),
            (400, invalid("prompt is too long: 210000 tokens > 200000 maximum"), TooLong),
            (
                400,
                invalid(
                    "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000",
                ),
                TooLong,
            ),
            (400, invalid("Your credit balance is too low to access the Anthropic API."), Quota),
            (400, invalid("Request timed out"), Stalled),
            (401, anthropic("authentication_error", "invalid x-api-key"), Auth),
            (402, anthropic("billing_error", "see billing"), Quota),
            (403, anthropic("permission_error", "not this model"), Auth),
            (404, anthropic("not_found_error", "model: claude-nope"), BadRequest),
            (408, json!({}), Stalled),
            (409, anthropic("conflict_error", "again"), Overloaded),
            (413, anthropic("request_too_large", "over 32 MB"), TooLong),
            (422, json!({"detail": [{"loc": ["body"], "msg": "extra field"}]}), BadRequest),
            (429, anthropic("rate_limit_error", "slow down"), RateLimited),
            (
                429,
                json!({"type": "error", "error": {"type": "rate_limit_error", "message": "spent",
                    "details": {"error_code": "org_spend_limit_exceeded"}}}),
                Quota,
            ),
            (500, anthropic("api_error", "internal"), Overloaded),
            (501, json!({}), BadRequest),
            (503, json!({}), Overloaded),
            (504, anthropic("timeout_error", "too slow"), Overloaded),
            (505, json!({}), BadRequest),
            (529, anthropic("overloaded_error", "Overloaded"), Overloaded),
            (429, openai("insufficient_quota", "insufficient_quota", "see your plan"), Quota),
            (429, openai("requests", "rate_limit_exceeded", "limit 3 per min"), RateLimited),
            (429, openai("tokens", "x", "maximum context length of tokens per min"), RateLimited),
            (400, openai("invalid_request_error", "context_length_exceeded", "m"), TooLong),
            (
                400,
                json!({"error": {"code": 400, "type": "exceed_context_size_error",
                    "message": "the request exceeds the available context size"}}),
                TooLong,
            ),
            (404, json!({"error": "model 'x' not found"}), BadRequest),
            (418, json!("teapot"), BadRequest),
        ];
        for (status, body, expected) in table {
            assert_eq!(class(status, &body), expected, "{status} {body}");
        }
    }

    #[test]
    fn objects_in_an_answer_have_a_class() {
        use ErrorClass::*;
        let table = [
            (json!({"type": "message_start"}), None),
            (json!({"error": null, "choices": []}), None),
            (anthropic("overloaded_error", "Overloaded"), Some(Overloaded)),
            (anthropic("rate_limit_error", "slow"), Some(RateLimited)),
            (anthropic("invalid_request_error", "prompt is too long: 3 > 2"), Some(TooLong)),
            (anthropic("authentication_error", "no"), Some(Auth)),
            (anthropic("timeout_error", "no"), Some(Stalled)),
            (json!({"error": {"code": 502, "message": "bad gateway"}}), Some(Overloaded)),
            (json!({"error": {"code": 429, "message": "slow"}}), Some(RateLimited)),
            (json!({"error": "something broke"}), Some(Network)),
            (json!({"type": "error"}), Some(Network)),
        ];
        for (object, expected) in table {
            assert_eq!(Failure::in_object(&object).map(|f| f.class), expected, "{object}");
        }
    }

    #[test]
    fn the_server_can_forbid_or_ask_for_another_try() {
        use ErrorClass::*;
        let table = [
            ("false", 429, Quota),
            ("false", 529, BadRequest),
            ("false", 401, Auth),
            ("true", 400, Overloaded),
            ("true", 401, Overloaded),
            ("true", 402, Overloaded),
            ("true", 408, Stalled),
            ("true", 413, TooLong),
            ("true", 429, RateLimited),
            ("true", 501, Overloaded),
            ("true", 307, BadRequest),
            ("maybe", 400, BadRequest),
        ];
        for (says, status, expected) in table {
            let mut headers = HeaderMap::new();
            headers.insert("x-should-retry", HeaderValue::from_static(says));
            let failure = Failure::of_answer(status, &headers, b"{}", SystemTime::UNIX_EPOCH);
            assert_eq!(failure.class, expected, "{says} {status}");
        }
    }

    #[test]
    fn messages_are_short_and_whole() {
        let what = |status, body: &str| {
            let now = SystemTime::UNIX_EPOCH;
            Failure::of_answer(status, &HeaderMap::new(), body.as_bytes(), now).what
        };
        let body = anthropic("invalid_request_error", "no\n such\tfield").to_string();
        assert_eq!(what(400, &body), "answered 400: no such field");
        assert_eq!(
            what(502, "<html>Bad\nGateway</html>"),
            "answered 502: <html>Bad Gateway</html>"
        );
        assert_eq!(what(503, ""), "answered 503");
        assert_eq!(what(500, &"ü".repeat(9_000)).chars().count(), "answered 500: ".len() + 601);
    }
}
