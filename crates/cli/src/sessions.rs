//! `inspan sessions`: one line a session.

use inspan_core::{
    store::{SessionFilter, SessionRow, Store},
    words::dollars,
};
use serde_json::json;

use crate::{
    exit::Failure,
    home::Home,
    json::line,
    out::{BOLD, DIM, Out, grouped, styled},
};

/// Lists at most `count_max` sessions.
pub(crate) async fn list(home: &Home, count_max: usize, as_json: bool) -> Result<u8, Failure> {
    let out = Out::new(home.mask()?);
    let rows = home.store().await?.sessions(&SessionFilter::all(count_max)).await?;
    if as_json {
        rows.iter().for_each(|row| out.answer(&out.masked(&in_json(row))));
        return Ok(0);
    }
    if rows.is_empty() {
        out.progress("There are no sessions yet. Begin one: inspan run PROMPT\n");
        return Ok(0);
    }
    let head = format!(
        "{:36}  {:16}  {:>5}  {:>9}  {:9}  TITLE",
        "SESSION", "CHANGED", "TURNS", "TOKENS", "STOP"
    );
    out.answer(&format!("{}\n", styled(BOLD, &head)));
    for row in &rows {
        let title = out.line(&row.title, 60);
        out.answer(&format!(
            "{:36}  {:16}  {:>5}  {:>9}  {:9}  {title}\n",
            row.id.as_str(),
            styled(DIM, &minute(row.updated_ms)),
            row.turns,
            grouped(row.tokens),
            row.stop.as_deref().unwrap_or("open"),
        ));
    }
    Ok(0)
}

/// `2026-11-30 09:15` in the local time zone.
pub(crate) fn minute(at_ms: i64) -> String {
    in_local_time(at_ms, "%Y-%m-%d %H:%M")
}

/// A time in the local time zone; empty when there is none such.
pub(crate) fn in_local_time(at_ms: i64, format: &str) -> String {
    jiff::Timestamp::from_millisecond(at_ms)
        .map(|at| at.to_zoned_datetime(jiff::tz::TimeZone::system()).strftime(format).to_string())
        .unwrap_or_default()
}

fn in_json(row: &SessionRow) -> String {
    line(&json!({
        "id": row.id,
        "started_ms": row.started_ms,
        "updated_ms": row.updated_ms,
        "entries": row.entries,
        "turns": row.turns,
        "title": row.title,
        "stop": row.stop,
        "tokens": row.tokens,
        "cost_nano_usd": row.cost_nano_usd,
        "cost": dollars(row.cost_nano_usd),
    }))
}
