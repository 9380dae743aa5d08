//! What a client of the protocol meets: the list of tools, and their calls.

use std::sync::Arc;

use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use inspan_core::hash::Hash;
use inspan_engine::near_names;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, ClientResult,
        ContentBlock, ElicitRequest, ElicitResult, Implementation, InputRequest, InputRequests,
        InputRequiredResult, JsonObject, ListToolsResult, PaginatedRequestParams,
        ProgressNotificationParam, ProgressToken, ProtocolVersion, ServerCapabilities,
        ServerConfig, ServerRequest, Tool,
    },
    service::{Peer, RequestContext},
};
use serde_json::Value;

use crate::serve::{
    Served,
    caller::Wanted,
    desk::{Call, Kind},
    questions::{Waiting, can_ask},
    result,
    running::{Answer, Happening, Question, Running},
};

/// The argument of a whole agent.
pub(crate) const PROMPT: &str = "prompt";

/// One connection of a client, or one request of it where there are no connections.
#[derive(Clone)]
pub(crate) struct Handler(pub(crate) Arc<Served>);

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let name = Implementation::new(self.0.name.clone(), env!("CARGO_PKG_VERSION"));
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        ServerConfig::new(capabilities).with_server_info(name)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let list = ListToolsResult::with_all_items(self.0.tools.clone());
        // What is offered may be another person's with the next start.
        Ok(list.with_ttl_ms(0).with_cache_scope(CacheScope::Private))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.0.tools.iter().find(|tool| tool.name == name).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if self.get_tool(&request.name).is_none() {
            return Err(self.unknown(&request.name));
        }
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let call = Hash::of(&[request.name.as_bytes(), arguments.to_string().as_bytes()]);
        let running = match &request.request_state {
            None => {
                let can_ask = can_ask(context.client_capabilities().as_ref());
                let call = self.call(&request.name, &arguments, can_ask, &context)?;
                self.0.desk.take(call)
            }
            Some(word) => {
                let waiting = self.0.questions.take(word, &call).ok_or_else(no_question)?;
                let name = waiting.question.name().to_owned();
                let said = request.input_responses.and_then(|mut all| all.remove(&name));
                let Waiting { running, question, .. } = waiting;
                let Some(said) = said else {
                    return self.ask_later(running, question, call);
                };
                let said: ElicitResult = serde_json::from_value(said).map_err(|why| {
                    ErrorData::invalid_params(format!("`{name}` is no answer: {why}"), None)
                })?;
                question.answer(&said).into_iter().for_each(|answer| running.answer(answer));
                running
            }
        };
        self.follow(running, call, context).await
    }
}

impl Handler {
    fn unknown(&self, name: &str) -> ErrorData {
        let names: Vec<String> = self.0.tools.iter().map(|tool| tool.name.to_string()).collect();
        let near = match near_names(name, names.iter()).as_slice() {
            [] => String::new(),
            near => format!("; near to it: {}", near.join(", ")),
        };
        ErrorData::invalid_params(format!("there is no tool `{name}`{near}"), None)
    }

    /// What is asked for, as the log will say it.
    fn call(
        &self,
        name: &str,
        arguments: &Value,
        can_ask: bool,
        context: &RequestContext<RoleServer>,
    ) -> Result<Call, ErrorData> {
        let prompt = match self.0.desk.kind() {
            Kind::Tools => match context.client_info() {
                Some(client) => format!("{} {} calls {name} over MCP", client.name, client.version),
                None => format!("a client calls {name} over MCP"),
            },
            Kind::Agent => match arguments.get(PROMPT).and_then(Value::as_str) {
                Some(prompt) if !prompt.trim().is_empty() => prompt.to_owned(),
                _ => {
                    let why = format!("/{PROMPT}: say something, as text");
                    return Err(ErrorData::invalid_params(why, None));
                }
            },
        };
        let wanted = Wanted { name: name.to_owned(), arguments: arguments.to_string() };
        Ok(Call { wanted, prompt, can_ask })
    }

