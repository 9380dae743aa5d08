//! What scripted models say, on both wires.

use inspan_testkit::server::{Answer, Received, Said};
use serde_json::Value;

/// The two wires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    Anthropic,
    OpenAi,
}

impl Wire {
    pub(crate) const BOTH: [Self; 2] = [Self::Anthropic, Self::OpenAi];

    /// A model on this wire.
    pub(crate) fn model(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic://claude-scripted",
            Self::OpenAi => "openai://gpt-scripted",
        }
    }

    /// A whole reply.
    pub(crate) fn says(self, said: &[Said]) -> Answer {
        match self {
            Self::Anthropic => Answer::anthropic(said),
            Self::OpenAi => Answer::openai(said),
        }
    }
}

/// A reply of text on the Anthropic wire.
pub(crate) fn says(text: &str) -> Answer {
    Answer::anthropic(&[Said::text(text)])
}

/// A reply of one call on the Anthropic wire.
pub(crate) fn calls(name: &str, arguments: &str) -> Answer {
    Answer::anthropic(&[Said::call("toolu_1", name, arguments)])
}

/// The reply that ends a turn.
pub(crate) fn fine() -> Answer {
    says("Fine.")
}

/// The messages of a request.
pub(crate) fn messages(request: &Received) -> Vec<Value> {
    request.json()["messages"].as_array().cloned().unwrap_or_default()
}

/// How many replies of the model a request holds.
pub(crate) fn replies_in(request: &Received) -> usize {
    messages(request).iter().filter(|message| message["role"] == "assistant").count()
}
