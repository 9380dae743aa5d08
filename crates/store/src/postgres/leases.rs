//! Who drives a session: a lease in the database, by its clock. One task takes, renews and gives
//! back all leases of a store, in the order in which it is asked.

use std::{collections::HashMap, sync::Arc, time::Duration};

use inspan_core::{
    gate::BoxFuture,
    store::{Guard, SessionId, StoreError},
};
use sqlx::{Connection, PgConnection};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, MissedTickBehavior},
};

use super::{dialect::now_ms, fault, open::Place};

/// How long a lease lasts when it is not renewed: so long do others wait for the sessions of a
/// process that died.
///
/// None lasts longer: one that says so was given before the clock was set back, and is over.
pub(super) const LEASE_MS_MAX: u64 = 15_000;

/// How long the holder waits before it renews its leases.
const RENEW_MS_MAX: u64 = 4_000;

const TAKE: &str = concat!(
    "INSERT INTO claims (owner, session_id, until_ms) VALUES ($1, $2, ",
    now_ms!(),
    " + $3) ON CONFLICT (session_id) DO UPDATE
        SET owner = excluded.owner, until_ms = excluded.until_ms
        WHERE claims.owner = excluded.owner OR claims.until_ms NOT BETWEEN ",
    now_ms!(),
    " AND ",
    now_ms!(),
    " + $3 RETURNING session_id"
);

const RENEW: &str = concat!(
    "UPDATE claims SET until_ms = ",
    now_ms!(),
    " + $2 WHERE owner = $1 RETURNING session_id"
);

const GIVE_BACK: &str =
    "DELETE FROM claims WHERE owner = $1 AND session_id = $2 RETURNING session_id";

const GIVE_ALL_BACK: &str = "DELETE FROM claims WHERE owner = $1";

/// The way to the task that keeps the leases.
#[derive(Clone, Debug)]
pub(super) struct Leases {
    place: Arc<Place>,
    /// Without a limit, since a lease that is dropped can't wait; each is told of once.
    jobs: mpsc::UnboundedSender<Job>,
}

#[derive(Debug)]
enum Job {
    Take(SessionId, oneshot::Sender<Result<Lease, StoreError>>),
    GiveBack(SessionId, u64),
    Close,
}

/// A lease. Dropping it gives it back.
#[derive(Debug)]
pub(super) struct Lease {
    session: SessionId,
    number: u64,
    is_lost: watch::Receiver<bool>,
    jobs: mpsc::UnboundedSender<Job>,
}

impl Leases {
    /// The way to the leases, and the task that keeps them, which must be run.
    pub(super) async fn new(
        place: &Arc<Place>,
        mut connection: PgConnection,
    ) -> Result<(Self, impl Future<Output = ()> + Send + 'static), StoreError> {
        let owner: String = sqlx::query_scalar("SELECT CAST(gen_random_uuid() AS TEXT)")
            .fetch_one(&mut connection)
            .await
            .map_err(|error| place.fault(&error))?;
        let (jobs, asked) = mpsc::unbounded_channel();
        let keeper = Keeper {
            place: place.clone(),
            connection: Some(connection),
            owner,
            jobs: jobs.downgrade(),
            held: HashMap::new(),
            taken: 0,
            renewed: Instant::now(),
        };
        Ok((Self { place: place.clone(), jobs }, keeper.run(asked)))
    }

    /// Takes the lease on a session, or says that it is in use.
    pub(super) async fn take(&self, session: &SessionId) -> Result<Lease, StoreError> {
        let (done, answer) = oneshot::channel();
        // Where nobody is there to hear it, nobody answers.
        let _ = self.jobs.send(Job::Take(session.clone(), done));
        let closed =
            || StoreError::Other { what: self.place.to_string(), why: crate::CLOSED.into() };
        answer.await.unwrap_or_else(|_| Err(closed()))
    }

    /// Gives all leases back and ends the task.
    pub(super) fn close(&self) {
        let _ = self.jobs.send(Job::Close);
    }
}

impl Guard for Lease {
    fn lost(&self) -> BoxFuture<'static, ()> {
        let mut is_lost = self.is_lost.clone();
        Box::pin(async move {
            // Where nobody renews it any more, it is as good as lost.
            let _ = is_lost.wait_for(|is_lost| *is_lost).await;
        })
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // Where nobody hears it, the lease runs out.
        let _ = self.jobs.send(Job::GiveBack(self.session.clone(), self.number));
    }
}

struct Held {
    number: u64,
    is_lost: watch::Sender<bool>,
}

/// The task's own.
struct Keeper {
    place: Arc<Place>,
    connection: Option<PgConnection>,
    /// A name that no other process has.
    owner: String,
    jobs: mpsc::WeakUnboundedSender<Job>,
    held: HashMap<SessionId, Held>,
    taken: u64,
    /// When all that is held was renewed last.
    renewed: Instant,
}

