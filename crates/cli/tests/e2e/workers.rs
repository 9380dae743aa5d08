//! `inspan worker`, and Postgres as the database of a home.

use std::process::Stdio;

use inspan_core::{
    Action, Entry, Policy, State, decide,
    event::PromptSubmitted,
    gate::Asking,
    message::{Content, Labels},
};
use inspan_testkit::server::{Answer, Server};
use rustix::process::Signal;
use serde_json::json;

use crate::{
    model::{calls, fine, says},
    world::{Running, World},
};

/// A database of its own, and the configuration that names it.
pub(crate) struct Database {
    url: String,
    name: String,
}

impl Database {
    pub(crate) fn new(world: &World) -> Self {
        let name = format!(
            "t_{}",
            world
                .path("")
                .display()
                .to_string()
                .replace(|c: char| !c.is_ascii_alphanumeric(), "")
                .to_lowercase()
        );
        let url = base();
        let database = Self { url, name };
        database.sql(&format!("CREATE SCHEMA {}", database.name));
        database
    }

    pub(crate) fn yaml(&self) -> String {
        format!("database: \"{}?options=-csearch_path%3D{}\"\n", self.url, self.name)
    }

    /// Takes the leases of processes that are gone away, so that nobody need wait for their end.
    pub(crate) fn free(&self) {
        self.sql(&format!("DELETE FROM {}.claims", self.name));
    }

    fn sql(&self, sql: &str) {
        use sqlx::{AssertSqlSafe, Connection, PgConnection};
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let mut connection = PgConnection::connect(&self.url).await.expect("a database");
            sqlx::query(AssertSqlSafe(sql.to_owned())).execute(&mut connection).await.expect("SQL");
        });
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.sql(&format!("DROP SCHEMA {} CASCADE", self.name));
    }
}

fn base() -> String {
    std::env::var("INSPAN_TEST_POSTGRES").unwrap_or_else(|_| {
        panic!("INSPAN_TEST_POSTGRES names no Postgres database: run the tests with `./test tests`")
    })
}

const WAITS: &str = "\
name: waits
model: anthropic://claude-scripted
tools:
  wait: { description: Waits., command: [cat, gate], effects: [], repeat: pure }
";

#[test]
fn a_worker_goes_on_with_what_was_interrupted() {
    let server = Server::start([calls("wait", "{}"), says("It is over.")]);
    let world = World::at(&server).with_agent(WAITS);
    let gate = world.pipe("gate");
    let mut run = world.start("Wait.", &[]);
    run.read_entry("ToolStarted");
    let id = run.id();
    // While somebody drives it, it is not due.
    let idle = world.inspan(&["worker", "--once"]);
    assert_eq!((idle.code, idle.err.as_str()), (0, ""));
    run.kill();
    std::fs::remove_file(&gate).expect("a pipe");
    world.write("agent/gate", "open");
    let worked = world.inspan(&["worker", "--once"]);
    let told = "  ! session ID: the agent in WORLD/agent changed since this session was last driven; \
                it goes on as it is now\nsession ID: end\n";
    assert_eq!((worked.code, world.plain(&worked.err).as_str()), (0, told));
    let log = world.log(&id);
    assert_eq!(log.last().map(|entry| &entry["body"]["stop"]), Some(&json!("end")));
    let again = world.inspan(&["worker", "--once"]);
    assert_eq!((again.code, again.err.as_str()), (0, ""));
}

/// Without an identifier, what was interrupted goes on before what waits, however new that is.
#[test]
fn resume_takes_what_was_interrupted_last() {
    let spent = || {
        let body = json!({"type": "error", "error": {"type": "rate_limit_error", "message": "x"}});
        Answer::json(429, &body).header("retry-after", "86400")
    };
    let server =
        Server::start([calls("wait", "{}"), spent(), says("It is over."), spent(), fine()]);
    let world = World::at(&server).with_agent(WAITS);
    let gate = world.pipe("gate");
    let mut run = world.start("Wait.", &[]);
    run.read_entry("ToolStarted");
    let id = run.id();
    run.kill();
    std::fs::remove_file(&gate).expect("a pipe");
    world.write("agent/gate", "open");
    let parked = world.run("Hello", &[]);
    assert_eq!(parked.code, 6, "{}", parked.err);

    let resumed = world.inspan(&["resume"]);
    assert_eq!((resumed.code, resumed.out.as_str()), (0, "It is over.\n"), "{}", resumed.err);
    assert_eq!(resumed.id(), id);
    let resumed = world.inspan(&["resume"]);
    assert_eq!((resumed.code, resumed.id()), (6, parked.id()), "{}", resumed.err);
}

