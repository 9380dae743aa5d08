//! What a model's provider is to the core: bytes for each part of a request, and a stream of
//! events. [`ReplyBuilder`] is the fold of that stream to a [`Reply`].

use std::{collections::BTreeMap, pin::Pin, sync::Arc};

use futures_core::Stream;
use serde::{Deserialize, Serialize};

use crate::{
    hash::Hash,
    message::{CallId, Reasoning, Reply, ReplyPart, ReplyStop, ToolCall, Usage},
    pictures::PictureLimits,
    prompt::Segment,
    tool::ToolSpec,
};

/// A stream in a box, as trait objects need it.
pub type BoxStream<T> = Pin<Box<dyn Stream<Item = T> + Send>>;

/// What kind of failure a model call ended with; each kind is handled in one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorClass {
    /// The provider has too much to do (503, 529): tried again.
    Overloaded,
    /// Too many requests for now (429): tried again when told.
    RateLimited,
    /// What was paid for is used up: tried again when it is renewed, if that is known.
    Quota,
    /// The key is missing, wrong or not allowed: never tried again.
    Auth,
    /// The request is larger than the model's window or the provider's limit.
    TooLong,
    /// The provider does not understand or accept the request: never tried again.
    BadRequest,
    /// The connection failed or broke, or the answer was not whole: tried again.
    Network,
    /// No answer, or silence in the middle of one, for too long: tried again.
    Stalled,
    /// The process that waited for it is gone: asked again.
    Interrupted,
    /// The person cancelled before anything had arrived.
    Cancelled,
    /// The turn's time was over.
    TimeLimit,
}

impl ErrorClass {
    /// All classes.
    pub const ALL: [Self; 11] = [
        Self::Overloaded,
        Self::RateLimited,
        Self::Quota,
        Self::Auth,
        Self::TooLong,
        Self::BadRequest,
        Self::Network,
        Self::Stalled,
        Self::Interrupted,
        Self::Cancelled,
        Self::TimeLimit,
    ];

    /// The word in the log and the trace.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Overloaded => "overloaded",
            Self::RateLimited => "rate_limited",
            Self::Quota => "quota",
            Self::Auth => "auth",
            Self::TooLong => "too_long",
            Self::BadRequest => "bad_request",
            Self::Network => "network",
            Self::Stalled => "stalled",
            Self::Interrupted => "interrupted",
            Self::Cancelled => "cancelled",
            Self::TimeLimit => "time_limit",
        }
    }

    /// Whether the request was refused before any work was done for it, so that it costs nothing.
    pub fn is_refusal(self) -> bool {
        match self {
            Self::Overloaded
            | Self::RateLimited
            | Self::Quota
            | Self::Auth
            | Self::TooLong
            | Self::BadRequest
            | Self::Network => true,
            Self::Stalled | Self::Interrupted | Self::Cancelled | Self::TimeLimit => false,
        }
    }

    /// Whether the same request may succeed later.
    pub fn is_passing(self) -> bool {
        matches!(self, Self::Overloaded | Self::RateLimited | Self::Network | Self::Stalled)
    }
}

/// The part of a request that a provider refused, as far as its words tell: what the projection
/// leaves out next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "part", rename_all = "snake_case")]
pub enum Refused {
    /// Pictures: one that is too large or of a wrong type, or too many of them.
    Images {
        /// The most pictures that one request may hold, if it was said.
        count_max: Option<u32>,
    },
    /// Reasoning: a signature that does not fit, a block that is not expected there.
    Reasoning,
    /// The declaration of one tool.
    Tool {
        /// Its name.
        name: String,
    },
    /// A call without its result, a result without its call, an identifier.
    Calls,
    /// Something that was not named.
    Unsaid,
    /// The whole: more tokens than the model's window has, more bytes than the server takes.
    Size {
        /// The window in tokens, if it was said.
        tokens_max: Option<u64>,
    },
}

/// A failed model call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// What kind.
    pub class: ErrorClass,
    /// What happened, where, and what to do, for people; without secrets.
    pub message: String,
    /// How long the provider asks to wait, in milliseconds.
    pub retry_after_ms: Option<u64>,
    /// What of the request was refused; `None` when it was not the request.
    pub refused: Option<Refused>,
}

