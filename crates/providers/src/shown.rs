//! For tests: model events as short lines.

use std::{fmt::Write, fs};

use inspan_core::{
    message::{Reasoning, ReplyPart, ToolCall, Usage},
    provider::{Delta, ModelEvent},
};

use crate::failure::Failure;

/// Compares the events of each recorded stream whose name begins so with its snapshot.
pub(crate) fn recorded(prefix: &str, events: impl Fn(&str) -> Vec<Result<ModelEvent, Failure>>) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let mut count = 0;
    for entry in fs::read_dir(folder).expect("the folder of fixtures") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        if name.starts_with(prefix) && path.extension().is_some_and(|e| e == "sse") {
            let sse = fs::read_to_string(&path).expect("a recorded stream");
            settings.bind(|| insta::assert_snapshot!(name, shown(&events(&sse))));
            count += 1;
        }
    }
    assert_ne!(count, 0);
}

/// One line for each event. Deltas begin with `…`.
pub(crate) fn shown(events: &[Result<ModelEvent, Failure>]) -> String {
    let mut lines = String::new();
    for event in events {
        let line = match event {
            Ok(event) => shown_event(event),
            Err(failure) => {
                let part = failure.part.as_ref().map(|part| format!(", refused {part:?}"));
                let wait = failure.retry_after_ms.map(|ms| format!(", wait {ms} ms"));
                let rest = [part, wait].map(Option::unwrap_or_default).concat();
                format!("failed {:?}: {}{rest}", failure.class, failure.what)
            }
        };
        let _ = writeln!(lines, "{line}");
    }
    lines
}

fn shown_event(event: &ModelEvent) -> String {
    match event {
        ModelEvent::Started { model, provider_id } => format!("started {model} {provider_id}"),
        ModelEvent::Delta { part, delta } => format!("{part} … {}", shown_delta(delta)),
        ModelEvent::PartFinished { part, content } => format!("{part} {}", shown_part(content)),
        ModelEvent::Counted(usage) => format!("counted {}", shown_usage(usage)),
        ModelEvent::Finished(stop) => format!("finished {stop:?}"),
        ModelEvent::Failed(error) => format!("failed {error:?}"),
    }
}

fn shown_delta(delta: &Delta) -> String {
    match delta {
        Delta::Text(text) => format!("text {text:?}"),
        Delta::Reasoning(text) => format!("reasoning {text:?}"),
        Delta::CallStarted { name, provider_id } => {
            format!("call {name} {}", provider_id.as_deref().unwrap_or("-"))
        }
        Delta::Arguments(text) => format!("arguments {text}"),
    }
}

fn shown_part(part: &ReplyPart) -> String {
    match part {
        ReplyPart::Text { text } => format!("text {text:?}"),
        ReplyPart::Reasoning(Reasoning { text, raw, signed }) => {
            format!("reasoning {text:?} {} {raw}", if *signed { "signed" } else { "unsigned" })
        }
        ReplyPart::Call(ToolCall { provider_id, name, arguments, complete, .. }) => {
            let half = if *complete { "" } else { " half" };
            format!("call {name} {} {arguments}{half}", provider_id.as_deref().unwrap_or("-"))
        }
    }
}

fn shown_usage(usage: &Usage) -> String {
    let tiers = [
        ("input", usage.input),
        ("read", usage.cache_read),
        ("write", usage.cache_write),
        ("output", usage.output),
        ("reasoning", usage.reasoning),
    ];
    let known = tiers.iter().filter_map(|(name, n)| n.map(|n| format!("{name} {n}")));
    known.collect::<Vec<_>>().join(", ")
}
