//! What a store promises of sessions as things: search, forks, removal, snapshots, due sessions.

use std::sync::Arc;

use inspan_core::{
    event::{Entry, Event, Head, Stop},
    gate::Choice,
    hash::Hash,
    message::{CallId, How},
    store::{
        ANSWERS_LEFT_MAX, AnswerLeft, Archive, Claim, NewPieces, SessionFilter, SessionRow,
        Snapshot, Store, StoreError,
    },
    stored::Standing,
};

use crate::{all, log::*, written};

/// Session and entry of what a search finds.
async fn found<S: Archive>(store: &S, words: &str) -> Vec<(String, u64)> {
    let found = store.search(words, 9).await.unwrap();
    found.into_iter().map(|found| (found.session.to_string(), found.entry.seq)).collect()
}

async fn listed<S: Store>(store: &S, filter: &SessionFilter) -> Vec<String> {
    let rows = store.sessions(filter).await.unwrap();
    rows.into_iter().map(|row| row.id.to_string()).collect()
}

fn places(found: &[(&str, u64)]) -> Vec<(String, u64)> {
    found.iter().map(|(session, seq)| ((*session).to_owned(), *seq)).collect()
}

pub(crate) async fn words_are_found_wherever_they_were_said<S: Archive>(store: &S) {
    let lines = [
        (1, 0, 0, started()),
        (2, 1, 0, prompt("Is it WARM in Lisbon? Ask at www.weather-now.example/pt!")),
        (3, 1, 1, replied("I look it up in São Paulo, 東京 and Zürich.", [0; 5], None, 1)),
        (4, 1, 1, finished("weather", How::Ok, 1)),
        (5, 1, 1, failed(inspan_core::provider::ErrorClass::Auth, 1)),
        (6, 1, 1, ended(Stop::End)),
    ];
    written(store, "one", &chain(Head::default(), lines)).await;
    written(store, "two", &chain(Head::default(), [(7, 1, 0, prompt("warm and\0cold"))])).await;
    let table: [(&str, &[(&str, u64)]); 24] = [
        ("lisbon", &[("one", 2)]),
        ("warm", &[("two", 1), ("one", 2)]),
        ("Warm LISBON", &[("one", 2)]),
        ("warm -lisbon", &[("two", 1)]),
        ("warm -\"ask at\"", &[("two", 1)]),
        ("-lisbon", &[]),
        ("\"it warm\"", &[("one", 2)]),
        ("\"warm it\"", &[]),
        ("weather", &[("one", 2)]),
        ("weather-now.example", &[("one", 2)]),
        ("now-weather", &[]),
        ("18", &[("one", 4)]),
        ("°C", &[("one", 4)]),
        ("são", &[("one", 3)]),
        ("SÃO", &[("one", 3)]),
        ("sao", &[]),
        ("東京", &[("one", 3)]),
        ("cold", &[("two", 1)]),
        ("auth", &[]),
        ("", &[]),
        ("\" - ' \\ & | ! ( ) : * ^ NEAR", &[]),
        ("lisbon'; DROP TABLE words", &[]),
        ("\"lisbon", &[("one", 2)]),
        ("lis*", &[]),
    ];
    for (words, expected) in table {
        assert_eq!(found(store, words).await, places(expected), "{words}");
    }
    assert_eq!(store.search("warm", 1).await.unwrap().len(), 1);
    assert_eq!(store.search("warm", 9).await.unwrap()[1].entry, all(store, "one").await[1]);
    // Of a long text the beginning is found; of a long word, nothing.
    let long = format!("begin {} {} end", "x".repeat(3_000), "many ".repeat(60_000));
    let at = chain(Head::default(), [(8, 1, 0, prompt(&long))]);
    written(store, "long", &at).await;
    assert_eq!(found(store, "begin many").await, places(&[("long", 1)]));
    assert_eq!(found(store, "end").await, places(&[]));
}

