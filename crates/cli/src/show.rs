//! `inspan show`: what happened in a session, step by step.

use std::time::Duration;

use inspan_core::{
    Entry, Event,
    message::{CallId, Content, ReplyPart},
    state::State,
    store::ENTRIES_READ_MAX,
    words::{catalogue_changed, dollars, duration, limit_neared, prompt_cut},
};

use inspan_engine::session::log;

use crate::{
    exit::Failure,
    home::{Home, session_of},
    out::{BAD, BOLD, DIM, GOOD, NOTE, Out, counted, grouped, styled},
    record,
    sessions::{in_local_time, minute},
};

/// How long a follower waits before it looks at the log again, when nobody tells it of news.
const LOOK_MS_MAX: u64 = 300;

/// Characters of a text in a line.
const TEXT_CHARS_MAX: usize = 72;

/// Shows the session whose identifier is `given` or begins so.
pub(crate) async fn show(
    home: &Home,
    given: &str,
    as_json: bool,
    follows: bool,
) -> Result<u8, Failure> {
    let out = Out::new(home.mask()?);
    let store = home.store().await?;
    let id = session_of(&*store, given).await?;
    if !as_json {
        out.answer(&format!("{}\n", styled(BOLD, &format!("session {id}"))))?;
    }
    let (mut state, mut after, mut count) = (State::default(), 0, 0);
    loop {
        // Asked for before the log is read, so that no news is missed.
        let news = store.changed(Some(&id));
        let page = store.read(&id, after, ENTRIES_READ_MAX).await?;
        for entry in &page {
            state.apply(entry);
            (after, count) = (entry.seq, count + 1);
            if as_json {
                out.json(&(entry.to_line() + "\n"))?;
            } else {
                let lines = lines_of(entry, &state, &out);
                lines.iter().try_for_each(|line| out.answer(&format!("{line}\n")))?;
            }
        }
        if page.len() == ENTRIES_READ_MAX {
            continue;
        }
        if !follows || state.turn.is_none() {
            break;
        }
        tokio::select! {
            () = news => {}
            () = tokio::time::sleep(Duration::from_millis(LOOK_MS_MAX)) => {}
        }
    }
    if !as_json {
        sum_up(&state, count, &out)?;
    }
    Ok(0)
}

/// The last line: what all of it was.
fn sum_up(state: &State, count: u64, out: &Out) -> Result<(), Failure> {
    let total = &state.total;
    let mut parts = vec![
        counted(count, "entry", "entries"),
        counted(state.turns.into(), "turn", "turns"),
        format!("{} tokens", grouped(total.tokens)),
    ];
    if total.cost_nano_usd > 0 {
        parts.push(dollars(total.cost_nano_usd));
    }
    if total.incomplete {
        parts.push("some of it estimated".to_owned());
    }
    out.answer(&format!("{}\n", styled(DIM, &parts.join(" · "))))
}

/// Shows all that is known of one call.
pub(crate) async fn show_call(
    home: &Home,
    given: &str,
    call: &str,
    as_json: bool,
) -> Result<u8, Failure> {
    let out = Out::new(home.mask()?);
    let store = home.store().await?;
    let id = session_of(&*store, given).await?;
    let entries = log(&*store, &id).await?;
    let call = CallId(call.to_owned());
    let about = record::about(&entries, &call);
    if about.is_empty() {
        return Err(Failure::Usage(format!("session {id} has no call {call}: inspan show {id}")));
    }
    if as_json {
        about.iter().try_for_each(|entry| out.json(&(entry.to_line() + "\n")))?;
        return Ok(0);
    }
    out.answer(&format!("{}\n", styled(BOLD, &format!("session {id}, {call}"))))?;
    let lines = record::lines(&about, &call, &out);
    lines.iter().try_for_each(|line| out.answer(&format!("{line}\n")))?;
    Ok(0)
}

