//! `inspan run --image`.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use inspan_testkit::server::Server;
use serde_json::{Value, json};

use crate::{
    model::{messages, says},
    stores::sql,
    world::{World, found_in},
};

/// One pixel, as PNG.
const PIXEL: &[u8] = &[
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44, 0x52,
    0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x01, 0x08, 0x06, 0x00, 0x00, 0x00, 0x1f, 0x15, 0xc4,
    0x89, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x44, 0x41, 0x54, 0x78, 0xda, 0x63, 0x64, 0xf8, 0xcf, 0x50,
    0x0f, 0x00, 0x03, 0x86, 0x01, 0x80, 0x5a, 0x34, 0x7d, 0x6b, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45,
    0x4e, 0x44, 0xae, 0x42, 0x60, 0x82,
];

const PIXEL_BASE64: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk\
     +M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// The content of the first message of a request.
fn first(request: &inspan_testkit::server::Received) -> Value {
    let mut content = messages(request)[0]["content"].clone();
    for block in content.as_array_mut().into_iter().flatten() {
        block.as_object_mut().unwrap().remove("cache_control");
    }
    content
}

#[test]
fn a_picture_is_told_from_its_bytes_kept_and_sent_again() {
    let server = Server::start([says("A dot."), says("Still a dot."), says("No idea.")]);
    let world = World::at(&server);
    // The name says something else.
    let path = world.path("dot.jpg");
    fs::write(&path, PIXEL).unwrap();
    let ran = world.run("What is it?", &["--image", path.to_str().unwrap()]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "A dot.\n"), "{}", ran.err);
    fs::remove_file(&path).unwrap();
    let id = ran.id().to_owned();
    assert_eq!(world.run("And now?", &["--session", &id]).code, 0);
    fs::remove_dir_all(world.home().join("sessions.db.blobs")).unwrap();
    assert_eq!(world.run("And now?", &["--session", &id]).code, 0);

    let image = json!({"type": "image", "source":
        {"type": "base64", "media_type": "image/png", "data": PIXEL_BASE64}});
    let text = |text: &str| json!({"type": "text", "text": text});
    let received = server.received();
    assert_eq!(first(&received[0]), json!([image, text("What is it?")]));
    assert_eq!(first(&received[1]), json!([image, text("What is it?")]));
    assert_eq!(first(&received[2]), json!([text("[image lost]"), text("What is it?")]));
}

/// A session moves with its pictures, each checked.
#[test]
fn a_session_moves_with_its_pictures() {
    let server = Server::start([says("A dot."), says("Still a dot.")]);
    let (world, other) = (World::at(&server), World::at(&server));
    let path = world.path("dot.png");
    fs::write(&path, PIXEL).unwrap();
    let id = world.run("What is it?", &["--image", path.to_str().unwrap()]).id().to_owned();
    let file = world.path("log.jsonl").display().to_string();
    let exported = world.inspan(&["export", &id, &file, "--blobs"]);
    let told = "session ID: 6 entries and 1 picture or long result (70 bytes) in WORLD/log.jsonl\n";
    assert_eq!((exported.code, world.plain(&exported.err).as_str()), (0, told));
    assert_eq!(world.inspan(&["export", &id, "--blobs"]).out, world.read("log.jsonl"));
    assert_eq!(world.inspan(&["export", &id, "--blobs", "--masked"]).code, 2);

    let good = world.read("log.jsonl");
    let lines: Vec<&str> = good.lines().collect();
    let hash =
        serde_json::from_str::<Value>(lines[7]).unwrap()["blob"].as_str().unwrap().to_owned();
    let table = [
        (lines[..7].join("\n"), format!("the blob {hash} is missing")),
        (
            good.replace("iVBOR", "iVBOS"),
            format!("line 8: these are not the bytes of the blob {hash}"),
        ),
        (
            good.replace(&hash, &"0".repeat(64)),
            "entry 3 is not what was written after entry 2".to_owned(),
        ),
        ([good.as_str(), lines[7]].concat(), "line 9: nothing names it".to_owned()),
    ];
    for (export, why) in table {
        other.write("broken.jsonl", &export);
        let broken = other.path("broken.jsonl").display().to_string();
        let ran = other.inspan(&["import", &broken]);
        assert_eq!((ran.code, ran.err), (2, format!("error: {broken} can't be imported: {why}\n")));
    }
    let imported = other.inspan(&["import", &file]);
    let told = format!("6 entries and 1 picture or long result (70 bytes) of session {id}\n");
    assert_eq!((imported.code, imported.err), (0, told));
    let ran = other.run("And now?", &["--session", &id]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "Still a dot.\n"), "{}", ran.err);
    let image = json!({"type": "image", "source":
        {"type": "base64", "media_type": "image/png", "data": PIXEL_BASE64}});
    assert_eq!(first(&server.received()[1])[0], image);

    // What is lost is told, and the rest goes on without it.
    fs::remove_dir_all(world.home().join("sessions.db.blobs")).unwrap();
    let exported = world.inspan(&["export", &id, &file, "--blobs"]);
    let lost = "session ID: 6 entries in WORLD/log.jsonl\n  ! it is without 1 picture or long \
                result that could not be read\n";
    assert_eq!((exported.code, world.plain(&exported.err).as_str()), (0, lost));
    let third = World::at(&server);
    assert_eq!(third.inspan(&["import", &file]).code, 0);
    assert_eq!(third.log(&id), world.log(&id));
}

