//! Serving over Streamable HTTP. A request passes the guard before it is read: who asks, from
//! where, how much, how long, how many at once.

use std::{future::Future, net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Request, State},
    http::{
        HeaderMap, StatusCode,
        header::{AUTHORIZATION, RETRY_AFTER, WWW_AUTHENTICATE},
    },
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
};
use futures_util::StreamExt;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use inspan_core::hash::Hash;
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
};
use serde_json::Value;
use tokio::{
    net::TcpListener,
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::serve::{MESSAGE_BYTES_MAX, ServeError, Served, handler::Handler};

/// Where the protocol is spoken.
pub const PATH: &str = "/mcp";

/// Bytes of a token at least: a shorter one can be guessed.
const TOKEN_BYTES_MIN: usize = 16;

/// Connections at once; the next ones wait to be accepted.
const CONNECTIONS_MAX: usize = 256;

/// Requests at once, streams that stay open included.
const REQUESTS_MAX: usize = 512;

/// Clients of the older revisions that are known at once. One that is silent for five minutes is
/// forgotten.
const CLIENTS_MAX: usize = 256;

/// Time in which the head of a request must be here, from the end of the one before it on.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Time in which the body of a request must be here.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Time for sending the last answers when the server stops.
const ANSWERED_TIMEOUT: Duration = Duration::from_secs(1);

/// Time in which connections end then; after it they are cut.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the server waits when the system gives it no connection.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// What a client must show. Only its hash is kept.
#[derive(Clone, Debug)]
pub struct Token(Hash);

impl Token {
    /// The token that is this text.
    ///
    /// # Errors
    /// It is too short, or can't stand in a header.
    pub fn new(secret: &str) -> Result<Self, String> {
        if secret.len() < TOKEN_BYTES_MIN {
            return Err(format!("it is shorter than {TOKEN_BYTES_MIN} characters"));
        }
        if !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("it may have letters, digits and signs of ASCII only".to_owned());
        }
        Ok(Self(Hash::of(&[secret.as_bytes()])))
    }

    /// Compares hashes, which takes the same time however much of a guess is right.
    fn is_shown(&self, headers: &HeaderMap) -> bool {
        let shown = headers.get(AUTHORIZATION).map(|value| value.as_bytes());
        let bearer = |shown: &[u8]| {
            let (scheme, token) = shown.split_at_checked("Bearer ".len())?;
            scheme.eq_ignore_ascii_case(b"Bearer ").then(|| Hash::of(&[token]))
        };
        shown.and_then(bearer).is_some_and(|hash| hash == self.0)
    }
}

/// Who may ask, and from where.
#[derive(Clone, Debug, Default)]
pub struct Http {
    /// What every request must show. Without it everybody may ask who can reach the address.
    pub token: Option<Token>,
    /// Names of this server beside those of this machine itself, as they stand in `Host`: `name` or
    /// `name:port`. Another one is refused, since a page of the web may have made it up.
    pub hosts: Vec<String>,
    /// Pages that may ask, beside those of this machine itself: `https://name:port`. Requests that
    /// name none come from programs and pass.
    pub origins: Vec<String>,
}

impl Served {
    /// The route `/mcp` for a server of your own. It ends with its last request: [`Served::stop`]
    /// ends the calls. Whether its address may be open to others is yours to decide.
    pub fn router(self: &Arc<Self>, http: &Http) -> Router {
        self.route(http, StreamableHttpServerConfig::default())
    }

    /// Serves everybody who connects to `listener`, until `stop` is done. Then nothing new is
    /// taken, calls are cancelled and answered, and connections end.
    ///
    /// # Errors
    /// The address is open to others and no token is set.
    pub async fn listen(
        self: &Arc<Self>,
        listener: TcpListener,
        http: &Http,
        stop: impl Future<Output = ()>,
    ) -> Result<(), ServeError> {
        let address = listener.local_addr().map_err(|why| ServeError::System {
            what: "the address of the server".to_owned(),
            why: why.to_string(),
        })?;
        may_listen(address, http)?;
        let config = StreamableHttpServerConfig::default();
        let streams = config.cancellation_token.clone();
        let mut http = http.clone();
        if !address.ip().is_unspecified() {
            http.hosts.push(address.ip().to_string());
        }
        let router = self.route(&http, config);
        let (goodbye, mut connections) = (GracefulShutdown::new(), JoinSet::new());
        tokio::select! {
            () = accept(listener, router, &goodbye, &mut connections) => {}
            () = stop => {}
        }
        self.stop().await;
        let mut ends = pin!(goodbye.shutdown());
        if timeout(ANSWERED_TIMEOUT, &mut ends).await.is_err() {
            // What is open still are streams that wait for news.
            streams.cancel();
            let _ = timeout(GOODBYE_TIMEOUT, ends).await;
        }
        Ok(())
    }

