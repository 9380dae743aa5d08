//! README's first command, recordings, and the other commands of a new home.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::Stdio,
};

use inspan_testkit::server::Server;

use crate::{
    model::{calls, fine, says},
    world::{Ran, World, on_terminal},
};

const PROMPT: &str = "Is it warmer in Lisbon or Porto?";
const ANSWER: &str =
    "It is warmer in Lisbon: 17 °C and sunny, while Porto has 14 °C with light rain.\n";

fn example(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/weather");
    root.join(name).display().to_string()
}

/// The flags of README's first command.
fn weather() -> [String; 4] {
    ["--agent".into(), example(""), "--replay".into(), example("demo.jsonl")]
}

fn run(world: &World, more: &[&str]) -> Ran {
    let flags = weather();
    let flags: Vec<&str> = flags.iter().map(String::as_str).chain(more.iter().copied()).collect();
    world.inspan(&[&["run"], flags.as_slice()].concat())
}

/// The lines of tools side by side, which may come in either order, sorted.
fn tools_sorted(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    let is_tool = |line: &&str| line.contains("weather");
    let first = lines.iter().position(is_tool).unwrap_or(0);
    let count = lines.iter().filter(|line| is_tool(line)).count();
    lines[first..first + count].sort_unstable();
    lines.join("\n") + "\n"
}

