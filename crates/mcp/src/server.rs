//! One server for the time of this process: started when it is needed, and again when it ended.

use std::{
    sync::{
        Arc, Mutex as Lock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::join;
use inspan_core::hash::Hash;
use inspan_engine::tools::Progress;
use serde_json::Value;
use tokio::{sync::Mutex, time::timeout};

use crate::{
    call::{Asked, List, NoAnswer},
    catalogue::Catalogue,
    child::Closed,
    config::ServerConfig,
    connection::{Connection, login_wanted, more_wanted},
    ear::Attention,
    kept::Kept,
    readable::{Readable, Wanted},
    servers::Place,
};

/// Time for the whole list of a server's tools, in milliseconds.
const LIST_MS_MAX: u64 = 30_000;
/// Pages of that list.
const PAGES_MAX: usize = 200;
/// How long a server may take to say what can be read; what it did not say then can be read all the
/// same.
const READABLE_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) struct Server {
    config: ServerConfig,
    fingerprint: Hash,
    place: Arc<Place>,
    live: Mutex<Live>,
    kept: Lock<Option<Arc<Kept>>>,
    /// How often what it offers became another.
    changes: AtomicU64,
}

#[derive(Default)]
struct Live {
    connection: Option<Arc<Connection>>,
    /// Whether this process has asked for the list.
    is_listed: bool,
}

/// A call of a tool, or another question.
pub(crate) struct Call<'a> {
    /// What is asked.
    pub asked: Asked<'a>,
    /// Who follows it.
    pub attention: &'a Attention,
    /// Whether a second run does no harm.
    pub may_repeat: bool,
}

impl Server {
    pub(crate) fn new(config: ServerConfig, place: Arc<Place>) -> Self {
        let unknown = Self::unknown(config, place);
        let cache = unknown.place.cache.as_ref();
        let kept = cache.and_then(|folder| Kept::read(folder, &unknown.fingerprint));
        Self { kept: Lock::new(kept.map(Arc::new)), ..unknown }
    }

    /// The same of which nothing is known; what is found out is kept.
    pub(crate) fn unknown(config: ServerConfig, place: Arc<Place>) -> Self {
        let fingerprint = config.fingerprint();
        let (live, kept, changes) = (Mutex::default(), Lock::default(), AtomicU64::new(0));
        Self { config, fingerprint, place, live, kept, changes }
    }

    /// What it is called.
    pub(crate) fn name(&self) -> &str {
        &self.config.name
    }

    /// What it offers, as far as it is known; else it is started and asked.
    ///
    /// # Errors
    /// Why it can't be used.
    pub(crate) async fn catalogue(&self) -> Result<Arc<Kept>, String> {
        if let Some(kept) = self.kept() {
            return Ok(kept);
        }
        self.connection().await?;
        self.kept().ok_or_else(|| "it offers no list of tools".to_owned())
    }

    /// Lists its tools again, if it said that they are others now. Gives how often what it offers
    /// became another so far.
    pub(crate) async fn changes(&self) -> u64 {
        // What is being started will be listed anyway. Nobody waits for the lock while it answers.
        let live = self.live.try_lock().ok().and_then(|live| live.connection.clone());
        if let Some(connection) = live.filter(|live| !live.has_ended())
            && let Some(change) = connection.ear.take_change()
            && let Ok(catalogue) = list(&connection, &self.config.name).await
            && let Some(kept) = self.kept()
        {
            let readable = kept.readable.clone();
            self.keep(Kept { era: connection.era, catalogue, readable });
            change.taken();
        }
        self.changes.load(Ordering::Acquire)
    }

    /// Asks it. A call that may be repeated is tried once more when the connection was lost.
    ///
    /// # Errors
    /// What went wrong, in words for the model.
    pub(crate) async fn call(&self, call: Call<'_>) -> Result<Value, String> {
        let name = &self.config.name;
        let (who, what) = match call.asked {
            Asked::Tool { .. } => (format!("the MCP server `{name}`"), "the call"),
            // The error around it names the server.
            Asked::Resource { .. } | Asked::Prompt { .. } => ("it".to_owned(), "the question"),
        };
        let mut may_repeat = call.may_repeat;
        loop {
            let connection = self.connection().await;
            let connection = connection.map_err(|why| format!("{who} can't be used: {why}"))?;
            // The time that the start took is not the call's.
            call.attention.progress.iter().for_each(Progress::made);
            match connection.question(&call.asked, call.attention).await {
                Ok(result) => return Ok(result),
                Err(NoAnswer::Wanting(why)) => return Err(why),
                Err(NoAnswer::Visit(_)) => {
                    return Err(format!("{who} wants a page to be visited"));
                }
                Err(NoAnswer::Refused(why)) => {
                    return Err(format!("{who} refused {what}: {why}"));
                }
                Err(NoAnswer::LoginWanted) => {
                    return Err(format!("{who} refused {what}: {}", login_wanted(name)));
                }
                Err(NoAnswer::MoreWanted(rights)) => {
                    return Err(format!("{who} refused {what}: {}", more_wanted(name, &rights)));
                }
                Err(NoAnswer::Lost(why)) => {
                    let words = connection.last_words().await;
                    self.forget(&connection).await;
                    if std::mem::take(&mut may_repeat) {
                        continue;
                    }
                    let doubt = match call.may_repeat {
                        true => "",
                        false => ". Whether it was done is not known: look before you try again",
                    };
                    return Err(format!(
                        "{who} was lost in the middle of {what}: {why}{words}{doubt}"
                    ));
                }
            }
        }
    }

