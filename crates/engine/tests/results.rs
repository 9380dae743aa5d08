//! Results that are too long for the log, and what was written by calls that were ended.

mod common;

use std::{fs, sync::Arc};

use common::{Counting, Does, PausedClock, Witness, World, say, until, until_stop};
use inspan_core::{
    Event,
    blobs::Blobs,
    budget::RESULT_BYTES_MAX,
    effects::{Effects, Repeat},
    event::{Stop, ToolFinished},
    gate::BoxFuture,
    hash::Hash,
    mask::Mask,
    message::{BlobRef, CallId, Content, How, ImageRef, Labels, ToolResult},
    store::StoreError,
    tool::{Invocation, Tool, ToolError, ToolSpec},
};
use inspan_engine::{
    Command, Session, outside,
    tools::command::{self, CommandTool, Output},
};
use inspan_store::Memory;
use inspan_testkit::model::Answer;
use serde_json::{Value, json};

/// A tool that always gives this text.
struct Gives(String);

impl Tool for Gives {
    fn spec(&self) -> Arc<ToolSpec> {
        let mut spec = ToolSpec::new("gives", "Gives a text.");
        (spec.effects, spec.repeat) = (Effects::NONE, Repeat::Pure);
        Arc::new(spec)
    }

    fn check(&self, arguments: Value) -> Result<Value, String> {
        Ok(arguments)
    }

    fn run(&self, _: Invocation) -> BoxFuture<'static, Result<ToolResult, ToolError>> {
        Box::pin(std::future::ready(Ok(ToolResult::text(&self.0))))
    }
}

/// A place that is full, forgets what it was given, or is away later.
#[derive(Clone, Copy)]
enum Bad {
    Full,
    Forgets,
    Away,
}

impl Blobs for Bad {
    fn put(&self, bytes: Arc<[u8]>) -> BoxFuture<'static, Result<Hash, StoreError>> {
        let full = || StoreError::NotWritable {
            what: "/blobs".to_owned(),
            why: "the disk is full (hunter2hunter2)".to_owned(),
        };
        Box::pin(std::future::ready(match self {
            Self::Full => Err(full()),
            Self::Forgets | Self::Away => Ok(Hash::of_bytes(&bytes)),
        }))
    }

    fn get(&self, _: &Hash) -> BoxFuture<'static, Result<Option<Arc<[u8]>>, StoreError>> {
        let away = || StoreError::Other { what: "s3://b".to_owned(), why: "no answer".to_owned() };
        Box::pin(std::future::ready(match self {
            Self::Full | Self::Forgets => Ok(None),
            Self::Away => Err(away()),
        }))
    }

    fn old(&self, _: &Hash, _: i64, _: usize) -> BoxFuture<'static, Result<Vec<Hash>, StoreError>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    fn remove(&self, _: &Hash, _: i64) -> BoxFuture<'static, Result<bool, StoreError>> {
        Box::pin(std::future::ready(Ok(false)))
    }
}

/// Three megabytes in numbered lines, with a secret in one.
fn long_text() -> String {
    let line = |number: u32| match number {
        20_000 => format!("{number} the key is hunter2hunter2\n"),
        number => format!("{number} {}\n", "x".repeat(60)),
    };
    (1..=40_000).map(line).collect()
}

/// A session in which the model has the tool called, and then each of `then`.
fn world(blobs: Arc<dyn Blobs>, then: &[Value]) -> World {
    let calls = then.iter().map(|arguments| Answer::calls(&[("open_result", arguments.clone())]));
    let first = Answer::calls(&[("gives", json!({}))]);
    let mut world = World::new([first].into_iter().chain(calls).chain([Answer::text("Done.")]));
    world.setup.blobs = Some(blobs);
    world.setup.keeps_results = true;
    world.setup.tools.push(Arc::new(Gives(long_text())));
    world
}

async fn finished(world: &World) -> Vec<ToolFinished> {
    let log = world.run("Go").await;
    let finished = log.iter().filter_map(|entry| match &entry.event {
        Event::ToolFinished(e) => Some(e.clone()),
        _ => None,
    });
    finished.collect()
}

