//! `kill -9` at every moment, and `inspan resume`: nothing that was recorded is asked or done
//! again.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufRead, BufReader, Read, Write},
    process::Command,
};

use inspan_testkit::server::{Answer, Received, Said, Server};
use rustix::process::Signal;
use serde_json::Value;

use crate::{
    model::{calls, fine, messages, replies_in, says},
    world::{Ran, Running, World, text},
};

/// One tool of each repeat class, all of which run the same program.
const WORKER: &str = "\
name: worker
model: anthropic://claude-scripted
tools:
  pure:
    description: Works.
    command: [sh, work.sh, pure]
    effects: []
    repeat: pure
  idempotent:
    description: Works.
    command: [sh, work.sh, idempotent]
    repeat: idempotent
  keyed:
    description: Works.
    command: [sh, work.sh, keyed]
    repeat: keyed
  probe:
    description: Works.
    command: [sh, work.sh, probe]
    repeat: probe
    probe: [sh, probe.sh]
  once:
    description: Works.
    command: [sh, work.sh, once]
";

/// Writes a line to `witness` when it starts. The first to start holds the pipe `alive` open and
/// waits for a word from the pipe `gate`; the others say whether the first still lives.
const WORK: &str = r#"
echo "$1 ${INSPAN_KEY:-without a key}" >>witness
if [ "$(wc -l <witness)" -eq 1 ]; then
  echo $$ >pid
  exec 3>alive
  echo started >&3
  read word <gate
else
  read -r _ _ state _ 2>/dev/null <"/proc/$(cat pid)/stat" || state=gone
  echo "the first: $state" >>witness
fi
echo "worked as $1"
"#;

/// A world whose agent works, and the pipes of its first tool.
struct Gated {
    world: World,
    alive: std::path::PathBuf,
    gate: std::path::PathBuf,
}

impl Gated {
    fn new(server: &Server, probe: &str) -> Self {
        let world = World::at(server)
            .with_agent(WORKER)
            .with_file("work.sh", WORK)
            .with_file("probe.sh", probe);
        let (alive, gate) = (world.pipe("alive"), world.pipe("gate"));
        Self { world, alive, gate }
    }

    /// Waits until the first tool has started.
    fn started(&self) -> BufReader<File> {
        let mut alive = BufReader::new(File::open(&self.alive).expect("a pipe"));
        let mut line = String::new();
        alive.read_line(&mut line).expect("a line");
        assert_eq!(line, "started\n");
        alive
    }

    /// Lets the first tool go on to its end.
    fn let_go(&self) {
        let mut gate = File::options().write(true).open(&self.gate).expect("a pipe");
        gate.write_all(b"go\n").expect("a reader");
    }

    /// What the tools wrote, without the session in keys.
    fn witness(&self, id: &str) -> String {
        let text = self.world.read("agent/witness").replace(id, "ID");
        text.replace("the first: Z", "the first: gone")
    }
}

/// The results that the last request carries.
fn results(server: &Server) -> Vec<String> {
    let last = server.received().pop().map(|request| messages(&request)).unwrap_or_default();
    let blocks = last.last().map(|message| message["content"].clone()).unwrap_or_default();
    let blocks = blocks.as_array().cloned().unwrap_or_default();
    let is_result = |block: &&Value| block["type"] == "tool_result";
    blocks.iter().filter(is_result).map(content_of).collect()
}

fn content_of(block: &Value) -> String {
    match &block["content"] {
        Value::String(text) => text.clone(),
        blocks => text(&blocks[0]["text"]),
    }
}

/// The session was interrupted in the middle and has an answer now.
fn answered(ran: &Ran, id: &str) {
    assert_eq!((ran.code, ran.out.as_str()), (0, "Done.\n"), "{}", ran.err);
    assert_eq!(ran.id(), id);
}

