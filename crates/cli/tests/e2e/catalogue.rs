//! A catalogue that is too long to be told: its tools are found, and run under one name.

use inspan_testkit::server::Server;
use serde_json::{Value, json};

use crate::{
    model::{calls, says},
    world::{World, text},
};

/// A server with 500 tools, `create_issue` to `watch_wiki`, each of which says what it did.
const SERVER: &str = r#"
import json, sys
VERBS = ("create read update delete list search archive restore assign label lock merge move open pin "
         "rename review share star subscribe sync tag transfer translate watch").split()
NOUNS = ("issue pull_request repository branch commit release milestone project board card wiki page "
         "comment reaction team member webhook secret workflow artifact").split()
def tool(verb, noun):
    what = noun.replace("_", " ")
    return {
        "name": f"{verb}_{noun}",
        "description": f"Lets you {verb} one {what} of the tracker and gives back how it is then.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "id": {"type": "integer", "description": f"The number of the {what}"},
                "note": {"type": "string", "description": "What to write beside it"},
            },
            "required": ["id"],
        },
    }
for line in sys.stdin:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    def say(result):
        print(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}), flush=True)
    if method == "initialize":
        say({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
             "serverInfo": {"name": "tracker", "version": "1"}})
    elif method == "tools/list":
        say({"tools": [tool(verb, noun) for verb in VERBS for noun in NOUNS]})
    elif method == "tools/call":
        params = message["params"]
        say({"content": [{"type": "text", "text": f"did {params['name']} {params['arguments']['id']}"}]})
    elif id is not None:
        print(json.dumps({"jsonrpc": "2.0", "id": id,
                          "error": {"code": -32601, "message": "unknown"}}), flush=True)
"#;

const AGENT: &str = "\
name: clerk
model: anthropic://claude-scripted
tools:
  echo:
mcpServers:
  tracker:
    command: python3
    args: [server.py]
    ask: { delete_wiki: it can't be undone }
";

#[test]
fn tools_are_found_and_called_by_their_own_rules() {
    let server = Server::start([
        calls("find_tools", r#"{"query":"put a wiki into the archive","count":2}"#),
        calls("call_tool", r#"{"name":"tracker_archive_wiki","arguments":{"id":7}}"#),
        calls("call_tool", r#"{"name":"tracker_archive_wiki","arguments":{"id":"no"}}"#),
        calls("call_tool", r#"{"name":"tracker_archiv_wiki","arguments":{"id":7}}"#),
        calls("call_tool", r#"{"name":"tracker_delete_wiki","arguments":{"id":7}}"#),
        calls("call_tool", r#"{"arguments":{"id":7}}"#),
        says("Archived."),
        says("Still archived."),
    ]);
    let world = World::at(&server).with_agent(AGENT).with_file("server.py", SERVER);
    let ran = world.run("Put wiki 7 away.", &[]);
    assert_eq!((ran.code, ran.out.as_str()), (3, "Archived.\n"), "{}", ran.err);

    let log = world.log(ran.id());
    let finished: Vec<(String, String, String)> = log
        .iter()
        .filter(|entry| entry["kind"] == "ToolFinished")
        .map(|entry| &entry["body"])
        .map(|body| (text(&body["name"]), text(&body["how"]), told(body)))
        .collect();
    assert_eq!(
        finished[0].2,
        "Run one with call_tool: {\"name\": \"tracker_archive_wiki\", \"arguments\": {…}}\n\n\
         tracker_archive_wiki (of tracker)\n\
         Lets you archive one wiki of the tracker and gives back how it is then.\n\
         arguments: {\"type\":\"object\",\"properties\":{\"id\":{\"type\":\"integer\",\
         \"description\":\"The number of the wiki\"},\"note\":{\"type\":\"string\",\
         \"description\":\"What to write beside it\"}},\"required\":[\"id\"]}\n\n\
         tracker_archive_artifact (of tracker)\n\
         Lets you archive one artifact of the tracker and gives back how it is then.\n\
         arguments: {\"type\":\"object\",\"properties\":{\"id\":{\"type\":\"integer\",\
         \"description\":\"The number of the artifact\"},\"note\":{\"type\":\"string\",\
         \"description\":\"What to write beside it\"}},\"required\":[\"id\"]}\n"
    );
    let rest: Vec<(&str, &str, &str)> =
        finished[1..].iter().map(|(name, how, told)| (&**name, &**how, &**told)).collect();
    assert_eq!(
        rest,
        [
            ("tracker_archive_wiki", "ok", "did archive_wiki 7"),
            (
                "tracker_archive_wiki",
                "bad_arguments",
                "Not run: the arguments do not fit. `/id`: found \"no\", expected an integer"
            ),
            (
                "tracker_archiv_wiki",
                "unknown_tool",
                "Failed: there is no tool `tracker_archiv_wiki`. Near names: \
                 tracker_archive_wiki, tracker_search_wiki, tracker_archive_webhook."
            ),
            (
                "tracker_delete_wiki",
                "refused",
                "Refused: nobody is there to be asked. This is final; do not try the same call again."
            ),
            (
                "call_tool",
                "bad_arguments",
                "Not run: the arguments do not fit. /name: must be the name of a tool that \
                 find_tools found"
            ),
        ]
    );
    // What runs is the tool, with its own effects.
    let started = log.iter().filter(|entry| entry["kind"] == "ToolStarted").nth(1).unwrap();
    assert_eq!(
        (&started["body"]["name"], &started["body"]["repeat"]),
        (&json!("tracker_archive_wiki"), &json!("once"))
    );

    // The session goes on in the same way, and no request moved.
    let again = world.inspan(&["run", "Sure?", "--session", ran.id()]);
    assert_eq!((again.code, again.out.as_str()), (0, "Still archived.\n"), "{}", again.err);
    let bodies = server.received();
    let tools = bodies[0].json()["tools"].clone();
    let names: Vec<String> = tools.as_array().unwrap().iter().map(|t| text(&t["name"])).collect();
    assert_eq!(names, ["call_tool", "echo", "find_tools", "open_result"]);
    let searching = [&tools[0], &tools[2]].map(|tool| tool.to_string().len());
    assert!(searching.iter().sum::<usize>() < 1_500 * 3, "{searching:?}");
    assert_eq!(
        tools[2]["description"],
        "Finds tools beside those that you see, by what they do: those of tracker. Look here before \
         you say that you can't do something."
    );
    let marks = r#","cache_control":{"type":"ephemeral"}"#;
    let plain: Vec<String> = bodies.iter().map(|r| r.text().replace(marks, "")).collect();
    for pair in plain.windows(2) {
        assert!(pair[1].starts_with(pair[0].trim_end_matches("]}")), "{pair:?}");
    }
}

#[test]
fn how_much_is_told_can_be_set() {
    let server = Server::start([says("One."), says("Two."), says("Three.")]);
    let count = |settings: &str| {
        let agent = format!("{AGENT}{settings}");
        let world = World::at(&server).with_agent(&agent).with_file("server.py", SERVER);
        let ran = world.run("Hello", &[]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        let last = server.received().pop().expect("a request");
        last.json()["tools"].as_array().map(Vec::len)
    };
    // The server takes 128 tools at most, and what the agent wants is kept to.
    assert_eq!(count("tools_tokens_max: none\n"), Some(128));
    // There are more than it takes, whatever they cost.
    assert_eq!(count("tools_tokens_max: 1000000\n"), Some(4));
    assert_eq!(count(""), Some(4));
}

fn told(body: &Value) -> String {
    text(&body["result"]["content"][0]["text"])
}
