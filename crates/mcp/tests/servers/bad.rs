//! Servers that print logs, answer another question, send without end, hang and die.

use std::{sync::Arc, time::Duration};

use inspan_core::{
    blobs::Blobs,
    effects::{Effects, Repeat},
    message::{Content, ToolResult},
    tool::ToolError,
};
use inspan_engine::tools::Progress;
use inspan_mcp::{Declared, Grade, Protocol, Report, Timeouts};
use serde_json::json;

use crate::world::{Tools, World, call, pictures};

const READS: Declared = Declared { effects: Effects::NONE, repeat: Repeat::Pure };

#[tokio::test]
async fn a_server_is_started_at_its_first_use_and_its_catalogue_kept() {
    let world = World::new();
    let config = world.bad(&[]);
    let tools = world.tools(&config).await;
    assert_eq!(tools.text("bad_echo", json!({ "text": "hello" })).await, "hello");
    world.servers.close().await;
    let before = world.journal();
    assert_eq!(before, ["greeted", "echo null"]);

    let later = world.later();
    let offer = later.offer(&[config], None).await.unwrap();
    let tools = Tools(offer.tools);
    assert_eq!(tools.names().len(), 19);
    assert_eq!(world.journal(), before);
    assert_eq!(tools.text("bad_echo", json!({ "text": "again" })).await, "again");
    later.close().await;
    assert_eq!(world.journal()[2..], ["greeted", "echo null"]);
}

#[tokio::test]
async fn revisions_are_found_out_and_remembered() {
    for habit in ["silent", "exits"] {
        let timeouts = Timeouts { discover_ms_max: 1_000, ..Timeouts::default() };
        let world = World::with(timeouts);
        let config = world.bad(&[habit]);
        let tools = world.tools(&config).await;
        assert_eq!(tools.text("bad_echo", json!({ "text": habit })).await, habit);
        world.servers.close().await;

        // It is greeted the older way at once: a deaf wait would end this.
        let later = world.later();
        let offer = later.offer(std::slice::from_ref(&config), None).await.unwrap();
        let started = Tools(offer.tools).text("bad_echo", json!({ "text": "x" })).await;
        assert_eq!((started.as_str(), world.journal().len()), ("x", 4), "{habit}");

        let modern = inspan_mcp::ServerConfig { protocol: Protocol::Modern, ..config };
        let world = World::with(Timeouts { start_ms_max: 1_000, ..timeouts });
        let why = world.notice(&modern).await;
        assert!(why.starts_with("the MCP server `bad` is left out: it "), "{why}");
    }
}

#[tokio::test]
async fn what_is_no_message_is_counted_and_named() {
    let world = World::new();
    let report = world.servers.examine(&world.bad(&["chatty"])).await;
    let faults = ["2 lines on its output are no messages, as: Server listening on stdio"];
    assert_eq!((report.grade, report.faults), (Grade::Fair, faults.map(str::to_owned).to_vec()));
}

#[tokio::test]
async fn a_server_that_can_not_be_used_is_left_out_with_its_last_words() {
    let timeouts = Timeouts { start_ms_max: 3_000, discover_ms_max: 1_000 };
    let world = World::with(timeouts);
    let table = [
        (world.bad(&["deaf"]), "it did not answer in time, nor the older way".to_owned()),
        (
            world.bad(&["wrong_id"]),
            "it answered another question than the one that it was asked".to_owned(),
        ),
        (
            world.program("bad", &["sh", "-c", "echo no such module >&2; exit 4"]),
            "it ended the connection before it answered: it ended with exit status 4; it last \
             said:\nno such module"
                .to_owned(),
        ),
        (
            world.program("bad", &["/nowhere/server"]),
            "`/nowhere/server` can't be started: No such file or directory (os error 2)".to_owned(),
        ),
    ];
    for (config, why) in table {
        let notice = world.notice(&config).await;
        assert_eq!(notice, format!("the MCP server `bad` is left out: {why}"));
    }
    let notice = world.notice(&world.bad(&["no_list"])).await;
    let why = "it refused to list its tools: unknown method (error -32601)";
    assert_eq!(notice, format!("the MCP server `bad` is left out: {why}"));
}

