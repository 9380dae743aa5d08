//! What Postgres promises beyond the contract: leases, and a database that goes away.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use inspan_core::{
    event::{Entry, Head},
    store::{Archive, Claim, SessionFilter, Store, StoreError},
};
use inspan_store::Postgres;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::log::*;

/// Where the tests find a database.
const VARIABLE: &str = "INSPAN_TEST_POSTGRES";

/// A schema of its own in the database for tests.
pub(crate) struct Schema {
    name: String,
    pub(crate) url: String,
}

impl Schema {
    pub(crate) async fn new() -> Self {
        let base = base();
        let mut connection = PgConnection::connect(&base).await.unwrap();
        let name: String =
            sqlx::query_scalar("SELECT 't_' || replace(CAST(gen_random_uuid() AS TEXT), '-', '')")
                .fetch_one(&mut connection)
                .await
                .unwrap();
        let sql = AssertSqlSafe(format!("CREATE SCHEMA {name}"));
        sqlx::query(sql).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        let url = format!("{base}?options=-csearch_path%3D{name}&application_name={name}");
        Self { url, name }
    }

    /// A connection to look and to do harm with.
    async fn by_hand(&self) -> PgConnection {
        let url = self.url.replace("&application_name=", "&application_name=by-hand-");
        PgConnection::connect(&url).await.unwrap()
    }

    pub(crate) async fn remove(self) {
        let mut connection = PgConnection::connect(&base()).await.unwrap();
        let sql = AssertSqlSafe(format!("DROP SCHEMA {} CASCADE", self.name));
        sqlx::query(sql).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    }
}

fn base() -> String {
    std::env::var(VARIABLE).unwrap_or_else(|_| {
        panic!("{VARIABLE} names no Postgres database: run the tests with `./test tests`")
    })
}

/// A store in `schema` with one session of three entries.
async fn small(schema: &Schema) -> (Postgres, Claim, Arc<[Entry]>) {
    let store = Postgres::open(&schema.url).await.unwrap();
    let claim = store.create(&id("one")).await.unwrap();
    let entries = some(Head::default(), 3);
    store.append(&claim, Head::default(), entries.clone()).await.unwrap();
    (store, claim, entries)
}

/// Ends every connection of the stores of `schema`, as a server does that restarts.
async fn cut(connection: &mut PgConnection, schema: &Schema) -> usize {
    let cut: Vec<bool> = sqlx::query_scalar(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE application_name = $1 AND pid <> pg_backend_pid()",
    )
    .bind(&schema.name)
    .fetch_all(connection)
    .await
    .unwrap();
    cut.len()
}

#[tokio::test]
async fn an_empty_database_is_made_once_by_whoever_comes_first() {
    let schema = Schema::new().await;
    let opened = futures_util::future::join_all((0..4).map(|_| Postgres::open(&schema.url))).await;
    let stores: Vec<Postgres> = opened.into_iter().map(Result::unwrap).collect();
    let claim = stores[0].create(&id("one")).await.unwrap();
    stores[0].append(&claim, Head::default(), some(Head::default(), 1)).await.unwrap();
    for store in &stores {
        assert_eq!(store.sessions(&SessionFilter::all(9)).await.unwrap().len(), 1);
        assert_eq!(store.claim(&id("one")).await.unwrap_err(), StoreError::InUse(id("one")));
    }
    for store in &stores {
        store.close().await;
    }
    schema.remove().await;
}

#[tokio::test]
async fn a_closed_store_gives_its_claims_back() {
    let schema = Schema::new().await;
    let (store, claim, _) = small(&schema).await;
    let other = Postgres::open(&schema.url).await.unwrap();
    assert_eq!(other.claim(&id("one")).await.unwrap_err(), StoreError::InUse(id("one")));
    store.close().await;
    assert_eq!(other.claim(&id("one")).await.unwrap().epoch, 2);
    let late = store.read(&id("one"), 0, 9).await.unwrap_err();
    assert!(late.to_string().ends_with(": the store is closed"), "{late}");
    drop(claim);
    other.close().await;
    schema.remove().await;
}

#[tokio::test]
async fn a_lease_that_ran_out_is_taken_over_and_its_holder_is_told() {
    let schema = Schema::new().await;
    let (store, claim, entries) = small(&schema).await;
    let other = Postgres::open(&schema.url).await.unwrap();
    let mut by_hand = schema.by_hand().await;
    // As if nothing had renewed it for long.
    sqlx::query("UPDATE claims SET until_ms = 0").execute(&mut by_hand).await.unwrap();
    let taken = other.claim(&id("one")).await.unwrap();
    assert_eq!(taken.epoch, 2);
    let end = head_of(&entries);
    let refused = store.append(&claim, end, some(end, 1)).await.unwrap_err();
    assert_eq!(refused, StoreError::Moved { session: id("one"), after: 3 });
    other.append(&taken, end, some(end, 2)).await.unwrap();
    // The next renewal finds it out.
    claim.guard.lost().await;
    drop(claim);
    assert_eq!(store.claim(&id("one")).await.unwrap_err(), StoreError::InUse(id("one")));
    assert_eq!(store.read(&id("one"), 0, 9).await.unwrap().len(), 5);
    by_hand.close().await.unwrap();
    store.close().await;
    other.close().await;
    schema.remove().await;
}

