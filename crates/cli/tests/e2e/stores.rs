//! Homes and databases that can't be used, and two processes on one session: each a clear
//! message, and nothing is lost.

use std::{fs, process::Command};

use inspan_testkit::server::{Answer, Server};
use rustix::process::Signal;
use serde_json::json;
use sqlx::{Connection, SqlSafeStr, SqliteConnection, sqlite::SqliteConnectOptions};

use crate::{
    model::{calls, fine, says},
    world::{Ran, World},
};

/// Changes the database behind the command's back.
pub(crate) fn sql(world: &World, statement: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let options = SqliteConnectOptions::new().filename(world.database());
    let statement = sqlx::AssertSqlSafe(statement).into_sql_str();
    let done = runtime.expect("a runtime").block_on(async {
        let mut connection = SqliteConnection::connect_with(&options).await?;
        sqlx::raw_sql(statement).execute(&mut connection).await?;
        connection.close().await
    });
    done.expect("a statement that can be run");
}

/// A world with one session that has ended.
fn with_a_session() -> (World, Server, String) {
    let server = Server::start([calls("echo", r#"{"text":"hi"}"#), says("Hi."), fine(), fine()]);
    let world = World::at(&server);
    let ran = world.run("Hello", &[]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let id = ran.id().to_owned();
    (world, server, id)
}

fn failed(world: &World, ran: &Ran, code: i32, told: &str) {
    assert_eq!((ran.code, ran.out.as_str()), (code, ""), "{}", ran.err);
    assert_eq!(world.plain(&ran.err), told);
}

#[test]
fn a_log_that_was_changed_is_told() {
    let (world, _server, id) = with_a_session();
    let verified = world.inspan(&["verify", id.split_at(35).0]);
    assert_eq!(verified.code, 0, "{}", verified.err);
    let said = format!("✓ session {id}: 11 entries are as they were written\nlast hash ");
    assert!(verified.out.starts_with(&said), "{}", verified.out);

    sql(&world, "UPDATE entries SET body = replace(body, 'hi', 'ho') WHERE kind = 'ToolFinished'");
    let told = "error: session ID: entry 8 is not what was written after entry 7; the entries \
                before it are as they were\n";
    failed(&world, &world.inspan(&["verify", &id]), 1, told);
    // It can go on, and says what it goes on from.
    let ran = world.run("go on", &["--session", &id]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "Fine.\n"), "{}", ran.err);
    let told = format!("! entry 8 is not what was written after entry 7: inspan verify {id}\n");
    assert!(ran.err.contains(&told), "{}", ran.err);
}

#[test]
fn a_turn_or_a_round_that_was_changed_is_told() {
    let (world, _server, id) = with_a_session();
    sql(&world, "UPDATE entries SET turn = 2, round = 7 WHERE kind = 'ToolFinished'");
    let told = "error: session ID: its entries are as they were written, but what lists and views \
                read beside them is not: turn of entry 8 is 2 in place of 1, and 1 more\n";
    failed(&world, &world.inspan(&["verify", &id]), 1, told);
}

#[test]
fn a_log_without_its_end_is_told() {
    let (world, server, id) = with_a_session();
    sql(&world, "DELETE FROM entries WHERE seq = 11");
    let told = "error: session ID: its last entries are missing: 11 were written, 10 are there, \
                and those are as they were\n";
    failed(&world, &world.inspan(&["verify", &id]), 1, told);
    for arguments in [&["resume", &id][..], &["run", "--session", &id, "go on"]] {
        let ran = world.inspan(arguments);
        let told = "error: session ID can't be read as a log: its last entries are missing: 11 \
                    were written, 10 are there; `inspan fork ID --at 10` goes on from entry 10\n";
        failed(&world, &ran, 1, told);
    }
    assert_eq!(server.received().len(), 2);
}

#[test]
fn a_newer_database_is_left_alone() {
    let (world, server, id) = with_a_session();
    sql(
        &world,
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
         VALUES (70, 'newer', TRUE, x'00', 0)",
    );
    let told = "error: WORLD/home/sessions.db (version 70 of 5) was written by a newer version of \
                Inspan: nothing was changed\n";
    for arguments in [&["sessions"][..], &["run", "Hello"], &["resume"], &["show", &id]] {
        failed(&world, &world.inspan(arguments), 1, told);
    }
    assert_eq!(server.received().len(), 2);

    sql(&world, "DELETE FROM _sqlx_migrations WHERE version = 70");
    world.goes_on(&id);
}

#[test]
fn a_file_that_is_no_database_is_told() {
    let (world, server, _) = with_a_session();
    world.write("home/sessions.db", &"no database at all\n".repeat(100));
    let told = "error: WORLD/home/sessions.db can't be read as a log: it is no SQLite database: \
                move it away together with WORLD/home/sessions.db-wal and \
                WORLD/home/sessions.db-shm, if they are there, and a new one is made\n";
    failed(&world, &world.run("Hello", &[]), 1, told);
    failed(&world, &world.inspan(&["sessions"]), 1, told);
    assert_eq!(server.received().len(), 2);

    fs::rename(world.database(), world.path("home/away.db")).expect("a file");
    let ran = world.run("Hello", &[]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "Fine.\n"), "{}", ran.err);
}

#[test]
fn every_command_leaves_the_whole_log_in_one_file() {
    let server = Server::start([fine(), Answer::json(400, &json!({})), Answer::silent(), fine()]);
    let world = World::at(&server);
    let is_one_file = |what: &str, code: i32, expected: i32, err: &str| {
        assert_eq!(code, expected, "{what}: {err}");
        assert!(world.database().exists(), "{what}");
        for beside in ["home/sessions.db-wal", "home/sessions.db-shm"] {
            assert!(!world.path(beside).exists(), "{what}: {beside}");
        }
    };
    let ran = world.run("Hello", &[]);
    is_one_file("a run", ran.code, 0, &ran.err);
    let id = ran.id().to_owned();
    let ran = world.run("Hello", &["--session", &id]);
    is_one_file("a run that failed", ran.code, 5, &ran.err);
    let ran = world.run("Hello", &["--session", "nowhere"]);
    is_one_file("a mistake", ran.code, 2, &ran.err);
    let mut running = world.start("Hello", &["--session", &id]);
    running.read_entry("RoundStarted");
    // The announcement is durable before the request has arrived, which takes the silent answer.
    server.wait_for(3);
    running.send(Signal::INT);
    let ran = running.finish();
    is_one_file("Ctrl-C", ran.code, 130, &ran.err);
    for arguments in [&["sessions"][..], &["show", &id], &["verify", &id], &["resume", &id]] {
        let ran = world.inspan(arguments);
        let expected = if arguments[0] == "resume" { 130 } else { 0 };
        is_one_file(arguments[0], ran.code, expected, &ran.err);
    }

    // So whoever takes that file takes everything.
    let other = World::at(&server);
    fs::create_dir(other.home()).expect("a folder");
    fs::copy(world.database(), other.database()).expect("a file");
    other.goes_on(&id);
    assert_eq!(other.inspan(&["verify", &id]).code, 0);
}

#[test]
fn a_damaged_database_is_told() {
    let (world, _server, id) = with_a_session();
    let mut bytes = fs::read(world.database()).expect("a database");
    let header = 4096;
    bytes[header..].fill(0x5a);
    fs::write(world.database(), bytes).expect("a database");
    for arguments in [&["run", "--session", &id, "go on"][..], &["show", &id], &["sessions"]] {
        let ran = world.inspan(arguments);
        assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{}", ran.err);
        let told = "error: WORLD/home/sessions.db can't be read as a log: ";
        let err = world.plain(&ran.err);
        assert!(err.starts_with(told) && err.contains(".recover`"), "{err}");
    }
}

#[test]
fn two_processes_on_one_session() {
    let server = Server::start([Answer::silent(), fine(), fine()]);
    let world = World::at(&server);
    let mut first = world.start("Hello", &[]);
    let id = first.id();
    first.read_entry("RoundStarted");
    server.wait_for(1);
    let told =
        "error: session ID is in use: another process, or another part of this one, drives it\n";
    failed(&world, &world.run("And me?", &["--session", &id]), 1, told);
    failed(&world, &world.inspan(&["resume", &id]), 1, told);
    let shown = world.inspan(&["show", &id]);
    assert!(shown.code == 0 && shown.out.contains("prompt    Hello"), "{}", shown.out);
    // Another session is no trouble.
    let other = world.run("Hello", &[]);
    assert_eq!((other.code, other.out.as_str()), (0, "Fine.\n"), "{}", other.err);
    first.kill();
    world.goes_on(&id);
}

/// Runs a script that mounts a disk over the home and starts the command, `$2`, with it, where the
/// system lets us do that.
fn with_a_disk(world: &World, options: &str, script: &str) -> Option<Ran> {
    let script = format!("mount -t tmpfs -o {options} tmpfs \"$1\" || exit 99\n{script}");
    let mut command = Command::new("unshare");
    world.surround(&mut command).args(["-rm", "sh", "-c", &script, "sh"]);
    command.arg(world.home()).arg(env!("CARGO_BIN_EXE_inspan"));
    let ran = Ran::of(command.output().ok()?);
    (ran.code != 99 && !ran.err.starts_with("unshare")).then_some(ran)
}

#[test]
fn a_home_that_cant_be_written() {
    let server = Server::start([fine()]);
    let world = World::at(&server);
    fs::create_dir(world.home()).expect("a folder");
    match with_a_disk(&world, "ro", "exec \"$2\" run --agent ../agent Hello") {
        Some(ran) => {
            let told = "error: WORLD/home/sessions.db can't be written: Read-only file system (os \
                        error 30)\n";
            failed(&world, &ran, 1, told);
        }
        // Elsewhere a home below something that is no folder has to do.
        None => {
            let ran = world.with("INSPAN_HOME", "/dev/null/home").run("Hello", &[]);
            assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{}", ran.err);
            assert!(ran.err.contains("/dev/null/home/.env can't be read"), "{}", ran.err);
        }
    }
    assert_eq!(server.received().len(), 0, "nothing is asked that can't be kept");
}

#[test]
fn a_full_disk() {
    let server = Server::answering(|_| says(&format!("Long. {}", "answer".repeat(50_000))));
    let world = World::at(&server);
    fs::create_dir(world.home()).expect("a folder");
    let script = "for turn in 1 2 3 4; do \"$2\" run --agent ../agent Hello || exit $?; done";
    match with_a_disk(&world, "size=600k", script) {
        Some(ran) => {
            assert_eq!(ran.code, 1, "{}", ran.err);
            let told = "sessions.db can't be written: the disk is full: make room, then go on\n";
            assert!(ran.err.ends_with(told), "{}", ran.err);
        }
        // Elsewhere a recording on the device that is always full has to do.
        None => {
            let ran = world.run("Hello", &["--record", "/dev/full"]);
            assert_eq!(ran.code, 1, "{}", ran.err);
            assert!(ran.err.contains("the recording /dev/full: No space left"), "{}", ran.err);
        }
    }
}

#[test]
fn after_a_full_disk_the_session_goes_on() {
    let server = Server::start([
        calls("echo", &format!("{{\"text\":\"{}\"}}", "long".repeat(60_000))),
        fine(),
        fine(),
    ]);
    let world = World::at(&server);
    fs::create_dir(world.home()).expect("a folder");
    // The ballast fills the disk, and makes room when it is gone.
    let script = "head -c 250000 /dev/zero >\"$1/ballast\"
        \"$2\" run --agent ../agent Hello && exit 98
        rm \"$1/ballast\"
        exec \"$2\" resume";
    if let Some(ran) = with_a_disk(&world, "size=600k", script) {
        assert_eq!((ran.code, ran.out.as_str()), (0, "Fine.\n"), "{}", ran.err);
        assert!(ran.err.contains("the disk is full: make room, then go on\n"), "{}", ran.err);
    }
}
