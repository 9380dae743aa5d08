//! Keys are planted everywhere, the command is run in all its ways, and what it shows, writes and
//! hands on is looked through to the last byte.

use std::{
    collections::BTreeSet,
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
};

use inspan_testkit::server::{Answer, Received, Said, Server, anthropic_sse};
use serde_json::{Value, json};

use crate::{
    model::{calls, messages},
    world::{CANARY, Ran, World, found_in, on_terminal, text, typing},
};

/// In `.env`, and like no key that is known by its shape.
const PLAIN: &str = "plain-canary 51 & \"more\"";

/// Known to nobody: only its shape tells.
const SHAPED: &str = "ghp_canary0123456789canary0123456789";

const KEYS: [&str; 3] = [CANARY, PLAIN, SHAPED];

const LEAKY: &str = "\
name: leaky
model: anthropic://claude-scripted
tools:
  pry:
    description: Prints all it can get at.
    command: [sh, pry.sh]
    repeat: pure
    effects: []
  break:
    description: Fails.
    command: [sh, break.sh]
    repeat: pure
    effects: []
  count:
    description: Takes a number.
    input: { type: object, properties: { n: { enum: [1, 2] } } }
    command: [sh, pry.sh]
  pay:
    description: Pays.
    command: [sh, pay.sh]
    repeat: keyed
    ask: it spends money
";

/// The tool's own environment comes first.
const PRY: &str = "env | tee own; tr '\\0' '\\n' <\"/proc/$PPID/environ\"; cat ../home/.env keys";
const BREAK: &str = "cat keys; cat keys >&2; exit 3";
const PAY: &str = "cat >paid; cat paid";

fn keys() -> String {
    KEYS.join("\n")
}

/// The same in a text of JSON. The letter of an escape stands before the last one.
fn arguments() -> String {
    json!({ "n": keys(), "note": format!("a note\n{SHAPED}") }).to_string()
}

fn world(server: &Server) -> World {
    let world = World::at(server)
        .with_agent(LEAKY)
        .with_file("pry.sh", PRY)
        .with_file("break.sh", BREAK)
        .with_file("pay.sh", PAY)
        .with_file("keys", &keys());
    fs::create_dir(world.home()).expect("a folder");
    world.write("home/.env", &format!("SHOP_PASSWORD='{PLAIN}'\n"));
    fs::set_permissions(world.path("home/.env"), Permissions::from_mode(0o600)).expect("a file");
    world
}

/// A server whose model says what it knows, and which says it itself when it refuses.
fn leaks(request: &Received) -> Answer {
    let last = messages(request).pop().unwrap_or_default().to_string();
    if last.contains("tool_result") {
        return Answer::sse(in_halves(&anthropic_sse(&[Said::text(format!(
            "It is\n{}, or Bearer {SHAPED} or {CANARY}",
            keys()
        ))])));
    }
    if last.contains("Pay") {
        return calls("pay", &arguments());
    }
    if last.contains("Fail") {
        return Answer::json(401, &json!({ "error": { "message": keys() } }));
    }
    let call = |id: &str, name: &str| Said::call(id, name, arguments());
    Answer::anthropic(&[
        Said::reasoning(keys()),
        Said::text(format!("They are {}.", keys())),
        call("toolu_1", "pry"),
        call("toolu_2", "break"),
        call("toolu_3", "count"),
    ])
}

/// A server that knows the keys and a model that does not.
fn keeps(request: &Received) -> Answer {
    let last = messages(request).pop().unwrap_or_default().to_string();
    if last.contains("tool_result") {
        return Answer::json(401, &json!({ "error": { "message": keys() } }));
    }
    Answer::anthropic(&[Said::call("toolu_1", "pry", "{}"), Said::call("toolu_2", "break", "{}")])
}

