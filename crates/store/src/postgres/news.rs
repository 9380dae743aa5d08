//! What others wrote, told by the database as it happens. Only a hint: whoever waits for a change
//! looks from time to time as well.

use std::sync::{Arc, Mutex, PoisonError};

use inspan_core::{gate::BoxFuture, store::SessionId};
use sqlx::postgres::PgListener;
use tokio::{
    sync::broadcast::{self, error::RecvError},
    task::JoinHandle,
};

use super::open::Place;

/// Where sessions that changed are named.
const CHANNEL: &str = "inspan";

/// Tells of several sessions at once.
pub(super) const TELL: &str = "SELECT pg_notify('inspan', name) FROM unnest($1::text[]) AS name";

/// News that wait for a slow listener, which then takes it that everything changed.
const NEWS_WAITING_MAX: usize = 256;

/// The way to the news. Nothing listens before somebody waits.
#[derive(Debug)]
pub(super) struct News {
    place: Arc<Place>,
    told: broadcast::Sender<Arc<str>>,
    listening: Mutex<Option<JoinHandle<()>>>,
}

impl News {
    pub(super) fn new(place: Arc<Place>) -> Self {
        Self { place, told: broadcast::channel(NEWS_WAITING_MAX).0, listening: Mutex::new(None) }
    }

    /// Resolves when a session, or any, may have changed.
    pub(super) fn of(&self, session: Option<&SessionId>) -> BoxFuture<'static, ()> {
        let (mut news, session) = (self.told.subscribe(), session.cloned());
        self.listen();
        Box::pin(async move {
            loop {
                match news.recv().await {
                    Ok(name) => {
                        if session.as_ref().is_none_or(|session| session.as_str() == &*name) {
                            return;
                        }
                    }
                    Err(RecvError::Lagged(_)) => return,
                    Err(RecvError::Closed) => std::future::pending().await,
                }
            }
        })
    }

    fn listen(&self) {
        let mut listening = self.listening.lock().unwrap_or_else(PoisonError::into_inner);
        if listening.as_ref().is_none_or(JoinHandle::is_finished) {
            *listening = Some(tokio::spawn(listen(self.place.clone(), self.told.clone())));
        }
    }
}

impl Drop for News {
    fn drop(&mut self) {
        let mut listening = self.listening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(listening) = listening.take() {
            listening.abort();
        }
    }
}

/// Ends when the database can't be listened to; the next to wait begins it again.
async fn listen(place: Arc<Place>, told: broadcast::Sender<Arc<str>>) {
    let pool = place.pool(1);
    let Ok(mut listener) = PgListener::connect_with(&pool).await else { return };
    if listener.listen(CHANNEL).await.is_err() {
        return;
    }
    while let Ok(news) = listener.recv().await {
        // Nobody may be waiting right now.
        let _ = told.send(news.payload().into());
    }
}