pub(crate) async fn lists_have_filters<S: Archive>(store: &S) {
    let parked_at = |at| vec![(at, 1, 0, prompt("Later")), (at + 1, 1, 1, ended(Stop::Parked))];
    let sessions = [
        ("a-idle", vec![(10, 0, 0, started())]),
        ("b-ended", vec![(20, 1, 0, prompt("Warm")), (21, 1, 1, ended(Stop::End))]),
        ("b-failed", vec![(30, 1, 0, prompt("Cold")), (31, 1, 1, ended(Stop::Failed))]),
        ("c-open", vec![(40, 0, 0, started()), (41, 1, 0, prompt("Warm and cold"))]),
        ("d-parked", parked_at(50)),
        // A prompt that came too late for its turn has opened the next one.
        ("e-again", vec![(60, 1, 1, ended(Stop::End)), (61, 2, 1, round(1))]),
    ];
    for (name, lines) in sessions {
        written(store, name, &chain(Head::default(), lines)).await;
    }
    let any = SessionFilter::all(9);
    let table: [(SessionFilter, &[&str]); 9] = [
        (
            SessionFilter { standing: Some(Standing::Idle), ..any.clone() },
            &["b-failed", "b-ended", "a-idle"],
        ),
        (SessionFilter { standing: Some(Standing::Open), ..any.clone() }, &["e-again", "c-open"]),
        (SessionFilter { standing: Some(Standing::Parked), ..any.clone() }, &["d-parked"]),
        (SessionFilter { stop: Some(Stop::Failed), ..any.clone() }, &["b-failed"]),
        (SessionFilter { workdir: Some("/home/ann".into()), ..any.clone() }, &["c-open", "a-idle"]),
        (
            SessionFilter { since_ms: Some(31), until_ms: Some(51), ..any.clone() },
            &["c-open", "b-failed"],
        ),
        (SessionFilter { words: Some("cold".into()), ..any.clone() }, &["c-open", "b-failed"]),
        (
            SessionFilter { words: Some("warm -cold".into()), prefix: "b".into(), ..any.clone() },
            &["b-ended"],
        ),
        (SessionFilter { words: Some(String::new()), agent: Some("nobody".into()), ..any }, &[]),
    ];
    for (filter, expected) in table {
        assert_eq!(listed(store, &filter).await, expected, "{filter:?}");
    }
}

/// A session of four entries, and a fork of it after the second with two more.
async fn with_fork<S: Store>(store: &S) -> (Arc<[Entry]>, Vec<Entry>) {
    let lines = [
        (1, 0, 0, started()),
        (2, 1, 0, prompt("Warm")),
        (3, 1, 1, replied("Yes", [1; 5], Some(9), 1)),
        (4, 1, 1, ended(Stop::End)),
    ];
    let parent = chain(Head::default(), lines);
    written(store, "parent", &parent).await;
    let first = forked("parent", parent[1].head(), 10);
    let more = chain(first.head(), [(11, 1, 1, replied("No", [1; 5], Some(7), 1))]);
    let own: Vec<Entry> = [first].into_iter().chain(more.iter().cloned()).collect();
    let claim = store.create(&id("fork")).await.unwrap();
    store.append(&claim, parent[1].head(), own.clone().into()).await.unwrap();
    (parent, own)
}

pub(crate) async fn a_fork_is_read_through_its_parent<S: Archive>(store: &S) {
    let (parent, own) = with_fork(store).await;
    let log: Vec<Entry> = parent[..2].iter().chain(&own).cloned().collect();
    assert_eq!(all(store, "fork").await, log);
    assert_eq!(all(store, "parent").await, parent.to_vec());
    let mut head = Head::default();
    for entry in &log {
        assert!(entry.follows(head), "entry {}", entry.seq);
        head = entry.head();
    }
    let mut pages = Vec::new();
    for (after, max) in [(0, 3), (1, 1), (2, 9), (3, 9), (4, 9), (0, 0)] {
        let page = store.read(&id("fork"), after, max).await.unwrap();
        pages.push(page.iter().map(|entry| entry.seq).collect::<Vec<_>>());
    }
    let expected: [&[u64]; 6] = [&[1, 2, 3], &[2], &[3, 4], &[4], &[], &[]];
    assert_eq!(pages, expected);
    // A fork of the fork, at a place that the fork shares with its parent, and one at its own.
    for (name, at, length) in [("low", &log[0], 2), ("high", &log[3], 5)] {
        let first = forked("fork", at.head(), 20);
        let claim = store.create(&id(name)).await.unwrap();
        store.append(&claim, at.head(), [first.clone()].into()).await.unwrap();
        let expected: Vec<Entry> = log[..length - 1].iter().cloned().chain([first]).collect();
        assert_eq!(all(store, name).await, expected, "{name}");
        let more = some(head_of(&expected), 1);
        store.append(&claim, head_of(&expected), more).await.unwrap();
    }
    let rows = store.sessions(&SessionFilter::prefix("fork", 9)).await.unwrap();
    let expected = SessionRow {
        id: id("fork"),
        started_ms: 10,
        updated_ms: 11,
        head_seq: 4,
        head_hash: log[3].hash,
        entries: 2,
        turns: 1,
        title: String::new(),
        agent: String::new(),
        workdir: "/home/ann".into(),
        standing: Standing::Open,
        wake_ms: None,
        stop: None,
        parent: Some((id("parent"), 2)),
        tokens: 4,
        cost_nano_usd: 7,
    };
    assert_eq!(rows, [expected]);
    // What is shared is found once, where it was said.
    assert_eq!(found(store, "warm").await, places(&[("parent", 2)]));
    assert_eq!(store.check(&id("fork")).await.unwrap(), []);
}

