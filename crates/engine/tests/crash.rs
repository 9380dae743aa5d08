//! A process that dies after any entry, and the next one that goes on.

mod common;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use common::{Counting, Does, Witness, World, in_short, say, until_stop};
use inspan_core::{
    Entry,
    effects::Repeat,
    event::Head,
    gate::BoxFuture,
    message::ToolResult,
    store::{Claim, SessionFilter, SessionId, SessionRow, Store, StoreError},
    tool::Probed,
};
use inspan_engine::{
    Session,
    session::{Folded, fold, log},
};
use inspan_store::Memory;
use inspan_testkit::model::Answer;
use serde_json::json;

/// A store whose process dies when the log has this many entries: the entry that is one too many
/// is lost with all that came with it, and so is everything after.
struct Dying {
    log: Memory,
    entries_max: AtomicUsize,
}

impl Store for Dying {
    fn create(&self, session: &SessionId) -> BoxFuture<'static, Result<Claim, StoreError>> {
        self.log.create(session)
    }

    fn claim(&self, session: &SessionId) -> BoxFuture<'static, Result<Claim, StoreError>> {
        self.log.claim(session)
    }

    fn append(
        &self,
        claim: &Claim,
        after: Head,
        entries: Arc<[Entry]>,
    ) -> BoxFuture<'static, Result<(), StoreError>> {
        let room = self.entries_max.load(Ordering::SeqCst).saturating_sub(after.seq as usize);
        if entries.len() <= room {
            return self.log.append(claim, after, entries);
        }
        let kept: Arc<[Entry]> = entries.iter().take(room).cloned().collect();
        let append = self.log.append(claim, after, kept);
        Box::pin(async move {
            append.await?;
            Err(StoreError::Other { what: "append".to_owned(), why: "killed".to_owned() })
        })
    }

    fn read(
        &self,
        session: &SessionId,
        after: u64,
        count_max: usize,
    ) -> BoxFuture<'static, Result<Vec<Entry>, StoreError>> {
        self.log.read(session, after, count_max)
    }

    fn sessions(
        &self,
        filter: &SessionFilter,
    ) -> BoxFuture<'static, Result<Vec<SessionRow>, StoreError>> {
        self.log.sessions(filter)
    }
}

fn calls() -> Answer {
    Answer::new()
        .says("I will do it all.")
        .asks("pure", "{}")
        .asks("pure", "{\"n\":2}")
        .asks("idempotent", "{}")
        .asks("keyed", "{}")
        .asks("done", "{}")
        .asks("absent", "{}")
        .asks("once", "{}")
        .ends(inspan_core::message::ReplyStop::End)
}

fn world(store: Arc<dyn Store>, witness: &Witness, answers: Vec<Answer>) -> World {
    let tool = |name, repeat| Counting::new(name, repeat, Does::Echo, witness);
    World::on(store, answers)
        .tool(tool("pure", Repeat::Pure))
        .tool(tool("idempotent", Repeat::Idempotent))
        .tool(tool("keyed", Repeat::Keyed))
        .tool(tool("done", Repeat::Probe).probed(Probed::Done(ToolResult::text("it is done"))))
        .tool(tool("absent", Repeat::Probe).probed(Probed::Absent))
        .tool(tool("once", Repeat::Once))
}

/// How often the model was asked for each of its two answers.
fn asked(worlds: &[&World]) -> BTreeMap<usize, usize> {
    let mut asked = BTreeMap::new();
    for request in worlds.iter().flat_map(|world| world.model.requests()) {
        *asked.entry(request.len()).or_default() += 1;
    }
    asked
}

#[tokio::test(start_paused = true)]
async fn killed_after_any_entry_it_goes_on_from_there() {
    let mut whole = 0;
    for entries_max in 2.. {
        let witness = Witness::default();
        let store =
            Arc::new(Dying { log: Memory::new(), entries_max: AtomicUsize::new(entries_max) });
        let before = world(store.clone(), &witness, vec![calls(), Answer::text("All done.")]);
        let (session, ended) = before.start().await;
        say(&session, "Go").await;
        drop(session);
        let died = ended.await.unwrap().is_err();
        store.entries_max.store(usize::MAX, Ordering::SeqCst);
        let at_death = fold(&*store, &before.id).await.unwrap();

        // The next process asks only for replies that have no recorded end.
        let replied = at_death
            .messages
            .iter()
            .any(|m| matches!(&**m, inspan_core::prompt::Message::Assistant(_)));
        let mut answers = vec![calls(), Answer::text("All done.")];
        if replied {
            answers.remove(0);
        }
        let after = world(store.clone(), &witness, answers);
        let (session, ended) =
            Session::resume(after.setup.clone(), after.id.clone()).await.unwrap();
        if at_death.turns == 0 {
            say(&session, "Go").await;
        }
        let log = until_stop(&session).await;
        drop(session);
        ended.await.unwrap().unwrap();
        assert_eq!(in_short(&log).last().unwrap(), "stop end", "killed after {entries_max}");
        check_effects(&witness, &in_short(&log), entries_max);
        assert!(asked(&[&before, &after]).values().all(|times| *times <= 2));
        let mut head = Head::default();
        for entry in &log {
            assert!(entry.follows(head));
            head = entry.head();
        }
        if !died {
            whole = entries_max;
            break;
        }
    }
    assert_eq!(whole, 29, "the whole run's entries");
}

