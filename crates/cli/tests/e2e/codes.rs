//! Every exit code that the command can end with, what it says then, and that the session goes on.

use inspan_testkit::server::{Answer, Said, Server};
use rustix::process::Signal;
use serde_json::json;

use crate::{
    model::{calls, fine, says},
    world::{ECHO, Ran, Running, World, text},
};

const HI: &str = r#"{"text":"hi"}"#;

/// The stop and the exit code as a program is told them.
fn ended(ran: &Ran) -> (String, i64, i32) {
    let done = ran.done();
    let stop = done["stop"].as_str().unwrap_or_default().to_owned();
    (stop, done["exit_code"].as_i64().unwrap_or(-1), ran.code)
}

/// Runs a prompt and lets the session go on.
fn run(world: &World, flags: &[&str]) -> Ran {
    let ran = world.run("Hello", &[flags, &["--json"]].concat());
    world.goes_on(ran.id());
    ran
}

#[test]
fn limits_end_with_their_name_and_a_closing_answer() {
    let echoes = |n: u32| calls("echo", &format!("{{\"text\":\"{n}\"}}"));
    let two = Answer::anthropic(&[
        Said::call("toolu_1", "echo", r#"{"text":"1"}"#),
        Said::call("toolu_2", "echo", r#"{"text":"2"}"#),
    ]);
    let closing = || says("What I have.");
    let cost = ["--model", "dear://m", "--cost-max-usd", "0.02"];
    let table: [(&str, &[&str], Vec<Answer>); 5] = [
        ("rounds", &["--rounds-max", "2"], vec![echoes(1), echoes(2), closing()]),
        ("calls", &["--calls-max", "1"], vec![two, closing()]),
        ("loop", &[], (0..5).map(|_| echoes(1)).chain([closing()]).collect()),
        ("tokens", &["--tokens-max", "90"], (0..9).map(echoes).collect()),
        ("cost", &cost, (0..9).map(echoes).collect()),
    ];
    for (stop, flags, script) in table {
        let server = Server::start(script.into_iter().chain([fine()]));
        let config = format!(
            "providers: {{ dear: {{ wire: anthropic, base_url: \"{}\" }} }}\n\
             models: {{ \"dear://m\": {{ price: {{ input: 100, output: 500 }} }} }}\n",
            server.url()
        );
        let world = World::at(&server).with_config(&config);
        let ran = world.run("Hello", &[flags, &["--json"]].concat());
        assert_eq!(ended(&ran), (stop.to_owned(), 4, 4), "{}", ran.err);
        if ran.done()["answer"] != "What I have." {
            // Tokens and money are spent by rounds whose size nobody knows before.
            assert!(matches!(stop, "tokens" | "cost"), "{stop}: {}", ran.err);
        }
        let told = format!("to go on: inspan run --session {} \"Go on.\"\n", ran.id());
        assert!(ran.err.contains(&told), "{}", ran.err);
    }
}

#[test]
fn a_turn_out_of_time_ends_what_is_under_way() {
    let server = Server::start([Answer::silent(), fine()]);
    let world = World::at(&server);
    let ran = run(&world, &["--time-max", "100ms"]);
    assert_eq!(ended(&ran), ("time".to_owned(), 4, 4), "{}", ran.err);
}

#[test]
fn a_reply_that_is_cut_twice_ends_the_turn() {
    let cut = |text: &str| {
        let whole = inspan_testkit::server::anthropic_sse(&[Said::text(text)]);
        Answer::sse(whole.replace("end_turn", "max_tokens"))
    };
    let server = Server::start([cut("One and "), cut("two and "), fine()]);
    let world = World::at(&server);
    let ran = run(&world, &[]);
    assert_eq!(ended(&ran), ("length".to_owned(), 4, 4), "{}", ran.err);
    let limits: Vec<_> = server.received().iter().map(|r| r.json()["max_tokens"].clone()).collect();
    assert_eq!(limits[..2], [json!(8192), json!(32_768)]);
}

#[test]
fn a_refusal_is_seven() {
    let whole = inspan_testkit::server::anthropic_sse(&[Said::text("No.")]);
    let refusal = Answer::sse(whole.replace("end_turn", "refusal"));
    let server = Server::start([refusal, fine()]);
    let world = World::at(&server);
    let ran = run(&world, &[]);
    assert_eq!(ended(&ran), ("refusal".to_owned(), 7, 7), "{}", ran.err);
}

#[test]
fn a_used_up_quota_parks_the_turn_and_resume_wakes_it() {
    let spent = json!({"type": "error", "error": {"type": "rate_limit_error",
        "message": "You have used what you paid for.",
        "details": {"error_code": "org_spend_limit_exceeded"}}});
    let server = Server::start([
        calls("echo", HI),
        Answer::json(429, &spent).header("retry-after", "86400"),
        says("Awake."),
        fine(),
    ]);
    let world = World::at(&server);
    let ran = world.run("Hello", &["--json"]);
    assert_eq!(ended(&ran), ("parked".to_owned(), 6, 6), "{}", ran.err);
    assert!(ran.err.contains("You have used what you paid for."), "{}", ran.err);
    let told = format!("to go on: inspan resume {}\n", ran.id());
    assert!(ran.err.contains(&told), "{}", ran.err);

    let woken = world.inspan(&["resume"]);
    assert_eq!((woken.code, woken.out.as_str()), (0, "Awake.\n"), "{}", woken.err);
    assert_eq!(woken.id(), ran.id());
    world.goes_on(ran.id());
}

#[test]
fn the_first_ctrl_c_stops_cleanly_and_keeps_what_was_said() {
    for signal in [Signal::INT, Signal::TERM] {
        let long = says("Once upon a time there was a very long story.");
        let half = long.body_len() / 2;
        let server = Server::start([long.hang_after(half), fine()]);
        let world = World::at(&server);
        let mut running = world.start("Tell a story.", &[]);
        assert!(running.read_until(|line| line["update"] == "delta" && line["text"] == "Once "));
        running.send(signal);
        let ran = running.finish();
        assert_eq!(ended(&ran), ("cancelled".to_owned(), 130, 130), "{}", ran.err);
        // What was said is in the log, and the model reads it again; an answer it is not.
        assert_eq!(ran.done()["answer"], "");
        let log = world.log(ran.id());
        let replied = log.iter().find(|entry| entry["kind"] == "ModelReplied");
        let said = text(&replied.expect("a reply")["body"]["reply"]["parts"][0]["text"]);
        assert!(said.starts_with("Once ") && !said.ends_with("story."), "{said}");
        world.goes_on(ran.id());
        let sent = server.received().pop().map(|request| request.text()).unwrap_or_default();
        assert!(sent.contains(said.trim_end()), "{sent}");
    }
}

/// A tool that does not care for the polite way to end, and holds the pipe `alive` while it lives.
const STUBBORN: &str = "\
name: stubborn
model: anthropic://claude-scripted
tools:
  hold:
    description: Holds on.
    command: [sh, hold.sh]
    repeat: idempotent
";

const HOLD: &str = "\
trap '' INT TERM
exec 3>alive
echo held >&3
sh -c 'read never <gate'
";

#[test]
fn ctrl_c_ends_the_tools() {
    let server = Server::start([calls("hold", "{}"), fine()]);
    let world = World::at(&server).with_agent(STUBBORN).with_file("hold.sh", HOLD);
    let (alive, _gate) = (world.pipe("alive"), world.pipe("gate"));
    let running = world.start("Hold on.", &[]);
    let mut held = std::fs::File::open(&alive).expect("a pipe");
    let mut line = [0; 5];
    std::io::Read::read_exact(&mut held, &mut line).expect("a line");
    running.send(Signal::INT);
    let ran = running.finish();
    assert_eq!(ended(&ran), ("cancelled".to_owned(), 130, 130), "{}", ran.err);
    let rest = std::io::read_to_string(held).expect("the end of the tool");
    assert_eq!(rest, "");
    world.goes_on(ran.id());
}

/// A tool that must not run twice, and ends when the pipe `gate` says so.
const CAREFUL: &str = "\
name: careful
model: anthropic://claude-scripted
tools:
  hold:
    description: Holds on.
    command: [sh, hold.sh]
    repeat: once
";

const UNTIL: &str = "\
exec 3>alive
echo held >&3
read last <gate
echo \"$last\"
";

/// A run in the middle of such a call, cancelled once.
fn cancelled_in_a_call(world: &World) -> (Running, std::fs::File) {
    let alive = world.pipe("alive");
    let mut running = world.start("Hold on.", &[]);
    let mut held = std::fs::File::open(alive).expect("a pipe");
    let mut line = [0; 5];
    std::io::Read::read_exact(&mut held, &mut line).expect("a line");
    running.send(Signal::INT);
    running.read_entry("CancelRequested");
    (running, held)
}

#[test]
fn the_first_ctrl_c_waits_for_a_call_that_must_not_run_twice() {
    let server = Server::start([calls("hold", "{}"), fine()]);
    let world = World::at(&server).with_agent(CAREFUL).with_file("hold.sh", UNTIL);
    let gate = world.pipe("gate");
    let (running, _held) = cancelled_in_a_call(&world);
    std::fs::write(gate, "let go\n").expect("a pipe");
    let ran = running.finish();
    assert_eq!(ended(&ran), ("cancelled".to_owned(), 130, 130), "{}", ran.err);
    let log = world.log(ran.id());
    let finished = log.iter().find(|entry| entry["kind"] == "ToolFinished").expect("a result");
    let told = (&finished["body"]["how"], &finished["body"]["result"]["content"][0]["text"]);
    assert_eq!(told, (&json!("ok"), &json!("let go\n")));
    world.goes_on(ran.id());
}

#[test]
fn the_second_ctrl_c_ends_it() {
    let server = Server::start([calls("hold", "{}"), fine()]);
    let world = World::at(&server).with_agent(CAREFUL).with_file("hold.sh", UNTIL);
    let _gate = world.pipe("gate");
    let (running, held) = cancelled_in_a_call(&world);
    running.send(Signal::INT);
    let ran = running.finish();
    assert_eq!(ran.code, 130, "{}", ran.err);
    assert_eq!(std::io::read_to_string(held).expect("the end of the tool"), "");
    let resumed = world.inspan(&["resume", ran.id()]);
    assert_eq!((resumed.code, resumed.out.as_str()), (130, ""), "{}", resumed.err);
    let log = world.log(ran.id());
    let finished = log.iter().find(|entry| entry["kind"] == "ToolFinished").expect("a result");
    assert_eq!(finished["body"]["how"], "unknown");
    world.goes_on(ran.id());
}

#[test]
fn usage_is_two() {
    let world = World::new().with_agent(ECHO);
    for arguments in [&[][..], &["run"], &["run", "a", "b"], &["fly"], &["run", "a", "--loud"]] {
        let ran = world.inspan(arguments);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{arguments:?}: {}", ran.err);
    }
}