pub(crate) async fn a_fork_of_nothing_is_refused<S: Archive>(store: &S) {
    let (parent, _) = with_fork(store).await;
    let claim = store.create(&id("new")).await.unwrap();
    let end = parent[3].head();
    let places = [
        ("parent", Head { hash: Hash::of_bytes(b"another"), ..end }),
        ("parent", Head { seq: 9, ..end }),
        // The fork does not share its parent's end.
        ("fork", end),
        ("nobody", end),
    ];
    for (of, at) in places {
        let refused = store.append(&claim, at, [forked(of, at, 1)].into()).await;
        let expected = StoreError::NoEntry { session: id(of), seq: at.seq };
        assert_eq!(refused, Err(expected), "{of} at {at:?}");
    }
    // An entry that is no fork's can't begin in the middle.
    let moved = StoreError::Moved { session: id("new"), after: 4 };
    assert_eq!(store.append(&claim, end, some(end, 1)).await, Err(moved));
    assert_eq!(store.read(&id("new"), 0, 9).await, Err(StoreError::NoSession(id("new"))));
    store.append(&claim, end, [forked("parent", end, 1)].into()).await.unwrap();
    assert_eq!(all(store, "new").await.len(), 5);
    // A session that exists is not forked into.
    let head = head_of(&all(store, "new").await);
    let again = store.append(&claim, end, [forked("parent", end, 1)].into()).await;
    assert_eq!(again, Err(StoreError::Moved { session: id("new"), after: 4 }));
    store.append(&claim, head, some(head, 1)).await.unwrap();
}

pub(crate) async fn what_is_removed_is_gone<S: Archive>(store: &S) {
    let no_session = |name: &str| StoreError::NoSession(id(name));
    assert_eq!(store.remove(&id("none")).await, Err(no_session("none")));
    let picture = Hash::of_bytes(b"a picture");
    let entries =
        chain(Head::default(), [(1, 1, 0, prompt("Warm")), (2, 1, 0, pictures(&[picture]))]);
    written(store, "one", &entries).await;
    let claim = store.claim(&id("one")).await.unwrap();
    assert_eq!(store.remove(&id("one")).await, Err(StoreError::InUse(id("one"))));
    let snapshot = Snapshot { seq: 2, version: 1, bytes: Arc::from(*b"state") };
    store.keep_snapshot(&claim, snapshot.clone(), NewPieces::default()).await.unwrap();
    drop(claim);
    assert_eq!(store.unreferenced(&[picture]).await.unwrap(), []);
    store.remove(&id("one")).await.unwrap();
    assert_eq!(store.remove(&id("one")).await, Err(no_session("one")));
    assert_eq!(store.read(&id("one"), 0, 9).await, Err(no_session("one")));
    assert_eq!(store.claim(&id("one")).await.unwrap_err(), no_session("one"));
    assert_eq!(listed(store, &SessionFilter::all(9)).await, [""; 0]);
    assert_eq!(found(store, "warm").await, places(&[]));
    assert_eq!(store.unreferenced(&[picture]).await.unwrap(), [picture]);
    assert_eq!(store.snapshot(&id("one")).await.unwrap(), None);
    // Its name is free again.
    written(store, "one", &entries).await;
    assert_eq!(all(store, "one").await, entries.to_vec());
    assert_eq!(store.snapshot(&id("one")).await.unwrap(), None);
}

