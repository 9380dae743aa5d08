//! Servers of tools, as people meet them: configured, listed, looked at, used in a run.

use std::{fs, process::Command};

use inspan_testkit::server::Server;
use serde_json::Value;

use crate::{
    model::{calls, says},
    world::{World, text},
};

/// A server with one tool, which greets with its token and writes down who started it.
const SERVER: &str = r#"
import json, os, sys
print("ready", flush=True)
for line in sys.stdin:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    def say(result):
        print(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}), flush=True)
    if method == "initialize":
        say({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
             "serverInfo": {"name": "greeter", "version": "1.2"}})
    elif method == "tools/list":
        say({"tools": [{"name": "greet", "description": "Greets.", "inputSchema": {
            "type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}}]})
    elif method == "tools/call":
        with open("pid", "w") as file:
            file.write(str(os.getpid()))
        name = message["params"]["arguments"]["name"]
        if name == "nobody":
            continue
        say({"content": [{"type": "text", "text": f"Hello {name}, {os.environ['GREETER_KEY']}!"}]})
    elif id is not None:
        print(json.dumps({"jsonrpc": "2.0", "id": id,
                          "error": {"code": -32601, "message": "unknown"}}), flush=True)
"#;

const AGENT: &str = "\
name: greeter
model: anthropic://claude-scripted
mcpServers:
  greeter:
    command: python3
    args: [server.py]
    env: { GREETER_KEY: '${GREETER_TOKEN}' }
    effects: { greet: [] }
";

fn world(server: &Server) -> World {
    World::at(server)
        .with_agent(AGENT)
        .with_file("server.py", SERVER)
        .with("GREETER_TOKEN", "grt-1234567890")
}

#[test]
fn a_tool_of_a_server_is_used_in_a_run_which_can_be_replayed() {
    let server =
        Server::start([calls("greeter_greet", r#"{"name":"Ada"}"#), says("It greeted Ada.")]);
    let world = world(&server);
    let ran = world.run("Greet Ada.", &["--record", "recorded.jsonl"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "It greeted Ada.\n"), "{}", ran.err);
    let log = world.log(ran.id());
    let finished = log.iter().find(|entry| entry["kind"] == "ToolFinished").unwrap();
    // The variable that the server was given is known to be a secret.
    assert_eq!(finished["body"]["result"]["content"][0]["text"], "Hello Ada, [masked]!");
    assert!(!ran.err.contains("grt-1234567890"), "{}", ran.err);

    let replayed = world.run("Greet Ada.", &["--replay", "recorded.jsonl", "--strict"]);
    assert_eq!(
        (replayed.code, replayed.out.as_str()),
        (0, "It greeted Ada.\n"),
        "{}",
        replayed.err
    );
}

#[test]
fn servers_are_listed_and_looked_at() {
    let server = Server::start([]);
    let world = world(&server).with_config("mcpServers: { gone: { command: no-such-server } }");
    let listed = world.inspan(&["mcp", "list", "--agent", "../agent"]);
    let expected = "\
gone  no-such-server
  ! the MCP server `gone` is left out: it ended the connection before it answered: it ended with exit \
         status 127; it last said:
error: `no-such-server` can't be started: No such file or directory (os error 2)
greeter  python3 server.py
  greeter_greet                             none; pure
";
    assert_eq!((listed.code, listed.out.as_str()), (0, expected), "{}", listed.err);

    let looked = world.inspan(&["mcp", "doctor", "greeter", "--agent", "../agent", "--json"]);
    assert_eq!(looked.code, 0, "{}", looked.err);
    let report = looked.done();
    assert_eq!(text(&report["grade"]), "fair");
    assert_eq!(text(&report["revision"]), "2025-06-18");
    assert_eq!(text(&report["faults"][0]), "1 lines on its output are no messages, as: ready");
    let bad = world.inspan(&["mcp", "doctor", "gone"]);
    assert_eq!(bad.code, 1, "{}", bad.err);
    let unknown = world.inspan(&["mcp", "doctor", "gnoe"]);
    let why = "error: no MCP server is called `gnoe`; did you mean `gone`?\n";
    assert_eq!((unknown.code, unknown.err.as_str()), (2, why));
}

#[test]
fn a_person_can_be_asked_before_a_call() {
    let server = Server::start([calls("greeter_greet", r#"{"name":"Ada"}"#), says("It may not.")]);
    let agent = AGENT.replace("    effects:", "    ask: { '*': it greets }\n    effects:");
    let world = world(&server).with_agent(&agent);
    let ran = world.run("Greet Ada.", &[]);
    assert_eq!((ran.code, ran.out.as_str()), (3, "It may not.\n"), "{}", ran.err);
    assert!(!world.path("agent/pid").exists());
}

/// The kernel ends a server with the process that wanted it; elsewhere the next start does.
#[cfg(target_os = "linux")]
#[test]
fn a_killed_run_leaves_no_server() {
    let server = Server::start([calls("greeter_greet", r#"{"name":"nobody"}"#)]);
    let world = world(&server);
    let mut running = world.start("Greet nobody.", &[]);
    running.read_entry("ToolStarted");
    let pid = loop {
        match fs::read_to_string(world.path("agent/pid")) {
            Ok(pid) if !pid.is_empty() => break pid,
            _ => std::thread::yield_now(),
        }
    };
    running.kill();
    let runs = || {
        let state = Command::new("ps").args(["-o", "stat=", "-p", &pid]).output().expect("ps");
        let state = String::from_utf8_lossy(&state.stdout).into_owned();
        !state.is_empty() && !state.starts_with('Z')
    };
    while runs() {
        std::thread::yield_now();
    }
}

#[test]
fn a_json_list_is_one_line_a_server() {
    let server = Server::start([]);
    let listed = world(&server).inspan(&["mcp", "list", "--agent", "../agent", "--json"]);
    let lines: Vec<Value> = listed.lines();
    assert_eq!((listed.code, lines.len()), (0, 1), "{}", listed.err);
    assert_eq!(lines[0]["tools"][0]["name"], "greeter_greet");
    assert_eq!(lines[0]["tools"][0]["repeat"], "pure");
}