/// The log of a process that died between the end of a turn and the first round of the next, which a
/// prompt that came too late for the one before had opened.
#[test]
fn a_worker_answers_a_prompt_that_came_too_late_for_its_turn() {
    let server = Server::start([Answer::json(401, &json!({"error": {"message": "no"}})), fine()]);
    let (world, other) = (World::at(&server), World::at(&server));
    let id = world.run("Look.", &[]).id().to_owned();
    let exported = world.inspan(&["export", &id]).out;
    let (header, lines) = exported.split_once('\n').expect("a header");
    let entries: Vec<Entry> =
        lines.lines().map(|line| Entry::from_line(line).expect("an entry")).collect();
    let asked = entries.iter().position(|entry| entry.event.kind() == "RoundStarted");
    let (before, after) = entries.split_at(asked.expect("a round") + 1);
    let late =
        PromptSubmitted { content: vec![Content::text("Quick.")], labels: Labels::default() };
    let mut state = State::fold(before);
    let mut log = before.to_vec();
    let policy = Policy { now_ms: state.at_ms, asking: Asking::Never };
    for event in [late.into(), after[0].event.clone()] {
        log.push(state.entry(state.at_ms, event));
        state.apply(log.last().expect("an entry"));
    }
    let Action::AppendEvent(end) = decide(&state, &policy) else { panic!("{state:?}") };
    log.push(state.entry(state.at_ms, end));
    let header = header.replace("\"entries\":6", "\"entries\":7");
    let lines: String = log.iter().map(|entry| entry.to_line() + "\n").collect();
    other.write("log.jsonl", &format!("{header}\n{lines}"));
    let file = other.path("log.jsonl").display().to_string();
    let imported = other.inspan(&["import", &file]);
    assert_eq!(imported.code, 0, "{}", imported.err);
    let worked = other.inspan(&["worker", "--once"]);
    assert_eq!((worked.code, other.plain(&worked.err).as_str()), (0, "session ID: end\n"));
    let log = other.log(&id);
    let kinds: Vec<&str> = log[6..].iter().filter_map(|entry| entry["kind"].as_str()).collect();
    assert_eq!(
        kinds,
        ["TurnEnded", "SessionForked", "Woken", "RoundStarted", "ModelReplied", "TurnEnded"]
    );
    assert_eq!(other.inspan(&["verify", &id]).code, 0);
}

#[test]
fn a_worker_says_what_it_can_not_drive_and_goes_on() {
    let server = Server::start([calls("wait", "{}"), calls("wait", "{}"), fine()]);
    let world = World::at(&server).with_agent(WAITS);
    world.pipe("gate");
    for folder in ["gone", "there"] {
        std::fs::create_dir(world.path(folder)).expect("a folder");
        for file in ["agent.yaml", "gate"] {
            let (from, to) = (world.agent().join(file), world.path(folder).join(file));
            if file == "gate" {
                std::os::unix::fs::symlink(from, to)
            } else {
                std::fs::copy(from, to).map(drop)
            }
            .expect("a file");
        }
        let folder = format!("../{folder}");
        let arguments = ["run", "--json", "--agent", &folder, "Wait."];
        let mut run = Running::start(world.command(&arguments));
        run.read_entry("ToolStarted");
        run.kill();
    }
    std::fs::remove_file(world.agent().join("gate")).expect("a pipe");
    world.write("agent/gate", "open");
    std::fs::remove_dir_all(world.path("gone")).expect("a folder");
    let worked = world.inspan(&["worker", "--once", "--concurrency", "1"]);
    assert_eq!(worked.code, 1, "{}", worked.err);
    assert_eq!(
        world.plain(&worked.err),
        "error: session ID: the agent's folder WORLD/gone is gone; name another with --agent DIR\n  \
         ! session ID: the agent in WORLD/there changed since this session was last driven; it goes \
         on as it is now\nsession ID: end\n"
    );
}

