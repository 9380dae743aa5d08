//! What comes over the network, from clients and from others.

use std::net::SocketAddr;

use futures_util::future::join_all;
use inspan_mcp::serve::{Http, ServeError, Token};
use reqwest::{Client, RequestBuilder, StatusCode};
use rmcp::{
    service::ClientServiceExt,
    transport::{
        StreamableHttpClientTransport, streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{mpsc, oneshot},
    task::JoinHandle,
};

use crate::world::{Ear, Mode, Person, World, answered, params, short};

const TOKEN: &str = "token-0123456789";

/// Tools that are served over HTTP.
struct Online {
    world: World,
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    ended: JoinHandle<Result<(), ServeError>>,
}

impl Online {
    async fn new(http: Http) -> Self {
        // The test stands in for a command, which says which library speaks TLS.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let world = World::new();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let served = world.served.clone();
        let ended = tokio::spawn(async move {
            let stop = async { stopped.await.unwrap_or(()) };
            served.listen(listener, &http, stop).await
        });
        Self { world, address, stop: Some(stop), ended }
    }

    async fn guarded() -> Self {
        Self::new(Http { token: Some(Token::new(TOKEN).unwrap()), ..Http::default() }).await
    }

    fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// A question in the newest revision.
    fn post(&self, body: impl Into<reqwest::Body>) -> RequestBuilder {
        let client = Client::builder().no_proxy().build().unwrap();
        client
            .post(self.url())
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", "tools/list")
            .body(body)
    }

    async fn end(mut self) {
        self.stop.take().unwrap().send(()).unwrap();
        self.ended.await.unwrap().unwrap();
    }
}

fn list() -> String {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "raw", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": { "_meta": meta } })
        .to_string()
}

#[tokio::test]
async fn clients_of_both_eras_call_tools() {
    let online = Online::guarded().await;
    for mode in Mode::BOTH {
        let (told, _) = mpsc::unbounded_channel();
        let config = StreamableHttpClientTransportConfig::with_uri(online.url()).auth_header(TOKEN);
        let client = Client::builder().no_proxy().build().unwrap();
        let transport = StreamableHttpClientTransport::with_client(client, config);
        let ear = Ear { person: Person::Nobody, told };
        let service = ear.serve_with_lifecycle(transport, mode.lifecycle()).await.unwrap();
        let results = join_all((0..100).map(|n| {
            let name = if n % 2 == 0 { "write" } else { "echo" };
            service.call_tool(params(name, json!({ "text": "hi" })))
        }));
        let results = results.await;
        let shorts: Vec<_> = results.into_iter().map(|result| short(&result.unwrap())).collect();
        assert_eq!(shorts[1], answered("ok", "hi"), "{mode:?}");
        assert!(shorts.iter().all(|(is_error, ..)| !is_error), "{mode:?}: {shorts:?}");
        service.cancel().await.unwrap();
    }
    online.end().await;
}

#[tokio::test]
async fn who_does_not_show_the_token_is_told_nothing() {
    let online = Online::guarded().await;
    let table = [
        (None, StatusCode::UNAUTHORIZED),
        (Some("Bearer token-0123456788"), StatusCode::UNAUTHORIZED),
        (Some("Bearer "), StatusCode::UNAUTHORIZED),
        (Some("Basic token-0123456789"), StatusCode::UNAUTHORIZED),
        (Some("token-0123456789"), StatusCode::UNAUTHORIZED),
        (Some("Bearer token-0123456789"), StatusCode::OK),
        (Some("bearer token-0123456789"), StatusCode::OK),
    ];
    for (shown, status) in table {
        let mut request = online.post(list());
        if let Some(shown) = shown {
            request = request.header("authorization", shown);
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), status, "{shown:?}");
        let is_asked = response.headers().contains_key("www-authenticate");
        assert_eq!(is_asked, status == StatusCode::UNAUTHORIZED, "{shown:?}");
        let text = response.text().await.unwrap();
        assert_eq!(text.contains("echo"), status == StatusCode::OK, "{shown:?}: {text}");
    }
    online.end().await;
}