#[tokio::test]
async fn a_long_result_is_kept_whole_and_read_in_pages() {
    let blobs = Memory::new();
    let pages = [
        json!({"call": "call_5_0", "from_line": 19_999, "lines": 2}),
        json!({"call": "call_5_0", "find": "the key"}),
        json!({"call": "call_10_0"}),
        json!({"call": "call_9_9"}),
    ];
    let world = world(Arc::new(blobs.clone()), &pages);
    let results = finished(&world).await;

    let whole = long_text().replace("hunter2hunter2", "[masked]");
    let spilled = BlobRef {
        hash: Hash::of_bytes(whole.as_bytes()),
        size_bytes: whole.len() as u64,
        lines: 40_000,
    };
    assert!(blobs.get(&spilled.hash).await.unwrap().as_deref() == Some(whole.as_bytes()));
    let first = &results[0];
    let text = first.result.to_text();
    assert!(text.len() <= RESULT_BYTES_MAX && text.starts_with("1 xxx"), "{}", text.len());
    assert!(text.ends_with(&format!(
        "x\n\n[{} bytes of this result in 40000 lines are kept. The beginning and the end are \
         shown. open_result reads the rest: {{\"call\": \"call_5_0\", \"from_line\": 1}}]",
        whole.len()
    )));
    assert_eq!(first.result.spilled, Some(spilled));

    let opened: Vec<(How, String)> =
        results[1..].iter().map(|e| (e.how, e.result.to_text())).collect();
    let failed = |why: &str| (How::Failed, format!("Failed: {why}"));
    let expected = [
        (
            How::Ok,
            format!(
                "[lines 19999 to 20000 of 40000]\n19999 {}\n20000 the key is [masked]\n[goes on at \
                 from_line 20001]",
                "x".repeat(60)
            ),
        ),
        (
            How::Ok,
            "[1 lines with `the key`, from line 1 of 40000]\n20000: 20000 the key is [masked]\n"
                .to_owned(),
        ),
        failed("the result of call_10_0 was shown as a whole"),
        failed("there is no result of a call call_9_9"),
    ];
    assert_eq!(opened, expected);
}

#[tokio::test]
async fn what_can_not_be_kept_or_found_is_said() {
    let results = finished(&world(Arc::new(Bad::Full), &[])).await;
    assert_eq!(results[0].result.spilled, None);
    let text = results[0].result.to_text();
    assert!(text.ends_with(
        "\n[The rest of this result could not be kept: /blobs can't be written: the disk is full \
         ([masked])]"
    ));

    let page = json!({"call": "call_5_0"});
    let results = finished(&world(Arc::new(Bad::Forgets), &[page])).await;
    assert_eq!(
        (results[1].how, results[1].result.to_text()),
        (
            How::Failed,
            "Failed: the rest of the result of call_5_0 is lost: it is not where it was kept; run \
             the call again if you need it"
                .to_owned()
        )
    );
}

/// What is away is not lost: nothing has to be done again for it.
#[tokio::test]
async fn what_is_only_away_is_said() {
    let world = world(Arc::new(Bad::Away), &[json!({"call": "call_5_0"})]);
    let results = finished(&world).await;
    assert_eq!(
        (results[1].how, results[1].result.to_text()),
        (
            How::Failed,
            "Failed: the rest of the result of call_5_0 can't be reached now: s3://b: no answer; try \
             again later"
                .to_owned()
        )
    );

    let mut world = World::new([Answer::text("I see nothing.")]);
    world.setup.blobs = Some(Arc::new(Bad::Away));
    let (session, ended) = world.start().await;
    let (hash, media_type) = (Hash([7; 32]), "image/png".to_owned());
    let picture = Content::Image(ImageRef { hash, media_type, size_bytes: 1 });
    assert!(session.submit(Command::Prompt(vec![picture], Labels::default())).await);
    until_stop(&session).await;
    drop(session);
    ended.await.unwrap().unwrap();
    let told = "user: \"[image can't be shown: it can't be reached now]\"";
    assert_eq!(world.model.requests(), [[told]]);
}

