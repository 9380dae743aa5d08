//! `inspan sessions`: one line a session.

use std::borrow::Cow;

use inspan_core::{
    columns::PREVIEW_CHARS_MAX,
    store::{SessionFilter, SessionRow, Store},
    words::dollars,
};
use serde_json::json;

use crate::{
    args::SessionsArgs,
    exit::Failure,
    home::Home,
    json::line,
    out::{BOLD, DIM, Out, grouped, styled},
};

/// Lists the sessions that the arguments ask for.
pub(crate) async fn list(home: &Home, args: &SessionsArgs) -> Result<u8, Failure> {
    let out = Out::new(home.mask()?);
    let filter = filter(home, args)?;
    let rows = home.store().await?.sessions(&filter).await?;
    if args.json {
        rows.iter().try_for_each(|row| out.json(&in_json(row)))?;
        return Ok(0);
    }
    if rows.is_empty() && filter != SessionFilter::all(args.count_max) {
        out.progress("No session is like that.\n");
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
    out.answer(&format!("{}\n", styled(BOLD, &head)))?;
    for row in &rows {
        let mut title = out.line(&title(&row.title), 60);
        if let Some((parent, seq)) = &row.parent {
            title += &styled(DIM, &format!(" (fork of {parent} at {seq})"));
        }
        out.answer(&format!(
            "{:36}  {:16}  {:>5}  {:>9}  {:9}  {title}\n",
            row.id.as_str(),
            styled(DIM, &minute(row.updated_ms)),
            row.turns,
            grouped(row.tokens),
            row.stop.as_deref().unwrap_or("open"),
        ))?;
    }
    Ok(0)
}

fn filter(home: &Home, args: &SessionsArgs) -> Result<SessionFilter, Failure> {
    let time = |text: &Option<String>| text.as_deref().map(time_of).transpose();
    let workdir = args.workdir.as_ref().map(|workdir| {
        let workdir = home.workdir.join(workdir);
        // As the log names it; a folder that is gone has only the name that was written.
        workdir.canonicalize().unwrap_or(workdir).display().to_string()
    });
    Ok(SessionFilter {
        prefix: String::new(),
        agent: args.agent.clone(),
        workdir,
        standing: args.standing,
        stop: args.stop,
        since_ms: time(&args.since)?,
        until_ms: time(&args.until)?,
        words: args.text.clone(),
        count_max: args.count_max,
    })
}

/// A time as people write it: a day or a minute in the local time zone, or how long ago.
fn time_of(text: &str) -> Result<i64, Failure> {
    let zone = jiff::tz::TimeZone::system();
    let local = |time: jiff::civil::DateTime| {
        zone.to_timestamp(time).ok().map(jiff::Timestamp::as_millisecond)
    };
    let ago = |ago: jiff::Span| {
        let then = jiff::ZonedDateTime::now().checked_sub(ago).ok()?;
        Some(then.timestamp().as_millisecond())
    };
    let date = text.parse::<jiff::civil::DateTime>().ok().and_then(local);
    let instant = text.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond);
    let ago = text.parse::<jiff::Span>().ok().and_then(ago);
    instant.or(date).or(ago).ok_or_else(|| {
        Failure::Usage(format!(
            "`{text}` is no time: write 2026-11-30, 2026-11-30T09:15, or a time ago such as 2h or 3d"
        ))
    })
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

/// The beginning of the first prompt. Where it was cut, the last word is left out: it may be half a
/// secret, which no mask knows.
fn title(head: &str) -> Cow<'_, str> {
    if head.chars().count() < PREVIEW_CHARS_MAX {
        return Cow::Borrowed(head);
    }
    Cow::Owned(format!("{}…", head.trim_end_matches(|c: char| c.is_ascii_graphic())))
}

fn in_json(row: &SessionRow) -> String {
    line(&json!({
        "id": row.id,
        "started_ms": row.started_ms,
        "updated_ms": row.updated_ms,
        "entries": row.entries,
        "agent": row.agent,
        "workdir": row.workdir,
        "standing": row.standing.as_str(),
        "wake_ms": row.wake_ms,
        "parent": row.parent.as_ref().map(|(parent, seq)| json!({ "id": parent, "seq": seq })),
        "turns": row.turns,
        "title": title(&row.title),
        "stop": row.stop,
        "tokens": row.tokens,
        "cost_nano_usd": row.cost_nano_usd,
        "cost": dollars(row.cost_nano_usd),
    }))
}