#[test]
fn the_first_command_of_the_readme() {
    let world = World::new();
    let ran = run(&world, &[PROMPT]);
    assert_eq!((ran.code, ran.out.as_str()), (0, ANSWER), "{}", ran.err);
    assert_eq!(
        tools_sorted(&world.plain(&ran.err)),
        "\
session ID
I'll look at both cities.
  ✓ weather {\"city\": \"Lisbon\"}  Lisbon: 17 °C, sunny  ok TIME
  ✓ weather {\"city\": \"Porto\"}  Porto: 14 °C, light rain  ok TIME
It is warmer in Lisbon: 17 °C and sunny, while Porto has 14 °C with light rain.
end · 2 rounds · 2 calls · 538 in + 109 out tokens · $0.0022 · TIME
This run was played from a recording. For a real model, leave out --replay and set
ANTHROPIC_API_KEY, or name another: --model openai://MODEL with OPENAI_API_KEY,
or --model ollama://MODEL for a model on this machine.
"
    );
}

#[test]
fn on_a_terminal_it_is_coloured_and_says_everything_once() {
    let world = World::new();
    let flags = weather();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let command = world.command(&[&["run", PROMPT], flags.as_slice()].concat());
    let (code, drawn) = on_terminal(command);
    assert_eq!(code, 0);
    for coloured in ["\u{1b}[2msession ", "\u{1b}[32m✓\u{1b}[0m weather", "\u{1b}[2mend · 2 rounds"]
    {
        assert!(drawn.contains(coloured), "{coloured} in {drawn}");
    }
    for once in ["I'll look at both cities.\n", ANSWER] {
        assert_eq!(drawn.matches(once).count(), 1, "{once} in {drawn}");
    }
}

#[test]
fn a_streamed_answer_is_drawn_once() {
    let server = Server::start([calls("echo", r#"{"text":"hi"}"#), says("It said hi to you.")]);
    let world = World::at(&server);
    let (code, drawn) = on_terminal(world.command(&["run", "--agent", "../agent", "Echo hi."]));
    assert_eq!(code, 0, "{drawn}");
    assert_eq!(drawn.matches("It said hi to you.\n").count(), 1, "{drawn}");
    assert_eq!(drawn.matches("echo").count(), 1, "{drawn}");
}

#[test]
fn as_json_every_line_is_an_update() {
    let world = World::new();
    let ran = run(&world, &[PROMPT, "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let lines = ran.lines();
    let kinds: Vec<_> = lines.iter().map(|line| line["update"].as_str().unwrap_or("?")).collect();
    assert_eq!((kinds[0], *kinds.last().unwrap_or(&"")), ("session", "done"));
    assert_eq!(lines[0]["id"], ran.id());
    let middle = &lines[1..lines.len() - 1];
    assert!(middle.iter().all(|line| line["update"] == "entry" || line["update"] == "delta"));
    let entries = middle.iter().filter_map(|line| line["entry"]["kind"].as_str());
    let mut tools: Vec<_> = entries.collect();
    tools.dedup();
    assert_eq!(
        tools,
        [
            "SessionStarted",
            "SessionConfigured",
            "PromptSubmitted",
            "RoundStarted",
            "ModelReplied",
            "GateJudged",
            "ToolStarted",
            "GateJudged",
            "ToolStarted",
            "ToolFinished",
            "RoundStarted",
            "ModelReplied",
            "TurnEnded"
        ]
    );
    let done = ran.done();
    assert_eq!(done["answer"], ANSWER.trim_end());
    assert_eq!((&done["stop"], &done["exit_code"]), (&"end".into(), &0.into()));
    assert_eq!(done["session"], ran.id());
}

#[test]
fn a_hyphen_reads_the_prompt_from_standard_input() {
    let world = World::new();
    let flags = weather();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let mut command = world.command(&[&["run", "-"], flags.as_slice()].concat());
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(PROMPT.as_bytes()).expect("a reader");
    drop(input);
    let ran = Ran::of(child.wait_with_output().expect("the command"));
    assert_eq!((ran.code, ran.out.as_str()), (0, ANSWER), "{}", ran.err);
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let world = World::new();
    let flags = weather();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let errors = writer.try_clone().expect("a pipe");
    let mut command = world.command(&[&["run", PROMPT, "--json"], flags.as_slice()].concat());
    let ended = command.stdout(writer).stderr(errors).status().expect("the command");
    assert_eq!(ended.code(), Some(0));
    let shown = world.inspan(&["show", "--json", &world.only_session()]);
    assert!(shown.out.contains(ANSWER.trim_end()), "{}", shown.out);
}

#[test]
fn what_was_recorded_can_be_replayed() {
    let server = Server::start([calls("echo", r#"{"text":"hi"}"#), says("It said hi.")]);
    let world = World::at(&server);
    let file = world.path("work/recorded.jsonl");
    let recorded = world.run("Echo hi.", &["--record", "recorded.jsonl"]);
    assert_eq!((recorded.code, recorded.out.as_str()), (0, "It said hi.\n"), "{}", recorded.err);
    let lines = fs::read_to_string(&file).expect("a recording");
    let shown = world.inspan(&["show", "--json", recorded.id()]);
    assert_eq!(lines, shown.out);

    drop(server);
    let replayed = world.run("Echo hi.", &["--replay", "recorded.jsonl", "--strict"]);
    assert_eq!((replayed.code, replayed.out.as_str()), (0, "It said hi.\n"), "{}", replayed.err);
}

/// An agent that drifts when its prompt does.
fn drifting() -> (World, Server) {
    let server = Server::start([fine()]);
    let yaml = "name: a\nmodel: anthropic://claude-scripted\nprompt: prompt.md\n";
    let world = World::at(&server).with_agent(yaml).with_file("prompt.md", "Be brief.");
    let ran = world.run("Hello", &["--record", "recorded.jsonl"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let world = world.with_file("prompt.md", "Be very brief.");
    (world, server)
}

#[test]
fn a_request_that_drifted_is_a_warning_that_shows_the_difference() {
    let (world, _server) = drifting();
    let ran = world.run("Hello", &["--replay", "recorded.jsonl"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "Fine.\n"), "{}", ran.err);
    let told = "  ! reply 1 to `Hello` was recorded for another request:\n";
    assert!(ran.err.contains(told), "{}", ran.err);
    assert!(ran.err.contains("-  Be brief.\n+  Be very brief.\n"), "{}", ran.err);
}

#[test]
fn a_request_that_drifted_is_an_error_when_it_is_strict() {
    let (world, _server) = drifting();
    let ran = world.run("Hello", &["--replay", "recorded.jsonl", "--strict"]);
    assert_eq!((ran.code, ran.out.as_str()), (5, ""), "{}", ran.err);
    assert!(ran.err.contains("-  Be brief.\n"), "{}", ran.err);
    assert!(ran.err.contains("+  Be very brief.\n"), "{}", ran.err);
}

#[test]
fn recordings_that_cant_be_played_are_told() {
    let world = World::new();
    world.write("work/empty.jsonl", "");
    world.write("work/other.jsonl", "{\"seq\":1}\n");
    let table = [
        ("missing.jsonl", "error: the recording missing.jsonl can't be read: No such file or"),
        ("empty.jsonl", "error: empty.jsonl: it holds no reply of a model"),
        ("other.jsonl", "error: other.jsonl: line 1 is no entry of a log: missing field"),
    ];
    for (file, told) in table {
        let ran = world.run("Hello", &["--replay", file]);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{}", ran.err);
        assert!(ran.err.starts_with(told), "{told} in {}", ran.err);
    }
    let ran = world.run("Hello", &["--replay", &example("demo.jsonl")]);
    assert_eq!((ran.code, ran.out.as_str()), (5, ""), "{}", ran.err);
    let told = "the recording knows no such prompt; it has: `Is it warmer in Lisbon or Porto?`";
    assert!(ran.err.contains(told), "{}", ran.err);
}

#[test]
fn a_home_is_made_once_and_kept() {
    let world = World::new();
    let said = |word: &str| {
        format!(
            "{word} WORLD/home/config.yaml\n{word} WORLD/home/.env\n\
             Put a key into .env or the environment, then: inspan run \"Hello\"\n"
        )
    };
    let made = world.inspan(&["init"]);
    assert_eq!((made.code, world.plain(&made.out)), (0, said("made")), "{}", made.err);
    let files = ["home/config.yaml", "home/.env"].map(|name| world.read(name));
    let kept = world.inspan(&["init"]);
    assert_eq!((kept.code, world.plain(&kept.out)), (0, said("kept")), "{}", kept.err);
    assert_eq!(files, ["home/config.yaml", "home/.env"].map(|name| world.read(name)));
    assert_eq!(mode(&world.path("home/.env")), 0o600);
    assert_eq!(mode(&world.home()), 0o700);

    let ran = world.inspan(&["run", "Hello"]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert_eq!(ran.err, "error: anthropic: no key: set ANTHROPIC_API_KEY\n");
}

fn mode(path: &PathBuf) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).expect("a file").permissions().mode() & 0o777
}
