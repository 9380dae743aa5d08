//! Both wires: text, tools, several rounds, requests that only grow, and keys that are nowhere.

use std::path::PathBuf;

use inspan_testkit::server::{Answer, Received, Said, Server};

use crate::{
    model::{Wire, fine, messages},
    world::{CANARY, World, found_in},
};

/// Two calls, one call, an answer.
fn three_rounds(wire: Wire) -> Server {
    Server::start([
        wire.says(&[
            Said::reasoning("Two at once."),
            Said::text("I'll ask."),
            Said::call("toolu_1", "echo", r#"{"text":"one"}"#),
            Said::call("toolu_2", "echo", r#"{"text":"two"}"#),
        ]),
        wire.says(&[Said::call("toolu_3", "echo", r#"{"text":"three"}"#)]),
        wire.says(&[Said::text("All three.")]),
        wire.says(&[Said::text("Fine.")]),
    ])
}

/// Each request begins as the one before it did, up to its last message, with which the bytes of
/// `messages` end. Marks for the provider's cache are no part of it.
fn only_grows(requests: &[Received]) {
    let bodies: Vec<String> = requests
        .iter()
        .map(|r| r.text().replace(r#","cache_control":{"type":"ephemeral"}"#, ""))
        .collect();
    for pair in bodies.windows(2) {
        let before = pair[0].strip_suffix("]}").expect("messages are the last field");
        assert!(pair[1].starts_with(before), "{}\n{}", pair[0], pair[1]);
    }
}

#[test]
fn several_rounds_with_tools() {
    for wire in Wire::BOTH {
        let server = three_rounds(wire);
        let world = World::at(&server);
        let model = ["--model", wire.model()];
        let ran = world.run("Echo three.", &model);
        assert_eq!((ran.code, ran.out.as_str()), (0, "All three.\n"), "{}", ran.err);
        assert_eq!(
            world.plain(&ran.err),
            "\
session ID
I'll ask.
  ✓ echo {\"text\":\"one\"}  one  ok TIME
  ✓ echo {\"text\":\"two\"}  two  ok TIME
  ✓ echo {\"text\":\"three\"}  three  ok TIME
All three.
end · 3 rounds · 3 calls · 30 in + 15 out tokens · TIME
",
            "{wire:?}"
        );
        world.goes_on(ran.id());
        let requests = server.received();
        assert_eq!(requests.len(), 4);
        only_grows(&requests);
    }
}

#[test]
fn results_go_back_as_each_wire_takes_them() {
    for wire in Wire::BOTH {
        let server = three_rounds(wire);
        let world = World::at(&server);
        world.run("Echo three.", &["--model", wire.model()]);
        let requests = server.received();
        let head = [&requests[0].method, &requests[0].path];
        let sent = messages(&requests[1]);
        match wire {
            Wire::Anthropic => {
                assert_eq!(head, ["POST", "/v1/messages"]);
                assert_eq!(requests[0].header("x-api-key"), Some(CANARY));
                let results: Vec<_> = [&sent[2]["content"][0], &sent[2]["content"][1]]
                    .map(|r| (r["tool_use_id"].clone(), r["content"].to_string()))
                    .into();
                assert!(results[0].1.contains("one") && results[1].1.contains("two"), "{sent:?}");
                assert_eq!(results[0].0, sent[1]["content"][2]["id"]);
                assert_eq!(sent[1]["content"][0]["signature"], "c2lnbmVk");
            }
            Wire::OpenAi => {
                assert_eq!(head, ["POST", "/v1/chat/completions"]);
                let bearer = format!("Bearer {CANARY}");
                assert_eq!(requests[0].header("authorization"), Some(bearer.as_str()));
                let results: Vec<_> =
                    sent.iter().filter(|message| message["role"] == "tool").collect();
                assert_eq!(results.len(), 2);
                assert!(results[0]["content"].to_string().contains("one"), "{results:?}");
                let calls = sent.iter().find(|message| message["role"] == "assistant");
                let calls = &calls.expect("a reply")["tool_calls"];
                assert_eq!(results[1]["tool_call_id"], calls[1]["id"]);
            }
        }
    }
}

#[test]
fn the_bytes_of_the_wire_are_shown_with_the_key_masked() {
    for wire in Wire::BOTH {
        let server = Server::start([wire.says(&[Said::text("Fine.")])]);
        let world = World::at(&server);
        let ran = world.run("Hello", &["--raw", "--model", wire.model()]);
        assert_eq!((ran.code, ran.out.as_str()), (0, "Fine.\n"), "{}", ran.err);
        let request = &server.received()[0];
        let sent = format!("> {}\n", request.text());
        assert!(ran.err.contains(&sent), "{}", ran.err);
        let line = format!("> POST {}{}\n", server.url(), request.path);
        assert!(ran.err.contains(&line), "{}", ran.err);
        assert!(ran.err.contains("< 200\n") && ran.err.contains("< data: {"), "{}", ran.err);
        assert!(ran.err.contains("[masked]") && !ran.err.contains(CANARY), "{}", ran.err);
    }
}

/// A tool that prints everything it can get at, the environment of its parent included.
const PRYING: &str = "\
name: prying
model: anthropic://claude-scripted
tools:
  pry:
    description: Prints environments.
    command: [sh, pry.sh]
    repeat: pure
    effects: []
";

const PRY: &str = "env | sort; tr '\\0' '\\n' <\"/proc/$PPID/environ\" | sort | tee /dev/stderr";

#[test]
fn the_key_is_found_nowhere() {
    for wire in Wire::BOTH {
        let round = || {
            [
                wire.says(&[Said::call("toolu_1", "pry", "{}")]),
                Answer::new(401, "text/plain", format!("{CANARY} is no key")),
            ]
        };
        let server = Server::start(round().into_iter().chain(round()));
        let world = World::at(&server).with_agent(PRYING).with_file("pry.sh", PRY);
        let flags = ["--model", wire.model(), "--record", "recorded.jsonl", "--raw"];
        for more in [&flags[..], &[&flags[..], &["--json"]].concat()] {
            let ran = world.run("Hello", more);
            assert_eq!(ran.code, 5, "{}", ran.err);
            let said = [&ran.out, &ran.err, &world.inspan(&["show", ran.id()]).out].map(|text| {
                assert!(!text.contains(CANARY), "{text}");
                text.contains("[masked] is no key")
            });
            assert!(said[1] && said[2], "{}", ran.err);
        }
        assert_eq!(found_in(&world.path(""), CANARY.as_bytes()), Vec::<PathBuf>::new());

        let sent = messages(&server.received()[1]).pop().unwrap_or_default().to_string();
        // The tool's own environment ends with its time zone; that of its parent follows.
        let (own, parents) = sent.split_once("TZ=UTC").expect("the tool's own environment");
        assert!(!sent.contains(CANARY), "{sent}");
        if cfg!(target_os = "linux") {
            assert!(parents.contains("API_KEY=[masked]"), "{sent}");
        }
        for name in ["API_KEY", "BASE_URL"] {
            assert!(!own.contains(name), "{own}");
        }
        for name in ["INSPAN_WORKDIR=", "INSPAN_SESSION=", "PATH="] {
            assert!(own.contains(name), "{own}");
        }
    }
}

/// What a model says is kept as it came, and masked wherever it is shown.
#[test]
fn a_model_that_knows_the_key_shows_it_to_nobody() {
    for wire in Wire::BOTH {
        let server = Server::start([wire.says(&[Said::text(format!("It is {CANARY}, I think."))])]);
        let world = World::at(&server);
        let flags = ["--model", wire.model(), "--record", "recorded.jsonl", "--raw"];
        let ran = world.run("Hello", &flags);
        assert_eq!((ran.code, ran.out.as_str()), (0, "It is [masked], I think.\n"), "{}", ran.err);
        let shown = ["show", "verify"].map(|command| world.inspan(&[command, ran.id()]).out);
        let shown = shown.concat() + &world.inspan(&["show", "--json", ran.id()]).out + &ran.err;
        assert!(shown.contains("[masked]") && !shown.contains(CANARY), "{shown}");
        assert_eq!(found_in(&world.work(), CANARY.as_bytes()), Vec::<PathBuf>::new());
    }
}

#[test]
fn a_session_changes_to_the_other_wire_in_the_middle() {
    let server = Server::start([
        Wire::Anthropic.says(&[
            Said::reasoning("Signed by Anthropic."),
            Said::call("toolu_1", "echo", r#"{"text":"one"}"#),
        ]),
        Wire::Anthropic.says(&[Said::text("One.")]),
        Wire::OpenAi.says(&[Said::reasoning("By another."), Said::text("Two.")]),
        fine(),
    ]);
    let world = World::at(&server);
    let first = world.run("Echo one.", &[]);
    assert_eq!((first.code, first.out.as_str()), (0, "One.\n"), "{}", first.err);
    let id = first.id();
    let second = world.run("And two?", &["--session", id, "--model", Wire::OpenAi.model()]);
    assert_eq!((second.code, second.out.as_str()), (0, "Two.\n"), "{}", second.err);
    let back = world.run("go on", &["--session", id, "--model", Wire::Anthropic.model()]);
    assert_eq!((back.code, back.out.as_str()), (0, "Fine.\n"), "{}", back.err);

    let requests = server.received();
    assert!(requests[1].text().contains("Signed by Anthropic."));
    assert_eq!(requests[2].path, "/v1/chat/completions");
    for reasoning in ["Signed by Anthropic.", "c2lnbmVk"] {
        assert!(!requests[2].text().contains(reasoning), "{}", requests[2].text());
    }
    assert!(requests[3].text().contains("Signed by Anthropic."), "its own comes back");
    assert!(!requests[3].text().contains("By another."), "{}", requests[3].text());
    only_grows(&[requests[0].clone(), requests[1].clone(), requests[3].clone()]);
}

#[test]
fn a_model_behind_responses_is_asked_as_it_is_configured() {
    let server = Server::start([
        Answer::responses(&[
            Said::reasoning("Once."),
            Said::call("c1", "echo", r#"{"text":"one"}"#),
        ]),
        Answer::responses(&[Said::text("One.")]),
    ]);
    let config = "models: { 'openai-responses://gpt': { effort: low, extra: { verbosity: 0 } } }";
    let world = World::at(&server).with_config(config);
    let ran = world.run("Echo one.", &["--model", "openai-responses://gpt"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "One.\n"), "{}", ran.err);
    let requests = server.received();
    assert!(requests.iter().all(|request| request.path == "/v1/responses"));
    only_grows(&requests);
    let body = requests[1].json();
    assert_eq!(
        [&body["reasoning"], &body["verbosity"], &body["store"]],
        [
            &serde_json::json!({"effort": "low", "summary": "auto"}),
            &serde_json::json!(0),
            &serde_json::json!(false)
        ]
    );
    assert_eq!(body["input"][1]["encrypted_content"], "c2lnbmVk");
}

#[test]
fn a_tool_that_cant_be_declared_is_left_out_and_named() {
    let server = Server::start([fine()]);
    let config = "providers: { anthropic: { quirks: { tools_max: 0 } } }";
    let world = World::at(&server).with_config(config);
    let ran = world.run("Hello", &[]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let told = "the tool `echo` is left out: the server takes 0 tools at most";
    assert!(ran.err.contains(told), "{}", ran.err);
    assert_eq!(server.received()[0].json().get("tools"), None);
}