/// A piece of a model's answer.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelEvent {
    /// The answer began.
    Started {
        /// The model's name as the provider gives it.
        model: String,
        /// The provider's identifier of the reply.
        provider_id: String,
    },
    /// More of the part with this number. Parts may grow in turn; their numbers give their order.
    Delta {
        /// The number of the part, from 0.
        part: usize,
        /// What arrived.
        delta: Delta,
    },
    /// The part is whole; this replaces what its deltas said. The identifier of a call is empty.
    PartFinished {
        /// The number of the part.
        part: usize,
        /// The part as received.
        content: ReplyPart,
    },
    /// Tokens so far; tiers that are `None` say nothing new.
    Counted(Usage),
    /// The answer is whole. The last event of a stream.
    Finished(ReplyStop),
    /// The call failed. The last event of a stream.
    Failed(ModelError),
}

/// A piece of a part that is still arriving: lossy, never stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta {
    /// Text.
    Text(String),
    /// Reasoning that can be shown.
    Reasoning(String),
    /// A tool call began.
    CallStarted {
        /// The tool's name.
        name: String,
        /// The provider's identifier, if it gave one.
        provider_id: Option<String>,
    },
    /// More of the call's arguments.
    Arguments(String),
}

/// A request: segments whose bytes were made once and only ever grow at the end.
#[derive(Clone, Debug)]
pub struct Request {
    /// The tools' bytes; empty for none.
    pub tools: Arc<[u8]>,
    /// The system prompt's bytes; empty for none.
    pub system: Arc<[u8]>,
    /// The messages' bytes, in order. They are shared, and not copied for each request.
    pub messages: Arc<Vec<Arc<[u8]>>>,
    /// The limit on the reply's tokens.
    pub output_tokens_max: u32,
}

/// Gives the bytes of pictures while a request is built.
pub trait Images {
    /// The bytes of the picture with this hash; `None` when they are lost, which the model is told.
    fn image(&self, hash: &Hash) -> Option<Arc<[u8]>>;
}

/// No pictures at all.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoImages;

impl Images for NoImages {
    fn image(&self, _: &Hash) -> Option<Arc<[u8]>> {
        None
    }
}

/// One model behind one API.
pub trait Provider: Send + Sync {
    /// Whose reasoning this is: the model's URL with the server's address. Reasoning of another
    /// issuer is never sent.
    fn issuer(&self) -> &str;

    /// The canonical bytes of one segment, without cache marks. Pure: the same segment gives the
    /// same bytes. A segment may be several of the provider's own messages, joined by commas.
    fn render(&self, segment: Segment<'_>, images: &dyn Images) -> Vec<u8>;

    /// What it takes of pictures.
    fn picture_limits(&self) -> PictureLimits {
        PictureLimits::default()
    }

    /// Asks the model. The stream ends with `Finished` or `Failed`; one that ends otherwise counts
    /// as failed with [`ErrorClass::Network`]. Dropping it aborts the call. No retries.
    fn stream(&self, request: Request) -> BoxStream<ModelEvent>;

    /// Which of these tools can't be declared to the model, each with the reason, in words that
    /// follow its name. The others can; a session leaves these out from its beginning.
    fn unfit_tools(&self, tools: &[Arc<ToolSpec>]) -> Vec<(String, String)> {
        let _ = tools;
        Vec::new()
    }

    /// [`Provider::render`] of the tools, with those that the model is not told of before it finds
    /// them: see [`crate::found`]. They are in the request only where [`Provider::defers_tools`].
    fn render_tools(&self, told: &[Arc<ToolSpec>], found: &[Arc<ToolSpec>]) -> Vec<u8> {
        let _ = found;
        self.render(Segment::Tools(told), &NoImages)
    }

    /// Whether a request declares tools that its model only reads when a result refers to them.
    fn defers_tools(&self) -> bool {
        false
    }

    /// How many tools one request can declare.
    fn tools_max(&self) -> u32 {
        u32::MAX
    }

    /// Whether a request that is longer than the model's window is cut without a word: then the
    /// count of tokens that the reply tells is less than what was sent.
    fn cuts_silently(&self) -> bool {
        false
    }
}

impl<P: Provider + ?Sized> Provider for Arc<P> {
    fn issuer(&self) -> &str {
        (**self).issuer()
    }

    fn render(&self, segment: Segment<'_>, images: &dyn Images) -> Vec<u8> {
        (**self).render(segment, images)
    }

    fn picture_limits(&self) -> PictureLimits {
        (**self).picture_limits()
    }

    fn stream(&self, request: Request) -> BoxStream<ModelEvent> {
        (**self).stream(request)
    }

    fn unfit_tools(&self, tools: &[Arc<ToolSpec>]) -> Vec<(String, String)> {
        (**self).unfit_tools(tools)
    }

    fn render_tools(&self, told: &[Arc<ToolSpec>], found: &[Arc<ToolSpec>]) -> Vec<u8> {
        (**self).render_tools(told, found)
    }

