//! A scripted HTTP server: it answers the requests that come, in order, with what a script says,
//! byte for byte, and keeps what it received.
//!
//! It runs on a thread and a runtime of its own, so it serves tests with and without a runtime,
//! with a paused clock, and tests that start the command as a process.
//!
//! ```
//! use inspan_testkit::server::{Answer, Said, Server};
//!
//! let server = Server::start([
//!     Answer::anthropic(&[Said::call("toolu_1", "echo", r#"{"text":"hi"}"#)]),
//!     Answer::anthropic(&[Said::text("It said hi.")]),
//! ]);
//! assert!(server.url().starts_with("http://127.0.0.1:"));
//! assert_eq!(server.received(), []);
//! ```

use std::{
    io,
    net::{SocketAddr, TcpListener},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{ConnectInfo, Request, State},
    http::{Response, StatusCode},
};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use tokio::sync::oneshot;

/// A request as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// `POST` and the like.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Names in lower case, and values, in the order of arrival.
    pub headers: Vec<(String, String)>,
    /// The raw body.
    pub body: Bytes,
    /// The client's end of the connection; the same for requests of one connection.
    pub peer: SocketAddr,
}

impl Received {
    /// The value of a header, by its lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The body as text; bytes that are none are replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON; `null` when it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// What happens after the last piece of a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum End {
    /// The body ends as HTTP wants it.
    #[default]
    Whole,
    /// The connection breaks.
    Cut,
    /// Nothing more comes, and the connection stays open.
    Hang,
    /// Not even a status comes, and the connection stays open.
    Silent,
}

/// One line of the script: how one request is answered.
#[derive(Clone, Debug)]
pub struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    pieces: Vec<Bytes>,
    end: End,
}

impl Answer {
    /// A status and a body of JSON.
    pub fn json(status: u16, body: &Value) -> Self {
        Self::new(status, "application/json", body.to_string())
    }

    /// A status, a media type and a body.
    pub fn new(status: u16, media_type: &str, body: impl Into<Bytes>) -> Self {
        let headers = vec![("content-type".to_owned(), media_type.to_owned())];
        Self { status, headers, pieces: vec![body.into()], end: End::Whole }
    }

    /// A stream of server-sent events, as written.
    pub fn sse(body: impl Into<Bytes>) -> Self {
        Self::new(200, "text/event-stream", body)
    }

    /// A whole reply as Anthropic streams it.
    pub fn anthropic(said: &[Said]) -> Self {
        Self::sse(anthropic_sse(said))
    }

    /// A whole reply as OpenAI streams it.
    pub fn openai(said: &[Said]) -> Self {
        Self::sse(openai_sse(said))
    }

    /// A whole reply as OpenAI's Responses stream it.
    pub fn responses(said: &[Said]) -> Self {
        Self::sse(responses_sse(said))
    }

    /// No answer at all, on an open connection.
    pub fn silent() -> Self {
        Self { end: End::Silent, ..Self::sse("") }
    }

    /// One more header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Breaks the connection after so many bytes of the body.
    #[must_use]
    pub fn cut_after(mut self, bytes: usize) -> Self {
        self.truncate(bytes);
        self.end = End::Cut;
        self
    }

    /// Ends the body, well-formed for HTTP, after so many bytes.
    #[must_use]
    pub fn end_after(mut self, bytes: usize) -> Self {
        self.truncate(bytes);
        self
    }

    /// Falls silent after so many bytes of the body.
    #[must_use]
    pub fn hang_after(mut self, bytes: usize) -> Self {
        self.truncate(bytes);
        self.end = End::Hang;
        self
    }

    /// Sends the body in pieces of at most so many bytes.
    #[must_use]
    pub fn in_pieces_of(mut self, bytes: usize) -> Self {
        let whole = self.pieces.concat();
        self.pieces = whole.chunks(bytes.max(1)).map(Bytes::copy_from_slice).collect();
        self
    }

    /// The length of the body in bytes.
    pub fn body_len(&self) -> usize {
        self.pieces.iter().map(Bytes::len).sum()
    }