#[test]
fn in_the_middle_of_a_model_call() {
    let cut = says("A long answer that nobody will hear the end of.");
    let half = cut.body_len() / 2;
    for hangs in [Answer::silent(), cut.clone().hang_after(0), cut.hang_after(half)] {
        let server =
            Server::start([calls("echo", r#"{"text":"hi"}"#), hangs, says("Done."), fine()]);
        let world = World::at(&server);
        let mut running = world.start("Hello", &[]);
        let id = running.id();
        // A request may be on its way before the entries that lead to it are durable.
        assert!(running.read_until(|line| line["entry"]["body"]["round"] == 2));
        server.wait_for(2);
        running.kill();

        let ran = world.inspan(&["resume"]);
        answered(&ran, &id);
        let requests = server.received();
        let asked: Vec<_> = requests.iter().map(replies_in).collect();
        assert_eq!(asked, [0, 1, 1]);
        assert_eq!(requests[1].body, requests[2].body);
        world.goes_on(&id);
    }
}

#[test]
fn in_the_middle_of_a_tool() {
    const UNKNOWN: &str = "Outcome unknown: the process that ran this call ended before it did. \
         It may or may not have happened. Check before you try it again.";
    let twice = |name: &str, key: &str| format!("{name} {key}\n{name} {key}\nthe first: gone\n");
    let (no_key, key) = ("without a key", "ID/call_5_0");
    let table = [
        ("pure", "", twice("pure", no_key), "worked as pure\n"),
        ("idempotent", "", twice("idempotent", no_key), "worked as idempotent\n"),
        ("keyed", "", twice("keyed", key), "worked as keyed\n"),
        ("once", "", format!("once {no_key}\n"), UNKNOWN),
        ("probe", "echo done it was", format!("probe {no_key}\n"), "it was"),
        ("probe", "echo absent", twice("probe", no_key), "worked as probe\n"),
        ("probe", "echo unknown", format!("probe {no_key}\n"), UNKNOWN),
        ("probe", "exit 1", format!("probe {no_key}\n"), UNKNOWN),
    ];
    for (tool, probe, witness, result) in table {
        let server = Server::start([calls(tool, "{}"), says("Done."), fine()]);
        let gated = Gated::new(&server, probe);
        let mut running = gated.world.start("Work.", &[]);
        let id = running.id();
        let mut alive = gated.started();
        running.read_entry("ToolStarted");
        running.kill();

        let ran = gated.world.inspan(&["resume", &id]);
        answered(&ran, &id);
        let mut rest = String::new();
        alive.read_to_string(&mut rest).expect("the end of the first tool");
        assert_eq!((gated.witness(&id), rest), (witness, String::new()), "{tool} {probe}");
        assert_eq!(results(&server), [result], "{tool} {probe}");
        assert_eq!(server.received().len(), 2);
        gated.world.goes_on(&id);
    }
}

#[test]
fn right_after_a_tool() {
    let server = Server::start([calls("once", "{}"), Answer::silent(), says("Done."), fine()]);
    let gated = Gated::new(&server, "");
    let mut running = gated.world.start("Work.", &[]);
    let _alive = gated.started();
    gated.let_go();
    running.read_entry("ToolFinished");
    let id = running.id();
    server.wait_for(2);
    running.kill();

    let ran = gated.world.inspan(&["resume"]);
    answered(&ran, &id);
    assert_eq!(gated.witness(&id), "once without a key\n");
    assert_eq!(results(&server), ["worked as once\n"]);
    gated.world.goes_on(&id);
}

#[test]
fn a_prompt_to_an_interrupted_session_goes_on_with_it_too() {
    let server = Server::start([calls("once", "{}"), says("Done."), fine()]);
    let gated = Gated::new(&server, "");
    let running = gated.world.start("Work.", &[]);
    let _alive = gated.started();
    running.kill();

    let id = gated.world.only_session();
    let ran = gated.world.run("And now?", &["--session", &id]);
    answered(&ran, &id);
    let last = server.received().pop().map(|request| messages(&request)).unwrap_or_default();
    let last = last.last().map(Value::to_string).unwrap_or_default();
    assert!(last.contains("Outcome unknown") && last.contains("And now?"), "{last}");
}

#[test]
fn ctrl_c_twice_ends_at_once_and_the_session_goes_on() {
    let server = Server::start([calls("once", "{}"), says("Done."), fine()]);
    let gated = Gated::new(&server, "");
    let mut running = gated.world.start("Work.", &[]);
    let mut alive = gated.started();
    running.send(Signal::INT);
    // Two that come before the first is looked at are one.
    running.read_entry("CancelRequested");
    running.send(Signal::INT);
    let ran = running.finish();
    assert_eq!(ran.code, 130, "{}", ran.err);
    let mut rest = String::new();
    alive.read_to_string(&mut rest).expect("the end of the tool");
    assert_eq!(gated.witness(ran.id()), "once without a key\n");
    let ran = gated.world.run("And now?", &["--session", ran.id()]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "Done.\n"), "{}", ran.err);
}

#[test]
fn who_closes_the_terminal_leaves_nothing_running() {
    let server = Server::start([calls("once", "{}"), says("Done."), fine()]);
    let gated = Gated::new(&server, "");
    let running = gated.world.start("Work.", &[]);
    let mut alive = gated.started();
    running.send(Signal::HUP);
    let ran = running.finish();
    assert_eq!((ran.code, &ran.done()["stop"]), (130, &"cancelled".into()), "{}", ran.err);
    let mut rest = String::new();
    alive.read_to_string(&mut rest).expect("the end of the tool");
    let ran = gated.world.run("And now?", &["--session", ran.id()]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "Done.\n"), "{}", ran.err);
}

#[test]
fn what_is_to_outlive_its_terminal_does() {
    let server = Server::start([calls("once", "{}"), says("Done.")]);
    let gated = Gated::new(&server, "");
    let mut command = Command::new("sh");
    gated.world.surround(&mut command);
    // What `nohup` does.
    command.args(["-c", "trap '' HUP; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_inspan")]);
    command.args(["run", "--agent", "../agent", "--json", "Work."]);
    let running = Running::start(command);
    let _alive = gated.started();
    running.send(Signal::HUP);
    gated.let_go();
    let ran = running.finish();
    assert_eq!((ran.code, &ran.done()["answer"]), (0, &"Done.".into()), "{}", ran.err);
}