#[tokio::test]
async fn a_call_in_which_the_server_dies_fails_and_the_next_one_starts_it_again() {
    let world = World::new();
    let tools = world.tools(&world.bad(&["child"])).await;
    let doubt = ". Whether it was done is not known: look before you try again";
    let why = "the MCP server `bad` was lost in the middle of the call: the connection ended: it \
               ended with exit status 3; it last said:\nout of memory";
    assert_eq!(tools.error("bad_die").await, format!("{why}{doubt}"));
    assert_eq!(tools.text("bad_echo", json!({ "text": "back" })).await, "back");
    let huge = "the MCP server `bad` was lost in the middle of the call: the connection ended: it \
                sent a message of more than 16777216 bytes";
    assert_eq!(tools.error("bad_huge").await, format!("{huge}{doubt}"));
    assert_eq!(tools.text("bad_echo", json!({ "text": "back" })).await, "back");
}

#[tokio::test]
async fn only_reads_are_tried_again() {
    let world = World::new();
    let mut config = world.bad(&[]);
    let once = world.tools(&config).await.error("bad_die_once").await;
    assert!(once.contains("lost in the middle of the call"), "{once}");
    world.servers.close().await;
    std::fs::remove_file(world.folder.path().join("died")).unwrap();
    std::fs::remove_file(world.folder.path().join("journal")).unwrap();

    config.effects.insert("die_once".to_owned(), READS);
    config.ask.insert("die".to_owned(), "it dies".to_owned());
    let later = world.later();
    let offer = later.offer(&[config], None).await.unwrap();
    assert_eq!(offer.asks, [("bad_die".to_owned(), "it dies".to_owned())].into());
    let tools = Tools(offer.tools);
    assert_eq!(tools.text("bad_die_once", json!({})).await, "alive");
    assert_eq!(world.journal(), ["greeted", "die_once null", "greeted", "die_once null"]);
}