#[test]
fn the_same_in_postgres() {
    let server = Server::start([calls("echo", r#"{"text":"hi"}"#), says("It said hi."), fine()]);
    let world = World::at(&server);
    let database = Database::new(&world);
    let world = world.with_config(&database.yaml());
    let ran = world.run("Echo hi.", &[]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "It said hi.\n"), "{}", ran.err);
    let id = ran.id();
    assert_eq!(world.inspan(&["verify", id]).code, 0);
    assert_eq!(world.only_session(), id);
    assert_eq!(world.inspan(&["search", "--json", "said"]).lines().len(), 1);
    world.goes_on(id);
    let moved = World::at(&server);
    let file = world.path("log.jsonl").display().to_string();
    assert_eq!(world.inspan(&["export", id, &file]).code, 0);
    assert_eq!(moved.inspan(&["import", &file]).code, 0);
    assert_eq!(moved.log(id), world.log(id));
    assert_eq!(world.inspan(&["remove", id, "--yes"]).code, 0);
    assert_eq!(world.inspan(&["sessions", "--json"]).out, "");
    assert!(!world.home().join("sessions.db").exists());
}

#[test]
fn a_password_is_said_nowhere() {
    let world = World::new()
        .with("DB_PASSWORD", "swordfish-42")
        .with_config("database: postgres://ann:${DB_PASSWORD}@127.0.0.1:1/inspan\n");
    let ran = world.inspan(&["sessions"]);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    assert_eq!(
        ran.err,
        "error: postgres://ann@127.0.0.1:1/inspan: it can't be reached (Connection refused (os \
         error 111)): check that it runs; nothing that was told as written is lost\n"
    );
}

/// Three workers on one database, one of them killed in the middle and one told to end: each session
/// is driven to its end, and none twice at the same time.
#[test]
fn workers_share_a_database_and_take_over() {
    let waits: Vec<_> = (0..4).map(|_| calls("wait", "{}")).collect();
    let ends: Vec<_> = (0..4).map(|_| says("It is over.")).collect();
    let server = Server::start(waits.into_iter().chain(ends));
    let world = World::at(&server).with_agent(WAITS);
    let database = Database::new(&world);
    let world = world.with_config(&database.yaml());
    let gate = world.pipe("gate");
    let mut ids = Vec::new();
    for _ in 0..4 {
        let mut run = world.start("Wait.", &[]);
        run.read_entry("ToolStarted");
        ids.push(run.id());
        run.kill();
    }
    // Nobody need wait until the leases of the killed runs are over.
    database.free();
    let worker = |concurrency| {
        let mut command = world.command(&["worker", "--concurrency", concurrency]);
        command.stderr(Stdio::piped()).spawn().expect("a worker")
    };
    let (mut killed, ended) = (worker("2"), worker("2"));
    let mut followers: Vec<Running> = Vec::new();
    for id in &ids {
        let mut follower = Running::start(world.command(&["show", "--json", "--follow", id]));
        assert!(follower.read_until(|line| line["kind"] == "Woken"));
        followers.push(follower);
    }
    killed.kill().expect("a worker");
    killed.wait().expect("a worker");
    rustix::process::kill_process(rustix::process::Pid::from_child(&ended), Signal::TERM)
        .expect("a worker");
    let ended = ended.wait_with_output().expect("a worker");
    assert_eq!(ended.status.code(), Some(0));
    std::fs::remove_file(&gate).expect("a pipe");
    world.write("agent/gate", "open");
    // The sessions of the one that was told to end are free at once, the others after their lease.
    let mut last = worker("4");
    for follower in followers {
        let followed = follower.finish();
        assert_eq!(followed.done()["body"]["stop"], "end", "{}", followed.err);
    }
    last.kill().expect("a worker");
    last.wait().expect("a worker");
    for id in &ids {
        let log = world.log(id);
        let finished = log.iter().filter(|entry| entry["kind"] == "ToolFinished").count();
        let woken = log.iter().filter(|entry| entry["kind"] == "Woken").count();
        assert_eq!((finished, woken), (1, 2), "{id}");
        assert_eq!(world.inspan(&["verify", id]).code, 0);
    }
}
