//! Anthropic Messages.

mod decode;
#[cfg(test)]
mod decode_tests;
mod render;

use std::sync::Arc;

use inspan_core::{
    pictures::PictureLimits,
    prompt::Segment,
    provider::{BoxStream, Images, ModelEvent, NoImages, Provider, Request},
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
pub(crate) const FIELDS: [&str; 7] =
    ["model", "stream", "cache_control", "tools", "system", "max_tokens", "messages"];

/// A mark for the prompt cache, in its short form of five minutes.
const CACHE_MARK: &str = r#","cache_control":{"type":"ephemeral"}"#;

/// A model behind Anthropic Messages.
pub struct AnthropicMessages {
    endpoint: Arc<Endpoint>,
}

impl AnthropicMessages {
    /// A model of this server. Its base URL is without the `/v1` of the API; one that ends in it
    /// is understood too.
    ///
    /// # Errors
    /// The base URL or an extra field can't be used.
    pub fn new(server: &Server, model: &str, raw: Option<Raw>) -> Result<Self, ProviderError> {
        let has_version = server.base_url.trim_end_matches('/').ends_with("/v1");
        let path = if has_version { "/messages" } else { "/v1/messages" };
        Ok(Self { endpoint: server.endpoint(model, path, &FIELDS, raw)? })
    }

    /// The body. `messages` are last, and what may change between two requests stands as late as
    /// it can. Cache marks are not part of the segments: one on the system prompt, which other
    /// sessions share, and the automatic one, which the server puts on the last block.
    fn body(&self, request: &Request) -> Body {
        let Endpoint { server, model, .. } = &*self.endpoint;
        let mark = if server.quirks.cache_marks { CACHE_MARK } else { "" };
        let mut body = format!(r#"{{"model":{},"stream":true{mark}"#, quoted(model)).into_bytes();
        if !request.tools.is_empty() {
            body.extend_from_slice(br#","tools":"#);
            body.extend_from_slice(&request.tools);
        }
        if let Some(system) = request.system.strip_suffix(b"}") {
            body.extend_from_slice(br#","system":["#);
            body.extend_from_slice(system);
            body.extend_from_slice(mark.as_bytes());
            body.extend_from_slice(b"}]");
        }
        body.extend_from_slice(server.extra_fields().as_bytes());
        let max = request.output_tokens_max;
        body.extend_from_slice(format!(r#","max_tokens":{max},"messages":["#).as_bytes());
        Body::new(body, request.messages.clone())
    }
}

impl Provider for AnthropicMessages {
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

    fn render_tools(&self, told: &[Arc<ToolSpec>], found: &[Arc<ToolSpec>]) -> Vec<u8> {
        let quirks = &self.endpoint.server.quirks;
        match self.defers_tools() && !found.is_empty() {
            true => render::tools_list(told, found, quirks).into_bytes(),
            false => self.render(Segment::Tools(told), &NoImages),
        }
    }

    fn defers_tools(&self) -> bool {
        self.endpoint.server.quirks.deferred_tools
    }

    fn tools_max(&self) -> u32 {
        self.endpoint.server.quirks.tools_max
    }

    fn cuts_silently(&self) -> bool {
        self.endpoint.server.quirks.cuts_silently
    }
}
