//! How long a server asks to wait, and whether it wants to be asked again at all.

use std::time::{Duration, SystemTime};

use jiff::{SignedDuration, Timestamp};
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
use serde_json::Value;

/// The longest wait that is believed, in milliseconds: a week.
const RETRY_AFTER_MS_MAX: u64 = 7 * 24 * 3_600_000;

/// How many words after `try again in` may be a time: `1 hour, 30 minutes and 5 seconds`.
const TIME_WORDS_MAX: usize = 7;

/// The wait in milliseconds: `retry-after-ms`, or `retry-after` in seconds or as a date. A date
/// is compared with the server's own clock when it tells it, else with `now`.
pub(crate) fn retry_after_ms(headers: &HeaderMap, now: SystemTime) -> Option<u64> {
    let number = |text: &str| text.parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0);
    if let Some(ms) = header(headers, "retry-after-ms").and_then(number) {
        return Some((ms.ceil() as u64).min(RETRY_AFTER_MS_MAX));
    }
    let text = header(headers, RETRY_AFTER.as_str())?;
    if let Some(seconds) = number(text) {
        return Some(seconds_ms(seconds));
    }
    let until = httpdate::parse_http_date(text).ok()?;
    let wait = until.duration_since(server_time(headers, now)).unwrap_or(Duration::ZERO);
    Some(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).min(RETRY_AFTER_MS_MAX))
}

/// The wait until a limit is reset, as the body of a refusal tells it: in a field of `error`, or in
/// its sentence `text`. A point in time counts only where `now` is known.
pub(crate) fn told_ms(error: &Value, text: &str, now: Option<SystemTime>) -> Option<u64> {
    in_fields(error, now).or_else(|| in_words(text, now))
}

/// The wait until a limit is reset, as the headers of every answer tell it. Of several limits those
/// count of which nothing is left, and the last of them.
pub(crate) fn reset_ms(headers: &HeaderMap, now: SystemTime) -> Option<u64> {
    let now = server_time(headers, now);
    let limits = headers.iter().filter_map(|(name, value)| {
        let (name, value) = (name.as_str(), value.to_str().ok()?.trim());
        let left = match name.strip_prefix("anthropic-ratelimit-") {
            Some(limit) => {
                format!("anthropic-ratelimit-{}-remaining", limit.strip_suffix("-reset")?)
            }
            None => name.replacen("x-ratelimit-reset", "x-ratelimit-remaining", 1),
        };
        let is_limit = name.contains("ratelimit") && name.contains("reset") && left != name;
        let is_spent = header(headers, &left).is_none_or(|left| left.parse() == Ok(0.0));
        if is_limit && is_spent {
            duration_ms(value).or_else(|| until_ms(value, now))
        } else {
            None
        }
    });
    limits.max()
}

/// A field that says when to come back.
fn in_fields(error: &Value, now: Option<SystemTime>) -> Option<u64> {
    let details = error["details"].as_array().map(Vec::as_slice).unwrap_or_default();
    let durations = ["resets_in_seconds", "retry_after", "retry_after_seconds", "retryDelay"];
    let duration = |value: &Value| {
        let seconds = value.as_f64().filter(|n| *n >= 0.0).map(seconds_ms);
        seconds.or_else(|| value.as_str().and_then(duration_ms))
    };
    let mut found = [error, &error["metadata"]].into_iter().chain(details);
    let wait = found.find_map(|place| durations.iter().find_map(|name| duration(&place[name])));
    let headers = &error["metadata"]["headers"];
    let times = [&error["resets_at"], &headers["X-RateLimit-Reset"]];
    wait.or_else(|| {
        let now = now?;
        times.into_iter().find_map(|time| match time {
            Value::String(text) => until_ms(text, now),
            Value::Number(number) => until_ms(&number.to_string(), now),
            _ => None,
        })
    })
}