pub(crate) async fn a_parent_is_hidden_until_its_last_fork_goes<S: Archive>(store: &S) {
    let (parent, own) = with_fork(store).await;
    let log: Vec<Entry> = parent[..2].iter().chain(&own).cloned().collect();
    let claim = store.create(&id("deep")).await.unwrap();
    let at = head_of(&log);
    store.append(&claim, at, [forked("fork", at, 20)].into()).await.unwrap();
    drop(claim);
    for name in ["parent", "fork"] {
        store.remove(&id(name)).await.unwrap();
        let gone = StoreError::NoSession(id(name));
        assert_eq!(store.read(&id(name), 0, 9).await, Err(gone.clone()));
        assert_eq!(store.claim(&id(name)).await.unwrap_err(), gone);
        assert_eq!(store.remove(&id(name)).await, Err(gone));
        assert_eq!(store.create(&id(name)).await.unwrap_err(), StoreError::SessionExists(id(name)));
    }
    assert_eq!(listed(store, &SessionFilter::all(9)).await, ["deep"]);
    assert_eq!(found(store, "warm").await, places(&[]));
    assert_eq!(store.due(i64::MAX, 9).await.unwrap(), [id("deep")]);
    assert_eq!(all(store, "deep").await.len(), 5, "its log is whole");
    // A hidden one takes no forks.
    let late = store.create(&id("late")).await.unwrap();
    let refused = store.append(&late, at, [forked("fork", at, 1)].into()).await;
    assert_eq!(refused, Err(StoreError::NoEntry { session: id("fork"), seq: 4 }));
    store.remove(&id("deep")).await.unwrap();
    // With it, the others went.
    for name in ["parent", "fork", "deep"] {
        written(store, name, &some(Head::default(), 1)).await;
    }
}

pub(crate) async fn blobs_are_referenced_by_entries<S: Archive>(store: &S) {
    let hashes: Vec<Hash> = (0..600_u32).map(|n| Hash::of_bytes(&n.to_be_bytes())).collect();
    let lines = [(1, 1, 0, pictures(&[hashes[1], hashes[1]])), (2, 1, 0, pictures(&hashes[3..]))];
    written(store, "one", &chain(Head::default(), lines)).await;
    assert_eq!(store.unreferenced(&hashes).await.unwrap(), [hashes[0], hashes[2]]);
    assert_eq!(store.unreferenced(&[]).await.unwrap(), []);
}

pub(crate) async fn snapshots_are_kept_one_a_session<S: Archive>(store: &S) {
    let snapshot = |seq, bytes: &[u8]| Snapshot { seq, version: 7, bytes: bytes.into() };
    let pieces = |before, new: &[&str]| {
        let bytes = new.iter().map(|bytes| bytes.as_bytes().into()).collect();
        NewPieces { before, bytes }
    };
    written(store, "one", &some(Head::default(), 3)).await;
    written(store, "other", &some(Head::default(), 3)).await;
    assert_eq!(kept(store, "one").await, (None, vec![]));
    assert_eq!(kept(store, "none").await, (None, vec![]));
    let claim = store.claim(&id("one")).await.unwrap();
    let first = snapshot(2, b"\0two\xff");
    store.keep_snapshot(&claim, first.clone(), pieces(0, &[])).await.unwrap();
    assert_eq!(kept(store, "one").await, (Some(first), vec![]));
    let second = snapshot(3, b"three");
    let keep =
        |before, new: &[&str]| store.keep_snapshot(&claim, second.clone(), pieces(before, new));
    keep(0, &["a", "b", "c"]).await.unwrap();
    assert_eq!(kept(store, "one").await, (Some(second.clone()), texts(&["a", "b", "c"])));
    keep(3, &["d"]).await.unwrap();
    assert_eq!(kept(store, "one").await, (Some(second.clone()), texts(&["a", "b", "c", "d"])));
    // What counts no longer is thrown away.
    keep(1, &["x"]).await.unwrap();
    assert_eq!(kept(store, "one").await, (Some(second.clone()), texts(&["a", "x"])));
    let old = Claim { session: id("one"), epoch: claim.epoch - 1, guard: Box::new(()) };
    store.keep_snapshot(&old, snapshot(1, b"one"), pieces(0, &["z"])).await.unwrap();
    assert_eq!(kept(store, "one").await, (Some(second), texts(&["a", "x"])));
    assert_eq!(kept(store, "other").await, (None, vec![]));
    drop(claim);
    store.remove(&id("one")).await.unwrap();
    assert_eq!(kept(store, "one").await, (None, vec![]));
}

fn texts(pieces: &[&str]) -> Vec<String> {
    pieces.iter().map(ToString::to_string).collect()
}

