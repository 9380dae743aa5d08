//! The other direction: an agent's tools, or the whole agent, for clients of the protocol.
//!
//! [`Served`] is what is offered. A call becomes a turn of a session of the engine, in which the
//! client stands in the model's place ([`caller()`]): what is true inside a session is true for it,
//! and its log says what was called, judged, run and answered.
//!
//! What is masked, limited and asked is the business of the [`Setup`] that is served.

mod caller;
mod desk;
mod error;
mod handler;
mod http;
mod lent;
mod plain;
mod questions;
mod result;
mod running;

use std::{future::Future, sync::Arc};

use inspan_core::tool::{Tool as _, ToolSpec};
use inspan_engine::Setup;
use rmcp::{
    ServiceExt,
    model::{Tool, ToolAnnotations},
    service::{QuitReason, ServerInitializeError},
    transport::{async_rw::AsyncRwTransport, stdio_pipes},
};
use serde_json::json;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::Mutex,
};

pub use axum;
pub use caller::{CALLER_URL, caller, caller_ref};
pub use error::ServeError;
pub use http::{Http, PATH, Token, may_listen};
pub use plain::setup;

use desk::{Desk, Kind};
use handler::{Handler, PROMPT, schema};
use lent::Lent;
use questions::Questions;

/// Bytes of one message on standard input, and of the body of a request over HTTP.
const MESSAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Tools, or an agent, as clients of the protocol see them.
pub struct Served {
    name: String,
    tools: Vec<Tool>,
    desk: Arc<Desk>,
    questions: Questions,
}

impl Served {
    /// Offers each tool of `setup`, which needs no model: [`caller()`] stands in for it. `name` is
    /// told to clients.
    ///
    /// A call of a tool is a turn of a session. One session takes one call after the other; several
    /// are open when calls come at once. Calls that may change anything run one by one over all of
    /// them. A result that is too long is cut in its middle.
    ///
    /// # Errors
    /// Two tools have one name.
    pub fn tools(name: impl Into<String>, mut setup: Setup) -> Result<Arc<Self>, ServeError> {
        let turn = Arc::new(Mutex::new(()));
        setup.tools = setup.tools.into_iter().map(|t| Lent::to_sessions(t, &turn)).collect();
        setup.tools.sort_by_key(|tool| tool.spec().name.clone());
        // It would be read by a tool that knows its own session only.
        setup.keeps_results = false;
        // Its news would be for one session only: the tools are those of the beginning.
        setup.catalogue = None;
        setup.config.found.clear();
        setup.fallbacks.clear();
        let specs: Vec<_> = setup.tools.iter().map(|tool| tool.spec()).collect();
        if let Some(pair) = specs.windows(2).find(|pair| pair[0].name == pair[1].name) {
            return Err(ServeError::ToolTwice(pair[0].name.clone()));
        }
        let tools = specs.iter().map(|spec| declared(spec)).collect();
        Ok(Self::new(name, tools, setup, Kind::Tools))
    }

    /// Offers the whole agent of `setup` as one tool, which takes a prompt and gives the answer.
    /// Each call is a session of its own.
    pub fn agent(
        name: impl Into<String>,
        description: impl Into<String>,
        mut setup: Setup,
    ) -> Arc<Self> {
        setup.tools = setup.tools.into_iter().map(Lent::to_a_session).collect();
        // Its news would be for one session only: the tools are those of the beginning.
        setup.catalogue = None;
        let name = name.into();
        let input = json!({
            "type": "object",
            "properties": { PROMPT: { "type": "string", "description": "What to say to it" } },
            "required": [PROMPT],
            "additionalProperties": false,
        });
        let description: String = description.into();
        let tool = ToolSpec::sendable_name(&name);
        let tool = Tool::new_with_raw(tool, Some(description.into()), schema(&input));
        Self::new(name, vec![tool], setup, Kind::Agent)
    }

    fn new(name: impl Into<String>, tools: Vec<Tool>, setup: Setup, kind: Kind) -> Arc<Self> {
        let desk = Arc::new(Desk::new(setup, kind));
        Arc::new(Self { name: name.into(), tools, desk, questions: Questions::default() })
    }

    /// Serves the client that started this process, over standard input and output, until the input
    /// ends or `stop` is done. Nothing else may be written to standard output meanwhile.
    ///
    /// # Errors
    /// The client does not speak the protocol.
    pub async fn stdio(self: &Arc<Self>, stop: impl Future<Output = ()>) -> Result<(), ServeError> {
        let (input, output) = stdio_pipes();
        self.pipes(input, output, stop).await
    }

    /// The same over other pipes: a message a line.
    ///
    /// # Errors
    /// The client does not speak the protocol.
    pub async fn pipes(
        self: &Arc<Self>,
        input: impl AsyncRead + Send + Unpin + 'static,
        output: impl AsyncWrite + Send + Unpin + 'static,
        stop: impl Future<Output = ()>,
    ) -> Result<(), ServeError> {
        let transport =
            AsyncRwTransport::new_server(input, output).with_max_line_length(MESSAGE_BYTES_MAX);
        let served = async {
            match Handler(self.clone()).serve(transport).await {
                Ok(service) => match service.waiting().await {
                    Ok(QuitReason::JoinError(error)) | Err(error) => {
                        Err(ServeError::Broken(error.to_string()))
                    }
                    Ok(_) => Ok(()),
                },
                // It went before it said anything.
                Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
                Err(error) => Err(ServeError::NotUnderstood(error.to_string())),
            }
        };
        let ended = tokio::select! {
            ended = served => ended,
            () = stop => Ok(()),
        };
        self.stop().await;
        ended
    }

    /// Takes no more calls, and waits until those that are under way have ended, which are
    /// cancelled.
    pub async fn stop(&self) {
        self.questions.clear();
        self.desk.stop().await;
    }
}

/// A tool as a client reads of it. What its effects say is told as hints.
fn declared(spec: &ToolSpec) -> Tool {
    let only_reads = spec.effects.only_reads();
    let mut hints = ToolAnnotations::new();
    hints.read_only_hint = Some(only_reads);
    hints.destructive_hint = (!only_reads).then_some(spec.effects.destroys);
    hints.idempotent_hint = (!only_reads).then_some(spec.repeat.is_repeatable());
    hints.open_world_hint = Some(spec.effects.reads_untrusted || spec.effects.sends);
    let description = Some(spec.description.clone().into());
    Tool::new_with_raw(spec.name.clone(), description, schema(&spec.input)).with_annotations(hints)
}
