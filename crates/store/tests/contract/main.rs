//! What a store promises, the same for all.

mod archive;
mod log;
mod postgres_only;
mod sqlite_only;

use std::sync::Arc;

use archive::*;
use futures_util::future::{join, join_all};
use inspan_core::{
    event::{Entry, Event, Head, Stop},
    hash::Hash,
    message::How,
    provider::ErrorClass,
    store::{Claim, SessionFilter, SessionRow, Store, StoreError},
    stored::Standing,
};
use inspan_store::{Memory, Postgres, Sqlite};
use log::*;

/// One test of each store for each promise.
macro_rules! contract {
    ($($promise:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test]
            async fn $promise() {
                super::$promise(&super::Memory::new()).await;
            })*
        }
        mod sqlite {
            $(#[tokio::test]
            async fn $promise() {
                let folder = tempfile::tempdir().unwrap();
                let store = super::Sqlite::open(&folder.path().join("log.db")).await.unwrap();
                super::$promise(&store).await;
                store.close().await;
            })*
        }
        mod postgres {
            $(#[tokio::test]
            async fn $promise() {
                let schema = crate::postgres_only::Schema::new().await;
                let store = super::Postgres::open(&schema.url).await.unwrap();
                super::$promise(&store).await;
                store.close().await;
                schema.remove().await;
            })*
        }
    };
}

contract![
    what_is_read_is_what_was_appended,
    pages_follow_one_another,
    a_session_exists_from_its_first_entry,
    a_claim_excludes_others_until_it_is_dropped,
    claims_of_nothing_are_refused,
    a_moved_log_is_not_written,
    an_older_claim_does_not_write,
    gaps_are_refused,
    appends_stand_in_the_order_of_their_calls,
    a_failed_append_leaves_its_neighbours_alone,
    many_sessions_write_at_once,
    reading_goes_on_while_writing,
    the_list_says_what_each_session_did,
    the_list_is_ordered_and_limited,
    words_are_found_wherever_they_were_said,
    lists_have_filters,
    a_fork_is_read_through_its_parent,
    a_fork_of_nothing_is_refused,
    what_is_removed_is_gone,
    a_parent_is_hidden_until_its_last_fork_goes,
    blobs_are_referenced_by_entries,
    snapshots_are_kept_one_a_session,
    due_is_what_nobody_drives,
    an_answer_is_left_until_the_log_has_it,
    answers_left_are_counted,
    a_fork_stands_as_its_parent_stood,
    a_newer_log_is_read_and_not_driven,
];

async fn all<S: Store>(store: &S, session: &str) -> Vec<Entry> {
    store.read(&id(session), 0, usize::MAX).await.unwrap()
}

/// A new session with `entries`, its claim given back.
async fn written<S: Store>(store: &S, session: &str, entries: &Arc<[Entry]>) {
    let claim = store.create(&id(session)).await.unwrap();
    store.append(&claim, Head::default(), entries.clone()).await.unwrap();
}

fn moved(session: &str, after: u64) -> Result<(), StoreError> {
    Err(StoreError::Moved { session: id(session), after })
}

async fn what_is_read_is_what_was_appended<S: Store>(store: &S) {
    let known = chain(
        Head::default(),
        [
            (1, 0, 0, started()),
            (2, 1, 0, prompt("Is it warm?\0\n\"é\u{1F980}\"")),
            (3, 1, 1, round(1)),
            (4, 1, 1, replied("Yes.", [1, 2, 3, 4, 5], Some(6), 7)),
            (5, 1, 1, failed(ErrorClass::Overloaded, 8)),
            (6, 1, 1, finished("weather", How::Ok, 9)),
            (7, 1, 1, replied(&"long ".repeat(300_000), [u64::MAX; 5], None, u64::MAX)),
            (i64::MAX, u32::MAX, u32::MAX, ended(Stop::End)),
        ],
    );
    let foreign = foreign(head_of(&known));
    let entries: Arc<[Entry]> = known.iter().cloned().chain([foreign]).collect();
    written(store, "one", &entries).await;
    let read = all(store, "one").await;
    assert_eq!(read, entries.to_vec());
    let lines = |entries: &[Entry]| entries.iter().map(Entry::to_line).collect::<Vec<_>>();
    assert_eq!(lines(&read), lines(&entries));
    let mut head = Head::default();
    for entry in read.iter().take(known.len()) {
        assert!(entry.follows(head), "entry {}", entry.seq);
        head = entry.head();
    }
}

