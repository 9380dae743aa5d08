//! Sessions as things: found, carried from one database to another, removed, followed.

use std::{
    fs::File,
    os::unix::fs::{FileTypeExt, PermissionsExt},
};

use inspan_testkit::server::Server;
use serde_json::json;

use crate::{
    model::{calls, fine, says},
    stores::sql,
    world::{Ran, Running, World, on_terminal, text},
};

#[test]
fn sessions_are_listed_by_what_they_are() {
    let server = Server::start([says("Lisbon is warm."), says("Porto is cold.")]);
    let world = World::at(&server);
    let (warm, cold) = (world.run("Lisbon?", &[]), world.run("Porto?", &[]));
    let ids = |flags: &[&str]| {
        let ran = world.inspan(&[&["sessions", "--json"], flags].concat());
        assert_eq!(ran.code, 0, "{}", ran.err);
        ran.lines().iter().map(|row| text(&row["id"])).collect::<Vec<_>>()
    };
    let both = [cold.id(), warm.id()];
    let work = world.work().display().to_string();
    let table: [(&[&str], &[&str]); 13] = [
        (&[], &both),
        (&["--text", "warm"], &[warm.id()]),
        (&["--text", "-warm cold"], &[cold.id()]),
        (&["--agent", "parrot"], &both),
        (&["--agent", "other"], &[]),
        (&["--workdir", "."], &both),
        (&["--workdir", &work], &both),
        (&["--standing", "idle", "--stop", "end"], &both),
        (&["--standing", "open"], &[]),
        (&["--since", "1h"], &both),
        (&["--since", "1w", "--until", "0d"], &both),
        (&["--until", "3d"], &[]),
        (&["--until", "2026-01-01"], &[]),
    ];
    for (flags, expected) in table {
        assert_eq!(ids(flags), expected, "{flags:?}");
    }
    let none = world.inspan(&["sessions", "--stop", "cost"]);
    assert_eq!((none.code, none.err.as_str()), (0, "No session is like that.\n"));
    let row = &world.inspan(&["sessions", "--json", "--text", "warm"]).lines()[0];
    assert_eq!(
        (&row["agent"], &row["standing"], &row["parent"], &row["workdir"]),
        (&json!("parrot"), &json!("idle"), &json!(null), &json!(work))
    );
    for (flag, value, told) in [
        ("--since", "soon", "error: `soon` is no time: write 2026-11-30, 2026-11-30T09:15, or a"),
        ("--standing", "up", "there are: idle, open, parked, waiting"),
        ("--count-max", "0", "a list has one at least"),
    ] {
        let wrong = world.inspan(&["sessions", flag, value]);
        assert_eq!(wrong.code, 2);
        assert!(wrong.err.contains(told), "{}", wrong.err);
    }
}