/// A stream in which the last word, a key, comes in two pieces.
fn in_halves(stream: &str) -> String {
    let exact = format!("\"{CANARY}\"");
    let event = stream.split("\n\n").find(|event| event.contains(&exact)).expect("a key");
    let (head, tail) = CANARY.split_at(CANARY.len() / 2);
    let halves = event.replace(CANARY, head) + "\n\n" + &event.replace(CANARY, tail);
    stream.replace(event, &halves)
}

/// The keys in a text, as they are and as JSON has them.
fn found(text: &str) -> Vec<&'static str> {
    let quoted = |key: &str| json!(key).to_string().trim_matches('"').to_owned();
    let is_there = |key: &&str| text.contains(*key) || text.contains(&quoted(key));
    KEYS.into_iter().filter(is_there).collect()
}

fn shows_nothing(what: &str, ran: &Ran) {
    for text in [&ran.out, &ran.err] {
        assert_eq!(found(text), [""; 0], "{what}: {text}");
    }
}

/// What the model does not know is nowhere but where it was planted.
#[test]
fn what_tools_and_servers_tell_is_kept_nowhere() {
    let server = Server::answering(keeps);
    let world = world(&server);
    for flags in [&[][..], &["--json"], &["--raw"], &["--record", "recorded.jsonl"]] {
        let ran = world.run("Hello", flags);
        assert_eq!(ran.code, 5, "{}", ran.err);
        shows_nothing(&flags.join(" "), &ran);
        let id = world.inspan(&["sessions", "--json"]).lines()[0]["id"].clone();
        let whole = world.inspan(&["export", id.as_str().unwrap_or_default()]);
        assert_eq!((whole.code, found(&whole.out)), (0, vec![]), "{}", whole.out);
    }
    assert_eq!(found(&world.read("agent/own")), [""; 0]);
    let planted = [world.path("agent/keys"), world.path("home/.env")];
    for key in KEYS {
        let mut found = found_in(&world.path(""), key.as_bytes());
        found.retain(|path| !planted.contains(path));
        assert_eq!(found, Vec::<PathBuf>::new(), "{key}");
    }
    let sent: String = server.received().iter().map(Received::text).collect();
    assert_eq!(found(&sent), [""; 0], "{sent}");
    assert!(sent.contains("[masked]"), "{sent}");
}

