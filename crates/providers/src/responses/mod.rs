//! OpenAI Responses, without anything kept at the server: each request holds the whole session.

mod decode;
#[cfg(test)]
mod decode_tests;
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
    raw::Raw,
    server::{ProviderError, Server},
    splice::{Body, quoted},
    told,
};

/// The fields of a body that are written here, in their order.
pub(crate) const FIELDS: [&str; 8] =
    ["model", "stream", "store", "include", "tools", "instructions", "max_output_tokens", "input"];

/// A model behind OpenAI Responses.
pub struct OpenAiResponses {
    endpoint: Arc<Endpoint>,
}

impl OpenAiResponses {
    /// A model of this server. Its base URL is with the `/v1` of the API, where it has one.
    ///
    /// # Errors
    /// The base URL or an extra field can't be used.
    pub fn new(server: &Server, model: &str, raw: Option<Raw>) -> Result<Self, ProviderError> {
        Ok(Self { endpoint: server.endpoint(model, "/responses", &FIELDS, raw)? })
    }

    /// The body. `input` is last, and what may change between two requests stands as late as it
    /// can. Reasoning comes encrypted, since the server is to keep none.
    fn body(&self, request: &Request) -> Body {
        let Endpoint { server, model, .. } = &*self.endpoint;
        let mut body =
            format!(r#"{{"model":{},"stream":true,"store":false"#, quoted(model)).into_bytes();
        if server.quirks.encrypted_reasoning {
            body.extend_from_slice(br#","include":["reasoning.encrypted_content"]"#);
        }
        for (field, bytes) in [("tools", &request.tools), ("instructions", &request.system)] {
            if !bytes.is_empty() {
                body.extend_from_slice(format!(r#","{field}":"#).as_bytes());
                body.extend_from_slice(bytes);
            }
        }
        body.extend_from_slice(server.extra_fields().as_bytes());
        let max = request.output_tokens_max;
        body.extend_from_slice(format!(r#","max_output_tokens":{max},"input":["#).as_bytes());
        Body::new(body, request.messages.clone())
    }
}

impl Provider for OpenAiResponses {
    fn issuer(&self) -> &str {
        &self.endpoint.issuer
    }

    fn render(&self, segment: Segment<'_>, images: &dyn Images) -> Vec<u8> {
        render::segment(segment, images, &self.endpoint.server.quirks).into_bytes()
    }

    fn stream(&self, request: Request) -> BoxStream<ModelEvent> {
        let decoder = decode::Decoder::new(request.output_tokens_max);
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
