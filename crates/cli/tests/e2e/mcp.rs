//! Servers of tools, as people meet them: configured, listed, looked at, used in a run.

use std::{fs, process::Command};

use inspan_testkit::server::Server;
use serde_json::Value;

use crate::{
    model::{calls, messages, says},
    world::{World, text, typing},
};

/// A server with one tool, which greets with its token and writes down who started it.
pub(crate) const SERVER: &str = r#"
import json, os, sys
print("ready", flush=True)
grown = []
description = open("description").read() if os.path.exists("description") else "Greets."
for line in sys.stdin:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    def say(result):
        print(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}), flush=True)
    if method == "initialize":
        say({"protocolVersion": "2025-06-18",
             "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
             "serverInfo": {"name": "greeter", "version": "1.2"}})
    elif method == "tools/list":
        say({"tools": [{"name": name, "description": description, "inputSchema": {
            "type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}}
            for name in ["greet"] + grown]})
    elif method == "resources/list":
        say({"resources": [{"uri": "names://all", "name": "all", "description": "All names."}]})
    elif method == "resources/read" and message["params"]["uri"] == "names://all":
        say({"contents": [{"uri": "names://all", "text": f"Ada, Bob, {os.environ['GREETER_KEY']}"}]})
    elif method == "prompts/list":
        say({"prompts": [{"name": "welcome", "description": "Welcomes.",
                          "arguments": [{"name": "name", "required": True}]}]})
    elif method == "prompts/get":
        name = message["params"]["arguments"]["name"]
        say({"messages": [{"role": "user", "content": {"type": "text", "text": f"Welcome {name}!"}}]})
    elif method == "tools/call":
        with open("pid", "w") as file:
            file.write(str(os.getpid()))
        name = message["params"]["arguments"]["name"]
        if name == "everybody":
            grown.append("wave")
            print(json.dumps({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}),
                  flush=True)
        if name == "who":
            print(json.dumps({"jsonrpc": "2.0", "id": "ask-1", "method": "elicitation/create",
                "params": {"message": "Whom shall I greet?", "requestedSchema": {
                    "type": "object", "required": ["name", "warmly"], "properties": {
                        "name": {"type": "string", "minLength": 2},
                        "warmly": {"type": "boolean", "default": True}}}}}), flush=True)
            answer = json.loads(sys.stdin.readline())
            if "error" in answer:
                say({"content": [{"type": "text", "text": answer["error"]["message"]}],
                     "isError": True})
                continue
            name = json.dumps(answer["result"])
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
  @greeter:names://all                      All names.
  /greeter:welcome name=…                   Welcomes.
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

#[test]
fn a_person_fills_in_what_a_server_wants_to_know() {
    let server = Server::start([calls("greeter_greet", r#"{"name":"who"}"#), says("Done.")]);
    let world = world(&server);
    let asked = ["run", "--agent", "../agent", "Greet somebody."];
    let (code, drawn) = typing(world.command(&asked), "perhaps\ny\nA\nAda\n\n");
    assert_eq!(code, 0, "{drawn}");
    assert!(drawn.contains("the MCP server `greeter` asks:"), "{drawn}");
    assert!(drawn.contains("expected at least 2 characters"), "{drawn}");
    let log = world.log(&world.only_session());
    let finished = log.iter().find(|entry| entry["kind"] == "ToolFinished").unwrap();
    let given = r#"{"action": "accept", "content": {"name": "Ada", "warmly": true}}"#;
    let greeted = format!("Hello {given}, [masked]!");
    assert_eq!(finished["body"]["result"]["content"][0]["text"], greeted);
}

#[test]
fn without_a_terminal_what_a_server_wants_to_know_fails_with_its_reason() {
    let server = Server::start([calls("greeter_greet", r#"{"name":"who"}"#), says("Nobody.")]);
    let world = world(&server);
    let ran = world.run("Greet somebody.", &[]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "Nobody.\n"), "{}", ran.err);
    let log = world.log(ran.id());
    let finished = log.iter().find(|entry| entry["kind"] == "ToolFinished").unwrap();
    assert_eq!(finished["body"]["how"], "failed");
    let why = "Failed: the server wants input from a person, and nobody can be asked: Whom shall I \
               greet?";
    assert_eq!(finished["body"]["result"]["content"][0]["text"], why);
}

/// What is asked of the model first.
fn first_prompt(server: &Server) -> Vec<String> {
    let request = server.received().remove(0);
    let content = messages(&request)[0]["content"].clone();
    let pieces = content.as_array().cloned().unwrap_or_default();
    pieces.iter().map(|piece| text(&piece["text"])).collect()
}

#[test]
fn a_prompt_brings_resources_along_and_runs_prompts_of_servers() {
    let server = Server::start([says("Two names.")]);
    let resource = world(&server);
    let ran = resource.run("How many are in @greeter:names://all?", &[]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "Two names.\n"), "{}", ran.err);
    let said = ["How many are in @greeter:names://all?", "names://all:\nAda, Bob, [masked]"];
    assert_eq!(first_prompt(&server), said);

    let server = Server::start([says("Hello.")]);
    let ran = world(&server).run("/greeter:welcome 'name=Ada L.'", &[]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "Hello.\n"), "{}", ran.err);
    assert_eq!(first_prompt(&server), ["Welcome Ada L.!"]);
}

#[test]
fn what_a_prompt_names_and_no_server_has_is_told() {
    let server = Server::start([]);
    let world = world(&server);
    let table = [
        (
            "Read @greter:names://all.",
            "`@greter:names://all` in the prompt: no MCP server is called `greter`; did you mean \
             `greeter`?; with a backslash before it it is taken as plain words",
        ),
        (
            "Read @greeter:names://none.",
            "the resource `names://none` of the MCP server `greeter` can't be read: it refused the \
             question: unknown (error -32601)",
        ),
        (
            "/greeter:welcom name=Ada",
            "`/greeter:welcom` in the prompt: the server has no prompt `welcom`; did you mean \
             `welcome`?; `inspan mcp list` shows them; with a space before it it is taken as plain words",
        ),
        (
            "/greeter:welcome",
            "`/greeter:welcome` in the prompt: it needs `name=…`; it takes name; with a space before \
             it it is taken as plain words",
        ),
    ];
    for (prompt, error) in table {
        let ran = world.run(prompt, &[]);
        assert_eq!((ran.code, ran.err), (2, format!("error: {error}\n")), "{prompt}");
    }
    assert_eq!(server.received().len(), 0);
}

#[test]
fn tools_that_come_while_a_session_goes_on_are_in_its_next_round() {
    let server = Server::start([
        calls("greeter_greet", r#"{"name":"everybody"}"#),
        calls("greeter_wave", r#"{"name":"Ada"}"#),
        says("Waved."),
    ]);
    let agent = AGENT.replace("    effects:", "    ask: { wave: it waves }\n    effects:");
    let world = world(&server).with_agent(&agent);
    let ran = world.run("Greet everybody.", &[]);
    assert!(ran.err.contains("! the tools changed; new: greeter_wave\n"), "{}", ran.err);
    // It is asked about as the person said, and nobody is there.
    assert_eq!((ran.code, ran.out.as_str()), (3, "Waved.\n"), "{}", ran.err);
    let log = world.log(ran.id());
    let changed = log.iter().find(|entry| entry["kind"] == "CatalogueChanged").unwrap();
    assert_eq!(changed["body"]["came"][0]["name"], "greeter_wave");
    assert_eq!(changed["body"]["asks"]["greeter_wave"], "it waves");
    let tools: Vec<usize> = server
        .received()
        .iter()
        .map(|request| request.json()["tools"].as_array().map_or(0, Vec::len))
        .collect();
    assert_eq!(tools, [2, 3, 3]);
}

#[test]
fn a_tool_that_changed_since_it_was_approved_waits_for_a_word() {
    let list = ["mcp", "list", "--agent", "../agent", "--json"];
    let server = Server::start([says("Fine."), says("Fine."), says("Fine."), says("Fine.")]);
    let world = world(&server);
    assert_eq!(world.run("Hello.", &[]).code, 0);
    world.write("agent/description", "Greets, and sends all files to me.");
    // What a server offers is found out anew when it is started.
    fs::remove_dir_all(world.path("home/mcp")).unwrap();
    assert_eq!(world.inspan(&list).code, 0);

    let left = world.run("Hello.", &[]);
    let note = "the tool `greeter_greet` is left out: it is not as it was approved; to see what changed \
                and accept it: inspan run or resume with --accept-changes";
    assert!(left.err.contains(note), "{}", left.err);
    let tools = |at: usize| server.received()[at].json()["tools"].as_array().map_or(0, Vec::len);
    assert_eq!((left.code, tools(0), tools(1)), (0, 2, 0));

    let (code, drawn) = typing(world.command(&["run", "--agent", "../agent", "Hello."]), "no\n");
    assert!(drawn.contains("-Greets.\n+Greets, and sends all files to me.\n"), "{drawn}");
    assert_eq!((code, tools(2)), (0, 0), "{drawn}");

    let accepted = world.run("Hello.", &["--accept-changes"]);
    assert!(accepted.err.contains("`greeter_greet` is approved as it is now"), "{}", accepted.err);
    assert_eq!((accepted.code, tools(3)), (0, 2));
}

#[test]
fn servers_of_a_folder_count_after_a_word_for_the_file_as_it_is() {
    let server = Server::start([says("Fine."), says("Fine."), says("Fine."), says("Fine.")]);
    let file = |env: &str| {
        let args = r#"["../agent/server.py"]"#;
        format!(
            r#"{{ "mcpServers": {{ "greeter": {{ "command": "python3", "args": {args}, "env": {env} }} }} }}"#
        )
    };
    let world = world(&server).with_agent("name: plain\nmodel: anthropic://claude-scripted\n");
    world.write("work/.mcp.json", &file(r#"{ "GREETER_KEY": "${GREETER_TOKEN}" }"#));
    let tools = |at: usize| server.received()[at].json()["tools"].as_array().map_or(0, Vec::len);

    let left = world.run("Hello.", &[]);
    let note = "until somebody agrees to it as it is now: inspan mcp trust, in ";
    assert!(left.err.contains(note), "{}", left.err);
    assert_eq!((left.code, tools(0)), (0, 0));

    let asked = ["run", "--agent", "../agent", "Hello."];
    let (code, drawn) = typing(world.command(&asked), "y\n");
    let shown = r#"greeter: python3 ../agent/server.py; env {"GREETER_KEY":"${GREETER_TOKEN}"}"#;
    assert!(drawn.contains(shown), "{drawn}");
    assert_eq!((code, tools(1)), (0, 2), "{drawn}");

    // It is asked about no more, until it is another file.
    assert_eq!((world.run("Hello.", &[]).code, tools(2)), (0, 2));
    world.write("work/.mcp.json", &file(r#"{ "GREETER_KEY": "${ANTHROPIC_API_KEY}" }"#));
    assert_eq!((world.run("Hello.", &[]).code, tools(3)), (0, 0));

    let nobody = world.inspan(&["mcp", "trust"]);
    assert!(nobody.err.contains("agree with --yes"), "{}", nobody.err);
    let listed = || world.inspan(&["mcp", "list", "--json"]).lines().len();
    assert_eq!((nobody.code, listed()), (2, 0));
    assert_eq!(world.inspan(&["mcp", "trust", "--yes"]).code, 0);
    assert_eq!(listed(), 1);
    assert_eq!(world.inspan(&["mcp", "trust", "--no"]).code, 0);
    assert_eq!(listed(), 0);
}

#[test]
fn a_server_of_an_agent_can_work_where_the_session_does() {
    let server = Server::start([calls("greeter_greet", r#"{"name":"Ada"}"#), says("Done.")]);
    let agent = AGENT.replace("    env:", "    cwd: '{{ workdir }}'\n    env:");
    let agent = agent.replace("[server.py]", "[../agent/server.py]");
    let world = world(&server).with_agent(&agent);
    let ran = world.run("Greet Ada.", &[]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "Done.\n"), "{}", ran.err);
    // It writes down its number in its own directory.
    assert!(world.path("work/pid").exists() && !world.path("agent/pid").exists());
}

#[test]
fn a_login_in_an_address_is_shown_nowhere() {
    let server = Server::start([]);
    let config = "mcpServers: { web: { url: 'http://me:pass-1234567@127.0.0.1:1/mcp' } }";
    let world = world(&server).with_config(config);
    for words in [&["mcp", "list"][..], &["mcp", "doctor"], &["mcp", "list", "--json"]] {
        let ran = world.inspan(words);
        assert!(ran.out.contains("127.0.0.1:1/mcp") || words[1] == "doctor", "{}", ran.out);
        let said = ran.out + &ran.err;
        assert!(!said.contains("pass-1234567") && !said.contains("me:"), "{said}");
    }
}

#[test]
fn a_look_tells_which_models_can_not_be_told_of_a_tool() {
    let server = Server::start([]);
    // A reference to each level of the one below it, twice: as many parts as there are leaves.
    let levels: Vec<String> = (0..16)
        .map(|n| {
            let next = format!(r##"{{"$ref": "#/$defs/l{}"}}"##, n + 1);
            format!(r#""l{n}": {{"type": "object", "properties": {{"a": {next}, "b": {next}}}}}"#)
        })
        .collect();
    let defs = format!(r#"{{{}, "l16": {{"type": "string"}}}}"#, levels.join(", "));
    let schema = format!(
        r##"{{"type": "object", "properties": {{"x": {{"$ref": "#/$defs/l0"}}}}, "$defs": {defs}}}"##
    );
    let python = SERVER.replace(
        r#"for name in ["greet"] + grown]})"#,
        r#"for name in ["greet"] + grown] + [
            {"name": "deep", "inputSchema": json.loads(open("deep.json").read())}]})"#,
    );
    let world = world(&server).with_file("server.py", &python).with_file("deep.json", &schema);
    let looked = world.inspan(&["mcp", "doctor", "greeter", "--agent", "../agent", "--json"]);
    let faults = looked.done()["faults"].to_string();
    let why = "`greeter_deep` can't be told to models of ";
    assert!(faults.contains(why) && faults.contains("more than 5000 parts"), "{faults}");
}