/// Says what comes after the replies that a request holds: two calls, one call, an answer.
fn by_replies(request: &Received) -> Answer {
    match replies_in(request) {
        0 => Answer::anthropic(&[
            Said::text("First both."),
            Said::call("toolu_1", "pure", "{}"),
            Said::call("toolu_2", "once", "{}"),
        ]),
        1 => Answer::anthropic(&[
            Said::call("toolu_3", "keyed", "{}"),
            Said::call("toolu_4", "idempotent", "{}"),
        ]),
        _ => says("Done."),
    }
}

const WORK_AT_ONCE: &str = r#"echo "$INSPAN_CALL" >>witness; echo "worked as $1""#;

/// Kills a run after so many entries, and then those that go on with it after as many as `again`
/// says, and lets the last come to its end.
fn killed_after(entries: usize, again: &[usize]) {
    let server = Server::answering(by_replies);
    let world = World::at(&server).with_agent(WORKER);
    let world = world.with_file("work.sh", WORK_AT_ONCE).with_file("probe.sh", "echo unknown");
    let mut running = world.start("Work.", &[]);
    let id = running.id();
    for entries in [&[entries], again].concat() {
        let mut seen = 0;
        running.read_until(|line| {
            seen += usize::from(line["update"] == "entry");
            seen == entries
        });
        running.kill();
        running = Running::start(world.command(&["resume", &id, "--json"]));
    }
    let ran = running.finish();
    let what = format!("killed after {entries}, then {again:?}");
    assert_eq!((ran.code, &ran.done()["answer"]), (0, &"Done.".into()), "{what}: {}", ran.err);
    nothing_is_done_twice(&world.log(&id), &server, &world.read("agent/witness"), &what);
    assert_eq!(world.inspan(&["verify", &id]).code, 0, "{what}");
}

fn nothing_is_done_twice(log: &[Value], server: &Server, witness: &str, what: &str) {
    let of = |kind: &str| -> Vec<&Value> {
        log.iter().filter(|entry| entry["kind"] == kind).map(|entry| &entry["body"]).collect()
    };
    // What was asked without an end on record was asked again, and nothing else.
    let (asked, replied) = (of("RoundStarted").len(), of("ModelReplied").len());
    assert_eq!((replied, asked), (3, 3 + of("ModelFailed").len()), "{what}");
    let killed = log.iter().filter(|entry| entry["kind"] == "Woken").count();
    assert!(server.received().len() <= asked + killed, "{what}");

    let mut runs: BTreeMap<&str, usize> = BTreeMap::new();
    for line in witness.lines() {
        *runs.entry(line).or_default() += 1;
    }
    assert_eq!(of("ToolFinished").len(), 4, "{what}");
    for finished in of("ToolFinished") {
        let (call, how) = (text(&finished["call"]), text(&finished["how"]));
        let started: Vec<_> =
            of("ToolStarted").into_iter().filter(|s| s["call"] == finished["call"]).collect();
        let ran = runs.get(call.as_str()).copied().unwrap_or(0);
        if started.iter().any(|started| started["repeat"] == "once") {
            assert!(ran <= 1 && (how == "ok" || how == "unknown"), "{what}: {call} {how} {ran}");
        } else {
            let attempts = 1..=started.len().max(1) + killed;
            assert!(attempts.contains(&ran) && how == "ok", "{what}: {call} {how} {ran}");
        }
    }
}

#[test]
fn after_each_entry() {
    for entries in 3..24 {
        killed_after(entries, &[]);
    }
}

#[test]
fn again_and_again() {
    for entries in [3, 5, 8] {
        killed_after(entries, &[2, 3, 1, 4]);
    }
}