#[test]
fn words_are_found() {
    let secret = "sk-ant-0123456789abcdefghij";
    let long = format!("{} The key is {secret}, says Zoë.", "So it goes. ".repeat(20));
    let server = Server::start([calls("echo", r#"{"text":"a parrot"}"#), says(&long)]);
    let world = World::at(&server);
    let ran = world.run("Say parrot.", &[]);
    let found = world.inspan(&["search", "--json", "parrot"]);
    let kinds: Vec<_> = found.lines().iter().map(|line| text(&line["kind"])).collect();
    assert_eq!((found.code, kinds), (0, vec!["ToolFinished".into(), "PromptSubmitted".to_owned()]));
    let found = world.inspan(&["search", "zoë", "-parrot"]);
    let line: Vec<&str> = found.out.split_whitespace().collect();
    assert_eq!((found.code, found.out.lines().count()), (0, 1), "{}", found.err);
    assert_eq!((line[0], line[4]), (ran.id(), "model"));
    assert!(found.out.ends_with("es. The key is [masked], says Zoë.\n"), "{}", found.out);
    // Options may stand behind the words.
    let found = world.inspan(&["search", "parrot", "--json", "--count-max", "1"]);
    assert_eq!((found.code, found.lines().len()), (0, 1), "{}", found.err);
    for (option, told) in [
        (
            "--colour",
            "error: `--colour` is no option of a search: there are --count-max and --json\n",
        ),
        ("--count-max=0", "error: --count-max: a list has one at least\n"),
    ] {
        let wrong = world.inspan(&["search", "parrot", option]);
        assert_eq!((wrong.code, wrong.err.as_str()), (2, told));
    }
    let none = world.inspan(&["search", "\"parrot a\""]);
    assert_eq!((none.code, none.out.as_str()), (0, ""));
    assert_eq!(none.err, "Nothing was found.\n");
}

#[test]
fn a_session_moves_to_another_home() {
    let server = Server::start([says("Blue."), fine()]);
    let (world, other) = (World::at(&server), World::at(&server));
    let id = world.run("Which colour?", &[]).id().to_owned();
    let file = world.path("log.jsonl").display().to_string();
    let exported = world.inspan(&["export", &id, &file]);
    assert_eq!((exported.code, exported.out.as_str()), (0, ""), "{}", exported.err);
    assert_eq!(world.plain(&exported.err), "session ID: 6 entries in WORLD/log.jsonl\n");
    let shown = world.inspan(&["export", &id]).out;
    assert_eq!(shown, world.read("log.jsonl"));
    let imported = other.inspan(&["import", &file]);
    assert_eq!((imported.code, imported.out), (0, format!("{id}\n")), "{}", imported.err);
    assert_eq!(other.log(&id), world.log(&id));
    assert_eq!(other.inspan(&["verify", &id]).code, 0);
    // What is there is not written over, and what goes on does.
    let again = other.inspan(&["import", &file]);
    assert_eq!((again.code, again.err), (1, format!("error: there is a session {id} already\n")));
    let world_work = world.work().display().to_string();
    assert_eq!(text(&other.log(&id)[0]["body"]["workdir"]), world_work);
    other.goes_on(&id);
    drop(world);
}

#[test]
fn what_is_no_whole_export_is_refused() {
    let server = Server::start([says("Blue.")]);
    let (world, other) = (World::at(&server), World::new());
    let id = world.run("Which colour?", &[]).id().to_owned();
    let good = world.inspan(&["export", &id]).out;
    let masked = world.inspan(&["export", "--masked", &id]).out;
    let lines: Vec<&str> = good.lines().collect();
    let table = [
        (String::new(), "its first line is not that of `inspan export`"),
        (lines[1..].join("\n"), "its first line is not that of `inspan export`"),
        (
            masked,
            "its secrets are masked, so its hashes can't be checked: export it again without \
             --masked",
        ),
        (
            good.replace("Which colour?", "Which color?"),
            "entry 3 is not what was written after entry 2",
        ),
        (lines[..4].join("\n"), "it has 3 entries of 6"),
        (
            [&lines[..2], &lines[3..]].concat().join("\n"),
            "entry 3 is not what was written after entry 1",
        ),
        (format!("{}\n{{", lines[0]), "line 2: EOF while parsing an object at line 1 column 1"),
        (
            good.replacen("\"version\":1", "\"version\":9", 1),
            "it is of version 9, which a newer Inspan reads",
        ),
    ];
    for (export, why) in table {
        other.write("broken.jsonl", &export);
        let file = other.path("broken.jsonl").display().to_string();
        let ran = other.inspan(&["import", &file]);
        assert_eq!((ran.code, ran.err), (2, format!("error: {file} can't be imported: {why}\n")));
    }
    assert_eq!(other.inspan(&["sessions", "--json"]).out, "");
}

#[test]
fn a_fork_goes_its_own_way() {
    let server = Server::start([says("Blue."), says("Red."), says("Green.")]);
    let world = World::at(&server);
    let parent = world.run("Which colour?", &[]).id().to_owned();
    let before = world.log(&parent);
    let forked = world.inspan(&["fork", &parent, "--at", "3"]);
    assert_eq!(forked.code, 0, "{}", forked.err);
    let fork = forked.out.trim().to_owned();
    assert_eq!(forked.err, format!("to go on: inspan run --session {fork} PROMPT\n"));
    let went_on = world.inspan(&["resume", &fork]);
    assert_eq!((went_on.code, went_on.out.as_str()), (0, "Red.\n"), "{}", went_on.err);
    let log = world.log(&fork);
    assert_eq!(log[..3], before[..3]);
    let none = world.inspan(&["fork", &parent, "--at", "0"]);
    assert!(
        none.err.ends_with(" has 6 entries: it can't be forked after entry 0\n"),
        "{}",
        none.err
    );
    assert_eq!((&log[3]["kind"], &log[3]["seq"]), (&json!("SessionForked"), &json!(4)));
    assert_eq!(world.log(&parent), before, "the parent does not change");
    assert_eq!(world.inspan(&["verify", &fork]).code, 0);
    let row = &world.inspan(&["sessions", "--json", "--text", "red"]).lines()[0];
    assert_eq!(
        (text(&row["id"]), &row["parent"]),
        (fork.clone(), &json!({"id": parent, "seq": 3}))
    );
    // It stands alone elsewhere, and outlives its parent here.
    let other = World::at(&server);
    let file = world.path("fork.jsonl").display().to_string();
    assert_eq!(world.inspan(&["export", &fork, &file]).code, 0);
    assert_eq!(other.inspan(&["import", &file]).code, 0);
    assert_eq!(other.log(&fork), log);
    assert_eq!(world.inspan(&["remove", &parent, "--yes"]).code, 0);
    assert_eq!(world.only_session(), fork);
    let ran = world.run("And now?", &["--session", &fork]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "Green.\n"), "{}", ran.err);
    // So does a fork of it at a place that it shares with its parent.
    let again = world.inspan(&["fork", &fork, "--at", "3"]);
    assert_eq!(again.code, 0, "{}", again.err);
    assert_eq!(world.log(again.out.trim())[..3], before[..3]);
    assert_eq!(world.inspan(&["verify", again.out.trim()]).code, 0);
    let none = world.inspan(&["fork", &fork, "--at", "99"]);
    assert_eq!(none.code, 2);
    assert!(none.err.ends_with("it can't be forked after entry 99\n"), "{}", none.err);
}

/// What was written by hand beside the entries is noticed, and what only can be read can be read.
#[cfg(unix)]
#[test]
fn a_home_that_may_not_be_written_can_be_read() {
    use std::os::unix::{fs::chown, process::CommandExt};
    const NOBODY: u32 = 65534;
    let server = Server::start([says("Blue.")]);
    let world = World::at(&server);
    let id = world.run("Which colour?", &[]).id().to_owned();
    let set = |path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode));
    // Root may do everything, so for root somebody else tries.
    let is_root = chown(world.database(), Some(NOBODY), None).is_ok();
    set(world.path(""), 0o755).expect("a folder");
    if is_root {
        chown(world.home(), Some(NOBODY), None).expect("a folder");
    }
    set(world.database(), 0o400).expect("a file");
    set(world.home(), 0o500).expect("a folder");
    let program = world.path("inspan");
    std::fs::copy(env!("CARGO_BIN_EXE_inspan"), &program).expect("the command");
    let inspan = |arguments: &[&str]| {
        let mut command = std::process::Command::new(&program);
        world.surround(&mut command).args(arguments);
        if is_root {
            command.uid(NOBODY).gid(NOBODY);
        }
        Ran::of(command.output().expect("the command"))
    };
    let read: [&[&str]; 5] =
        [&["sessions"], &["show", &id], &["search", "blue"], &["export", &id], &["verify", &id]];
    for arguments in read {
        let ran = inspan(arguments);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{arguments:?}");
        assert!(ran.out.contains(&id), "{arguments:?}: {}", ran.out);
    }
    for arguments in [&["run", "--session", &id, "On."], &["remove", &id, "--yes"][..]] {
        let ran = inspan(arguments);
        let told = "can't be written: attempt to write a readonly database";
        assert_eq!(ran.code, 1);
        assert!(ran.err.contains(told), "{}", ran.err);
    }
    set(world.home(), 0o700).expect("a folder");
}

