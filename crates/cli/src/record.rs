//! The action record of one call: what was asked, judged, started and answered, with the keys and
//! identifiers by which others know it.

use inspan_core::{
    Entry, Event,
    message::{CallId, ReplyPart, ResultState},
    words::duration,
};

use crate::{
    out::{DIM, Out, styled},
    sessions::in_local_time,
};

/// The entries that are about `call`, in order.
pub(crate) fn about<'a>(entries: &'a [Entry], call: &CallId) -> Vec<&'a Entry> {
    entries.iter().filter(|entry| concerns(&entry.event, call)).collect()
}

fn concerns(event: &Event, call: &CallId) -> bool {
    match event {
        Event::ModelReplied(e) => e.reply.calls().any(|one| one.id == *call),
        Event::GateJudged(e) => e.call == *call,
        Event::PermissionAsked(e) => e.call == *call,
        Event::PermissionAnswered(e) => e.call == *call,
        Event::ToolStarted(e) => e.call == *call,
        Event::ToolDeferred(e) => e.call == *call,
        Event::ToolFinished(e) => e.call == *call,
        Event::Parked(e) => e.calls.contains(call),
        _ => false,
    }
}

/// The record as lines for people. Nothing is cut.
pub(crate) fn lines(entries: &[&Entry], call: &CallId, out: &Out) -> Vec<String> {
    let mut is_answered = false;
    let mut lines = Vec::new();
    for entry in entries {
        let at = in_local_time(entry.at_ms, "%Y-%m-%d %H:%M:%S");
        let head = format!("{:>5} {}", entry.seq, styled(DIM, &at));
        let (what, text) = told(&entry.event, call, is_answered);
        is_answered |= matches!(entry.event, Event::ToolFinished(_));
        let text = out.shown(&text);
        let mut rows = text.lines();
        lines.push(format!("{head}  {what:9} {}", rows.next().unwrap_or_default()));
        lines.extend(rows.map(|row| format!("{:37}{row}", "")));
    }
    lines
}

fn told(event: &Event, call: &CallId, is_answered: bool) -> (&'static str, String) {
    match event {
        Event::ModelReplied(e) => {
            let asked = e.reply.parts.iter().find_map(|part| match part {
                ReplyPart::Call(one) if one.id == *call => Some(one),
                _ => None,
            });
            let asked = asked.map(|one| {
                let theirs = one.provider_id.as_deref().unwrap_or("none");
                format!("{} {}\nthe provider's identifier: {theirs}", one.name, one.arguments)
            });
            ("request", asked.unwrap_or_default())
        }
        Event::GateJudged(e) => {
            let gate = if e.gate.is_empty() { String::new() } else { format!(" by {}", e.gate) };
            let checked = e.arguments.as_ref().map(|all| format!("\nchecked arguments: {all}"));
            let verdict = match &e.verdict {
                inspan_core::gate::Verdict::Allow => "allowed".to_owned(),
                inspan_core::gate::Verdict::Ask(why) => format!("to be asked: {why}"),
                inspan_core::gate::Verdict::Deny(why) => format!("refused: {why}"),
            };
            ("judged", format!("{verdict}{gate}{}", checked.unwrap_or_default()))
        }
        Event::PermissionAsked(e) => {
            ("asked", format!("{}\narguments {}\nhash {}", e.why, e.arguments, e.arguments_hash))
        }
        Event::PermissionAnswered(e) => {
            ("answered", format!("{:?} by {:?} {}", e.choice, e.by, e.why))
        }
        Event::ToolStarted(e) => {
            let effects: Vec<&str> = e.effects.names().collect();
            (
                "started",
                format!(
                    "attempt {}, {}\neffects: {}\nkey: {}\narguments: {}",
                    e.attempt,
                    e.repeat.as_str(),
                    if effects.is_empty() { "none".to_owned() } else { effects.join(", ") },
                    e.key,
                    e.arguments_hash
                ),
            )
        }
        Event::ToolDeferred(e) => ("deferred", format!("goes on as job {}", e.job)),
        Event::Parked(e) => ("parked", e.why.clone()),
        Event::ToolFinished(e) => {
            let mut text =
                format!("{} after {}\n{}", e.how.as_str(), duration(e.ms), e.result.to_text());
            if let Some(evidence) = &e.result.evidence {
                text += &format!("\nevidence: {evidence}");
            }
            if let ResultState::Accepted(job) = &e.result.state {
                text += &format!("\naccepted as job {job}");
            }
            // A result for a call that was answered is news, and answers nothing.
            (if is_answered { "news" } else { "finished" }, text)
        }
        _ => ("", String::new()),
    }
}