/// `Please try again in 3h12m.`, `You will regain access on 2026-12-01 at 00:00 UTC.`
fn in_words(text: &str, now: Option<SystemTime>) -> Option<u64> {
    let lower = text.to_lowercase();
    let after = |known: &'static [&'static str]| {
        known.iter().filter_map(|known| Some(lower.split_once(known)?.1))
    };
    let waits = &["try again in ", "retry in ", "retry after ", "reset after ", "resets in "];
    let wait = after(waits).find_map(|rest| {
        let words: Vec<&str> = rest.split_whitespace().take(TIME_WORDS_MAX).collect();
        (1..=words.len()).rev().find_map(|count| {
            let time = words.get(..count)?.join(" ");
            duration_ms(time.trim_end_matches(['.', ',', ';', ')', '!']))
        })
    });
    wait.or_else(|| {
        let now = now?;
        after(&["access on ", "resets at ", "reset at ", "try again at ", "try again after "])
            .find_map(|rest| {
                let mut words = rest.split_whitespace().filter(|word| *word != "at");
                let (day, time) = (words.next()?, words.next().unwrap_or_default());
                until_ms(day.trim_end_matches('.'), now)
                    .or_else(|| until_ms(&format!("{day}T{}Z", time.trim_end_matches('z')), now))
            })
    })
}

/// A length of time as servers write it: `7.66s`, `2m59.56s`, `161h39m41s`, `20 seconds`.
fn duration_ms(text: &str) -> Option<u64> {
    let time: SignedDuration = text.parse().ok()?;
    u64::try_from(time.as_millis()).ok().map(|ms| ms.min(RETRY_AFTER_MS_MAX))
}

/// The wait until a point in time: RFC 3339, or seconds or milliseconds since 1970.
fn until_ms(text: &str, now: SystemTime) -> Option<u64> {
    let number = text.parse::<f64>().ok().filter(|number| *number > 1e9);
    let until_ms = match number {
        Some(ms) if ms > 1e12 => ms as i64,
        Some(seconds) => (seconds * 1000.0) as i64,
        None => text.to_uppercase().parse::<Timestamp>().ok()?.as_millisecond(),
    };
    let now_ms = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis();
    let wait = until_ms.saturating_sub(i64::try_from(now_ms).unwrap_or(i64::MAX));
    Some(u64::try_from(wait).unwrap_or(0).min(RETRY_AFTER_MS_MAX))
}

fn seconds_ms(seconds: f64) -> u64 {
    ((seconds * 1000.0).ceil() as u64).min(RETRY_AFTER_MS_MAX)
}

