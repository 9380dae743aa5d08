//! How long a server asks to wait, and whether it wants to be asked again at all.

use std::time::{Duration, SystemTime};

use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};

/// The longest wait that is believed, in milliseconds: a week.
const RETRY_AFTER_MS_MAX: u64 = 7 * 24 * 3_600_000;

/// The wait in milliseconds: `retry-after-ms`, or `retry-after` in seconds or as a date. A date
/// is compared with the server's own clock when it tells it, else with `now`.
pub(crate) fn retry_after_ms(headers: &HeaderMap, now: SystemTime) -> Option<u64> {
    let header = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let number = |text: &str| text.parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0);
    if let Some(ms) = header("retry-after-ms").and_then(number) {
        return Some((ms.ceil() as u64).min(RETRY_AFTER_MS_MAX));
    }
    let text = header(RETRY_AFTER.as_str())?;
    if let Some(seconds) = number(text) {
        return Some(((seconds * 1000.0).ceil() as u64).min(RETRY_AFTER_MS_MAX));
    }
    let until = httpdate::parse_http_date(text).ok()?;
    let now = header(DATE.as_str()).and_then(|d| httpdate::parse_http_date(d).ok()).unwrap_or(now);
    let wait = until.duration_since(now).unwrap_or(Duration::ZERO);
    Some(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).min(RETRY_AFTER_MS_MAX))
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
}