async fn pages_follow_one_another<S: Store>(store: &S) {
    written(store, "one", &some(Head::default(), 7)).await;
    written(store, "long", &some(Head::default(), 600)).await;
    let long = store.read(&id("long"), 0, 1_000).await.unwrap();
    assert_eq!(long, some(Head::default(), 600).to_vec());
    let mut pages = Vec::new();
    for (after, max) in [(0, 3), (3, 3), (6, 3), (7, 3), (99, 3), (u64::MAX, 3), (2, 0)] {
        let page = store.read(&id("one"), after, max).await.unwrap();
        pages.push(page.iter().map(|entry| entry.seq).collect::<Vec<_>>());
    }
    let expected: [&[u64]; 7] = [&[1, 2, 3], &[4, 5, 6], &[7], &[], &[], &[], &[]];
    assert_eq!(pages, expected);
}

async fn a_session_exists_from_its_first_entry<S: Store>(store: &S) {
    let claim = store.create(&id("one")).await.unwrap();
    assert_eq!((claim.session.as_str(), claim.epoch), ("one", 1));
    assert_eq!(store.read(&id("one"), 0, 9).await.unwrap_err(), StoreError::NoSession(id("one")));
    assert_eq!(store.sessions(&SessionFilter::all(9)).await.unwrap(), []);
    drop(claim);
    // A session that was never written can be created once more.
    let claim = store.create(&id("one")).await.unwrap();
    store.append(&claim, Head::default(), some(Head::default(), 1)).await.unwrap();
    assert_eq!(all(store, "one").await.len(), 1);
    // It exists, whoever holds it.
    let twice = || async { store.create(&id("one")).await.unwrap_err() };
    assert_eq!(twice().await, StoreError::SessionExists(id("one")));
    drop(claim);
    assert_eq!(twice().await, StoreError::SessionExists(id("one")));
}

async fn a_claim_excludes_others_until_it_is_dropped<S: Store>(store: &S) {
    let first = store.create(&id("one")).await.unwrap();
    assert_eq!(store.create(&id("one")).await.unwrap_err(), StoreError::InUse(id("one")));
    store.append(&first, Head::default(), some(Head::default(), 1)).await.unwrap();
    assert_eq!(store.claim(&id("one")).await.unwrap_err(), StoreError::InUse(id("one")));
    // Another session is not concerned.
    drop(store.create(&id("two")).await.unwrap());
    drop(first);
    let mut epochs = Vec::new();
    for _ in 0..3 {
        epochs.push(store.claim(&id("one")).await.unwrap().epoch);
    }
    assert_eq!(epochs, [2, 3, 4]);
}

async fn claims_of_nothing_are_refused<S: Store>(store: &S) {
    for _ in 0..2 {
        let refused = store.claim(&id("none")).await.unwrap_err();
        assert_eq!(refused.to_string(), "there is no session none");
    }
    let refused = store.read(&id("none"), 0, 1).await.unwrap_err();
    assert_eq!(refused, StoreError::NoSession(id("none")));
}

async fn a_moved_log_is_not_written<S: Store>(store: &S) {
    let claim = store.create(&id("one")).await.unwrap();
    let first = some(Head::default(), 2);
    store.append(&claim, Head::default(), first.clone()).await.unwrap();
    let end = head_of(&first);
    let heads = [
        Head::default(),
        first[0].head(),
        Head { seq: end.seq, hash: Hash::of_bytes(b"another log") },
        Head { seq: end.seq + 1, hash: end.hash },
    ];
    for head in heads {
        let refused = store.append(&claim, head, some(head, 2)).await;
        assert_eq!(refused, moved("one", head.seq), "{head:?}");
    }
    assert_eq!(all(store, "one").await, first.to_vec());
    store.append(&claim, end, some(end, 1)).await.unwrap();
    assert_eq!(all(store, "one").await.len(), 3);
}

async fn an_older_claim_does_not_write<S: Store>(store: &S) {
    let first = store.create(&id("one")).await.unwrap();
    let entries = some(Head::default(), 1);
    store.append(&first, Head::default(), entries.clone()).await.unwrap();
    // A writer that lost its claim without knowing it.
    let old = Claim { session: id("one"), epoch: first.epoch, guard: Box::new(()) };
    drop(first);
    let new = store.claim(&id("one")).await.unwrap();
    let end = head_of(&entries);
    assert_eq!(store.append(&old, end, some(end, 1)).await, moved("one", 1));
    store.append(&new, end, some(end, 1)).await.unwrap();
    assert_eq!(all(store, "one").await.len(), 2);
}