    fn route(self: &Arc<Self>, http: &Http, config: StreamableHttpServerConfig) -> Router {
        let clients = Arc::new(LocalSessionManager::default());
        let own = ["localhost", "127.0.0.1", "[::1]"];
        let hosts = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).into_iter();
        let origins =
            own.iter().flat_map(|own| [format!("http://{own}:*"), format!("https://{own}:*")]);
        let config = config
            .with_allowed_hosts(hosts.chain(http.hosts.iter().cloned()))
            .with_allowed_origins(origins.chain(http.origins.iter().cloned()))
            .enforce_origin_validation()
            .with_max_request_body_bytes(MESSAGE_BYTES_MAX);
        let handler = Handler(self.clone());
        let service =
            StreamableHttpService::new(move || Ok(handler.clone()), clients.clone(), config);
        let guard = Guard {
            token: http.token.clone(),
            requests: Arc::new(Semaphore::new(REQUESTS_MAX)),
            clients,
        };
        Router::new().route_service(PATH, service).layer(from_fn_with_state(Arc::new(guard), pass))
    }
}

/// Whether a server at this address has what it needs.
///
/// # Errors
/// It would be open to everybody.
pub fn may_listen(address: SocketAddr, http: &Http) -> Result<(), ServeError> {
    match address.ip().is_loopback() || http.token.is_some() {
        true => Ok(()),
        false => Err(ServeError::Open(address.to_string())),
    }
}

/// What every request passes.
struct Guard {
    token: Option<Token>,
    requests: Arc<Semaphore>,
    clients: Arc<LocalSessionManager>,
}

async fn pass(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    if guard.token.as_ref().is_some_and(|token| !token.is_shown(headers)) {
        let how = [(WWW_AUTHENTICATE, "Bearer")];
        let why = "this server wants a token: `Authorization: Bearer TOKEN`";
        return (StatusCode::UNAUTHORIZED, how, why).into_response();
    }
    let Ok(permit) = guard.requests.clone().try_acquire_owned() else {
        return busy("too many requests at once");
    };
    let (head, body) = request.into_parts();
    let body = match timeout(BODY_TIMEOUT, to_bytes(body, MESSAGE_BYTES_MAX)).await {
        Ok(Ok(body)) => body,
        Ok(Err(_)) => {
            let why = format!("a request has {MESSAGE_BYTES_MAX} bytes at most");
            return (StatusCode::PAYLOAD_TOO_LARGE, why).into_response();
        }
        Err(_) => {
            return (StatusCode::REQUEST_TIMEOUT, "the request came too slowly").into_response();
        }
    };
    if guard.clients.sessions.read().await.len() >= CLIENTS_MAX && is_handshake(&body) {
        return busy("too many clients at once");
    }
    let response = next.run(Request::from_parts(head, Body::from(body))).await;
    held(response, permit)
}

/// Whether a client of the older revisions begins with this.
fn is_handshake(body: &[u8]) -> bool {
    let message: Option<Value> = serde_json::from_slice(body).ok();
    message.is_some_and(|message| message["method"] == "initialize")
}

fn busy(why: &'static str) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "5")], why).into_response()
}

/// The response, which counts as a request until it was sent.
fn held(response: Response, permit: OwnedSemaphorePermit) -> Response {
    response.map(|body| {
        Body::from_stream(body.into_data_stream().map(move |piece| {
            let _ = &permit;
            piece
        }))
    })
}

/// Takes connections for ever. They are cut when `connections` is dropped.
async fn accept(
    listener: TcpListener,
    router: Router,
    goodbye: &GracefulShutdown,
    connections: &mut JoinSet<()>,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        // It is never closed.
        let Ok(place) = places.clone().acquire_owned().await else { return };
        while connections.try_join_next().is_some() {}
        let Ok((stream, _)) = listener.accept().await else {
            // Out of files, for example: those that end make room.
            sleep(ACCEPT_AGAIN).await;
            continue;
        };
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router.clone()));
        let connection = goodbye.watch(connection);
        connections.spawn(async move {
            // A client that goes in the middle is nobody's fault.
            let _ = connection.await;
            drop(place);
        });
    }
}