/// What a model says is kept as it came, since it may be signed, and so are the arguments that were
/// judged, since they are what ran. All that is shown of it is masked; a plain export is the log.
#[test]
fn what_a_model_says_is_shown_to_nobody() {
    let server = Server::answering(leaks);
    let world = world(&server);
    let prompt = format!("Hello, {}", keys());
    let flags = [&[][..], &["--json"], &["--raw"], &["--raw", "--json"]];
    for flags in flags {
        let ran = world.run(&prompt, &[flags, &["--record", "recorded.jsonl"]].concat());
        assert_eq!(ran.code, 0, "{}", ran.err);
        shows_nothing(&flags.join(" "), &ran);
        assert!(ran.out.contains("[masked]"), "{}", ran.out);
    }
    let (code, drawn) = on_terminal(world.command(&["run", "--agent", "../agent", &prompt]));
    assert_eq!((code, found(&drawn)), (0, vec![]), "{drawn}");
    shows_nothing("Fail", &world.run("Fail", &[]));

    let ran = world.run("Pay now", &["--ask", "later"]);
    let id = ran.id().to_owned();
    assert_eq!(ran.code, 6, "{}", ran.err);
    shows_nothing("Pay", &ran);
    shows_nothing("resume", &world.inspan(&["resume", &id]));
    let asked = world.command(&["resume", &id, "--ask", "now"]);
    let (code, drawn) = typing(asked, "perhaps\ny\n");
    assert_eq!((code, found(&drawn)), (0, vec![]), "{drawn}");
    assert!(drawn.contains("hash of the arguments: "), "{drawn}");
    // What runs is what the model asked for.
    assert_eq!(world.read("agent/paid").trim_end(), arguments());

    let ran = world.run("Pay again", &["--ask", "later", "--session", &id]);
    let call = ran.err.split(&format!("inspan answer {id} ")).nth(1).expect("a hint");
    let call = call.split(' ').next().unwrap_or_default().to_owned();
    shows_nothing("answer", &world.inspan(&["answer", &id, &call, "deny", "--why", "no"]));
    let ran = world.inspan(&["worker", "--once"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    shows_nothing("worker", &ran);

    looked_at(&world);
    mistakes(&world);
    assert_eq!(found(&world.read("work/recorded.jsonl")), [""; 0]);
    assert_eq!(found(&world.read("agent/own")), [""; 0]);
}

/// All ways to look at a session.
fn looked_at(world: &World) {
    let listed = world.inspan(&["sessions", "--json"]);
    shows_nothing("sessions --json", &listed);
    shows_nothing("sessions", &world.inspan(&["sessions"]));
    for flags in [&[][..], &["--json"]] {
        shows_nothing("search", &world.inspan(&[&["search"], flags, &["canary"]].concat()));
        shows_nothing("search", &world.inspan(&[&["search"], flags, &["They"]].concat()));
    }
    let mut kinds = BTreeSet::new();
    for row in listed.lines() {
        let id = text(&row["id"]);
        for (arguments, code) in [
            (&["show", &id][..], 0),
            (&["show", "--json", &id], 0),
            (&["verify", &id], 0),
            (&["export", "--masked", &id], 0),
            (&["export", "--masked", &id, "masked.jsonl"], 0),
        ] {
            let ran = world.inspan(arguments);
            assert_eq!(ran.code, code, "{}", ran.err);
            shows_nothing(&arguments.join(" "), &ran);
        }
        assert_eq!(found(&world.read("work/masked.jsonl")), [""; 0]);
        for entry in world.log(&id) {
            let Some(call) = entry["body"]["call"].as_str() else { continue };
            for flags in [&[][..], &["--json"]] {
                let shown = world.inspan(&[&["show", &id, "--call", call], flags].concat());
                assert_eq!(shown.code, 0, "{}", shown.err);
                shows_nothing("show --call", &shown);
            }
        }
        let whole = world.inspan(&["export", &id]);
        let entries = whole.out.lines().filter(|line| !found(line).is_empty());
        let kind = |line| text(&serde_json::from_str::<Value>(line).expect("JSON")["kind"]);
        kinds.extend(entries.map(kind));
    }
    // As they came; nothing else is.
    let expected = ["ModelReplied", "PermissionAsked", "PromptSubmitted"];
    assert_eq!(kinds, expected.map(str::to_owned).into());
}

/// Errors quote what is wrong, but no keys.
fn mistakes(world: &World) {
    for key in KEYS {
        let strict = ["--replay", "recorded.jsonl", "--strict"];
        for ran in [
            world.inspan(&["show", key]),
            world.inspan(&["show", "--asks", key]),
            world.inspan(&["sessions", "--since", key]),
            world.inspan(&["run", "--ask", key, "Hello"]),
            world.inspan(&["run", "--rounds-max", key, "Hello"]),
            world.inspan(&[key]),
            world.run("Hello", &["--model", &format!("{key}://x")]),
            world.run("Hello", &["--session", key, "--json"]),
            world.run(&format!("Other {key}"), &strict),
        ] {
            assert_ne!(ran.code, 0, "{}", ran.err);
            shows_nothing(key, &ran);
        }
    }
    let password = "postgres-canary-77";
    for yaml in [
        format!("model: '{PLAIN}'\n"),
        format!("{PLAIN}: 1\n"),
        format!("limits: {{ rounds_max: '{SHAPED}' }}\n"),
        format!("database: postgres://inspan:{password}@127.0.0.1:1/x\n"),
    ] {
        world.write("home/config.yaml", &yaml);
        let ran = world.run("Hello", &[]);
        assert_ne!(ran.code, 0, "{}", ran.err);
        shows_nothing(&yaml, &ran);
        assert!(!ran.err.contains(password), "{}", ran.err);
        fs::remove_file(world.path("home/config.yaml")).expect("a file");
    }
}