async fn gaps_are_refused<S: Store>(store: &S) {
    let claim = store.create(&id("one")).await.unwrap();
    let entries = some(Head::default(), 3);
    let torn: Arc<[Entry]> = [entries[0].clone(), entries[2].clone()].into();
    let refused = store.append(&claim, Head::default(), torn).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "appending to session one: entry 3 stands where entry 2 must: nothing was written"
    );
    assert_eq!(store.sessions(&SessionFilter::all(9)).await.unwrap(), []);
    // No entries are no change.
    store.append(&claim, Head::default(), [].into()).await.unwrap();
    assert_eq!(store.sessions(&SessionFilter::all(9)).await.unwrap(), []);
}

async fn appends_stand_in_the_order_of_their_calls<S: Store>(store: &S) {
    let claim = store.create(&id("one")).await.unwrap();
    let entries = some(Head::default(), 50);
    let mut head = Head::default();
    let mut last = None;
    for entry in entries.iter() {
        // Each but the last is dropped unpolled.
        last = Some(store.append(&claim, head, [entry.clone()].into()));
        head = entry.head();
    }
    last.unwrap().await.unwrap();
    assert_eq!(all(store, "one").await, entries.to_vec());
}

async fn a_failed_append_leaves_its_neighbours_alone<S: Store>(store: &S) {
    let names = ["a", "b", "c"];
    let claims = join_all(names.map(|name| store.create(&id(name)))).await;
    let claims: Vec<Claim> = claims.into_iter().map(Result::unwrap).collect();
    let wrong = Head { seq: 4, hash: Hash::default() };
    // Submitted together, and so in one commit where there are commits.
    let outcomes = join_all([
        store.append(&claims[0], Head::default(), some(Head::default(), 2)),
        store.append(&claims[1], wrong, some(wrong, 2)),
        store.append(&claims[2], Head::default(), some(Head::default(), 3)),
        store.append(&claims[0], Head::default(), some(Head::default(), 4)),
    ])
    .await;
    assert_eq!(outcomes, [Ok(()), moved("b", 4), Ok(()), moved("a", 0)]);
    let rows = store.sessions(&SessionFilter::all(9)).await.unwrap();
    let mut lengths: Vec<_> = rows.iter().map(|row| (row.id.as_str(), row.entries)).collect();
    lengths.sort_unstable();
    assert_eq!(lengths, [("a", 2), ("c", 3)]);
}

async fn many_sessions_write_at_once<S: Store>(store: &S) {
    let write = |number: usize| async move {
        let name = format!("s-{number}");
        let claim = store.create(&id(&name)).await.unwrap();
        let entries = some(Head::default(), 12);
        let mut head = Head::default();
        for pair in entries.chunks(2) {
            store.append(&claim, head, pair.into()).await.unwrap();
            head = head_of(pair);
        }
        assert_eq!(all(store, &name).await, entries.to_vec());
    };
    join_all((0..40).map(write)).await;
    assert_eq!(store.sessions(&SessionFilter::prefix("s-", 99)).await.unwrap().len(), 40);
}

async fn reading_goes_on_while_writing<S: Store>(store: &S) {
    let claim = store.create(&id("one")).await.unwrap();
    let entries = some(Head::default(), 60);
    store.append(&claim, Head::default(), entries[..1].into()).await.unwrap();
    let write = async {
        for pair in entries.windows(2) {
            store.append(&claim, pair[0].head(), [pair[1].clone()].into()).await.unwrap();
        }
    };
    let read = async {
        loop {
            // Whatever is seen is the beginning of the log, whole.
            let seen = all(store, "one").await;
            assert_eq!(seen, entries[..seen.len()]);
            if seen.len() == entries.len() {
                break;
            }
            tokio::task::yield_now().await;
        }
    };
    join(write, read).await;
}

