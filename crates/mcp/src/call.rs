//! Questions over a connection, the input that they want on the way, and what becomes of one that
//! nobody waits for.

use std::{collections::BTreeMap, pin::pin, time::Duration};

use rmcp::{
    RoleClient,
    model::{
        CallToolRequest, CallToolRequestParams, CancelledNotificationParam, ClientRequest,
        GetPromptRequest, GetPromptRequestParams, JsonObject, ListPromptsRequest,
        ListResourceTemplatesRequest, ListResourcesRequest, ListToolsRequest,
        PaginatedRequestParams, ReadResourceRequest, ReadResourceRequestParams, RequestId,
        RequestMetaObject,
    },
    service::{Peer, PeerRequestOptions, ServiceError},
};
use serde_json::{Value, json};

use crate::{
    connection::{Connection, with_causes},
    ear::{Attention, ELICIT},
    http,
};

/// Where a keyed call carries its idempotency key, in `_meta`.
const KEY: &str = "inspan/idempotency-key";
/// How often one call may want input.
const INPUT_ROUNDS_MAX: usize = 10;
/// The wait before a server that wants nothing but to be asked again is; grows with each time.
const ASKED_AGAIN: Duration = Duration::from_millis(100);
/// The error with which a server says that a person must visit a page first.
const VISIT_REQUIRED: i32 = -32042;

/// Why a question got no answer.
pub(crate) enum NoAnswer {
    /// The server refused it, in its own words.
    Refused(String),
    /// It wants something that it can't be given, in our words.
    Wanting(String),
    /// A person must visit these pages first: parameters of an `elicitation/create`.
    Visit(Vec<Value>),
    /// It wants to know who asks, or has a login that it takes no more.
    LoginWanted,
    /// It wants a login with more rights than this one has: these.
    MoreWanted(String),
    /// The connection is lost; whether the question was heard is not known.
    Lost(String),
}

/// What a server can be asked that may want input.
pub(crate) enum Asked<'a> {
    /// A call of a tool, with its arguments and its idempotency key.
    Tool { name: &'a str, arguments: &'a JsonObject, key: Option<&'a str> },
    /// A resource by its address.
    Resource { uri: &'a str },
    /// A prompt by its name, with its arguments.
    Prompt { name: &'a str, arguments: &'a JsonObject },
}

/// The lists of a server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum List {
    Tools,
    Resources,
    Templates,
    Prompts,
}

/// What was wanted, for the next attempt.
#[derive(Default)]
struct Input {
    responses: BTreeMap<String, Value>,
    state: Option<String>,
}

impl Connection {
    /// Asks, and gives the answer as the server sent it. What it wants on the way is asked of
    /// whoever pays `attention`. Dropping the future tells the server that nobody waits any more.
    pub(crate) async fn question(
        &self,
        asked: &Asked<'_>,
        attention: &Attention,
    ) -> Result<Value, NoAnswer> {
        let mut input = Input::default();
        for round in 1..=INPUT_ROUNDS_MAX {
            let (request, options) = asked.request(input);
            match self.ask(request, options, attention).await {
                Err(NoAnswer::Visit(pages)) => {
                    for page in pages {
                        let answer = attention.input(&page).await.map_err(NoAnswer::Wanting)?;
                        if answer["action"] != "accept" {
                            let why = "it needs a person to visit a page, who did not want to";
                            return Err(NoAnswer::Wanting(why.to_owned()));
                        }
                    }
                    input = Input::default();
                }
                Ok(answer) if answer["resultType"] == "input_required" => {
                    input = wanted(&answer, attention).await.map_err(NoAnswer::Wanting)?;
                    if input.responses.is_empty() {
                        let times = u32::try_from(round).unwrap_or(u32::MAX);
                        tokio::time::sleep(ASKED_AGAIN.saturating_mul(times)).await;
                    }
                }
                answer => return answer,
            }
        }
        Err(NoAnswer::Wanting(format!("it wanted input more than {INPUT_ROUNDS_MAX} times")))
    }

