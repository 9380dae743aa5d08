//! What a server says without being asked: progress, and what it wants to be told in the middle of
//! a call.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use inspan_engine::tools::Progress;
use rmcp::{
    ClientHandler, ErrorData, RoleClient,
    model::{
        ClientConfig, CustomRequest, CustomResult, ElicitRequestParams, ElicitResult, ErrorCode,
        ProgressNotificationParam, ProgressToken,
    },
    service::{NotificationContext, RequestContext},
};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::inquiry::{Inquiries, nobody};

/// The method with which a server asks a person.
pub(crate) const ELICIT: &str = "elicitation/create";
/// Requests of a server that wait for their turn in one call.
const WANTED_MAX: usize = 16;
/// How often a call that waits for a person says so.
const WAITING_TOLD: Duration = Duration::from_secs(1);

/// Hears a server. Clones are the same.
#[derive(Clone)]
pub(crate) struct Ear {
    client: ClientConfig,
    calls: Arc<Mutex<Vec<Heard>>>,
    /// Whether the server said that its tools are others now.
    is_changed: Arc<AtomicBool>,
}

/// A question under way. A server does not say which one it asks a person about: the last one with a
/// person is taken for it.
struct Heard {
    token: ProgressToken,
    progress: Option<Progress>,
    has_person: bool,
    wanted: mpsc::Sender<Wanted>,
}

/// That the tools are others now.
pub(crate) struct Change(Option<Arc<AtomicBool>>);

impl Change {
    /// They were listed.
    pub(crate) fn taken(mut self) {
        self.0 = None;
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        if let Some(is_changed) = &self.0 {
            is_changed.store(true, Ordering::Release);
        }
    }
}

/// A server's wish in the middle of a call.
pub(crate) struct Wanted {
    params: Value,
    reply: oneshot::Sender<Result<Value, String>>,
}

/// Who follows a call while it is under way.
#[derive(Default)]
pub(crate) struct Attention {
    /// The name of the server.
    pub server: String,
    /// Where progress is told.
    pub progress: Option<Progress>,
    /// The person who can be asked.
    pub person: Option<Inquiries>,
    unasked: Mutex<Option<String>>,
}

impl Attention {
    /// Nothing was asked yet.
    pub(crate) fn new(server: &str, progress: Option<Progress>, person: Option<Inquiries>) -> Self {
        Self { server: server.to_owned(), progress, person, unasked: Mutex::default() }
    }

    /// What the person says to an inquiry, in the server's form. The time of the call does not run
    /// meanwhile.
    ///
    /// # Errors
    /// Nobody can be asked, or not that.
    pub(crate) async fn input(&self, params: &Value) -> Result<Value, String> {
        let answer = match &self.person {
            None => Err(nobody(params)),
            Some(person) => {
                let mut answer = std::pin::pin!(person.ask(&self.server, params));
                loop {
                    tokio::select! {
                        answer = &mut answer => break answer,
                        () = tokio::time::sleep(WAITING_TOLD) => {}
                    }
                    self.progress.iter().for_each(Progress::made);
                }
            }
        };
        if let Err(why) = &answer {
            self.lock().get_or_insert_with(|| why.clone());
        }
        answer
    }

    /// What could not be asked, if that was so.
    pub(crate) fn unasked(&self) -> Option<String> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Option<String>> {
        self.unasked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that is listened to. Its wishes come here until it is dropped.
pub(crate) struct Listening {
    ear: Ear,
    token: ProgressToken,
    wanted: mpsc::Receiver<Wanted>,
}

impl Listening {
    /// Grants what the server wants, one wish after the other. Never returns.
    pub(crate) async fn grant(&mut self, attention: &Attention) -> std::convert::Infallible {
        while let Some(Wanted { params, reply }) = self.wanted.recv().await {
            // The server may have given it up.
            let _ = reply.send(attention.input(&params).await);
        }
        std::future::pending().await
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.ear.calls().retain(|call| call.token != self.token);
    }
}

impl Ear {
    pub(crate) fn new(client: ClientConfig) -> Self {
        Self { client, calls: Arc::default(), is_changed: Arc::default() }
    }

    /// The tools are others than those that were listed.
    pub(crate) fn changed(&self) {
        self.is_changed.store(true, Ordering::Release);
    }

    /// Whether the tools must be listed again, which whoever asks will do: if they do not call
    /// [`Change::taken`], the next one has to.
    pub(crate) fn take_change(&self) -> Option<Change> {
        let is_changed = self.is_changed.swap(false, Ordering::AcqRel);
        is_changed.then(|| Change(Some(self.is_changed.clone())))
    }

    /// Listens to this call until the value is dropped.
    pub(crate) fn listen(&self, token: &ProgressToken, attention: &Attention) -> Listening {
        let (to, wanted) = mpsc::channel(WANTED_MAX);
        self.calls().push(Heard {
            token: token.clone(),
            progress: attention.progress.clone(),
            has_person: attention.person.is_some(),
            wanted: to,
        });
        Listening { ear: self.clone(), token: token.clone(), wanted }
    }

    /// No code of ours panics while it holds the lock, so a poisoned one is as good as any.
    fn calls(&self) -> MutexGuard<'_, Vec<Heard>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn wanted(
        &self,
        params: Value,
        context: RequestContext<RoleClient>,
    ) -> Result<Value, ErrorData> {
        let refused = |why: String| ErrorData::invalid_request(why, None);
        let call = {
            let calls = self.calls();
            let with_person = calls.iter().rev().find(|call| call.has_person);
            with_person.or(calls.last()).map(|call| call.wanted.clone())
        };
        let call = call.ok_or_else(|| refused("no call is under way".to_owned()))?;
        let (reply, answer) = oneshot::channel();
        let wanted = Wanted { params, reply };
        call.try_send(wanted).map_err(|_| refused("too much is asked at once".to_owned()))?;
        tokio::select! {
            answer = answer => match answer {
                Ok(answer) => answer.map_err(refused),
                Err(_) => Err(refused("the call is over".to_owned())),
            },
            () = context.ct.cancelled() => Err(refused("it was cancelled".to_owned())),
        }
    }
}

fn unreadable(error: &serde_json::Error) -> ErrorData {
    ErrorData::invalid_params(error.to_string(), None)
}

impl ClientHandler for Ear {
    fn get_info(&self) -> ClientConfig {
        self.client.clone()
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let calls = self.calls();
        let call = calls.iter().find(|call| call.token == params.progress_token);
        call.and_then(|call| call.progress.as_ref()).into_iter().for_each(Progress::made);
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed();
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let params = serde_json::to_value(request).map_err(|error| unreadable(&error))?;
        let answer = self.wanted(params, context).await?;
        serde_json::from_value(answer).map_err(|error| unreadable(&error))
    }

    /// A form that the types of the library do not know may still be one that can be shown.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleClient>,
    ) -> Result<CustomResult, ErrorData> {
        match (request.method.as_str(), request.params) {
            (ELICIT, Some(params)) => self.wanted(params, context).await.map(CustomResult::new),
            (method, _) => {
                Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method.to_owned(), None))
            }
        }
    }
}
