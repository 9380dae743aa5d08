//! `inspan mcp serve`: what other programs get of an agent, and what is left in the log.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, ChildStderr, Command, Stdio},
};

use inspan_testkit::server::Server;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::{
    model::{calls, says},
    world::{Ran, World, text},
};

const SHOP: &str = "\
name: shop
model: anthropic://claude-scripted
tools:
  echo:
  order:
    description: Gives an order, and a secret of the shop.
    input: { type: object, properties: { id: { type: string } }, required: [id] }
    command: [sh, -c, 'cat; echo \" for $SHOP_KEY\"']
    effects: []
    repeat: pure
  refund: { description: Refunds., command: [touch, refunded], ask: it costs }
";

/// The messages with which a client of the older revisions begins, and these.
fn talk(messages: &[Value]) -> String {
    let client = json!({
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": { "name": "raw", "version": "1" },
    });
    let first = [
        json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": client }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
    ];
    first.iter().chain(messages).map(|message| format!("{message}\n")).collect()
}

fn call(id: u32, name: &str, arguments: &Value) -> Value {
    let params = json!({ "name": name, "arguments": arguments });
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
}

/// Runs a server to the end of what it is told. Gives the answers by their numbers.
fn serve(world: &World, flags: &[&str], messages: &[Value]) -> (Ran, Vec<Value>) {
    let mut command = world.command(&[&["mcp", "serve"], flags].concat());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the command");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(talk(messages).as_bytes()).expect("a pipe");
    drop(input);
    let ran = Ran::of(child.wait_with_output().expect("the command"));
    let mut answers = ran.lines();
    answers.sort_by_key(|answer| answer["id"].as_u64());
    (ran, answers)
}

/// What a result says, and whether it is an error.
fn said(answer: &Value) -> (String, bool) {
    let result = &answer["result"];
    (text(&result["content"][0]["text"]), result["isError"] == true)
}

#[test]
fn tools_are_called_with_the_gates_and_the_log_of_a_session() {
    let world = World::new().with_agent(SHOP).with("SHOP_KEY", "shop-key-1234567");
    let messages = [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }),
        call(2, "echo", &json!({ "text": "hi" })),
        call(3, "echo", &json!({ "text": 1 })),
        call(4, "refund", &json!({})),
        call(5, "order", &json!({ "id": "A-1" })),
    ];
    let (ran, answers) = serve(&world, &["--agent", "../agent"], &messages);
    let told = "serves 3 tools of the agent shop over standard input and output\n";
    assert_eq!((ran.code, ran.err.as_str()), (0, told));
    let tools = answers[1]["result"]["tools"].as_array().expect("a list");
    let names: Vec<String> = tools.iter().map(|tool| text(&tool["name"])).collect();
    assert_eq!(names, ["echo", "order", "refund"]);
    assert_eq!(said(&answers[2]), ("hi".to_owned(), false));
    let (why, is_error) = said(&answers[3]);
    assert!(is_error && why.contains("/text: must be a string"), "{why}");
    let (why, is_error) = said(&answers[4]);
    assert!(is_error && why.contains("nobody is there to be asked"), "{why}");
    assert!(!world.path("agent/refunded").exists() && !world.path("work/refunded").exists());
    let (order, is_error) = said(&answers[5]);
    assert!(!is_error && order.starts_with(r#"{"id":"A-1"}"#), "{order}");
    assert!(!ran.out.contains("shop-key-1234567"), "{}", ran.out);

    let session = text(&answers[2]["result"]["_meta"]["inspan/session"]);
    let shown = world.inspan(&["show", &session]);
    assert_eq!(shown.code, 0, "{}", shown.err);
    assert!(shown.out.contains("raw 1 calls echo over MCP"), "{}", shown.out);
    let verified = world.inspan(&["verify", &session]);
    assert_eq!(verified.code, 0, "{}", verified.err);
}

#[test]
fn a_whole_agent_is_one_tool_and_each_call_a_session() {
    let server = Server::start([calls("echo", r#"{"text":"hi"}"#), says("It says hi.")]);
    let world = World::at(&server);
    let messages = [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }),
        call(2, "parrot", &json!({ "prompt": "Say hi." })),
        call(3, "parrot", &json!({})),
    ];
    let flags = ["--as-agent", "--agent", "../agent"];
    let (ran, answers) = serve(&world, &flags, &messages);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(answers[1]["result"]["tools"][0]["name"], "parrot");
    assert_eq!(said(&answers[2]), ("It says hi.".to_owned(), false));
    assert_eq!(answers[3]["error"]["message"], "/prompt: say something, as text");
    let session = world.only_session();
    assert_eq!(answers[2]["result"]["_meta"]["inspan/session"], session.as_str());
    let log = world.log(&session);
    let said = log.iter().find(|entry| entry["kind"] == "PromptSubmitted").expect("a prompt");
    assert_eq!(said["body"]["content"][0]["text"], "Say hi.");
}

#[test]
fn the_servers_of_the_configuration_are_one_server() {
    let config = "\
mcpServers:
  greeter:
    command: python3
    args: [server.py]
    env: { GREETER_KEY: '${GREETER_TOKEN}' }
    ask: { greet: it greets }
  gone: { command: no-such-server }
";
    let token = "grt-1234567890";
    let world = World::new().with_config(config).with("GREETER_TOKEN", token);
    world.write("work/server.py", crate::mcp::SERVER);
    let messages = [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }),
        call(2, "greeter_greet", &json!({ "name": "Ada" })),
    ];
    let (ran, answers) = serve(&world, &[], &messages);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("the MCP server `gone` is left out"), "{}", ran.err);
    assert_eq!(answers[1]["result"]["tools"][0]["name"], "greeter_greet");
    let (why, is_error) = said(&answers[2]);
    assert!(is_error && why.contains("nobody is there to be asked"), "{why}");

    let world = world.with_config(&config.replace("    ask: { greet: it greets }\n", ""));
    let (ran, answers) = serve(&world, &[], &messages);
    assert_eq!(said(&answers[2]), ("Hello Ada, [masked]!".to_owned(), false), "{}", ran.err);
    assert!(!(ran.out + &ran.err).contains(token));
}