#[tokio::test]
async fn what_tools_give_is_read_piece_by_piece() {
    let world = World::new();
    let blobs: Arc<dyn Blobs> = Arc::new(inspan_store::Memory::default());
    let offer = world.servers.offer(&[world.bad(&[])], Some(&pictures(blobs.clone()))).await;
    let tools = Tools(offer.unwrap().tools);

    let result = tools.run("bad_picture", json!({})).await.unwrap();
    let [Content::Image(image), Content::Text { text }] = &result.content[..] else {
        panic!("{result:?}")
    };
    assert_eq!(text, "[a sound (audio/wav): 3 bytes that can't be shown]");
    assert_eq!(image.media_type, "image/png");
    let kept = blobs.get(&image.hash).await.unwrap().unwrap();
    assert_eq!(kept.len() as u64, image.size_bytes);

    let result = tools.run("bad_pieces", json!({})).await.unwrap();
    let texts = ["file:///a:\ninside", "[b, at file:///b: more]", r#"{"type":"video","frames":3}"#];
    let expected = ToolResult {
        content: texts.map(Content::text).to_vec(),
        evidence: Some(json!({ "revision": 7 })),
        ..ToolResult::default()
    };
    assert_eq!(result, expected);
    let failed = tools.run("bad_failing", json!({})).await;
    assert_eq!(failed, Err(ToolError::new("no such city")));
    let refused = "the MCP server `bad` refused the call: no such tool (error -32602)";
    assert_eq!(tools.error("bad_refused").await, refused);
    assert_eq!(tools.run("bad_odd", json!({})).await, Ok(ToolResult::default()));
}

#[tokio::test]
async fn a_keyed_call_carries_its_key_and_a_dropped_one_is_cancelled() {
    let world = World::new();
    let mut config = world.bad(&[]);
    config.effects.insert("echo".to_owned(), Declared { repeat: Repeat::Keyed, ..READS });
    let tools = world.tools(&config).await;
    tools.text("bad_echo", json!({})).await;
    let hang = tools.run("bad_hang", json!({}));
    assert!(tokio::time::timeout(Duration::from_millis(500), hang).await.is_err());
    assert_eq!(tools.text("bad_echo", json!({ "text": "on" })).await, "on");
    world.servers.close().await;
    let mut told = world.journal();
    // The last two have no order between them.
    told[3..].sort();
    let echo = "echo \"s-1/3/0\"";
    assert_eq!(told, ["greeted", echo, "hang null", echo, "told that nobody waits"]);
}

#[tokio::test]
async fn progress_is_told_and_a_late_answer_is_nobodys() {
    let world = World::new();
    let tools = world.tools(&world.bad(&[])).await;
    let progress = Progress::default();
    let mut invocation = call(json!({}));
    invocation.shared.insert(progress.clone());
    let before = progress.made_at();
    let result = tools.get("bad_working").run(invocation).await;
    assert_eq!(result, Ok(ToolResult::text("worked")));
    assert!(progress.made_at() - before >= Duration::from_millis(700));

    let late = tools.run("bad_late", json!({}));
    assert!(tokio::time::timeout(Duration::from_millis(300), late).await.is_err());
    assert_eq!(tools.text("bad_echo", json!({ "text": "mine" })).await, "mine");
}

#[tokio::test]
async fn odd_tools_are_set_aside_and_the_rest_goes_on() {
    let world = World::new();
    let report = world.servers.examine(&world.bad(&["odd_tools"])).await;
    let Report { grade, title, revision, tools, faults, .. } = report;
    assert_eq!((grade, title.as_str(), revision.as_str()), (Grade::Fair, "bad 1", "2025-11-25"));
    assert_eq!(tools.len(), 21);
    let long = "names.with.dots/and 🦀 ".to_owned() + &"x".repeat(200);
    let long: String = long.chars().take(80).collect();
    let alias = tools.iter().find(|(name, _)| name.starts_with("bad_names")).unwrap();
    assert_eq!(alias.0.len(), 64);
    let expected = [
        format!("the name `{long}` is none that every model takes: it is `{}` here", alias.0),
        "`a tool` is left out: it has no name".to_owned(),
        "`no_schema` is left out: its schema is no object".to_owned(),
    ];
    assert_eq!(faults[..3], expected);
    assert!(faults[3].starts_with("`outside` is left out: its schema is wrong: "), "{faults:?}");
    assert_eq!(faults.len(), 4);
}

#[tokio::test]
async fn a_list_that_changed_is_read_again_once() {
    let world = World::new();
    let configs = [world.bad(&[])];
    let tools = world.tools(&configs[0]).await;
    let before = world.servers.changes(&configs).await;
    assert_eq!(tools.text("bad_grow", json!({})).await, "grown");
    let after = world.servers.changes(&configs).await;
    assert_ne!(after, before);
    assert_eq!(world.servers.changes(&configs).await, after);
    let grown = world.tools(&configs[0]).await;
    assert_eq!(grown.names().len(), tools.names().len() + 1);
    grown.get("bad_grown");
}

#[tokio::test]
async fn a_server_that_does_not_end_is_made_to() {
    let world = World::new();
    let report = world.servers.examine(&world.bad(&["stubborn"])).await;
    let why = "it ended neither with its input nor on a signal, and was killed".to_owned();
    assert_eq!((report.grade, report.faults), (Grade::Fair, vec![why]));
}

#[tokio::test]
async fn what_a_dropped_server_started_goes_with_it() {
    let world = World::new();
    let script = "sleep 600 & echo $! > pid; exec python3 \"$0\"";
    let server = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/bad.py");
    let config = world.program("bad", &["sh", "-c", script, server]);
    for orderly in [true, false] {
        let servers = world.later();
        let offer = servers.offer(std::slice::from_ref(&config), None).await.unwrap();
        let tools = Tools(offer.tools);
        tools.text("bad_echo", json!({})).await;
        let pid = std::fs::read_to_string(world.folder.path().join("pid")).unwrap();
        if orderly {
            servers.close().await;
        }
        drop((servers, tools));
        while crate::world::runs(pid.trim()) {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn a_look_finds_silence_and_what_is_left() {
    let world = World::new();
    let silent = world.servers.examine(&world.bad(&["once"])).await;
    let why = "it did not answer in 5 s when it was asked for its tools once more".to_owned();
    assert_eq!((silent.grade, silent.faults), (Grade::Fair, vec![why]));
    let messy = world.servers.examine(&world.bad(&["messy"])).await;
    let why = "when it ended, it left processes of its own (1), which were ended, too".to_owned();
    assert_eq!((messy.grade, messy.faults), (Grade::Fair, vec![why]));
}

#[tokio::test]
async fn of_very_many_tools_the_first_are_taken() {
    let world = World::new();
    let offer = world.servers.offer(&[world.bad(&["many"])], None).await.unwrap();
    assert_eq!(offer.tools.len(), 1_000);
    let why =
        "`9019 or more tools` of the MCP server `bad` is left out: there are more than 1000 tools";
    assert_eq!(offer.notices, [why]);
}

/// It is a text for the model, of a length that it can bear, and a person is asked when it changes.
#[tokio::test]
async fn an_order_in_a_description_is_only_a_description() {
    let world = World::new();
    let tools = world.tools(&world.bad(&["orders"])).await;
    let spec = tools.get("bad_echo").spec();
    assert!(spec.description.ends_with('x') && spec.description.contains("call `die`"));
    assert_eq!(spec.description.chars().count(), 8_192);
    assert_eq!((spec.effects, spec.repeat), (Effects::default(), Repeat::Once));
    assert_eq!(world.journal(), ["greeted"]);
}