    /// Reads a resource or a prompt.
    ///
    /// # Errors
    /// What went wrong, in words for the person.
    pub(crate) async fn read(
        &self,
        wanted: &Wanted,
        attention: &Attention,
    ) -> Result<Value, String> {
        self.call(Call { asked: wanted.asked(), attention, may_repeat: true }).await
    }

    /// The connection, which is made where there is none any more.
    pub(crate) async fn connection(&self) -> Result<Arc<Connection>, String> {
        let mut live = self.live.lock().await;
        if let Some(connection) = live.connection.as_ref().filter(|live| !live.has_ended()) {
            return Ok(connection.clone());
        }
        live.connection = None;
        let known = self.kept().map(|kept| kept.era);
        let connection = Arc::new(Connection::open(&self.config, &self.place, known).await?);
        if !live.is_listed {
            let readable = timeout(READABLE_TIMEOUT, Readable::of(&connection));
            let (listed, readable) = join!(list(&connection, &self.config.name), readable);
            match listed {
                Ok(catalogue) => {
                    live.is_listed = true;
                    let readable = readable.unwrap_or_default();
                    self.keep(Kept { era: connection.era, catalogue, readable });
                }
                // What is kept may still be right.
                Err(_) if known.is_some() => {}
                Err(why) => {
                    let words = connection.last_words().await;
                    return Err(why + &words);
                }
            }
        }
        live.connection = Some(connection.clone());
        Ok(connection)
    }

    /// Gives a connection up that is lost.
    async fn forget(&self, lost: &Arc<Connection>) {
        let mut live = self.live.lock().await;
        if live.connection.as_ref().is_some_and(|connection| Arc::ptr_eq(connection, lost)) {
            live.connection = None;
        }
    }

    /// Ends it in order, if it runs. Gives how a program took it.
    pub(crate) async fn close(&self) -> Option<Closed> {
        let connection = self.live.lock().await.connection.take()?;
        connection.close().await
    }

    fn kept(&self) -> Option<Arc<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn keep(&self, kept: Kept) {
        let before = self.kept();
        if before.as_deref() == Some(&kept) {
            return;
        }
        if let Some(folder) = &self.place.cache {
            // Without it the server is started and asked the next time.
            let _ = kept.write(folder, &self.fingerprint);
        }
        let is_other = before.is_some_and(|before| before.catalogue != kept.catalogue);
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(kept));
        self.changes.fetch_add(u64::from(is_other), Ordering::AcqRel);
    }
}

/// Reads the whole list of tools.
async fn list(connection: &Connection, server: &str) -> Result<Catalogue, String> {
    let mut catalogue = Catalogue::default();
    if !connection.has_tools {
        return Ok(catalogue);
    }
    let pages = async {
        let mut cursor = None;
        for _ in 0..PAGES_MAX {
            let page = connection
                .page(List::Tools, cursor.clone())
                .await
                .map_err(|error| not_listed(error, server))?;
            let has_room = catalogue.take(&page)?;
            let next = page.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
            if !has_room || next.is_none() || next == cursor {
                break;
            }
            cursor = next;
        }
        Ok(())
    };
    match timeout(Duration::from_millis(LIST_MS_MAX), pages).await {
        Ok(done) => done.map(|()| catalogue),
        Err(_) => Err(format!("it did not list its tools in {} s", LIST_MS_MAX / 1000)),
    }
}

fn not_listed(error: NoAnswer, server: &str) -> String {
    match error {
        NoAnswer::LoginWanted => login_wanted(server),
        NoAnswer::MoreWanted(rights) => more_wanted(server, &rights),
        NoAnswer::Refused(why) | NoAnswer::Wanting(why) => {
            format!("it refused to list its tools: {why}")
        }
        NoAnswer::Visit(_) => "it wants a page to be visited before it lists its tools".to_owned(),
        NoAnswer::Lost(why) => format!("it was lost while it listed its tools: {why}"),
    }
}