/// The server's own clock when it tells it.
fn server_time(headers: &HeaderMap, now: SystemTime) -> SystemTime {
    let date = header(headers, DATE.as_str());
    date.and_then(|date| httpdate::parse_http_date(date).ok()).unwrap_or(now)
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// Whether the server says that the same request may succeed later, if it says anything of it.
pub(crate) fn should_retry(headers: &HeaderMap) -> Option<bool> {
    match headers.get("x-should-retry")?.as_bytes() {
        b"true" => Some(true),
        b"false" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use reqwest::header::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn waits_are_read_from_every_form() {
        let date = "Mon, 30 Nov 2026 12:00:30 GMT";
        let now = httpdate::parse_http_date("Mon, 30 Nov 2026 12:00:00 GMT").expect("a date");
        let table = [
            (vec![], None),
            (vec![("retry-after", "7")], Some(7_000)),
            (vec![("retry-after", " 1.5 ")], Some(1_500)),
            (vec![("retry-after", date)], Some(30_000)),
            (vec![("retry-after", date), ("date", "Mon, 30 Nov 2026 12:00:20 GMT")], Some(10_000)),
            (vec![("retry-after", date), ("date", "Mon, 30 Nov 2026 13:00:00 GMT")], Some(0)),
            (vec![("retry-after", date), ("date", "yesterday")], Some(30_000)),
            (vec![("retry-after-ms", "250"), ("retry-after", "7")], Some(250)),
            (vec![("retry-after-ms", "soon"), ("retry-after", "7")], Some(7_000)),
            (vec![("retry-after", "-1")], None),
            (vec![("retry-after", "soon")], None),
            (vec![("retry-after", "1e300")], Some(RETRY_AFTER_MS_MAX)),
        ];
        for (headers, expected) in table {
            let headers: HeaderMap = headers
                .iter()
                .map(|(k, v)| (HeaderName::from_static(k), HeaderValue::from_static(v)))
                .collect();
            assert_eq!(retry_after_ms(&headers, now), expected, "{headers:?}");
        }
    }

    /// Noon.
    fn now() -> SystemTime {
        httpdate::parse_http_date("Mon, 30 Nov 2026 12:00:00 GMT").expect("a date")
    }

    #[test]
    fn waits_are_read_from_a_body() {
        use serde_json::json;
        let minute = 60_000;
        let table = [
            // https://github.com/continuedev/continue/issues/10920
            (json!({}), "Limit 100000. Please try again in 9m38.016s. Need more?", Some(578_016)),
            // https://github.com/continuedev/continue/issues/11472
            (json!({}), "Please try again in 174ms. Visit https://here", Some(174)),
            // https://github.com/google-gemini/gemini-cli/issues/13004
            (json!({}), "Your quota will reset after 8h44m7s.", Some(31_447_000)),
            // https://github.com/MoonshotAI/kimi-cli/issues/901
            (json!({}), "Weekly usage: 100%. Resets in 3 hours!", Some(180 * minute)),
            (json!({}), "try again in 1 hour, 30 minutes", Some(90 * minute)),
            (json!({}), "try again in a moment", None),
            (json!({}), "regain access on 2026-11-30 at 12:30 UTC.", Some(30 * minute)),
            (json!({}), "resets at 2026-11-30T12:01:00Z", Some(minute)),
            (json!({}), "resets at 2026-11-30T13:01:00+01:00.", Some(minute)),
            // https://github.com/router-for-me/CLIProxyAPI/issues/3942
            (json!({"resets_at": 1_796_040_060, "resets_in_seconds": 61}), "", Some(61_000)),
            (json!({"resets_at": 1_796_040_060}), "", Some(minute)),
            // https://github.com/Gitlawb/openclaude/issues/936
            (
                json!({"metadata": {"headers": {"X-RateLimit-Reset": "1796040060000"}}}),
                "Rate limit exceeded: free-models-per-day.",
                Some(minute),
            ),
            // https://github.com/liuw1535/antigravity2api-nodejs/issues/44
            (json!({"details": [{}, {"retryDelay": "90.5s"}]}), "", Some(90_500)),
            (json!({}), "try again in 999999h", Some(RETRY_AFTER_MS_MAX)),
            (json!("text"), "", None),
        ];
        for (error, text, expected) in table {
            assert_eq!(told_ms(&error, text, Some(now())), expected, "{error} {text}");
        }
        assert_eq!(told_ms(&Value::Null, "try again in 2s", None), Some(2_000));
        assert_eq!(told_ms(&Value::Null, "resets at 2026-11-30T12:01:00Z", None), None);
    }

    #[test]
    fn waits_are_read_from_limits_of_which_nothing_is_left() {
        let table = [
            (vec![("x-ratelimit-reset-requests", "2m59.56s")], Some(179_560)),
            (
                vec![
                    ("x-ratelimit-reset-requests", "3h"),
                    ("x-ratelimit-remaining-requests", "7"),
                    ("x-ratelimit-reset-tokens", "7.66s"),
                    ("x-ratelimit-remaining-tokens", "0"),
                ],
                Some(7_660),
            ),
            (
                vec![
                    ("anthropic-ratelimit-requests-remaining", "9"),
                    ("anthropic-ratelimit-requests-reset", "2026-11-30T12:00:05Z"),
                    ("anthropic-ratelimit-input-tokens-remaining", "0"),
                    ("anthropic-ratelimit-input-tokens-reset", "2026-11-30T12:00:40Z"),
                ],
                Some(40_000),
            ),
            (vec![("anthropic-ratelimit-unified-reset", "1796040060")], Some(60_000)),
            (vec![("x-ratelimit-reset", "1796040060000")], Some(60_000)),
            (vec![("x-ratelimit-limit", "50"), ("reset", "3s")], None),
            (vec![], None),
        ];
        for (headers, expected) in table {
            let headers: HeaderMap = headers
                .iter()
                .map(|(k, v)| (HeaderName::from_static(k), HeaderValue::from_static(v)))
                .collect();
            assert_eq!(reset_ms(&headers, now()), expected, "{headers:?}");
        }
    }
}