    /// A page of a list, as the server sent it.
    pub(crate) async fn page(&self, list: List, from: Option<String>) -> Result<Value, NoAnswer> {
        let params = PaginatedRequestParams::default().with_cursor(from);
        let request = match list {
            List::Tools => ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params)),
            List::Resources => {
                ClientRequest::ListResourcesRequest(ListResourcesRequest::with_param(params))
            }
            List::Templates => ClientRequest::ListResourceTemplatesRequest(
                ListResourceTemplatesRequest::with_param(params),
            ),
            List::Prompts => {
                ClientRequest::ListPromptsRequest(ListPromptsRequest::with_param(params))
            }
        };
        self.ask(request, PeerRequestOptions::no_options(), &Attention::default()).await
    }

    /// The answer as JSON: one odd part of it must not cost the rest.
    async fn ask(
        &self,
        request: ClientRequest,
        options: PeerRequestOptions,
        attention: &Attention,
    ) -> Result<Value, NoAnswer> {
        let sent = self.peer.send_request_with_option(request, options).await;
        let handle = sent.map_err(|error| no_answer(&error))?;
        let mut listening = self.ear.listen(&handle.progress_token, attention);
        let mut waiting = Waiting { peer: &self.peer, id: Some(handle.id.clone()) };
        let mut answer = pin!(handle.await_response());
        let answer = tokio::select! {
            biased;
            answer = &mut answer => answer,
            never = listening.grant(attention) => match never {},
        };
        waiting.id = None;
        match answer {
            Ok(result) => serde_json::to_value(result)
                .map_err(|error| NoAnswer::Refused(format!("its answer can't be read: {error}"))),
            Err(error) => Err(no_answer(&error)),
        }
    }
}

impl Asked<'_> {
    fn request(&self, input: Input) -> (ClientRequest, PeerRequestOptions) {
        let responses = Some(input.responses).filter(|responses| !responses.is_empty());
        let mut meta = RequestMetaObject::new();
        let request = match self {
            Self::Tool { name, arguments, key } => {
                if let Some(key) = key {
                    meta.insert(KEY.to_owned(), (*key).into());
                }
                let params = CallToolRequestParams::new((*name).to_owned());
                let mut params = params.with_arguments((*arguments).clone());
                (params.input_responses, params.request_state) = (responses, input.state);
                ClientRequest::CallToolRequest(CallToolRequest::new(params))
            }
            Self::Resource { uri } => {
                let mut params = ReadResourceRequestParams::new(*uri);
                (params.input_responses, params.request_state) = (responses, input.state);
                ClientRequest::ReadResourceRequest(ReadResourceRequest::new(params))
            }
            Self::Prompt { name, arguments } => {
                let mut params = GetPromptRequestParams::new(*name);
                let arguments = (*arguments).clone();
                params.arguments = Some(arguments).filter(|arguments| !arguments.is_empty());
                (params.input_responses, params.request_state) = (responses, input.state);
                ClientRequest::GetPromptRequest(GetPromptRequest::new(params))
            }
        };
        (request, PeerRequestOptions::no_options().with_meta(meta))
    }
}

/// Gets what an answer wants, for the question to be asked again.
async fn wanted(answer: &Value, attention: &Attention) -> Result<Input, String> {
    let mut input = Input {
        state: answer.get("requestState").and_then(Value::as_str).map(str::to_owned),
        ..Input::default()
    };
    let requests = answer.get("inputRequests").and_then(Value::as_object);
    for (key, request) in requests.into_iter().flatten() {
        let params = request.get("params").unwrap_or(&Value::Null);
        let response = match request.get("method").and_then(Value::as_str) {
            Some(ELICIT) => attention.input(params).await?,
            // There is no folder that it is told of.
            Some("roots/list") => json!({ "roots": [] }),
            other => {
                let other = other.unwrap_or("something without a name");
                return Err(format!("the server wants `{other}`, which is not offered here"));
            }
        };
        input.responses.insert(key.clone(), response);
    }
    if input.responses.is_empty() && input.state.is_none() {
        return Err("the server wants input, and does not say which".to_owned());
    }
    Ok(input)
}

fn no_answer(error: &ServiceError) -> NoAnswer {
    match error {
        ServiceError::McpError(error) => {
            let pages = error.data.as_ref().and_then(|data| data.get("elicitations")?.as_array());
            match pages {
                Some(pages) if error.code.0 == VISIT_REQUIRED && !pages.is_empty() => {
                    NoAnswer::Visit(pages.iter().map(visit).collect())
                }
                _ => NoAnswer::Refused(format!("{} (error {})", error.message, error.code.0)),
            }
        }
        ServiceError::UnexpectedResponse => {
            NoAnswer::Refused("its answer is none to this question".to_owned())
        }
        ServiceError::TransportClosed => NoAnswer::Lost("the connection ended".to_owned()),
        error if error.is_authorization_required() => NoAnswer::LoginWanted,
        ServiceError::TransportSend(error) if http::rights_wanted(&*error.error).is_some() => {
            NoAnswer::MoreWanted(http::rights_wanted(&*error.error).unwrap_or_default())
        }
        // The words around it name types of the library.
        ServiceError::TransportSend(error) => NoAnswer::Lost(with_causes(&*error.error)),
        other => NoAnswer::Lost(with_causes(other)),
    }
}

/// A page that must be visited, whatever else it says it is.
fn visit(page: &Value) -> Value {
    json!({ "mode": "url", "message": page.get("message"), "url": page.get("url") })
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
