//! One model of one server: a body goes out, model events come back.

use std::{sync::Arc, time::SystemTime};

use futures_util::{StreamExt, stream};
use inspan_core::{
    mask::Mask,
    provider::{BoxStream, ErrorClass, ModelError, ModelEvent, Refused},
};
use reqwest::{
    Response, Url,
    header::{
        ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
    },
};
use secrecy::{ExposeSecret, SecretString};

use crate::{
    failure::Failure,
    http::Http,
    limits,
    raw::{Raw, Tap},
    server::{Server, Wire},
    splice::Body,
    sse::{self, Decode, Pieces},
};

/// The limit on the body of an error in bytes: more of it is of no use.
const ERROR_BYTES_MAX: usize = 64 << 10;

/// One model of one server.
pub(crate) struct Endpoint {
    pub(crate) server: Server,
    pub(crate) model: String,
    pub(crate) issuer: String,
    url: Url,
    http: Http,
    raw: Option<Raw>,
}

impl Endpoint {
    pub(crate) fn new(server: Server, model: String, url: Url, raw: Option<Raw>) -> Self {
        let issuer = format!("{}://{model} at {}", server.name, server.base_url);
        let http = Http::new(url.scheme() == "https", server.timeouts.connect_ms_max);
        Self { server, model, issuer, url, http, raw }
    }

    /// Sends a request and decodes the answer. `tools` are those in the body: a refusal may name
    /// one by its place. Dropping the stream drops the connection.
    pub(crate) fn ask(
        self: Arc<Self>,
        body: Body,
        tools: Arc<[u8]>,
        decoder: Box<dyn Decode>,
    ) -> BoxStream<ModelEvent> {
        let timeouts = self.server.timeouts;
        let place = self.place();
        let call = async move { self.call(body, tools, decoder).await };
        limits::watch(stream::once(call).flatten().boxed(), timeouts, place).boxed()
    }

    async fn call(
        self: Arc<Self>,
        body: Body,
        tools: Arc<[u8]>,
        decoder: Box<dyn Decode>,
    ) -> BoxStream<ModelEvent> {
        let key = match self.server.key.read() {
            Ok(key) => key,
            Err(error) => {
                let failure = Failure::new(ErrorClass::Auth, format!("can't be asked: {error}"));
                return failed(self.say(failure, &tools, &Mask::default()));
            }
        };
        match self.send(key.as_ref(), body).await {
            Ok(pieces) => sse::decode(pieces, decoder)
                .map(move |event| {
                    event.unwrap_or_else(|failure| {
                        ModelEvent::Failed(self.say(failure, &tools, &mask_of(key.as_ref())))
                    })
                })
                .boxed(),
            Err(failure) => failed(self.say(failure, &tools, &mask_of(key.as_ref()))),
        }
    }

    async fn send(&self, key: Option<&SecretString>, body: Body) -> Result<Pieces, Failure> {
        let client = self.http.client()?;
        let tap = Tap::new(self.raw.clone().map(|raw| (raw, mask_of(key))));
        let shown = tap.is_wanted().then(|| body.whole());
        let mut headers = self.headers(key);
        if body.is_long() {
            headers.insert(CONTENT_LENGTH, body.len().into());
        }
        let request = client
            .post(self.url.clone())
            .headers(headers)
            .body(body.into_sent())
            .build()
            .map_err(Failure::of_transport)?;
        tap.request(&request, &shown.unwrap_or_default());
        let answer = client.execute(request).await.map_err(Failure::of_transport)?;
        tap.answer(answer.status().as_u16(), answer.headers());
        self.take(answer, tap).await
    }

    /// The pieces of an answer that may be a reply.
    async fn take(&self, answer: Response, tap: Tap) -> Result<Pieces, Failure> {
        let status = answer.status();
        let headers = answer.headers().clone();
        let pieces = tapped(answer, tap);
        if !status.is_success() {
            let body = read(pieces, ERROR_BYTES_MAX).await;
            return Err(Failure::of_answer(status.as_u16(), &headers, &body, SystemTime::now()));
        }
        let media_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        match media_type.unwrap_or_default() {
            html if html.contains("html") => Err(Failure::new(
                ErrorClass::BadRequest,
                format!("answered with a web page; is {} an API?", self.server.base_url),
            )),
            json if json.contains("/json") => {
                let body = read(pieces, sse::EVENT_BYTES_MAX).await;
                Ok(stream::iter([Ok(as_event(body).into())]).boxed())
            }
            _ => Ok(pieces),
        }
    }