    fn truncate(&mut self, bytes: usize) {
        let mut whole = self.pieces.concat();
        whole.truncate(bytes);
        self.pieces = vec![whole.into()];
    }

    async fn into_response(self) -> Response<Body> {
        if self.end == End::Silent {
            std::future::pending::<()>().await;
        }
        let pieces =
            stream::iter(self.pieces.into_iter().filter(|piece| !piece.is_empty()).map(Ok));
        let body = match self.end {
            End::Whole | End::Silent => Body::from_stream(pieces.boxed()),
            End::Cut => {
                let cut = io::Error::new(io::ErrorKind::ConnectionReset, "cut by the script");
                Body::from_stream(pieces.chain(stream::iter([Err(cut)])))
            }
            End::Hang => Body::from_stream(pieces.chain(stream::pending::<io::Result<Bytes>>())),
        };
        let mut response = Response::builder().status(self.status);
        for (name, value) in self.headers {
            response = response.header(name, value);
        }
        response.body(body).unwrap_or_else(|error| {
            let mut response = Response::new(Body::from(format!("bad script: {error}")));
            *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
            response
        })
    }
}

/// A server that plays a script. It ends when it is dropped.
pub struct Server {
    address: SocketAddr,
    play: Arc<Stage>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

struct Stage {
    play: Mutex<Play>,
    arrived: Condvar,
}

/// What is answered to a request; nothing when the script is over.
type Script = Box<dyn FnMut(&Received) -> Option<Answer> + Send>;

struct Play {
    script: Script,
    received: Vec<Received>,
}

impl Server {
    /// Starts a server on a free port of 127.0.0.1. The script may be endless; a request after
    /// its end is answered with status 400, which nobody tries again.
    ///
    /// # Panics
    /// When the machine has no port or thread to give.
    pub fn start<S>(script: S) -> Self
    where
        S: IntoIterator<Item = Answer>,
        S::IntoIter: Send + 'static,
    {
        let mut script = script.into_iter();
        Self::play(move |_| script.next())
    }

    /// Starts a server that answers each request by what it says.
    ///
    /// # Panics
    /// When the machine has no port or thread to give.
    pub fn answering(mut answer: impl FnMut(&Received) -> Answer + Send + 'static) -> Self {
        Self::play(move |received| Some(answer(received)))
    }

    fn play(script: impl FnMut(&Received) -> Option<Answer> + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("the address of a listener");
        let play = Mutex::new(Play { script: Box::new(script), received: vec![] });
        let play = Arc::new(Stage { play, arrived: Condvar::new() });
        let (stop, stopped) = oneshot::channel();
        let state = Arc::clone(&play);
        let thread = thread::spawn(move || serve(listener, state, stopped));
        Self { address, play, stop: Some(stop), thread: Some(thread) }
    }

    /// `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The requests so far, in order of arrival.
    pub fn received(&self) -> Vec<Received> {
        self.play.lock().received.clone()
    }

    /// Waits until there were so many requests, and gives them all.
    pub fn wait_for(&self, requests: usize) -> Vec<Received> {
        let play = self.play.lock();
        let enough = self.play.arrived.wait_while(play, |play| play.received.len() < requests);
        enough.unwrap_or_else(PoisonError::into_inner).received.clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has told so already; a second panic here would hide it.
            let _ = thread.join();
        }
    }
}

/// The address of a port of this machine where nobody listens.
///
/// # Panics
/// When the machine has no port to give.
pub fn refusing_url() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    format!("http://{}", listener.local_addr().expect("the address of a listener"))
}

fn serve(listener: TcpListener, play: Arc<Stage>, stopped: oneshot::Receiver<()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime for the scripted server");
    runtime.block_on(async move {
        listener.set_nonblocking(true).expect("a listener that does not block");
        let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
        let app = Router::new().fallback(answer).with_state(play);
        let app = app.into_make_service_with_connect_info::<SocketAddr>();
        let served = async { axum::serve(listener, app).await };
        tokio::select! {
            _ = served => {}
            _ = stopped => {}
        }
    });
    // Hanging answers would keep an orderly end waiting for ever.
    runtime.shutdown_background();
}