#[tokio::test]
async fn a_page_elsewhere_gets_nothing() {
    let http = Http {
        hosts: vec!["tools.example".to_owned()],
        origins: vec!["https://app.example:443".to_owned()],
        ..Http::default()
    };
    let online = Online::new(http).await;
    let table = [
        ("host", "evil.example", StatusCode::FORBIDDEN),
        ("host", "evil.example:80", StatusCode::FORBIDDEN),
        ("host", "localhost:80", StatusCode::OK),
        ("host", "tools.example", StatusCode::OK),
        ("origin", "https://evil.example", StatusCode::FORBIDDEN),
        ("origin", "null", StatusCode::FORBIDDEN),
        ("origin", "http://localhost:3000", StatusCode::OK),
        ("origin", "https://app.example", StatusCode::OK),
    ];
    for (header, value, status) in table {
        let response = online.post(list()).header(header, value).send().await.unwrap();
        assert_eq!(response.status(), status, "{header}: {value}");
    }
    online.end().await;
}

#[tokio::test]
async fn what_is_too_large_or_no_message_is_refused_and_the_others_are_served() {
    let online = Online::new(Http::default()).await;
    let long = online.post("x".repeat((4 << 20) + 1)).send().await.unwrap();
    assert_eq!(long.status(), StatusCode::PAYLOAD_TOO_LARGE);
    for body in ["", "{", "[]", "null", "{\"jsonrpc\":\"2.0\"}"] {
        let status = online.post(body).send().await.unwrap().status();
        assert!(status.is_client_error(), "{body}: {status}");
    }
    let elsewhere = format!("http://{}/other", online.address);
    let client = Client::builder().no_proxy().build().unwrap();
    let status = client.get(elsewhere).send().await.unwrap().status();
    assert_eq!(status, StatusCode::NOT_FOUND);

    // Half a request, which is never finished.
    let mut half = TcpStream::connect(online.address).await.unwrap();
    half.write_all(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{")
        .await
        .unwrap();
    let response = online.post(list()).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    online.end().await;
    // It is given up with the server.
    let mut rest = Vec::new();
    let _ = half.read_to_end(&mut rest).await;
}

#[tokio::test]
async fn clients_that_stay_are_so_many_and_no_more() {
    let online = Online::new(Http::default()).await;
    let client = Client::builder().no_proxy().build().unwrap();
    let params = json!({
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": { "name": "raw", "version": "1" },
    });
    let begin =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params }).to_string();
    let handshake = || {
        let request = client.post(online.url()).header("content-type", "application/json");
        let request = request.header("accept", "application/json, text/event-stream");
        request.body(begin.clone()).send()
    };
    for _ in 0..256 {
        assert_eq!(handshake().await.unwrap().status(), StatusCode::OK);
    }
    let beyond = handshake().await.unwrap();
    assert_eq!(beyond.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(beyond.headers()["retry-after"], "5");
    // Those of the newest revision are not remembered, and not counted.
    assert_eq!(online.post(list()).send().await.unwrap().status(), StatusCode::OK);
    online.end().await;
}

#[tokio::test]
async fn a_client_that_goes_in_the_middle_cancels_its_call() {
    let online = Online::new(Http::default()).await;
    let body: Value = serde_json::from_str(&list()).unwrap();
    let mut body = body;
    body["method"] = "tools/call".into();
    body["params"]["name"] = "hang".into();
    let request = online.post(body.to_string()).header("mcp-name", "hang");
    let request = request.build().unwrap();
    let mut request = request;
    request.headers_mut().insert("mcp-method", "tools/call".parse().unwrap());
    let client = Client::builder().no_proxy().build().unwrap();
    let call = tokio::spawn(async move { client.execute(request).await });
    online.world.seen.began.notified().await;
    call.abort();
    online.world.seen.dropped.notified().await;
    online.end().await;
}

#[tokio::test]
async fn a_server_that_is_stopped_answers_what_runs_and_ends() {
    let online = Online::new(Http::default()).await;
    let (told, _) = mpsc::unbounded_channel();
    let config = StreamableHttpClientTransportConfig::with_uri(online.url());
    let client = Client::builder().no_proxy().build().unwrap();
    let transport = StreamableHttpClientTransport::with_client(client, config);
    let ear = Ear { person: Person::Nobody, told };
    let service = ear.serve_with_lifecycle(transport, Mode::Modern.lifecycle()).await.unwrap();
    let peer = service.peer().clone();
    let call = tokio::spawn(async move { peer.call_tool(params("hang", json!({}))).await });
    online.world.seen.began.notified().await;
    online.end().await;
    let (_, how, _) = short(&call.await.unwrap().unwrap());
    assert_eq!(how, "cancelled");
}

#[tokio::test]
async fn what_is_open_to_others_needs_a_token() {
    let world = World::new();
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let ended = world.served.listen(listener, &Http::default(), std::future::pending()).await;
    assert_eq!(ended, Err(ServeError::Open(address)));
    let short = Token::new("short").unwrap_err();
    assert_eq!(short, "it is shorter than 16 characters");
}