#[tokio::test]
async fn the_tool_is_there_only_where_it_can_be_of_use() {
    let listed = async |change: fn(&mut World)| {
        let mut world = world(Arc::new(Memory::new()), &[]);
        change(&mut world);
        let (session, ended) = world.start().await;
        let log = until(&session, |event| matches!(event, Event::SessionConfigured(_))).await;
        drop(session);
        ended.await.unwrap().unwrap();
        let Some(Event::SessionConfigured(e)) = log.last().map(|entry| &entry.event) else {
            panic!("no configuration")
        };
        e.tools.iter().map(|tool| tool.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(listed(|_| {}).await, ["gives", "open_result"]);
    assert_eq!(listed(|world| world.setup.blobs = None).await, ["gives"]);
    assert_eq!(listed(|world| world.setup.keeps_results = false).await, ["gives"]);
    assert_eq!(listed(|world| world.setup.tools.clear()).await, [""; 0]);
}

/// A result from outside is spilled like one of a tool, by the driver and by another process, also one
/// that comes when its call was answered already.
#[tokio::test(start_paused = true)]
async fn a_long_result_that_comes_later_is_kept_whole() {
    for (is_driven, is_late) in [(true, false), (false, false), (true, true), (false, true)] {
        let blobs = Memory::new();
        let page = json!({"call": "call_5_0", "from_line": 39_999});
        let mut world = World::new([
            Answer::calls(&[("order", json!({}))]),
            Answer::calls(&[("open_result", page)]),
            Answer::text("Done."),
        ])
        .tool(Counting::new("order", Repeat::Once, Does::Defers, &Witness::default()));
        world.setup.blobs = Some(Arc::new(blobs.clone()));
        world.setup.keeps_results = true;
        let (mut session, mut ended) = world.start().await;
        say(&session, "Go").await;
        until_stop(&session).await;
        let (call, outcome) = (CallId::new(5, 0), Ok(ToolResult::text(long_text())));
        if is_late {
            // The call is answered as accepted, and the model asks for what has not come.
            say(&session, "And?").await;
            until(&session, |event| matches!(event, Event::TurnEnded(e) if e.stop == Stop::End))
                .await;
        }
        if is_driven {
            session.submit(Command::Deliver { call, outcome }).await;
        } else {
            drop(session);
            ended.await.unwrap().unwrap();
            let (store, clock) = (&*world.setup.store, PausedClock::new());
            let mask = &world.setup.mask;
            outside::deliver(store, &clock, &world.id, &call, outcome, mask, Some(&blobs))
                .await
                .unwrap();
            (session, ended) =
                Session::resume(world.setup.clone(), world.id.clone()).await.unwrap();
        }
        drop(session);
        ended.await.unwrap().unwrap();
        let log = inspan_engine::session::log(&*world.setup.store, &world.id).await.unwrap();
        let results = log.iter().filter_map(|entry| match &entry.event {
            Event::ToolFinished(e) => Some((e.call.clone(), &e.result)),
            _ => None,
        });
        let results: Vec<_> = results.collect();
        let whole = long_text().replace("hunter2hunter2", "[masked]");
        let hash = Hash::of_bytes(whole.as_bytes());
        let spilled = BlobRef { hash, size_bytes: whole.len() as u64, lines: 40_000 };
        assert!(blobs.get(&hash).await.unwrap().as_deref() == Some(whole.as_bytes()));
        let kept = results.iter().filter(|(call, result)| {
            *call == CallId::new(5, 0) && result.spilled.as_ref() == Some(&spilled)
        });
        assert_eq!(kept.count(), 1, "{is_driven} {is_late}");
        let opened =
            results.iter().find(|(_, result)| result.to_text().starts_with("[lines 39999"));
        assert_eq!(opened.is_some(), !is_late, "{is_driven} {is_late}");
    }
}

/// A program that writes something, says so through a pipe, and then hangs.
fn hanging(folder: &std::path::Path) -> CommandTool {
    let made = std::process::Command::new("mkfifo").arg(folder.join("fifo")).status().unwrap();
    assert!(made.success());
    let script = "echo half way; echo the key is hunter2hunter2 >&2; echo >fifo; sleep 60";
    let mut spec = ToolSpec::new("hangs", "Never ends.");
    (spec.effects, spec.repeat) = (Effects::NONE, Repeat::Pure);
    CommandTool::new(command::Command {
        spec: Arc::new(spec),
        check: Arc::new(Ok),
        argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
        probe: None,
        output: Output::Text,
        folder: folder.to_owned(),
        workdir: folder.to_owned(),
        environment: vec![("PATH".into(), std::env::var_os("PATH").unwrap_or_default())],
        mask: Mask::default(),
    })
}

/// Runs the program until it has written, and what `then` gives to do.
async fn ended(then: Option<Command>) -> (How, String) {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::new([Answer::calls(&[("hangs", json!({}))]), Answer::text("Done.")]);
    world.setup.tools.push(Arc::new(hanging(folder.path())));
    let (session, driven) = world.start().await;
    say(&session, "Go").await;
    // The paused time of these tests stands still while this waits.
    let fifo = folder.path().join("fifo");
    tokio::task::spawn_blocking(move || fs::read(fifo)).await.unwrap().unwrap();
    if let Some(command) = then {
        assert!(session.submit(command).await);
    }
    let log = until_stop(&session).await;
    drop(session);
    driven.await.unwrap().unwrap();
    let finished = log.iter().find_map(|entry| match &entry.event {
        Event::ToolFinished(e) if e.call == CallId::new(5, 0) => Some(e),
        _ => None,
    });
    finished.map(|e| (e.how, e.result.to_text())).unwrap()
}

#[tokio::test(start_paused = true)]
async fn what_an_ended_call_had_written_is_told() {
    let written = "What it had written until then:\nhalf way\nthe key is [masked]";
    let timed_out = format!("Failed: it ran past its limit of 2m and was ended. {written}");
    assert_eq!(ended(None).await, (How::TimedOut, timed_out));
    let cancelled = format!("Cancelled by the user. {written}");
    assert_eq!(ended(Some(Command::Cancel)).await, (How::Cancelled, cancelled));
}