    /// Follows a call to its end, or until a person must be asked by way of its result.
    async fn follow(
        &self,
        mut running: Running,
        call: Hash,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let has_requests = context
            .protocol_version()
            .is_none_or(|version| version < ProtocolVersion::V_2026_07_28);
        let mut told = Told::new(&context);
        let mut answers: FuturesUnordered<BoxFuture<'_, Option<Answer>>> = FuturesUnordered::new();
        loop {
            let happening = tokio::select! {
                biased;
                happening = running.next() => happening,
                Some(answer) = answers.next(), if !answers.is_empty() => {
                    answer.into_iter().for_each(|answer| running.answer(answer));
                    continue;
                }
                // Nobody reads what is given then.
                () = context.ct.cancelled() => None,
            };
            match happening {
                Some(Happening::Progress(text)) => told.tell(text).await,
                Some(Happening::Asked(question)) if has_requests => {
                    answers.push(self.ask(&context.peer, question).boxed());
                }
                Some(Happening::Asked(question)) => {
                    match question.form(&self.0.desk.setup().mask) {
                        Some(_) => return self.ask_later(running, question, call),
                        None => drop(question),
                    }
                }
                Some(Happening::Ended(outcome)) => {
                    let blobs = self.0.desk.setup().blobs.as_deref();
                    return Ok(result::result(outcome, blobs).await.into());
                }
                None => {
                    let text = ContentBlock::text("The call was cancelled.");
                    return Ok(CallToolResult::error(vec![text]).into());
                }
            }
        }
    }

    /// Asks the person by way of the client, and waits for the answer.
    async fn ask(&self, peer: &Peer<RoleServer>, question: Question) -> Option<Answer> {
        let form = question.form(&self.0.desk.setup().mask)?;
        let request = ServerRequest::ElicitRequest(ElicitRequest::new(form));
        match peer.send_request(request).await {
            Ok(ClientResult::ElicitResult(said)) => question.answer(&said),
            Ok(_) => question.not_asked("its answer is none to this question"),
            Err(error) => question.not_asked(&error.to_string()),
        }
    }

    /// The result that asks: the call comes again with the answer.
    fn ask_later(
        &self,
        running: Running,
        question: Question,
        call: Hash,
    ) -> Result<CallToolResponse, ErrorData> {
        let form = question.form(&self.0.desk.setup().mask).ok_or_else(no_question)?;
        let request = InputRequest::Elicitation(ElicitRequest::new(form));
        let name = question.name().to_owned();
        let word = self.0.questions.keep(running, question, call);
        let requests = InputRequests::from([(name, request)]);
        Ok(InputRequiredResult::new(Some(requests), Some(word)).into())
    }
}

fn no_question() -> ErrorData {
    let why = "no call like this waits for an answer under this `requestState`: it was answered, \
               or is too old; call again without it";
    ErrorData::invalid_params(why, None)
}

/// What a client hears of the progress of its call, if it wants to.
struct Told<'a> {
    peer: &'a Peer<RoleServer>,
    token: Option<ProgressToken>,
    count: u32,
}

impl<'a> Told<'a> {
    fn new(context: &'a RequestContext<RoleServer>) -> Self {
        Self { peer: &context.peer, token: context.meta.get_progress_token(), count: 0 }
    }

    async fn tell(&mut self, text: String) {
        let Some(token) = &self.token else { return };
        self.count += 1;
        let mut progress = ProgressNotificationParam::new(token.clone(), f64::from(self.count));
        progress.message = Some(text);
        // A client that is gone needs not be told.
        let _ = self.peer.notify_progress(progress).await;
    }
}

/// A schema as the protocol has it.
pub(crate) fn schema(input: &Value) -> JsonObject {
    match input {
        Value::Object(fields) => fields.clone(),
        // Anything: the protocol knows only objects.
        _ => JsonObject::from_iter([("type".to_owned(), "object".into())]),
    }
}