fn check_effects(witness: &Witness, log: &[String], killed_after: usize) {
    let counts = witness.counts();
    let times = |what: &str| counts.get(what).copied().unwrap_or(0);
    assert!(times("begin once{}") <= 1, "once, killed after {killed_after}: {counts:?}");
    for tool in ["pure{}", "idempotent{}", "keyed{}", "done{}", "absent{}"] {
        let begun = times(&format!("begin {tool}"));
        assert!(begun <= 2, "{tool}, killed after {killed_after}: {counts:?}");
    }
    // Every call has one result; only a `once` tool may be unknown.
    let answers = log.iter().filter(|line| line.contains(" ok: ") || line.contains(" unknown: "));
    let (unknown, ok): (Vec<&String>, Vec<&String>) =
        answers.partition(|line| line.contains(" unknown: "));
    assert_eq!(unknown.len() + ok.len(), 7, "killed after {killed_after}: {log:?}");
    assert!(unknown.iter().all(|line| line.starts_with("once")), "{log:?}");
    // A finished call is never run again.
    let finished = ok.iter().filter(|line| !line.ends_with("it is done")).count();
    let ended: usize = counts.iter().filter(|(w, _)| w.starts_with("end")).map(|(_, n)| n).sum();
    assert!(ended >= finished, "{counts:?}");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_ends_the_driver_and_begins_no_effect() {
    let witness = Witness::default();
    let store = Arc::new(Dying { log: Memory::new(), entries_max: AtomicUsize::new(5) });
    let world = World::on(store, [Answer::calls(&[("once", json!({}))])]).tool(Counting::new(
        "once",
        Repeat::Once,
        Does::Echo,
        &witness,
    ));
    let (session, ended) = world.start().await;
    say(&session, "Go").await;
    assert_eq!(
        ended.await.unwrap(),
        Err(StoreError::Other { what: "append".to_owned(), why: "killed".to_owned() })
    );
    assert_eq!(witness.all(), [] as [&str; 0]);
    assert!(!session.submit(inspan_engine::Command::Cancel).await);
}

/// A store that remembers after which entry it was read.
#[derive(Default)]
struct Remembering {
    log: Memory,
    read: Mutex<Vec<u64>>,
}

impl Store for Remembering {
    fn create(&self, session: &SessionId) -> BoxFuture<'static, Result<Claim, StoreError>> {
        self.log.create(session)
    }

    fn claim(&self, session: &SessionId) -> BoxFuture<'static, Result<Claim, StoreError>> {
        self.log.claim(session)
    }

    fn append(
        &self,
        claim: &Claim,
        after: Head,
        entries: Arc<[Entry]>,
    ) -> BoxFuture<'static, Result<(), StoreError>> {
        self.log.append(claim, after, entries)
    }

    fn read(
        &self,
        session: &SessionId,
        after: u64,
        count_max: usize,
    ) -> BoxFuture<'static, Result<Vec<Entry>, StoreError>> {
        self.read.lock().unwrap().push(after);
        self.log.read(session, after, count_max)
    }

    fn sessions(
        &self,
        filter: &SessionFilter,
    ) -> BoxFuture<'static, Result<Vec<SessionRow>, StoreError>> {
        self.log.sessions(filter)
    }
}

/// Whoever has folded a log already reads only what came since, and what came since counts.
#[tokio::test(start_paused = true)]
async fn a_session_is_resumed_after_what_was_folded() {
    let store = Arc::new(Remembering::default());
    let answers = ["One.", "Two.", "Three."].map(Answer::text);
    let world = World::on(store.clone(), answers);
    world.run("First").await;
    let folded = Folded::read(&*store, &world.id, |_, _| {}).await.unwrap();
    let known = folded.state.head.seq;
    // Another process goes on meanwhile, and while it does nobody else can.
    let (session, ended) = Session::resume(world.setup.clone(), world.id.clone()).await.unwrap();
    let resume =
        async || Session::resume_after(world.setup.clone(), world.id.clone(), folded.clone()).await;
    let refused = resume().await.err();
    assert_eq!(refused, Some(StoreError::InUse(world.id.clone()).into()));
    say(&session, "Second").await;
    drop(session);
    ended.await.unwrap().unwrap();
    let before = fold(&*store, &world.id).await.unwrap();

    store.read.lock().unwrap().clear();
    let (session, ended) = resume().await.unwrap();
    assert_eq!(*store.read.lock().unwrap(), [known]);
    say(&session, "Third").await;
    drop(session);
    ended.await.unwrap().unwrap();
    let log = log(&*store, &world.id).await.unwrap();
    let mut head = Head::default();
    for entry in &log {
        assert!(entry.follows(head), "{}", entry.seq);
        head = entry.head();
    }
    assert_eq!(log[before.head.seq as usize].event.kind(), "PromptSubmitted");
    assert_eq!(
        world.model.requests().pop().unwrap(),
        [
            "user: \"First\"",
            "assistant: One.",
            "user: \"Second\"",
            "assistant: Two.",
            "user: \"Third\""
        ]
    );
}