#[test]
fn removing_needs_a_yes() {
    let server = Server::start([fine(), fine()]);
    let world = World::at(&server);
    let (one, two) = (world.run("One", &[]), world.run("Two", &[]));
    let asked = world.inspan(&["remove", one.id()]);
    assert_eq!((asked.code, asked.out.as_str()), (2, ""));
    let told = "error: nobody can be asked whether session ID may go: add --yes\n";
    assert_eq!(world.plain(&asked.err), told);
    let removed = world.inspan(&["remove", one.id(), one.id(), "--yes"]);
    assert_eq!((removed.code, world.plain(&removed.err).as_str()), (0, "removed session ID\n"));
    assert_eq!(world.only_session(), two.id());
    assert_eq!(world.inspan(&["show", one.id()]).code, 2);
    assert_eq!(world.inspan(&["remove", one.id(), "--yes"]).code, 2);
}

#[test]
fn a_session_is_followed_from_another_process() {
    let server = Server::start([calls("wait", "{}"), says("It is over.")]);
    let yaml = "\
name: waits
model: anthropic://claude-scripted
tools:
  wait: { description: Waits., command: [cat, gate], effects: [], repeat: pure }
";
    let world = World::at(&server).with_agent(yaml);
    let gate = world.pipe("gate");
    let mut run = world.start("Wait.", &[]);
    run.read_entry("ToolStarted");
    let id = run.id();
    let mut follow = Running::start(world.command(&["show", "--json", "--follow", &id]));
    assert!(follow.read_until(|line| line["kind"] == "ToolStarted"));
    std::fs::write(gate, "open").expect("a pipe");
    let followed = follow.finish();
    assert_eq!(followed.code, 0, "{}", followed.err);
    let last = followed.lines().pop().unwrap_or_default();
    assert_eq!((&last["kind"], &last["body"]["stop"]), (&json!("TurnEnded"), &json!("end")));
    assert_eq!(run.finish().code, 0);
    let shown = world.inspan(&["show", "--follow", &id]);
    assert!(shown.out.contains("It is over."), "an idle session is shown and ends");
}

