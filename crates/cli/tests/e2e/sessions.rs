//! Sessions that go on, and the commands that show them.

use inspan_testkit::server::{Said, Server};
use serde_json::json;

use crate::{
    model::{calls, fine, says},
    world::{World, text},
};

#[test]
fn a_session_goes_on_in_the_same_words() {
    let server = Server::start([calls("echo", r#"{"text":"hi"}"#), says("Hi."), says("Ho.")]);
    let world = World::at(&server);
    let first = world.run("Say hi.", &[]);
    let second = world.inspan(&["run", "Say ho.", "--session", first.id().split_at(35).0]);
    assert_eq!((second.code, second.out.as_str()), (0, "Ho.\n"), "{}", second.err);
    assert_eq!(
        world.plain(&second.err),
        "session ID\nHo.\nend · 1 round · 10 in + 5 out tokens · TIME\n",
        "nothing of the first turn is shown or counted again"
    );
    let bodies = server.received();
    let marks = r#","cache_control":{"type":"ephemeral"}"#;
    let plain: Vec<String> = bodies.iter().map(|r| r.text().replace(marks, "")).collect();
    for pair in plain.windows(2) {
        assert!(pair[1].starts_with(pair[0].trim_end_matches("]}")), "{pair:?}");
    }
}

#[test]
fn an_agent_that_changed_is_told() {
    let yaml = "name: a\nmodel: anthropic://claude-scripted\nprompt: prompt.md\n";
    let server = Server::start([fine(), fine(), fine(), fine()]);
    let world = World::at(&server).with_agent(yaml).with_file("prompt.md", "Be brief.");
    let first = world.run("Hello", &[]);
    let same = world.run("Again", &["--session", first.id()]);
    assert!(!same.err.contains('!'), "{}", same.err);

    let world = world.with_file("prompt.md", "Be very brief.");
    let changed = world.inspan(&["run", "Again", "--session", first.id()]);
    assert_eq!((changed.code, changed.out.as_str()), (0, "Fine.\n"), "{}", changed.err);
    let told = "  ! the agent in WORLD/agent changed since this session was last driven; it goes \
                on as it is now\n";
    assert!(world.plain(&changed.err).starts_with(told), "{}", changed.err);
    let systems: Vec<_> =
        server.received().iter().map(|r| r.json()["system"].to_string()).collect();
    assert!(systems[1].contains("Be brief.") && systems[2].contains("Be very brief."));

    std::fs::rename(world.agent(), world.path("elsewhere")).expect("a folder");
    let gone = world.inspan(&["run", "Again", "--session", first.id()]);
    assert_eq!((gone.code, gone.out.as_str()), (2, ""), "{}", gone.err);
    assert_eq!(
        world.plain(&gone.err),
        "error: the agent's folder WORLD/agent is gone; name another with --agent DIR\n"
    );
    let other = world.inspan(&["run", "Again", "--session", first.id(), "--agent", "../elsewhere"]);
    assert_eq!((other.code, other.out.as_str()), (0, "Fine.\n"), "{}", other.err);
}

#[test]
fn a_session_moves_to_another_folder() {
    let server = Server::start([fine(), fine(), fine()]);
    let world = World::at(&server);
    std::fs::create_dir(world.work().join("before")).expect("a folder");
    let first = world.run("Hello", &["--workdir", "before"]);
    std::fs::rename(world.work().join("before"), world.work().join("after")).expect("a folder");

    let again = ["run", "Again", "--session", first.id()];
    let gone = world.inspan(&again);
    assert_eq!((gone.code, gone.out.as_str()), (2, ""));
    let told = "error: the session's working directory WORLD/work/before is gone: make it again, \
                or name another with --workdir DIR\n";
    assert_eq!(world.plain(&gone.err), told);
    let wrong = world.inspan(&[&again[..], &["--workdir", "before"]].concat());
    let told = "error: --workdir before: there is no such folder\n";
    assert_eq!((wrong.code, wrong.err.as_str()), (2, told));

    let moved = world.inspan(&[&again[..], &["--workdir", "after"]].concat());
    assert_eq!((moved.code, moved.out.as_str()), (0, "Fine.\n"), "{}", moved.err);
    let told = "  ! works in WORLD/work/after from now on\n";
    assert!(world.plain(&moved.err).starts_with(told), "{}", moved.err);
    let stays = world.inspan(&again);
    assert_eq!((stays.code, stays.err.contains('!')), (0, false), "{}", stays.err);
    for (folder, count) in [("after", 1), ("before", 0)] {
        let listed = world.inspan(&["sessions", "--json", "--workdir", folder]);
        assert_eq!(listed.lines().len(), count, "{folder}");
    }
}

#[test]
fn sessions_are_listed_and_shown() {
    let server =
        Server::start([calls("echo", r#"{"text":"hi"}"#), says("It said hi."), says("Two.")]);
    let world = World::at(&server);
    let first = world.run("Echo hi.", &[]);
    let second = world.run("Another\nprompt", &[]);
    let listed = world.inspan(&["sessions"]);
    let lines: Vec<&str> = listed.out.lines().collect();
    assert_eq!((listed.code, lines.len()), (0, 3), "{}", listed.err);
    assert!(lines[1].starts_with(second.id()) && lines[1].ends_with("end        Another prompt"));
    assert!(lines[2].starts_with(first.id()) && lines[2].ends_with("end        Echo hi."));
    assert_eq!(world.inspan(&["sessions", "--count-max", "1"]).out.lines().count(), 2);
    let rows = world.inspan(&["sessions", "--json"]).lines();
    assert_eq!(
        (text(&rows[1]["id"]).as_str(), &rows[1]["turns"], &rows[1]["tokens"], &rows[1]["stop"]),
        (first.id(), &json!(1), &json!(30), &json!("end"))
    );

    let shown = world.inspan(&["show", first.id()]);
    assert_eq!(shown.code, 0, "{}", shown.err);
    let steps: Vec<String> = shown.out.lines().map(|line| world.plain(line)).collect();
    let steps: Vec<&str> = steps.iter().map(|line| line.get(16..).unwrap_or(line)).collect();
    assert_eq!(
        steps[2..],
        [
            "with      anthropic://claude-scripted as agent parrot, tools: echo, open_result",
            "prompt    Echo hi.",
            "model     → echo{\"text\":\"hi\"}  10+5 tokens TIME",
            "tool      echo: hi  ok TIME",
            "model     It said hi.  10+5 tokens TIME",
            "stop      end",
            "turn · 30 tokens"
        ],
        "{}",
        shown.out
    );
}

#[test]
fn resume_has_nothing_to_do() {
    let server = Server::start([fine()]);
    let world = World::at(&server);
    let none = world.inspan(&["resume"]);
    assert_eq!((none.code, none.out.as_str()), (2, ""), "{}", none.err);
    let told = "error: no session was interrupted; `inspan sessions` lists them, and `inspan run \
                --session ID PROMPT` goes on with one\n";
    assert_eq!(none.err, told);

    let ran = world.run("Hello", &[]);
    let ended = world.inspan(&["resume", ran.id()]);
    assert_eq!((ended.code, ended.out.as_str()), (0, "Fine.\n"), "its answer stands");
    assert_eq!(
        world.plain(&ended.err),
        "session ID has no open turn: its last one ended with `end`; inspan run --session ID \
         PROMPT goes on\n"
    );
    assert_eq!(server.received().len(), 1);
}

#[test]
fn a_reply_of_several_lines_is_printed_as_it_is() {
    let server = Server::start([
        says("# Title\n\n  indented\n\u{1b}[31mred\u{1b}[0m\n"),
        inspan_testkit::server::Answer::anthropic(&[Said::text("Two "), Said::text("parts.")]),
    ]);
    let world = World::at(&server);
    let first = world.run("Hello", &[]);
    assert_eq!(first.out, "# Title\n\n  indented\nred\n", "escapes are taken out");
    assert_eq!(world.run("Hello", &[]).out, "Two parts.\n");
}