    fn defers_tools(&self) -> bool {
        (**self).defers_tools()
    }

    fn tools_max(&self) -> u32 {
        (**self).tools_max()
    }

    fn cuts_silently(&self) -> bool {
        (**self).cuts_silently()
    }
}

/// Builds the reply from the pieces.
#[derive(Clone, Debug, Default)]
pub struct ReplyBuilder {
    model: String,
    provider_id: String,
    /// By number: a server may leave gaps, of any size.
    parts: BTreeMap<usize, Growing>,
    usage: Usage,
}

#[derive(Clone, Debug)]
enum Growing {
    Open(ReplyPart),
    Whole(ReplyPart),
}

impl ReplyBuilder {
    /// Takes one piece. The two last events change nothing: see [`ReplyBuilder::finish`].
    pub fn apply(&mut self, event: &ModelEvent) {
        match event {
            ModelEvent::Started { model, provider_id } => {
                self.model.clone_from(model);
                self.provider_id.clone_from(provider_id);
            }
            ModelEvent::Delta { part, delta } => self.grow(*part, delta),
            ModelEvent::PartFinished { part, content } => {
                self.parts.insert(*part, Growing::Whole(content.clone()));
            }
            ModelEvent::Counted(usage) => merge(&mut self.usage, usage),
            ModelEvent::Finished(_) | ModelEvent::Failed(_) => {}
        }
    }

    /// What the provider counted so far.
    pub fn usage(&self) -> &Usage {
        &self.usage
    }

    /// Whether anything has arrived that is worth keeping.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The reply that will be entry `seq`. Of parts that are not whole, text stays, a call is kept
    /// as half a call, unsigned reasoning goes. Calls get our identifiers.
    pub fn finish(self, stop: ReplyStop, issuer: &str, seq: u64) -> Reply {
        let mut calls = 0;
        let mut parts = Vec::with_capacity(self.parts.len());
        for growing in self.parts.into_values() {
            let part = match growing {
                Growing::Open(ReplyPart::Reasoning(_)) if stop.is_cut() => continue,
                Growing::Whole(ReplyPart::Reasoning(r)) if stop.is_cut() && !r.signed => continue,
                Growing::Open(ReplyPart::Call(call)) => {
                    ReplyPart::Call(ToolCall { complete: false, ..call })
                }
                Growing::Open(part) | Growing::Whole(part) => part,
            };
            parts.push(match part {
                ReplyPart::Call(call) => {
                    calls += 1;
                    ReplyPart::Call(ToolCall { id: CallId::new(seq, calls - 1), ..call })
                }
                part => part,
            });
        }
        Reply {
            parts,
            stop,
            usage: self.usage,
            issuer: issuer.to_owned(),
            model: self.model,
            provider_id: self.provider_id,
        }
    }

    fn grow(&mut self, part: usize, delta: &Delta) {
        match (self.parts.get_mut(&part), delta) {
            (Some(Growing::Open(ReplyPart::Text { text })), Delta::Text(more)) => {
                text.push_str(more);
            }
            (Some(Growing::Open(ReplyPart::Reasoning(r))), Delta::Reasoning(more)) => {
                r.text.push_str(more);
            }
            (Some(Growing::Open(ReplyPart::Call(call))), Delta::Arguments(more)) => {
                call.arguments.push_str(more);
            }
            (Some(Growing::Whole(_) | Growing::Open(_)), _) => {}
            (None, first) => {
                self.parts.insert(part, Growing::Open(open(first)));
            }
        }
    }
}

fn open(delta: &Delta) -> ReplyPart {
    let call = |name: &str, provider_id: Option<String>, arguments: &str| {
        ReplyPart::Call(ToolCall {
            id: CallId::default(),
            provider_id,
            name: name.to_owned(),
            arguments: arguments.to_owned(),
            complete: false,
        })
    };
    match delta {
        Delta::Text(text) => ReplyPart::Text { text: text.clone() },
        Delta::Reasoning(text) => {
            ReplyPart::Reasoning(Reasoning { text: text.clone(), ..Reasoning::default() })
        }
        Delta::CallStarted { name, provider_id } => call(name, provider_id.clone(), ""),
        Delta::Arguments(text) => call("", None, text),
    }
}

fn merge(into: &mut Usage, from: &Usage) {
    into.input = from.input.or(into.input);
    into.cache_read = from.cache_read.or(into.cache_read);
    into.cache_write = from.cache_write.or(into.cache_write);
    into.output = from.output.or(into.output);
    into.reasoning = from.reasoning.or(into.reasoning);
    into.estimated |= from.estimated;
}