/// A lease ends by the database's clock, also where that was set back meanwhile.
#[tokio::test]
async fn no_lease_lasts_longer_than_it_may() {
    let schema = Schema::new().await;
    let (store, claim, entries) = small(&schema).await;
    let end = head_of(&entries);
    store.append(&claim, end, chain(end, [(9, 1, 0, prompt("Go"))])).await.unwrap();
    drop(claim);
    let mut by_hand = schema.by_hand().await;
    let leases = [("10000", vec![]), ("3600000", vec![id("one")]), ("-1", vec![id("one")])];
    for (until, expected) in leases {
        sqlx::query("DELETE FROM claims").execute(&mut by_hand).await.unwrap();
        let sql = "INSERT INTO claims VALUES
            ('one', 'gone', CAST(EXTRACT(EPOCH FROM now()) * 1000 AS BIGINT) + CAST($1 AS BIGINT))";
        sqlx::query(sql).bind(until).execute(&mut by_hand).await.unwrap();
        assert_eq!(store.due(0, 9).await.unwrap(), expected, "{until}");
        let claimed = store.claim(&id("one")).await.map(drop);
        let in_use = Err(StoreError::InUse(id("one")));
        assert_eq!(claimed, if expected.is_empty() { in_use } else { Ok(()) }, "{until}");
    }
    by_hand.close().await.unwrap();
    store.close().await;
    schema.remove().await;
}

