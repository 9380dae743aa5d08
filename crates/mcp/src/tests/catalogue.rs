use std::path::PathBuf;

use super::*;
use crate::config::{Link, ProgramLink, Protocol};

fn config(effects: &[(&str, Declared)]) -> ServerConfig {
    ServerConfig {
        name: "files".to_owned(),
        link: Link::Program(ProgramLink {
            argv: Vec::new(),
            folder: PathBuf::new(),
            env: Default::default(),
            environment: Vec::new(),
        }),
        protocol: Protocol::Auto,
        include: None,
        exclude: Vec::new(),
        timeout_ms_max: 1_000,
        ask: Default::default(),
        effects: effects.iter().map(|(name, declared)| ((*name).to_owned(), *declared)).collect(),
    }
}

fn tool(hints: Hints) -> Offered {
    let schema = json!({ "type": "object" });
    Offered { name: "read".to_owned(), description: "Reads.".to_owned(), schema, hints }
}

#[test]
fn names_are_the_same_for_ever_and_fit_every_provider() {
    assert_eq!(alias("files", "read_file"), "files_read_file");
    let long = alias("files", &"x".repeat(200));
    assert_eq!((long.len(), long), (64, format!("files_{}_2958aeae", "x".repeat(49))));
    let dotted = alias("files", "issues.list");
    assert_eq!(dotted, "files_issues_list_84b48479");
    assert_ne!(alias("files", "issues/list"), dotted);
    assert_eq!(alias("files", "🦀"), "files_fe30f5d5");
}

#[test]
fn hints_only_make_a_tool_look_worse() {
    let none = Declared { effects: Effects::NONE, repeat: Repeat::Pure };
    let worst = Declared { effects: Effects::default(), repeat: Repeat::Once };
    let harmless = Hints {
        read_only: Some(true),
        destructive: Some(false),
        idempotent: Some(true),
        open_world: Some(false),
    };
    let harmful = Hints {
        read_only: Some(false),
        destructive: Some(true),
        idempotent: Some(false),
        open_world: Some(true),
    };
    let all = Effects {
        writes: true,
        destroys: true,
        sends: true,
        reads_untrusted: true,
        ..Effects::NONE
    };
    let writes = Effects { writes: true, ..Effects::NONE };
    let open = Hints { open_world: Some(true), ..Hints::default() };
    let reads = Effects { reads_untrusted: true, ..Effects::NONE };
    let again = Hints { read_only: Some(false), idempotent: Some(true), ..Hints::default() };
    let table = [
        (vec![], harmless, worst),
        (vec![], harmful, worst),
        (vec![("read", none)], harmful, none),
        (vec![("other", none)], harmless, worst),
        (vec![("*", none)], harmless, none),
        (vec![("*", none)], Hints::default(), none),
        (vec![("*", none)], open, Declared { effects: reads, ..none }),
        (vec![("*", none)], again, Declared { effects: writes, ..none }),
        (vec![("*", none)], harmful, Declared { effects: all, repeat: Repeat::Once }),
        (vec![("*", none), ("read", worst)], harmless, worst),
    ];
    for (effects, hints, expected) in table {
        assert_eq!(declared(&config(&effects), &tool(hints)), expected, "{effects:?} {hints:?}");
    }
}

#[test]
fn a_list_of_any_length_is_cut() {
    let page = |from: usize| {
        let tools: Vec<_> =
            (from..from + 600).map(|n| json!({ "name": format!("t{n:05}") })).collect();
        json!({ "tools": tools })
    };
    let mut catalogue = Catalogue::default();
    assert_eq!(catalogue.take(&page(0)), Ok(true));
    assert_eq!(catalogue.take(&page(600)), Ok(false));
    assert_eq!(catalogue.tools.len(), TOOLS_MAX);
    let left = ("200 or more tools".to_owned(), "there are more than 1000 tools".to_owned());
    assert_eq!(catalogue.set_aside, [left]);
    let wrong = "its answer to `tools/list` has no list of tools".to_owned();
    assert_eq!(catalogue.take(&json!({ "tools": {} })), Err(wrong));
}

#[test]
fn names_of_the_configuration_that_are_no_tools_are_told() {
    let mut config = config(&[]);
    config.include = Some(vec!["read".to_owned(), "raed".to_owned()]);
    config.exclude = vec!["aside".to_owned(), "wirte".to_owned()];
    let catalogue = Catalogue {
        tools: vec![tool(Hints::default())],
        set_aside: vec![("aside".to_owned(), String::new())],
    };
    let unknown: Vec<_> = unknown_names(&config, &catalogue).into_iter().collect();
    assert_eq!(unknown, ["raed", "wirte"]);
    assert!(config.offers("read") && !config.offers("write") && !config.offers("aside"));
}