async fn the_list_says_what_each_session_did<S: Store>(store: &S) {
    type Row = (&'static str, Vec<Line>, SessionRow);
    let row = |name: &str, times: (i64, i64), entries, turns, title: &str| SessionRow {
        id: id(name),
        started_ms: times.0,
        updated_ms: times.1,
        entries,
        turns,
        title: title.into(),
        head_seq: entries,
        head_hash: Hash::default(),
        agent: String::new(),
        workdir: String::new(),
        standing: Standing::Open,
        wake_ms: None,
        parent: None,
        stop: None,
        tokens: 0,
        cost_nano_usd: 0,
    };
    let end = |stop: Stop| Some(stop.as_str().to_owned());
    let rows: [Row; 5] = [
        (
            "e-begun",
            vec![(50, 0, 0, started())],
            SessionRow {
                standing: Standing::Idle,
                workdir: "/home/ann".into(),
                ..row("e-begun", (50, 50), 1, 0, "")
            },
        ),
        (
            "d-open",
            vec![(40, 0, 0, started()), (41, 1, 0, prompt("Why?")), (42, 1, 1, round(1))],
            SessionRow { workdir: "/home/ann".into(), ..row("d-open", (40, 42), 3, 1, "Why?") },
        ),
        (
            "c-two-turns",
            vec![
                (30, 1, 0, prompt("First")),
                (31, 1, 1, replied("a", [1, 10, 100, 1_000, 500], Some(7), 1)),
                (32, 1, 1, ended(Stop::End)),
                (33, 2, 0, prompt("Second")),
                (34, 2, 1, failed(ErrorClass::Auth, 1)),
                (35, 2, 1, replied("b", [2, 20, 200, 2_000, 500], None, 1)),
                (36, 2, 1, ended(Stop::Failed)),
            ],
            SessionRow {
                standing: Standing::Idle,
                stop: end(Stop::Failed),
                tokens: 3_333,
                cost_nano_usd: 7,
                ..row("c-two-turns", (30, 36), 7, 2, "First")
            },
        ),
        (
            "b-woken",
            vec![(20, 1, 0, prompt("Later")), (21, 1, 1, ended(Stop::Parked)), (22, 1, 1, woken())],
            row("b-woken", (20, 22), 3, 1, "Later"),
        ),
        (
            "a-parked",
            vec![(10, 1, 0, prompt("Later")), (11, 1, 1, ended(Stop::Parked))],
            SessionRow {
                standing: Standing::Parked,
                stop: end(Stop::Parked),
                ..row("a-parked", (10, 11), 2, 1, "Later")
            },
        ),
    ];
    let mut expected = Vec::new();
    for (name, lines, row) in rows {
        let log = chain(Head::default(), lines);
        written(store, name, &log).await;
        expected.push(SessionRow { head_hash: head_of(&log).hash, ..row });
    }
    assert_eq!(store.sessions(&SessionFilter::all(9)).await.unwrap(), expected);
}

async fn the_list_is_ordered_and_limited<S: Store>(store: &S) {
    // The later a session is created, the earlier it was changed last; two at the same time.
    for (name, at_ms) in [("ab-1", 30), ("ab-2", 20), ("abc", 20), ("b", 10)] {
        written(store, name, &chain(Head::default(), [(at_ms, 0, 0, started())])).await;
    }
    let claim = store.claim(&id("b")).await.unwrap();
    let head = head_of(&all(store, "b").await);
    store.append(&claim, head, chain(head, [(25, 1, 0, prompt("again"))])).await.unwrap();
    let table: [(&str, usize, &[&str]); 8] = [
        ("", 9, &["ab-1", "b", "abc", "ab-2"]),
        ("", 2, &["ab-1", "b"]),
        ("", 0, &[]),
        ("ab", 9, &["ab-1", "abc", "ab-2"]),
        ("ab-", 9, &["ab-1", "ab-2"]),
        ("abc", 9, &["abc"]),
        ("abcd", 9, &[]),
        ("%", 9, &[]),
    ];
    for (prefix, max, expected) in table {
        let rows = store.sessions(&SessionFilter::prefix(prefix, max)).await.unwrap();
        let ids: Vec<&str> = rows.iter().map(|row| row.id.as_str()).collect();
        assert_eq!(ids, expected, "{prefix} {max}");
    }
}

/// Entries of a kind that the views and lists name, so that a renamed kind is noticed here.
#[test]
fn the_kinds_in_the_sql_exist() {
    let sql = include_str!("../../migrations/0001_log.sql");
    let known = |word: &str| Event::KINDS.contains(&word);
    let words =
        sql.split('\'').skip(1).step_by(2).filter(|word| word.starts_with(char::is_uppercase));
    let unknown: Vec<&str> = words.filter(|word| !known(word)).collect();
    assert_eq!(unknown, [""; 0]);
}