#[tokio::test]
async fn others_are_told_of_a_change() {
    let schema = Schema::new().await;
    let (store, claim, entries) = small(&schema).await;
    let other = Postgres::open(&schema.url).await.unwrap();
    let (of_one, of_any) = (other.changed(Some(&id("one"))), other.changed(None));
    let of_two = other.changed(Some(&id("two")));
    let mut head = head_of(&entries);
    let write = async {
        // Listening may begin after the first of them.
        loop {
            let more = some(head, 1);
            store.append(&claim, head, more.clone()).await.unwrap();
            head = head_of(&more);
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        () = write => {}
        _ = futures_util::future::join(of_one, of_any) => {}
        () = of_two => panic!("nothing was written there"),
    }
    store.close().await;
    other.close().await;
    schema.remove().await;
}

#[tokio::test]
async fn connections_that_were_cut_are_made_again() {
    let schema = Schema::new().await;
    let (store, claim, entries) = small(&schema).await;
    let mut by_hand = schema.by_hand().await;
    let mut head = head_of(&entries);
    for round in 1..=3 {
        // Before it is asked, and in the middle.
        assert!(cut(&mut by_hand, &schema).await > 0);
        let more = some(head, 200);
        let append = store.append(&claim, head, more.clone());
        let (appended, _) = futures_util::future::join(append, cut(&mut by_hand, &schema)).await;
        assert_eq!(appended, Ok(()), "round {round}");
        head = head_of(&more);
        // A reader whose connection was cut says so once, or has got another.
        let log = match store.read(&id("one"), 0, 999).await {
            Ok(log) => log,
            Err(_) => store.read(&id("one"), 0, 999).await.unwrap(),
        };
        assert_eq!(log.len(), 3 + 200 * round);
    }
    // The lease is still there, and is given back.
    let other = Postgres::open(&schema.url).await.unwrap();
    assert_eq!(other.claim(&id("one")).await.unwrap_err(), StoreError::InUse(id("one")));
    drop(claim);
    assert_eq!(store.claim(&id("one")).await.unwrap().epoch, 2);
    by_hand.close().await.unwrap();
    store.close().await;
    other.close().await;
    schema.remove().await;
}

/// Between a store and its database; loses the answer to a commit when it is told to.
struct Lossy {
    port: u16,
    /// Answers to commits that are still to be lost.
    to_lose: Arc<AtomicUsize>,
}

impl Lossy {
    async fn start(base: &str) -> Self {
        let to = base.rsplit_once('@').unwrap().1.split_once('/').unwrap().0.to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let to_lose = Arc::new(AtomicUsize::new(0));
        let left = to_lose.clone();
        tokio::spawn(async move {
            loop {
                let client = listener.accept().await.unwrap().0;
                let server = TcpStream::connect(&to).await.unwrap();
                tokio::spawn(Self::carry(client, server, left.clone()));
            }
        });
        Self { port, to_lose }
    }

    async fn carry(mut client: TcpStream, mut server: TcpStream, to_lose: Arc<AtomicUsize>) {
        let (mut asked, mut said) = ([0; 65_536], [0; 65_536]);
        let mut commits = false;
        loop {
            tokio::select! {
                count = client.read(&mut asked) => match count {
                    Ok(count @ 1..) => {
                        let asked = &asked[..count];
                        commits = asked.windows(6).any(|word| word == b"COMMIT");
                        if server.write_all(asked).await.is_err() { return }
                    }
                    _ => return,
                },
                count = server.read(&mut said) => match count {
                    Ok(count @ 1..) => {
                        let one_less = |left: usize| left.checked_sub(1);
                        let order = Ordering::SeqCst;
                        if commits && to_lose.fetch_update(order, order, one_less).is_ok() {
                            return;
                        }
                        if client.write_all(&said[..count]).await.is_err() { return }
                    }
                    _ => return,
                },
            }
        }
    }
}

#[tokio::test]
async fn a_commit_whose_answer_was_lost_is_found_out() {
    let schema = Schema::new().await;
    let lossy = Lossy::start(&base()).await;
    let port = base().rsplit_once(':').unwrap().1.split_once('/').unwrap().0.to_owned();
    let url = schema.url.replace(&format!(":{port}/"), &format!(":{}/", lossy.port));
    let store = Postgres::open(&url).await.unwrap();
    let claim = store.create(&id("one")).await.unwrap();
    let (mut head, mut log) = (Head::default(), Vec::new());
    for _ in 0..4 {
        lossy.to_lose.store(1, Ordering::SeqCst);
        let entries = some(head, 3);
        assert_eq!(store.append(&claim, head, entries.clone()).await, Ok(()));
        assert_eq!(lossy.to_lose.load(Ordering::SeqCst), 0);
        head = head_of(&entries);
        log.extend_from_slice(&entries);
    }
    assert_eq!(store.read(&id("one"), 0, 99).await.unwrap(), log);
    // The same in a group, with one that must be refused.
    let other = store.create(&id("two")).await.unwrap();
    let wrong = Head { seq: 2, ..head };
    lossy.to_lose.store(1, Ordering::SeqCst);
    let outcomes = futures_util::future::join_all([
        store.append(&other, Head::default(), some(Head::default(), 2)),
        store.append(&claim, wrong, some(wrong, 3)),
        store.append(&claim, head, some(head, 3)),
    ])
    .await;
    let moved = Err(StoreError::Moved { session: id("one"), after: 2 });
    assert_eq!(outcomes, [Ok(()), moved, Ok(())]);
    store.close().await;
    schema.remove().await;
}

#[tokio::test]
async fn what_is_wrong_with_an_address_is_said_without_its_password() {
    let schema = Schema::new().await;
    let base = base();
    let (before, host) = base.rsplit_once('@').unwrap();
    let user = before.rsplit_once(':').unwrap().0;
    let port = host.split_once('/').unwrap().0;
    let password = before.rsplit_once(':').unwrap().1;
    let table = [
        (
            "postgres://host:x/log".to_owned(),
            "the address of the Postgres database: error with configuration: invalid port number: \
             write postgres://USER:PASSWORD@HOST:PORT/DATABASE",
        ),
        (
            format!("{user}:wrong-{password}@{host}"),
            "postgres://inspan@PORT/postgres: password authentication failed for user \"inspan\": \
             check the user and the password in the URL",
        ),
        (
            format!("{before}@{port}/nowhere"),
            "postgres://inspan@PORT/nowhere: database \"nowhere\" does not exist: make it with \
             `createdb`, or correct its name",
        ),
        (
            format!("{before}@127.0.0.1:1/postgres"),
            "postgres://inspan@127.0.0.1:1/postgres: it can't be reached (Connection refused (os \
             error 111)): check that it runs; nothing that was told as written is lost",
        ),
    ];
    for (url, expected) in table {
        let error = Postgres::open(&url).await.unwrap_err().to_string();
        assert!(!error.contains(password), "{error}");
        assert_eq!(error.replace(port, "PORT"), expected);
    }
    let mut by_hand = schema.by_hand().await;
    sqlx::query("CREATE TABLE sessions (title TEXT)").execute(&mut by_hand).await.unwrap();
    sqlx::query("CREATE TABLE entries (title TEXT)").execute(&mut by_hand).await.unwrap();
    let error = Postgres::open(&schema.url).await.unwrap_err().to_string();
    assert_eq!(
        error.replace(port, "PORT"),
        "postgres://inspan@PORT/postgres can't be read as a log: it has tables of another program: \
         give another database, or a schema of its own with ?options=-csearch_path=SCHEMA"
    );
    by_hand.close().await.unwrap();
    schema.remove().await;
}

#[tokio::test]
async fn a_newer_database_is_left_alone() {
    let schema = Schema::new().await;
    let (store, _claim, _) = small(&schema).await;
    store.close().await;
    let mut by_hand = schema.by_hand().await;
    sqlx::query("INSERT INTO _sqlx_migrations VALUES (70, 'later', now(), TRUE, '', 1)")
        .execute(&mut by_hand)
        .await
        .unwrap();
    let error = Postgres::open(&schema.url).await.unwrap_err().to_string();
    assert!(
        error.ends_with(
            "/postgres (version 70 of 5) was written by a newer version of Inspan: nothing was \
             changed"
        ),
        "{error}"
    );
    by_hand.close().await.unwrap();
    schema.remove().await;
}
