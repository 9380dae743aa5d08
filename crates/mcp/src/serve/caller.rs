//! Whoever calls from outside, in the place of a session's model. A call that came over the
//! protocol is what "the model" asks for, so that nothing but the engine's own way leads to a tool.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::stream;
use inspan_core::{
    budget::Price,
    event::ModelRef,
    message::{CallId, ReplyPart, ReplyStop, ToolCall, Usage},
    prompt::Segment,
    provider::{BoxStream, Images, ModelEvent, Provider, Request},
};

/// The model of a session whose calls come from a client. `inspan resume` takes it for one that has
/// nothing more to say, so that a session whose process died can be ended.
pub const CALLER_URL: &str = "mcp://client";

/// A model that asks for one call, when there is one, and is done else.
#[derive(Default)]
pub(crate) struct Caller(Mutex<Option<Wanted>>);

/// A call that a client wants.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// The tool.
    pub(crate) name: String,
    /// The arguments as JSON text.
    pub(crate) arguments: String,
}

/// A stand-in for the model of a session that is only served: it has nothing to say.
pub fn caller() -> Arc<dyn Provider> {
    Arc::new(Caller::default())
}

/// What the log says of it. It costs nothing.
pub fn caller_ref() -> ModelRef {
    ModelRef {
        url: CALLER_URL.to_owned(),
        window_tokens_max: None,
        output_tokens_max: None,
        price: Some(Price { input: 0, output: 0, cache_read: 0, cache_write: 0 }),
        cuts_silently: false,
    }
}

impl Caller {
    /// What is asked for next, or nothing.
    pub(crate) fn set(&self, wanted: Option<Wanted>) {
        *self.wanted() = wanted;
    }

    fn wanted(&self) -> MutexGuard<'_, Option<Wanted>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Provider for Caller {
    fn issuer(&self) -> &str {
        CALLER_URL
    }

    /// A client is not told what it said and heard before.
    fn render(&self, _: Segment<'_>, _: &dyn Images) -> Vec<u8> {
        Vec::new()
    }

    fn stream(&self, _: Request) -> BoxStream<ModelEvent> {
        let call = self.wanted().take().map(|Wanted { name, arguments }| {
            let call = ToolCall {
                id: CallId::default(),
                provider_id: None,
                name,
                arguments,
                complete: true,
            };
            ModelEvent::PartFinished { part: 0, content: ReplyPart::Call(call) }
        });
        // Of what counts nothing, the driver estimates tokens, which nobody pays for here.
        let counted = Usage { input: Some(1), output: Some(0), ..Usage::default() };
        let first = [
            ModelEvent::Started { model: CALLER_URL.to_owned(), provider_id: String::new() },
            ModelEvent::Counted(counted),
        ];
        let events = first.into_iter().chain(call).chain([ModelEvent::Finished(ReplyStop::End)]);
        Box::pin(stream::iter(events.collect::<Vec<_>>()))
    }
}
