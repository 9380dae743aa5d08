//! docs/limits.md says what is so.

use std::collections::BTreeSet;

use inspan_core::budget::Limits;
use inspan_providers::Timeouts;
use serde_json::{Value, json};

use crate::{
    crate_names,
    pages::{quoted, table},
    sources::{code, sources},
};

const PAGE: &str = "docs/limits.md";

/// `5,000,000` as people write it.
fn figure(value: &Value) -> String {
    let Some(number) = value.as_u64() else { return "none".to_owned() };
    let digits = number.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}

#[test]
fn the_limits_of_a_turn_and_their_defaults() {
    let fields = |limits| match serde_json::to_value(limits) {
        Ok(Value::Object(fields)) => fields,
        other => panic!("{other:?}"),
    };
    let (session, call) = (fields(Limits::session()), fields(Limits::call()));
    let expected: Vec<_> = session
        .iter()
        .map(|(name, value)| [name.clone(), figure(value), figure(&call[name])])
        .collect();
    let told: Vec<_> = table(PAGE, "## Limits of a turn")
        .iter()
        .map(|row| [quoted(&row[1]), row[2].clone(), row[3].clone()])
        .collect();
    assert_eq!(told, expected);
}

#[test]
fn the_time_limits_of_a_model_call() {
    let rows = |timeouts: Timeouts| {
        let Timeouts { connect_ms_max, first_ms_max, silence_ms_max, whole_ms_max } = timeouts;
        [
            ("connect_ms_max", connect_ms_max),
            ("first_ms_max", first_ms_max),
            ("silence_ms_max", silence_ms_max),
            ("whole_ms_max", whole_ms_max),
        ]
    };
    let both = rows(Timeouts::REMOTE).into_iter().zip(rows(Timeouts::LOCAL));
    let expected: Vec<_> = both
        .map(|((name, remote), (_, local))| {
            [name.to_owned(), figure(&json!(remote)), figure(&json!(local))]
        })
        .collect();
    let told: Vec<_> = table(PAGE, "## Time limits of a model call")
        .iter()
        .map(|row| [quoted(&row[0]), row[1].clone(), row[2].clone()])
        .collect();
    assert_eq!(told, expected);
}

/// Every constant of `budget`, and every one elsewhere that by its name is a limit.
#[test]
fn the_fixed_limits() {
    let mut found = BTreeSet::new();
    for path in crate_names().iter().filter(|name| *name != "testkit").flat_map(|n| sources(n)) {
        let place = path.strip_prefix("crates").map(|p| p.display().to_string()).expect("a crate");
        let place = place.replacen("/src/", "/", 1);
        for (name, value) in constants(&code(&path)) {
            let is_limit = ["_MAX", "_MIN", "_DEFAULT", "TIMEOUT"].iter().any(|w| name.contains(w));
            if is_limit || place == "core/budget.rs" {
                let value = number(&value).unwrap_or_else(|| panic!("{name}: {value}"));
                found.insert((place.clone(), name, figure(&json!(value))));
            }
        }
    }
    let told: BTreeSet<_> = table(PAGE, "## Fixed limits")
        .iter()
        .map(|row| (quoted(&row[0]), quoted(&row[1]), row[2].clone()))
        .collect();
    let missing: Vec<_> = found.difference(&told).collect();
    let stale: Vec<_> = told.difference(&found).collect();
    assert!(missing.is_empty() && stale.is_empty(), "missing: {missing:#?}\nstale: {stale:#?}");
}

/// The constants that are numbers or durations, as they are written.
fn constants(code: &str) -> Vec<(String, String)> {
    let constant = |line: &str| {
        let (name, rest) = line.split_once("const ")?.1.split_once(": ")?;
        let (kind, value) = rest.split_once(" = ")?;
        let is_number = ["u8", "u32", "u64", "usize", "Duration"].contains(&kind);
        let value = value.strip_suffix(';').filter(|_| is_number)?;
        Some((name.to_owned(), value.to_owned()))
    };
    code.lines().filter_map(constant).collect()
}

/// A number as the sources write it, `5 * 60 * 1_000` or `32 << 20`; a duration in milliseconds.
fn number(text: &str) -> Option<u64> {
    if let Some(seconds) = text.strip_prefix("Duration::from_secs(") {
        return Some(number(seconds.strip_suffix(')')?)? * 1000);
    }
    if let Some((left, right)) = text.split_once(" << ") {
        return Some(number(left)? << number(right)?);
    }
    if let Some((left, right)) = text.rsplit_once(" * ") {
        return Some(number(left)? * number(right)?);
    }
    text.replace('_', "").parse().ok()
}