/// The lines of one entry; entries that only prepare others have none.
fn lines_of(entry: &Entry, state: &State, out: &Out) -> Vec<String> {
    let at = styled(DIM, &in_local_time(entry.at_ms, "%H:%M:%S"));
    let row = |what: &str, text: &str| {
        let seq = entry.seq;
        vec![format!("{seq:>5} {at}  {what:9} {}", out.line(text, TEXT_CHARS_MAX))]
    };
    match &entry.event {
        Event::SessionStarted(e) => vec![format!(
            "      began {} in {}, Inspan {}",
            minute(entry.at_ms),
            out.shown(&e.workdir),
            out.shown(&e.inspan)
        )],
        Event::SessionConfigured(e) => {
            let agent = e.agent.as_ref().map_or("none", |agent| agent.name.as_str());
            let tools: Vec<&str> = e.tools.iter().map(|tool| tool.name.as_str()).collect();
            let moved = e.workdir.as_ref().map(|workdir| format!(" in {workdir}"));
            let moved = moved.unwrap_or_default();
            let tools = tools.join(", ");
            let text = format!("{} as agent {agent}{moved}, tools: {tools}", e.model.url);
            row("with", &text)
        }
        Event::PromptSubmitted(e) => row("prompt", &text_of(&e.content)),
        Event::ModelReplied(e) => {
            let mut said = e.reply.text().trim().to_owned();
            for part in &e.reply.parts {
                if let ReplyPart::Call(call) = part {
                    said += &format!(" → {}{}", call.name, call.arguments);
                }
            }
            let usage = &e.reply.usage;
            let counted = format!(
                "{}+{} tokens {}",
                grouped(usage.input_total()),
                grouped(usage.output.unwrap_or(0)),
                duration(e.ms)
            );
            let mut lines = row("model", &said);
            lines[0] += &format!("  {}", styled(DIM, &counted));
            lines
        }
        Event::ModelFailed(e) => row("failed", &format!("{}: {}", e.class.as_str(), e.message)),
        Event::ProjectionRepaired(e) => row("repaired", &e.repair.words()),
        Event::PromptCut(e) => row("cut", &prompt_cut(e)),
        Event::CatalogueChanged(e) => {
            let changed = (!e.is_empty()).then(|| row("tools", &catalogue_changed(e)));
            let notices = e.notices.iter().flat_map(|notice| row("tools", notice));
            changed.into_iter().flatten().chain(notices).collect()
        }
        Event::ModelSwitched(e) => row("switched", &format!("to {}", e.model)),
        Event::ToolFinished(e) => {
            let mut lines = row("tool", &format!("{}: {}", e.name, e.result.to_text()));
            let how = format!("{} {}", e.how.as_str(), duration(e.ms));
            lines[0] += &format!("  {}", styled(DIM, &how));
            lines.extend(action_record(entry, state, out));
            lines
        }
        Event::PermissionAsked(e) => row("asked", &format!("{}: {}", e.name, e.why)),
        Event::PermissionAnswered(e) => row("answered", &format!("{:?} {}", e.choice, e.why)),
        Event::LimitNeared(e) => row("limit", limit_neared(e).trim_matches(['[', ']'])),
        Event::SessionForked(e) => {
            row("forked", &format!("from session {} after entry {}", e.parent, e.seq))
        }
        Event::ToolDeferred(e) => row("deferred", &format!("{} goes on as job {}", e.name, e.job)),
        Event::Parked(e) => row("parked", &e.why),
        Event::Woken(_) => row("woken", "goes on"),
        Event::CancelRequested(_) => row("cancel", "requested"),
        Event::TurnEnded(e) => {
            let style = match e.stop.as_str() {
                "end" => GOOD,
                "failed" => BAD,
                _ => NOTE,
            };
            let mut lines = row("stop", "");
            lines[0] += &styled(style, e.stop.as_str());
            if !e.detail.is_empty() {
                lines[0] += &format!(" · {}", out.line(&e.detail, TEXT_CHARS_MAX));
            }
            lines
        }
        Event::Unknown(e) => row("unknown", &format!("{} (version {})", e.kind, e.version)),
        Event::RoundStarted(_) | Event::GateJudged(_) | Event::ToolStarted(_) => Vec::new(),
    }
}

/// What a call's evidence and attempts were, where they say more than its result.
fn action_record(entry: &Entry, state: &State, out: &Out) -> Option<String> {
    let Event::ToolFinished(e) = &entry.event else { return None };
    let attempts = state.call(&e.call).map_or(0, |open| open.attempts);
    let mut parts = Vec::new();
    if attempts > 1 {
        parts.push(format!("attempt {attempts}"));
    }
    if let Some(evidence) = &e.result.evidence {
        parts.push(format!("evidence {evidence}"));
    }
    let text = out.line(&parts.join(", "), TEXT_CHARS_MAX);
    (!text.is_empty()).then(|| format!("{:26}{}", "", styled(DIM, &text)))
}

fn text_of(content: &[Content]) -> String {
    let texts: Vec<&str> = content
        .iter()
        .map(|content| match content {
            Content::Text { text } => text.as_str(),
            Content::Image(_) => "[image]",
        })
        .collect();
    texts.join(" ")
}
