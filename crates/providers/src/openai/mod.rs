//! OpenAI Chat Completions, and the many servers that speak nearly the same.

mod decode;
#[cfg(test)]
mod decode_tests;
mod details;
mod render;

use std::sync::Arc;

use inspan_core::{
    pictures::PictureLimits,
    prompt::Segment,
    provider::{BoxStream, Images, ModelEvent, Provider, Request},
    tool::ToolSpec,
};

use crate::{
    endpoint::Endpoint,
    quirks::ReasoningField,
    raw::Raw,
    server::{ProviderError, Server},
    splice::{Body, quoted},
    told,
};

/// The fields of a body that are written here, in their order; one of the limits only.
pub(crate) const FIELDS: [&str; 7] = [
    "model",
    "stream",
    "stream_options",
    "tools",
    "max_tokens",
    "max_completion_tokens",
    "messages",
];

/// A model behind OpenAI Chat Completions.
pub struct OpenAiChat {
    endpoint: Arc<Endpoint>,
}

impl OpenAiChat {
    /// A model of this server. Its base URL is with the `/v1` of the API, where it has one.
    ///
    /// # Errors
    /// The base URL or an extra field can't be used.
    pub fn new(server: &Server, model: &str, raw: Option<Raw>) -> Result<Self, ProviderError> {
        Ok(Self { endpoint: server.endpoint(model, "/chat/completions", &FIELDS, raw)? })
    }

    /// The body. `messages` are last, the system prompt is the first of them, and what may change
    /// between two requests stands as late as it can.
    fn body(&self, request: &Request) -> Body {
        let Endpoint { server, model, .. } = &*self.endpoint;
        let mut body = format!(r#"{{"model":{},"stream":true"#, quoted(model)).into_bytes();
        if server.quirks.stream_options {
            body.extend_from_slice(br#","stream_options":{"include_usage":true}"#);
        }
        if !request.tools.is_empty() {
            body.extend_from_slice(br#","tools":"#);
            body.extend_from_slice(&request.tools);
        }
        body.extend_from_slice(server.extra_fields().as_bytes());
        let limit = server.quirks.output_limit_field;
        let max = request.output_tokens_max;
        body.extend_from_slice(format!(r#","{limit}":{max},"messages":["#).as_bytes());
        let messages = match server.quirks.alternate {
            true => Arc::new(render::alternating(request.messages.iter()).collect()),
            false => request.messages.clone(),
        };
        if !request.system.is_empty() {
            body.extend_from_slice(&request.system);
            body.extend(messages.iter().any(|message| !message.is_empty()).then_some(b','));
        }
        Body::new(body, messages)
    }
}

impl Provider for OpenAiChat {
    fn issuer(&self) -> &str {
        &self.endpoint.issuer
    }

    fn render(&self, segment: Segment<'_>, images: &dyn Images) -> Vec<u8> {
        render::segment(segment, images, &self.endpoint.server.quirks).into_bytes()
    }

    fn stream(&self, request: Request) -> BoxStream<ModelEvent> {
        let mut decoder = decode::Decoder::new(request.output_tokens_max);
        if self.endpoint.server.quirks.reasoning_echo == Some(ReasoningField::ReasoningDetails) {
            decoder = decoder.with_details();
        }
        let body = self.body(&request);
        Arc::clone(&self.endpoint).ask(body, request.tools, Box::new(decoder))
    }

    fn unfit_tools(&self, tools: &[Arc<ToolSpec>]) -> Vec<(String, String)> {
        told::unfit_tools(tools, &self.endpoint.server.quirks)
    }

    fn picture_limits(&self) -> PictureLimits {
        self.endpoint.server.quirks.pictures
    }

    fn tools_max(&self) -> u32 {
        self.endpoint.server.quirks.tools_max
    }

    fn cuts_silently(&self) -> bool {
        self.endpoint.server.quirks.cuts_silently
    }
}