impl Keeper {
    async fn run(mut self, mut asked: mpsc::UnboundedReceiver<Job>) {
        let mut renewals = tokio::time::interval(Duration::from_millis(RENEW_MS_MAX));
        renewals.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                job = asked.recv() => match job {
                    Some(Job::Take(session, done)) => {
                        let taken = self.take(&session).await;
                        // Dropped by whoever went on without it, it is given back.
                        let _ = done.send(taken);
                    }
                    Some(Job::GiveBack(session, number)) => self.give_back(&session, number).await,
                    Some(Job::Close) | None => break,
                },
                _ = renewals.tick() => self.renew().await,
            }
        }
        if let Some(mut connection) = self.connection.take() {
            // What can't be given back runs out.
            let given = sqlx::query(GIVE_ALL_BACK).bind(&self.owner).execute(&mut connection);
            let _ = tokio::time::timeout(Duration::from_millis(RENEW_MS_MAX), given).await;
            let _ = connection.close().await;
        }
    }

    async fn take(&mut self, session: &SessionId) -> Result<Lease, StoreError> {
        let in_use = || StoreError::InUse(session.clone());
        let jobs = self.jobs.upgrade().ok_or_else(in_use)?;
        if self.held.contains_key(session) {
            return Err(in_use());
        }
        if self.held.is_empty() {
            self.renewed = Instant::now();
        }
        let taken = self.ask(Ask::Take(session)).await;
        if taken.map_err(|error| self.place.fault(&error))?.is_empty() {
            return Err(in_use());
        }
        self.taken += 1;
        let (sender, is_lost) = watch::channel(false);
        let held = Held { number: self.taken, is_lost: sender };
        self.held.insert(session.clone(), held);
        Ok(Lease { session: session.clone(), number: self.taken, is_lost, jobs })
    }

    async fn give_back(&mut self, session: &SessionId, number: u64) {
        if self.held.get(session).is_none_or(|held| held.number != number) {
            return;
        }
        self.held.remove(session);
        // What can't be given back runs out.
        let _ = self.ask(Ask::GiveBack(session)).await;
    }

    async fn renew(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let began = Instant::now();
        match self.ask(Ask::Renew).await {
            Ok(renewed) => {
                self.renewed = began;
                self.lose(|session| !renewed.iter().any(|name| name == session.as_str()));
            }
            // Nobody knows; but so long after the last time, others have the right to it.
            Err(_) if self.renewed.elapsed() > Duration::from_millis(LEASE_MS_MAX) => {
                self.lose(|_| true);
            }
            Err(_) => {}
        }
    }

    fn lose(&mut self, is_lost: impl Fn(&SessionId) -> bool) {
        self.held.retain(|session, held| {
            let is_lost = is_lost(session);
            if is_lost {
                held.is_lost.send_replace(true);
            }
            !is_lost
        });
    }

    /// Asks through the connection, or through a new one where it was lost; once more where it is
    /// lost meanwhile. Gives the sessions that it was done for.
    async fn ask(&mut self, ask: Ask<'_>) -> sqlx::Result<Vec<String>> {
        let is_first = self.connection.is_some();
        match self.once(ask).await {
            Err(error) if fault::is_lost(&error) && is_first => self.once(ask).await,
            done => done,
        }
    }

    async fn once(&mut self, ask: Ask<'_>) -> sqlx::Result<Vec<String>> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.place.connect().await?,
        };
        let (sql, session) = match ask {
            Ask::Take(session) => (TAKE, Some(session)),
            Ask::GiveBack(session) => (GIVE_BACK, Some(session)),
            Ask::Renew => (RENEW, None),
        };
        let mut query = sqlx::query_scalar(sql).bind(&self.owner);
        if let Some(session) = session {
            query = query.bind(session.as_str());
        }
        if matches!(ask, Ask::Take(_) | Ask::Renew) {
            query = query.bind(LEASE_MS_MAX.cast_signed());
        }
        let silent = || std::io::Error::new(std::io::ErrorKind::TimedOut, "no answer in time");
        let limit = Duration::from_millis(RENEW_MS_MAX);
        let done = tokio::time::timeout(limit, query.fetch_all(&mut connection)).await;
        let done = done.unwrap_or_else(|_| Err(silent().into()));
        if !done.as_ref().is_err_and(fault::is_lost) {
            self.connection = Some(connection);
        }
        done
    }
}

/// What the database is asked.
#[derive(Clone, Copy)]
enum Ask<'a> {
    Take(&'a SessionId),
    GiveBack(&'a SessionId),
    Renew,
}