    fn headers(&self, key: Option<&SecretString>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        let bearer = match self.server.wire {
            Wire::AnthropicMessages => {
                let version = HeaderName::from_static("anthropic-version");
                headers.insert(version, HeaderValue::from_static("2023-06-01"));
                self.server.quirks.bearer
            }
            Wire::OpenAiChat | Wire::OpenAiResponses => true,
        };
        let Some(key) = key.map(ExposeSecret::expose_secret) else { return headers };
        let (name, value) = match bearer {
            true => (AUTHORIZATION, format!("Bearer {key}")),
            false => (HeaderName::from_static("x-api-key"), key.to_owned()),
        };
        // What can't be sent was refused when the key was read.
        if let Ok(mut value) = HeaderValue::from_str(&value) {
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        headers
    }

    /// The server's name and address, as messages begin.
    fn place(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        match self.url.port() {
            Some(port) => format!("{} ({host}:{port})", self.server.name),
            None => format!("{} ({host})", self.server.name),
        }
    }

    /// What happened, where, and what to do.
    fn say(&self, failure: Failure, tools: &[u8], mask: &Mask) -> ModelError {
        let hint = match (failure.status, self.server.key.place()) {
            (Some(401), Some(place)) => format!(". Check the key in {place}."),
            (Some(401), None) => ". It wants a key, and none is configured for it.".to_owned(),
            (Some(403), Some(place)) => {
                format!(". The key in {place} may not be allowed to use `{}`.", self.model)
            }
            (Some(404), _) => format!(
                ". Is `{}` a model of this server, and {} its address?",
                self.model, self.server.base_url
            ),
            _ if failure.class == ErrorClass::Quota => {
                ". Look at the account's plan and billing.".to_owned()
            }
            _ if failure.misses_reasoning() => format!(
                ". Set `reasoning_echo: reasoning_content` in the quirks of `{}`.",
                self.server.name
            ),
            _ if failure.what.to_lowercase().contains("encrypted content is not supported") => {
                format!(
                    ". Set `encrypted_reasoning: false` in the quirks of `{}`.",
                    self.server.name
                )
            }
            _ => String::new(),
        };
        // Other statuses are about the model, the address or the key, and not about the request.
        let is_refusal =
            failure.class == ErrorClass::BadRequest && matches!(failure.status, Some(400 | 422));
        let part = failure.part.and_then(|part| part.named(tools));
        let part = part.or_else(|| is_refusal.then_some(Refused::Unsaid));
        let what = failure.what.trim_end_matches('.');
        let message = format!("{} {what}{hint}", self.place());
        ModelError {
            class: failure.class,
            message: mask.text(&message).into_owned(),
            retry_after_ms: failure.retry_after_ms,
            refused: part,
        }
    }
}

/// Takes the key out of what is said. It is not cheap, and most calls have nothing to say: it is
/// made where something is.
fn mask_of(key: Option<&SecretString>) -> Mask {
    Mask::new(key.map(|key| key.expose_secret().to_owned()))
}

fn failed(error: ModelError) -> BoxStream<ModelEvent> {
    stream::iter([ModelEvent::Failed(error)]).boxed()
}

fn tapped(answer: Response, mut tap: Tap) -> Pieces {
    let pieces = answer.bytes_stream().map(move |piece| match piece {
        Ok(piece) => {
            tap.body(&piece);
            Ok(piece)
        }
        Err(error) => Err(Failure::of_transport(error)),
    });
    pieces.boxed()
}

/// A body of JSON as the one event of a stream: errors come like this, and whole replies of
/// servers that don't stream. A stream that only calls itself JSON is left as it is.
fn as_event(mut body: Vec<u8>) -> Vec<u8> {
    if !body.trim_ascii_start().starts_with(b"{") {
        return body;
    }
    body.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
    [&b"data: "[..], &body, b"\n\n"].concat()
}

/// The body as far as it comes and is allowed.
async fn read(mut pieces: Pieces, bytes_max: usize) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(Ok(piece)) = pieces.next().await {
        body.extend_from_slice(&piece);
        if body.len() >= bytes_max {
            body.truncate(bytes_max);
            break;
        }
    }
    body
}
