//! Questions over a connection, their progress, and what becomes of one that nobody waits for.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use inspan_engine::tools::Progress;
use rmcp::{
    ClientHandler, RoleClient,
    model::{
        CallToolRequest, CallToolRequestParams, CancelledNotificationParam, ClientConfig,
        ClientRequest, JsonObject, ListToolsRequest, PaginatedRequestParams,
        ProgressNotificationParam, ProgressToken, RequestId, RequestMetaObject,
    },
    service::{NotificationContext, Peer, PeerRequestOptions, ServiceError},
};
use serde_json::Value;

use crate::connection::{Connection, with_causes};

/// Where a keyed call carries its idempotency key, in `_meta`.
const KEY: &str = "inspan/idempotency-key";

/// Why a question got no answer.
pub(crate) enum NoAnswer {
    /// The server refused it, in its own words.
    Refused(String),
    /// The connection is lost; whether the question was heard is not known.
    Lost(String),
}

impl Connection {
    /// Calls a tool, and gives its result as the server sent it. Dropping the future tells the
    /// server that nobody waits any more.
    pub(crate) async fn call_tool(
        &self,
        name: &str,
        arguments: JsonObject,
        key: Option<&str>,
        progress: Option<Progress>,
    ) -> Result<Value, NoAnswer> {
        let params = CallToolRequestParams::new(name.to_owned()).with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let mut meta = RequestMetaObject::new();
        if let Some(key) = key {
            meta.insert(KEY.to_owned(), key.into());
        }
        self.ask(request, PeerRequestOptions::no_options().with_meta(meta), progress).await
    }

    /// A page of the list of tools, as the server sent it.
    pub(crate) async fn list_tools(&self, cursor: Option<String>) -> Result<Value, NoAnswer> {
        let params = PaginatedRequestParams::default().with_cursor(cursor);
        let request = ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params));
        self.ask(request, PeerRequestOptions::no_options(), None).await
    }

    /// The answer as JSON: one odd part of it must not cost the rest.
    async fn ask(
        &self,
        request: ClientRequest,
        options: PeerRequestOptions,
        progress: Option<Progress>,
    ) -> Result<Value, NoAnswer> {
        let sent = self.peer.send_request_with_option(request, options).await;
        let handle = sent.map_err(|error| no_answer(&error))?;
        let _listening = progress.map(|progress| self.ear.listen(&handle.progress_token, progress));
        let mut waiting = Waiting { peer: &self.peer, id: Some(handle.id.clone()) };
        let answer = handle.await_response().await;
        waiting.id = None;
        match answer {
            Ok(result) => serde_json::to_value(result)
                .map_err(|error| NoAnswer::Refused(format!("its answer can't be read: {error}"))),
            Err(error) => Err(no_answer(&error)),
        }
    }
}

fn no_answer(error: &ServiceError) -> NoAnswer {
    match error {
        ServiceError::McpError(error) => {
            NoAnswer::Refused(format!("{} (error {})", error.message, error.code.0))
        }
        ServiceError::UnexpectedResponse => {
            NoAnswer::Refused("its answer is none to this question".to_owned())
        }
        ServiceError::TransportClosed => NoAnswer::Lost("the connection ended".to_owned()),
        // The words around it name types of the library.
        ServiceError::TransportSend(error) => NoAnswer::Lost(with_causes(&*error.error)),
        other => NoAnswer::Lost(with_causes(other)),
    }
}

/// A question whose answer is waited for. Dropped before that, it tells the server.
struct Waiting<'a> {
    peer: &'a Peer<RoleClient>,
    id: Option<RequestId>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let peer = self.peer.clone();
        let why = Some("nobody waits for it any more".to_owned());
        runtime.spawn(async move {
            // A server that is gone needs not be told.
            let _ = peer.notify_cancelled(CancelledNotificationParam::new(Some(id), why)).await;
        });
    }
}

/// What a server says without being asked. Clones are the same.
#[derive(Clone)]
pub(crate) struct Ear {
    client: ClientConfig,
    calls: Arc<Mutex<HashMap<ProgressToken, Progress>>>,
}

impl Ear {
    pub(crate) fn new(client: ClientConfig) -> Self {
        Self { client, calls: Arc::default() }
    }

    /// Tells of the progress of this call until the value is dropped.
    fn listen(&self, token: &ProgressToken, progress: Progress) -> Listening {
        self.calls().insert(token.clone(), progress);
        Listening { ear: self.clone(), token: token.clone() }
    }

    /// No code of ours panics while it holds the lock, so a poisoned one is as good as any.
    fn calls(&self) -> MutexGuard<'_, HashMap<ProgressToken, Progress>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Listening {
    ear: Ear,
    token: ProgressToken,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.ear.calls().remove(&self.token);
    }
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
        if let Some(progress) = self.calls().get(&params.progress_token) {
            progress.made();
        }
    }
}