/// What a store has of a session's snapshot.
async fn kept<S: Archive>(store: &S, name: &str) -> (Option<Snapshot>, Vec<String>) {
    let mut pieces = Vec::new();
    while let Some(piece) = store.snapshot_piece(&id(name), pieces.len() as u32).await.unwrap() {
        pieces.push(String::from_utf8(piece.to_vec()).unwrap());
    }
    (store.snapshot(&id(name)).await.unwrap(), pieces)
}

pub(crate) async fn due_is_what_nobody_drives<S: Archive>(store: &S) {
    let asked = |at| vec![(at, 1, 0, prompt("Go"))];
    let parks = |at, until_ms, calls: &[CallId]| {
        let end = [(at, 1, 1, parked(until_ms, calls)), (at, 1, 1, ended(Stop::Parked))];
        asked(at).into_iter().chain(end).collect::<Vec<_>>()
    };
    let call = &[CallId::new(3, 0)][..];
    // What is written later, by another process.
    let sessions: [(&str, Vec<Line>, Option<Event>); 12] = [
        ("open", asked(10), None),
        // A prompt came too late for its turn, and whoever drove it died before the next round.
        ("late", [asked(11), vec![(12, 1, 1, ended_unread(Stop::Rounds))]].concat(), None),
        ("told", asked(13), Some(ended_unread(Stop::Failed))),
        ("timed", parks(20, Some(500), &[]), None),
        ("for-ever", parks(30, None, call), None),
        ("allowed", parks(40, None, call), Some(answered())),
        ("done", parks(41, Some(600), call), Some(finished("weather", How::Ok, 1))),
        ("news", parks(42, Some(600), &[]), Some(finished("weather", How::Ok, 1))),
        ("woken", parks(50, None, call), Some(woken())),
        ("over", parks(60, Some(5), &[]), Some(ended(Stop::End))),
        ("idle", vec![(70, 0, 0, started())], None),
        ("held", asked(80), None),
    ];
    for (name, lines, later) in sessions {
        let entries = chain(Head::default(), lines);
        written(store, name, &entries).await;
        if let Some(later) = later {
            let head = head_of(&entries);
            let claim = store.claim(&id(name)).await.unwrap();
            store.append(&claim, head, chain(head, [(99, 1, 1, later)])).await.unwrap();
        }
        assert_eq!(store.check(&id(name)).await.unwrap(), [], "{name}");
    }
    let waiting = SessionFilter { standing: Some(Standing::Waiting), ..SessionFilter::all(9) };
    assert_eq!(listed(store, &waiting).await, ["done", "allowed", "for-ever"]);
    let _held = store.claim(&id("held")).await.unwrap();
    let table: [(i64, usize, &[&str]); 5] = [
        (98, 9, &["open", "late", "told", "woken"]),
        (499, 9, &["open", "late", "allowed", "done", "told", "woken"]),
        (500, 9, &["open", "late", "timed", "allowed", "done", "told", "woken"]),
        (600, 9, &["open", "late", "timed", "allowed", "done", "news", "told", "woken"]),
        (500, 3, &["open", "late", "timed"]),
    ];
    for (now_ms, max, expected) in table {
        let due = store.due(now_ms, max).await.unwrap();
        let due: Vec<&str> = due.iter().map(|id| id.as_str()).collect();
        assert_eq!(due, expected, "{now_ms} {max}");
    }
}

/// Anybody leaves an answer, also while somebody drives the session; it goes with the entry that has
/// it, and a session that waits for calls is due until then.
pub(crate) async fn an_answer_is_left_until_the_log_has_it<S: Archive>(store: &S) {
    let [first, second] = [CallId::new(3, 0), CallId::new(3, 1)];
    let left = |call: &CallId, choice, why: &str| AnswerLeft {
        call: call.clone(),
        choice,
        why: why.to_owned(),
    };
    let nobody = store.leave_answer(&id("one"), left(&first, Choice::No, "")).await;
    assert_eq!(nobody, Err(StoreError::NoSession(id("one"))));
    let lines = [
        (1, 1, 0, prompt("Go")),
        (2, 1, 1, parked(None, &[first.clone(), second.clone()])),
        (3, 1, 1, ended(Stop::Parked)),
    ];
    let entries = chain(Head::default(), lines);
    written(store, "one", &entries).await;
    assert_eq!(store.due(i64::MAX, 9).await.unwrap(), []);
    let claim = store.claim(&id("one")).await.unwrap();
    for answer in [
        left(&second, Choice::Session, "no\0end"),
        left(&first, Choice::Once, "it is \"mine\""),
        left(&first, Choice::No, "too late"),
    ] {
        store.leave_answer(&id("one"), answer).await.unwrap();
    }
    let waiting = store.answers_left(&id("one")).await.unwrap();
    assert_eq!(waiting[0], left(&first, Choice::Once, "it is \"mine\""));
    assert_eq!((&waiting[1].call, waiting[1].choice, waiting.len()), (&second, Choice::Session, 2));
    let head = head_of(&entries);
    store.append(&claim, head, chain(head, [(4, 1, 1, answered())])).await.unwrap();
    assert_eq!(store.answers_left(&id("one")).await.unwrap(), waiting[1..]);
    drop(claim);
    assert_eq!(store.due(0, 9).await.unwrap(), [id("one")]);
    store.remove(&id("one")).await.unwrap();
    assert_eq!(store.answers_left(&id("one")).await.unwrap(), []);
}