async fn answer(
    State(play): State<Arc<Stage>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> Response<Body> {
    let (head, body) = request.into_parts();
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    let received = Received {
        method: head.method.to_string(),
        path: head.uri.to_string(),
        headers: head
            .headers
            .iter()
            .map(|(name, value)| (name.to_string(), text(value.as_bytes())))
            .collect(),
        body: to_bytes(body, usize::MAX).await.unwrap_or_default(),
        peer,
    };
    let next = {
        let mut now = play.lock();
        let next = (now.script)(&received);
        now.received.push(received);
        play.arrived.notify_all();
        next
    };
    let over = || Answer::json(400, &json!({"error": {"message": "the script is over"}}));
    next.unwrap_or_else(over).into_response().await
}

impl Stage {
    fn lock(&self) -> MutexGuard<'_, Play> {
        self.play.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A part of a scripted reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// Text, streamed word by word.
    Text(String),
    /// Reasoning, signed where the wire signs.
    Reasoning(String),
    /// A tool call; its arguments are streamed in two pieces.
    Call {
        /// The provider's identifier.
        id: String,
        /// The tool.
        name: String,
        /// The arguments, as JSON text or as what a test wants instead.
        arguments: String,
    },
}

impl Said {
    /// Text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// Reasoning.
    pub fn reasoning(text: impl Into<String>) -> Self {
        Self::Reasoning(text.into())
    }

    /// A tool call.
    pub fn call(
        id: impl Into<String>,
        name: impl Into<String>,
        arguments: impl Into<String>,
    ) -> Self {
        Self::Call { id: id.into(), name: name.into(), arguments: arguments.into() }
    }

    fn is_call(&self) -> bool {
        matches!(self, Self::Call { .. })
    }
}

/// The body of a whole Anthropic reply: 10 tokens read, 5 written.
pub fn anthropic_sse(said: &[Said]) -> String {
    let stop = if said.iter().any(Said::is_call) { "tool_use" } else { "end_turn" };
    let mut sse = anthropic_event(&json!({"type": "message_start", "message": {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-scripted",
        "content": [], "stop_reason": null,
        "usage": {"input_tokens": 10, "output_tokens": 1}}}));
    for (index, part) in said.iter().enumerate() {
        let (block, deltas) = anthropic_block(part);
        let mut event = |value: Value| sse.push_str(&anthropic_event(&value));
        event(json!({"type": "content_block_start", "index": index, "content_block": block}));
        for delta in deltas {
            event(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        event(json!({"type": "content_block_stop", "index": index}));
    }
    sse.push_str(&anthropic_event(&json!({"type": "message_delta",
        "delta": {"stop_reason": stop, "stop_sequence": null}, "usage": {"output_tokens": 5}})));
    sse.push_str(&anthropic_event(&json!({"type": "message_stop"})));
    sse
}

fn anthropic_block(part: &Said) -> (Value, Vec<Value>) {
    match part {
        Said::Text(text) => (
            json!({"type": "text", "text": ""}),
            words(text).map(|word| json!({"type": "text_delta", "text": word})).collect(),
        ),
        Said::Reasoning(text) => (
            json!({"type": "thinking", "thinking": "", "signature": ""}),
            words(text)
                .map(|word| json!({"type": "thinking_delta", "thinking": word}))
                .chain([json!({"type": "signature_delta", "signature": "c2lnbmVk"})])
                .collect(),
        ),
        Said::Call { id, name, arguments } => (
            json!({"type": "tool_use", "id": id, "name": name, "input": {}}),
            halves(arguments)
                .map(|half| json!({"type": "input_json_delta", "partial_json": half}))
                .to_vec(),
        ),
    }
}

fn anthropic_event(value: &Value) -> String {
    format!("event: {}\ndata: {value}\n\n", value["type"].as_str().unwrap_or_default())
}

/// The body of a whole OpenAI reply: 10 tokens read, 5 written.
pub fn openai_sse(said: &[Said]) -> String {
    let has_calls = said.iter().any(Said::is_call);
    let stop = if has_calls { "tool_calls" } else { "stop" };
    let mut deltas = vec![json!({"role": "assistant", "content": ""})];
    let mut calls = 0;
    for part in said {
        match part {
            Said::Text(text) => deltas.extend(words(text).map(|word| json!({"content": word}))),
            Said::Reasoning(text) => {
                deltas.extend(words(text).map(|word| json!({"reasoning_content": word})));
            }
            Said::Call { id, name, arguments } => {
                deltas.push(json!({"tool_calls": [{"index": calls, "id": id, "type": "function",
                    "function": {"name": name, "arguments": ""}}]}));
                deltas.extend(halves(arguments).map(|half| {
                    json!({"tool_calls": [{"index": calls, "function": {"arguments": half}}]})
                }));
                calls += 1;
            }
        }
    }
    let mut sse = String::new();
    for delta in deltas {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": null});
        sse.push_str(&openai_chunk(&json!([choice]), &Value::Null));
    }
    let last = json!({"index": 0, "delta": {}, "finish_reason": stop});
    sse.push_str(&openai_chunk(&json!([last]), &Value::Null));
    let usage = json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15});
    sse.push_str(&openai_chunk(&json!([]), &usage));
    sse.push_str("data: [DONE]\n\n");
    sse
}

fn openai_chunk(choices: &Value, usage: &Value) -> String {
    let chunk = json!({"id": "chatcmpl-1", "object": "chat.completion.chunk",
        "created": 1_790_000_000, "model": "gpt-scripted", "choices": choices, "usage": usage});
    format!("data: {chunk}\n\n")
}

/// The body of a whole reply of OpenAI's Responses: 10 tokens read, 5 written.
pub fn responses_sse(said: &[Said]) -> String {
    let mut sse = String::new();
    let mut event = |kind: &str, mut fields: Value| {
        fields["type"] = kind.into();
        sse.push_str(&format!("event: {kind}\ndata: {fields}\n\n"));
    };
    let response = |status: &str, usage: Value| {
        json!({"response": {"id": "resp_1", "object": "response", "model": "gpt-scripted",
            "status": status, "error": null, "usage": usage}})
    };
    event("response.created", response("in_progress", Value::Null));
    for (index, part) in said.iter().enumerate() {
        let (empty, pieces, whole) = responses_item(part);
        event("response.output_item.added", json!({"output_index": index, "item": empty}));
        for (kind, piece) in pieces {
            event(kind, json!({"output_index": index, "delta": piece}));
        }
        event("response.output_item.done", json!({"output_index": index, "item": whole}));
    }
    let usage = json!({"input_tokens": 10, "output_tokens": 5, "total_tokens": 15});
    event("response.completed", response("completed", usage));
    sse
}

/// An item as it begins, its pieces, and the whole.
fn responses_item(part: &Said) -> (Value, Vec<(&'static str, &str)>, Value) {
    let pieces = |kind, text| words(text).map(|word| (kind, word)).collect();
    match part {
        Said::Text(text) => (
            json!({"id": "msg_1", "type": "message", "role": "assistant", "content": []}),
            pieces("response.output_text.delta", text),
            json!({"id": "msg_1", "type": "message", "role": "assistant",
                "content": [{"type": "output_text", "text": text, "annotations": []}]}),
        ),
        Said::Reasoning(text) => (
            json!({"id": "rs_1", "type": "reasoning", "summary": []}),
            pieces("response.reasoning_summary_text.delta", text),
            json!({"id": "rs_1", "type": "reasoning",
                "summary": [{"type": "summary_text", "text": text}],
                "encrypted_content": "c2lnbmVk"}),
        ),
        Said::Call { id, name, arguments } => {
            let call = |arguments: &str| {
                json!({"id": "fc_1", "type": "function_call", "call_id": id, "name": name,
                    "arguments": arguments})
            };
            let halves = halves(arguments);
            (
                call(""),
                halves.map(|half| ("response.function_call_arguments.delta", half)).to_vec(),
                call(arguments),
            )
        }
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(' ')
}

/// The text in two pieces; the border is never inside a character.
fn halves(text: &str) -> [&str; 2] {
    let mut middle = text.len() / 2;
    while !text.is_char_boundary(middle) {
        middle += 1;
    }
    let (first, second) = text.split_at(middle);
    [first, second]
}