#[test]
fn our_own_client_uses_our_own_server() {
    let server = Server::start([calls("inner_echo", r#"{"text":"hi"}"#), says("It says hi.")]);
    let inspan = env!("CARGO_BIN_EXE_inspan");
    let world = World::at(&server);
    let home = world.path("inner-home");
    world.write(
        "agent/agent.yaml",
        &format!(
            "name: outer\nmodel: anthropic://claude-scripted\nmcpServers:\n  inner:\n    command: \
             {inspan}\n    args: [mcp, serve, --agent, {}]\n    env: {{ INSPAN_HOME: {} }}\n",
            world.path("inner").display(),
            home.display(),
        ),
    );
    std::fs::create_dir(world.path("inner")).expect("a folder");
    world.write("inner/agent.yaml", crate::world::ECHO);
    let ran = world.run("Say hi.", &[]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "It says hi.\n"), "{}", ran.err);
    let log = world.log(ran.id());
    let finished = log.iter().find(|entry| entry["kind"] == "ToolFinished").expect("a result");
    assert_eq!(finished["body"]["result"]["content"][0]["text"], "hi");
    let mut inner = world.command(&["sessions", "--json"]);
    let listed = Ran::of(inner.env("INSPAN_HOME", home).output().expect("the command"));
    assert!(listed.out.contains("calls echo over MCP"), "{}", listed.out);
}

#[test]
fn what_a_killed_server_left_open_is_closed_by_resume() {
    let agent = "name: slow\ntools:\n  wait: { description: Waits., command: [cat, pipe] }\n";
    let world = World::new().with_agent(agent);
    let pipe = world.pipe("pipe");
    let mut child = start(&world, &["--agent", "../agent"], &[]);
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(talk(&[call(1, "wait", &json!({}))]).as_bytes()).expect("a pipe");
    // It opens the other end when it runs.
    let held = std::fs::File::options().write(true).open(pipe).expect("a pipe");
    child.kill().expect("a process");
    child.wait().expect("a process");
    drop((held, input));
    let session = world.only_session();
    let ran = world.inspan(&["resume", &session]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let log = world.log(&session);
    let finished = log.iter().find(|entry| entry["kind"] == "ToolFinished").expect("a result");
    assert_eq!(finished["body"]["how"], "unknown");
}

fn start(world: &World, flags: &[&str], more: &[(&str, &str)]) -> Child {
    let mut command: Command = world.command(&[&["mcp", "serve"], flags].concat());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.envs(more.iter().copied()).spawn().expect("the command")
}

/// A server over HTTP, which tells where it is. Gives what else it says on standard error.
fn online(world: &World, token: &str) -> (Child, String, BufReader<ChildStderr>) {
    let flags = ["--agent", "../agent", "--http", "127.0.0.1:0"];
    let mut child = start(world, &flags, &[("INSPAN_MCP_TOKEN", token)]);
    let mut lines = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut line = String::new();
    lines.read_line(&mut line).expect("a line");
    let url = line.trim().split_once(" at ").expect(&line).1.to_owned();
    (child, url, lines)
}

#[test]
fn over_http_it_wants_the_token_and_ends_in_order() {
    let world = World::new();
    let token = "mcp-token-0123456789";
    let (mut child, url, mut lines) = online(&world, token);
    let address = url.strip_prefix("http://").and_then(|rest| rest.strip_suffix("/mcp"));
    let address = address.expect(&url);
    let ask = |shown: &str| {
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let mut stream = TcpStream::connect(address).expect("a server");
        let request = format!(
            "POST /mcp HTTP/1.1\r\nHost: {address}\r\nAuthorization: {shown}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).expect("a server");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer.lines().next().unwrap_or_default().to_owned()
    };
    assert_eq!(ask("Bearer wrong-token-01234"), "HTTP/1.1 401 Unauthorized");
    assert_ne!(ask(&format!("Bearer {token}")), "HTTP/1.1 401 Unauthorized");
    kill_process(Pid::from_child(&child), Signal::TERM).expect("a process");
    let mut rest = String::new();
    lines.read_to_string(&mut rest).expect("text");
    assert_eq!((child.wait().expect("a process").code(), rest.as_str()), (Some(0), ""));
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_starts() {
    let world = World::new();
    let agent = ["mcp", "serve", "--agent", "../agent"];
    let table: [(&[&str], &str); 4] = [
        (&["--http", "0.0.0.0:0"], "0.0.0.0:0 is open to others: set a token"),
        (&["--http", "nowhere"], "--http nowhere: "),
        (&["--http", "127.0.0.1:0", "--token-file", "no-file"], "the token's file no-file: "),
        (&["--model", "openai://x"], "--as-agent"),
    ];
    for (flags, why) in table {
        let ran = world.inspan(&[&agent, flags].concat());
        assert!(ran.code > 0 && ran.err.contains(why), "{flags:?}: {} {}", ran.code, ran.err);
        assert_eq!(ran.out, "", "{flags:?}");
    }
    world.write("work/open", "mcp-token-0123456789");
    let flags = ["--http", "127.0.0.1:0", "--token-file", "open"];
    let ran = world.inspan(&[&agent[..], &flags].concat());
    assert_eq!((ran.code, ran.err.as_str()), (2, "error: others can read open: chmod 600 open\n"));
    let nothing = world.inspan(&["mcp", "serve"]);
    let why =
        "error: there is nothing to serve: name an agent with --agent DIR, or servers of tools";
    assert!(nothing.code == 2 && nothing.err.starts_with(why), "{}", nothing.err);
}

#[test]
fn a_client_that_people_use_calls_asks_and_is_told() {
    let folder = std::env::var("INSPAN_TEST_MCP").expect(
        "INSPAN_TEST_MCP is not set: run `./test tests`, which installs MCP packages, or set it to \
         the folder target/tools/mcp that it makes",
    );
    let world = World::new().with_agent(SHOP);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/client.py");
    let client = |words: &[&str]| {
        let mut command = Command::new("python3");
        world.surround(&mut command).arg(script).args(words);
        command.env("PYTHONPATH", format!("{folder}/python"));
        Ran::of(command.output().expect("python3"))
    };
    let question = "May `refund` run? it costs\nArguments: {}";
    let wrong = "Not run: the arguments do not fit. /text: must be a string";
    let expected = json!({
        "tools": ["echo", "order", "refund"],
        "results": [[false, "hi"], [false, ""], [true, wrong]],
        "asked": [question],
        "told": true,
        "many": true,
    });
    let serve = [env!("CARGO_BIN_EXE_inspan"), "mcp", "serve", "--agent", "../agent"];
    let ran = client(&[&["stdio"], &serve[..]].concat());
    assert_eq!((ran.code, ran.done()), (0, expected.clone()), "{}", ran.err);
    assert!(world.path("agent/refunded").exists());

    let token = "mcp-token-0123456789";
    let (mut child, url, _lines) = online(&world, token);
    let ran = client(&[&url, token]);
    assert_eq!((ran.code, ran.done()), (0, expected), "{}", ran.err);
    kill_process(Pid::from_child(&child), Signal::TERM).expect("a process");
    child.wait().expect("a process");
}
