//! Logs of every version of the format are read for ever: what they say, what they fold to, and the
//! bytes that they are.
//!
//! A file is never changed once its version is written. When the fold changes on purpose, the state
//! beside it is written anew, and `FOLD_VERSION` is raised, so that no older snapshot is read.

use std::collections::BTreeSet;

use inspan_core::{
    Entry, Event, State,
    event::{FORMAT_VERSION, Head},
    snapshot::{self, FOLD_VERSION, Pieces, Reading, Written},
};
use serde_json::{Value, json};

/// The log of a version, and the state that it folds to.
fn golden(version: u32) -> (&'static str, &'static str) {
    match version {
        0 => (include_str!("v0.jsonl"), include_str!("v0.state.json")),
        1 => (include_str!("v1.jsonl"), include_str!("v1.state.json")),
        version => panic!("there is no golden log of version {version}"),
    }
}

/// The entries of a golden log: each known, in one chain, and written again as it stands there.
fn entries(version: u32) -> Vec<Entry> {
    let mut head = Head::default();
    let mut entries = Vec::new();
    for line in golden(version).0.lines() {
        let entry = Entry::from_line(line).unwrap();
        assert!(!matches!(entry.event, Event::Unknown(_)), "{line}");
        assert!(entry.follows(head), "{line}");
        assert_eq!((entry.version, entry.to_line().as_str()), (version, line));
        head = entry.head();
        entries.push(entry);
    }
    entries
}

/// The state is the one that was written down with the log.
fn folds_as_before(version: u32) {
    let state = State::fold(&entries(version));
    let found = json!({"fold_version": FOLD_VERSION, "state": state});
    let expected: Value = serde_json::from_str(golden(version).1).unwrap();
    assert_eq!(found, expected, "the fold is another: see the top of this file");
}

#[test]
fn version_0_is_read() {
    folds_as_before(0);
}

#[test]
fn version_1_is_read() {
    folds_as_before(1);
}

/// The columns `turn` and `round` are those of the fold, in logs of every version.
#[test]
fn turn_and_round_are_what_the_fold_says() {
    for version in 0..=FORMAT_VERSION {
        let mut state = State::default();
        for entry in entries(version) {
            let place = (entry.turn, entry.round);
            assert_eq!(place, state.place(&entry.event), "{version} {}", entry.seq);
            state.apply(&entry);
        }
    }
}

#[test]
fn the_newest_log_has_every_kind() {
    let entries = entries(FORMAT_VERSION);
    let kinds: BTreeSet<&str> = entries.iter().map(|entry| entry.event.kind()).collect();
    assert_eq!(kinds, Event::KINDS.iter().copied().collect());
}

/// What a newer version wrote is kept to the byte, and folds to nothing.
#[test]
fn what_is_newer_is_kept() {
    let lines = [
        r#"{"seq":1,"at_ms":7,"turn":0,"round":0,"kind":"SomethingNew","v":1,"hash":"HASH","body":{"a":1.50}}"#,
        r#"{"seq":2,"at_ms":7,"turn":0,"round":0,"kind":"TurnEnded","v":2,"hash":"HASH","body":{"stop":"end"}}"#,
        r#"{"seq":3,"at_ms":7,"turn":0,"round":0,"kind":"TurnEnded","v":1,"hash":"HASH","body":{"stop":"bored"}}"#,
    ];
    let mut state = State::default();
    for line in lines {
        let line = line.replace("HASH", &"0".repeat(64));
        let entry = Entry::from_line(&line).unwrap();
        assert!(matches!(entry.event, Event::Unknown(_)), "{line}");
        assert_eq!(entry.to_line(), line);
        state.apply(&entry);
        let head = entry.head();
        assert_eq!(state, State { head, at_ms: 7, ..State::default() });
    }
}

/// A snapshot of which any byte is another one is none, and the log is folded in its place.
#[test]
fn a_damaged_snapshot_is_none() {
    let state = State::fold(&entries(1));
    let Written { rest, new, pieces } = snapshot::write(&state, Pieces::default(), 150).unwrap();
    let read = |rest: &[u8], new: &[Vec<u8>]| {
        let mut reading = Reading::begin(FOLD_VERSION, state.head, rest)?;
        new.iter().try_for_each(|piece| reading.add(piece))?;
        reading.finish()
    };
    let is_small = |text: &[u8]| text.len() < 10_000;
    assert!(new.len() > 1 && new.iter().all(|piece| is_small(piece)) && is_small(&rest));
    assert_eq!(read(&rest, &new), Some((state.clone(), pieces)));

    for at in 0..rest.len() {
        let mut damaged = rest.clone();
        damaged[at] ^= 1;
        assert_eq!(read(&damaged, &new), None, "byte {at} of the rest");
    }
    for (piece, at) in new.iter().enumerate().flat_map(|(n, p)| (0..p.len()).map(move |at| (n, at)))
    {
        let mut damaged = new.clone();
        damaged[piece][at] ^= 1;
        assert_eq!(read(&rest, &damaged), None, "byte {at} of piece {piece}");
    }
}
