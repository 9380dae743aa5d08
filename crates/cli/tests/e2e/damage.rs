//! Databases that are damaged in part: what is whole can be read and gone on with, and what is not
//! is told by name.

use inspan_testkit::server::Server;

use crate::{
    model::{calls, fine, says},
    stores::sql,
    world::World,
};

/// A world with one session of 11 entries.
fn with_a_session() -> (World, Server, String) {
    let server = Server::start([calls("echo", r#"{"text":"hi"}"#), says("Hi."), fine(), fine()]);
    let world = World::at(&server);
    let ran = world.run("Hello", &[]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let id = ran.id().to_owned();
    (world, server, id)
}

/// A row that is not what was written is an entry that can't be read: all commands name it, and the
/// session goes on.
#[test]
fn a_row_that_cant_be_read_is_one_entry() {
    for damage in ["body = CAST(x'ff' AS TEXT)", "at_ms = 'noon'", "version = x'00'", "hash = 'x'"]
    {
        let (world, _server, id) = with_a_session();
        sql(&world, &format!("UPDATE entries SET {damage} WHERE seq = 8"));
        assert_eq!(world.inspan(&["show", &id]).code, 0, "{damage}");
        assert_eq!(world.inspan(&["sessions"]).out.lines().count(), 2, "{damage}");
        let verified = world.inspan(&["verify", &id]);
        let told = "error: session ID: entry 8 is not what was written after entry 7; the entries \
                    before it are as they were\n";
        assert_eq!((verified.code, world.plain(&verified.err).as_str()), (1, told), "{damage}");
        world.goes_on(&id);
    }
}

/// Where nothing can be appended any more, the session, the entry and the way on are named.
#[test]
fn a_log_that_cant_go_on_says_from_where_it_can() {
    let table = [
        ("DELETE FROM entries WHERE seq = 5", "entry 5 is missing", 4),
        (
            "UPDATE entries SET hash = 'x' WHERE seq = 11",
            "entry 11 is not the one that was written last",
            10,
        ),
        (
            "UPDATE sessions SET head_hash = substr(head_hash, 2) || substr(head_hash, 1, 1)",
            "entry 11 is not the one that was written last",
            10,
        ),
        (
            "UPDATE sessions SET head_seq = 9",
            "its row in the table says 9 entries, 11 are there",
            11,
        ),
    ];
    for (damage, why, whole) in table {
        let (world, _server, id) = with_a_session();
        sql(&world, damage);
        sql(&world, "DELETE FROM snapshots");
        assert_eq!(world.inspan(&["verify", &id]).code, 1, "{damage}");
        let ran = world.run("go on", &["--session", &id]);
        let told = format!(
            "error: session ID can't be read as a log: {why}; `inspan fork ID --at {whole}` goes \
             on from entry {whole}\n"
        );
        let err = world.plain(&ran.err).replace(&id, "ID");
        assert_eq!(ran.code, 1, "{damage}");
        assert!(err.ends_with(&told), "{damage}: {err}");
        let forked = world.inspan(&["fork", &id, "--at", &whole.to_string()]);
        assert_eq!(forked.code, 0, "{}", forked.err);
        world.goes_on(forked.out.trim());
    }
}

/// The words that a search looks through are made from the log: where they are damaged, the log goes
/// on without them, and they are made anew.
#[test]
fn damaged_words_keep_nothing_from_the_log() {
    let damaged = "  ! the words that `inspan search` looks through are damaged: nothing of the \
                   log is lost, and they are made anew when Inspan is started next\n";
    let anew = "  ! the words that `inspan search` looks through were damaged, and have been made \
                anew\n";
    for damage in [
        "DROP TABLE texts",
        "DROP TABLE words",
        "DELETE FROM words_data",
        "UPDATE words_data SET block = x'00ff'",
        "INSERT INTO texts (session_id, seq) SELECT id, 14 FROM sessions",
    ] {
        let (world, _server, id) = with_a_session();
        sql(&world, damage);
        let ran = world.run("go on about parrots", &["--session", &id]);
        assert_eq!((ran.code, ran.out.as_str()), (0, "Fine.\n"), "{damage}: {}", ran.err);
        assert!(ran.err.ends_with(damaged), "{damage}: {}", ran.err);
        let found = world.inspan(&["search", "parrots"]);
        assert_eq!((found.code, found.err.as_str()), (0, anew), "{damage}");
        assert_eq!(found.out.lines().count(), 1, "{damage}");
        let found = world.inspan(&["search", "hello"]);
        assert_eq!((found.code, found.err.as_str()), (0, ""), "{damage}");
        assert_eq!(found.out.lines().count(), 1, "{damage}");
        assert_eq!(world.inspan(&["verify", &id]).code, 0, "{damage}");
        let removed = world.inspan(&["remove", "--yes", &id]);
        assert_eq!(removed.code, 0, "{damage}: {}", removed.err);
    }
}

/// A search that meets the damage first says so, and the next one finds again; what can't be made
/// anew stays away, and still stops nothing else.
#[test]
fn damaged_words_are_told_by_a_search() {
    let (world, _server, id) = with_a_session();
    sql(&world, "DROP TABLE words");
    let found = world.inspan(&["search", "hello"]);
    let told = "error: WORLD/home/sessions.db: the words that a search looks through are damaged: \
                it is made anew when Inspan is started next: try again\n";
    let told = told.replace("it is made", "they are made");
    assert_eq!((found.code, world.plain(&found.err)), (1, told));
    let found = world.inspan(&["search", "hello"]);
    assert_eq!((found.code, found.out.lines().count()), (0, 1), "{}", found.err);

    sql(&world, "DROP TABLE words_config");
    world.goes_on(&id);
    world.goes_on(&id);
    assert_eq!(world.inspan(&["search", "hello"]).code, 1);
    let removed = world.inspan(&["remove", "--yes", &id]);
    assert_eq!(removed.code, 0, "{}", removed.err);
}