#[test]
fn what_is_no_picture_is_refused_before_anything_starts() {
    let world = World::new();
    world.write("page.png", "<svg/>");
    let path = world.path("page.png");
    let missing = world.path("none.png");
    let table = [
        (&path, "it is no PNG, JPEG, GIF or WebP: convert it to one of them"),
        (&missing, "can't be read: No such file or directory (os error 2)"),
    ];
    for (path, why) in table {
        let ran = world.run("What is it?", &["--image", path.to_str().unwrap()]);
        let said = format!("error: --image {}: {why}\n", path.display());
        assert_eq!((ran.code, ran.err), (2, said));
    }
}

/// Makes a file two hours old.
fn age(file: &Path) {
    let past = SystemTime::now() - Duration::from_secs(7_200);
    File::options().write(true).open(file).unwrap().set_modified(past).unwrap();
}

/// Makes the database older than what lies beside it.
fn made_yesterday(world: &World) {
    sql(world, "UPDATE _sqlx_migrations SET installed_on = datetime('now', '-1 day')");
}

/// A database that was moved away, as an error may advise, or that was emptied, can come back: the
/// new one in its place knows none of its sessions, and leaves alone what they name.
#[test]
fn pictures_of_a_database_that_is_away_stay() {
    for empties in [false, true] {
        let server = Server::start([says("A dot."), says("Blue.")]);
        let world = World::at(&server);
        let path = world.path("dot.png");
        fs::write(&path, PIXEL).unwrap();
        let ran = world.run("What is it?", &["--image", path.to_str().unwrap()]);
        let id = ran.id().to_owned();
        let blobs = || found_in(&world.home().join("sessions.db.blobs"), PIXEL);
        made_yesterday(&world);
        age(&blobs()[0]);
        let away = world.path("away.db");
        fs::copy(world.database(), &away).unwrap();
        match empties {
            true => File::create(world.database()).map(drop).unwrap(),
            false => fs::remove_file(world.database()).unwrap(),
        }
        let other = world.run("Which colour?", &[]);
        assert_eq!(other.code, 0, "{}", other.err);
        assert_eq!(world.inspan(&["worker", "--once"]).err, "");
        let told = format!("removed session {}\n", other.id());
        assert_eq!(world.inspan(&["remove", "--yes", other.id()]).err, told);
        assert_eq!(blobs().len(), 1);
        fs::rename(&away, world.database()).unwrap();
        assert_eq!(world.inspan(&["verify", &id]).code, 0);
    }
}

/// What nothing names goes when it is an hour old: with a session, or when a worker begins.
#[test]
fn pictures_that_no_session_names_are_removed() {
    let server = Server::start([says("A dot."), says("A dot.")]);
    let world = World::at(&server);
    let path = world.path("dot.png");
    fs::write(&path, PIXEL).unwrap();
    let seen = || {
        let ran = world.run("What is it?", &["--image", path.to_str().unwrap()]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        ran.id().to_owned()
    };
    let blobs = || found_in(&world.home().join("sessions.db.blobs"), PIXEL);
    let (first, second) = (seen(), seen());
    for blob in blobs() {
        age(&blob);
    }
    made_yesterday(&world);
    let removed = |id: &str| format!("removed session {id}\n");
    let swept = "removed 1 picture or long result that no session names\n";

    let ran = world.inspan(&["remove", "--yes", &first]);
    assert_eq!((ran.code, ran.err, blobs().len()), (0, removed(&first), 1));
    let ran = world.inspan(&["remove", "--yes", &second]);
    assert_eq!((ran.code, ran.err), (0, removed(&second) + swept));
    assert_eq!(blobs(), Vec::<PathBuf>::new());

    let server = Server::start([says("A dot.")]);
    let world = world.at_url(&server.url());
    let ran = world.run("What is it?", &["--image", path.to_str().unwrap()]);
    let id = ran.id().to_owned();
    let blobs = || found_in(&world.home().join("sessions.db.blobs"), PIXEL);
    let ran = world.inspan(&["remove", "--yes", &id]);
    assert_eq!((ran.code, ran.err, blobs().len()), (0, removed(&id), 1));
    age(&blobs()[0]);
    let ran = world.inspan(&["worker", "--once"]);
    assert_eq!((ran.code, ran.err, blobs().len()), (0, swept.to_owned(), 0));
}