/// At most so many are left, and one more is refused.
pub(crate) async fn answers_left_are_counted<S: Archive>(store: &S) {
    written(store, "one", &chain(Head::default(), [(1, 1, 0, prompt("Go"))])).await;
    let left =
        |index| AnswerLeft { call: CallId::new(3, index), choice: Choice::No, why: String::new() };
    for index in 0..ANSWERS_LEFT_MAX {
        store.leave_answer(&id("one"), left(index)).await.unwrap();
    }
    let one_more = store.leave_answer(&id("one"), left(ANSWERS_LEFT_MAX)).await.unwrap_err();
    assert_eq!(
        one_more.to_string(),
        "session one: 256 answers wait for it already: nothing was recorded"
    );
    assert_eq!(store.answers_left(&id("one")).await.unwrap().len(), ANSWERS_LEFT_MAX);
}

/// A fork stands as its parent stood at its place, until its own entries say something else.
pub(crate) async fn a_fork_stands_as_its_parent_stood<S: Archive>(store: &S) {
    let call = [CallId::new(3, 0)];
    let lines = [
        (1, 1, 0, prompt("Go")),
        (2, 1, 1, round(1)),
        (3, 1, 1, replied("", [0; 5], None, 1)),
        (4, 1, 1, parked(Some(900), &call)),
        (5, 1, 1, ended(Stop::Parked)),
        (6, 1, 1, woken()),
        (7, 1, 1, ended(Stop::End)),
        (8, 2, 0, prompt("Go on")),
        (9, 2, 1, ended_unread(Stop::Failed)),
    ];
    let parent = chain(Head::default(), lines);
    written(store, "parent", &parent).await;
    let table: [(usize, Option<Event>, Standing, Option<i64>); 6] = [
        (1, None, Standing::Open, None),
        (3, None, Standing::Open, None),
        (5, None, Standing::Waiting, Some(900)),
        (5, Some(finished("weather", How::Unknown, 0)), Standing::Waiting, Some(11)),
        (7, None, Standing::Idle, None),
        (9, None, Standing::Open, None),
    ];
    for (number, (at, own, standing, wake_ms)) in table.into_iter().enumerate() {
        let at = parent[at - 1].head();
        let name = format!("fork-{number}");
        let first = forked("parent", at, 10);
        let own = chain(first.head(), own.map(|event| (11, 1, 1, event)));
        let entries: Vec<Entry> = [first].into_iter().chain(own.iter().cloned()).collect();
        let claim = store.create(&id(&name)).await.unwrap();
        store.append(&claim, at, entries.into()).await.unwrap();
        let row = store.sessions(&SessionFilter::prefix(&name, 1)).await.unwrap().remove(0);
        assert_eq!((row.standing, row.wake_ms), (standing, wake_ms), "{name}");
        assert_eq!(store.check(&id(&name)).await.unwrap(), [], "{name}");
    }
}

pub(crate) async fn a_newer_log_is_read_and_not_driven<S: Archive>(store: &S) {
    let first = some(Head::default(), 1);
    let newer = foreign(head_of(&first));
    let entries: Arc<[Entry]> = [first[0].clone(), newer].into();
    written(store, "one", &entries).await;
    assert_eq!(all(store, "one").await, entries.to_vec());
    let refused = store.claim(&id("one")).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "session one (format 7 of 1) was written by a newer version of Inspan: nothing was changed"
    );
    store.remove(&id("one")).await.unwrap();
}