/// What was asked for and can't be written is an error; a reader that has gone away is none.
#[test]
fn an_output_that_cant_be_written_is_told() {
    let server = Server::start([says("Blue."), says("Red."), says("Red.")]);
    let world = World::at(&server);
    let id = world.run("Which colour?", &[]).id().to_owned();
    let told = "error: standard output: No space left on device (os error 28)\n";
    let to = |arguments: &[&str], output: std::process::Stdio| {
        Ran::of(world.command(arguments).stdout(output).output().expect("the command"))
    };
    let full = || File::options().write(true).open("/dev/full").expect("a device").into();
    for arguments in [
        &["export", &id][..],
        &["show", &id],
        &["show", "--json", &id],
        &["sessions"],
        &["verify", &id],
        &["run", "--agent", "../agent", "Which?"],
        &["run", "--agent", "../agent", "--json", "Which?"],
    ] {
        let ran = to(arguments, full());
        assert_eq!(ran.code, 1, "{arguments:?}: {}", ran.err);
        assert!(ran.err.ends_with(told), "{arguments:?}: {}", ran.err);
    }
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let ran = to(&["export", &id], writer.into());
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    // The turns went on to their ends all the same.
    let rows = world.inspan(&["sessions", "--json"]).lines();
    let stops: Vec<_> = rows.iter().map(|row| text(&row["stop"])).collect();
    assert_eq!(stops, ["end", "end", "end"]);
}

/// An export is the log byte for byte, whatever was said.
#[test]
fn an_export_through_a_pipe_is_what_was_written() {
    let server = Server::start([says("Blue.")]);
    let (world, other) = (World::at(&server), World::new());
    let id = world.run("Which \u{7f}\u{9b}colour?", &[]).id().to_owned();
    other.write("log.jsonl", &world.inspan(&["export", &id]).out);
    let file = other.path("log.jsonl").display().to_string();
    let imported = other.inspan(&["import", &file]);
    assert_eq!((imported.code, imported.out), (0, format!("{id}\n")), "{}", imported.err);
    let (code, drawn) = on_terminal(world.command(&["show", "--json", &id]));
    assert_eq!(code, 0);
    assert!(drawn.contains(r"Which \u007f\u009bcolour?"), "{drawn}");
}

/// A damaged log is exported as it is, and whoever does so hears what it is good for.
#[test]
fn a_damaged_log_is_exported_with_a_word() {
    let server = Server::start([says("Blue.")]);
    let world = World::at(&server);
    let id = world.run("Which colour?", &[]).id().to_owned();
    sql(&world, "UPDATE entries SET body = CAST(x'ff' AS TEXT) WHERE seq = 3");
    let ran = world.inspan(&["export", &id]);
    let told = format!(
        "error: session {id}: entry 3 is not what was written after entry 2; the export is the \
         log as it is, and `inspan import` takes no such log\n"
    );
    assert_eq!((ran.code, ran.out.lines().count(), ran.err), (1, 7, told));
}

/// A pipe, a device or a link is written through and stays what it is; a file is its owner's alone.
#[test]
fn what_is_no_file_is_written_through() {
    let server = Server::start([says("Blue."), says("Red.")]);
    let world = World::at(&server);
    let id = world.run("Which colour?", &[]).id().to_owned();
    let good = world.inspan(&["export", &id]).out;
    let pipe = world.pipe("pipe");
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || std::fs::read_to_string(pipe).expect("a pipe")
    });
    assert_eq!(world.inspan(&["export", &id, pipe.to_str().expect("text")]).code, 0);
    assert_eq!(reader.join().expect("a reader"), good);
    assert!(pipe.metadata().expect("a pipe").file_type().is_fifo());

    let (link, real) = (world.path("link"), world.path("real"));
    world.write("real", "old");
    std::os::unix::fs::symlink(&real, &link).expect("a link");
    assert_eq!(world.inspan(&["export", &id, link.to_str().expect("text")]).code, 0);
    assert!(link.is_symlink());
    assert_eq!(world.read("real"), good);

    assert_eq!(world.run("Which?", &["--record", "../record.jsonl"]).code, 0);
    let mode = world.path("record.jsonl").metadata().expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}
