//! The columns of an entry that SQL can ask for, taken from its event.

use crate::{
    event::{Event, ModelReplied},
    message::{Content, Usage},
};

/// Characters of a prompt or an answer that [`Columns::preview`] keeps.
pub const PREVIEW_CHARS_MAX: usize = 200;

/// The columns of an entry that SQL can ask for; `None` where the event has no such thing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns<'a> {
    /// The call.
    pub call: Option<&'a str>,
    /// The tool's or model's name.
    pub name: Option<&'a str>,
    /// How a call was answered; `ok`, the stop or the error class of a model call.
    pub how: Option<&'a str>,
    /// Why a turn ended.
    pub stop: Option<&'a str>,
    /// Tokens by tier.
    pub usage: Usage,
    /// Cost in thousand-millionths of a US dollar.
    pub cost_nano_usd: Option<u64>,
    /// Duration in milliseconds.
    pub ms: Option<u64>,
    /// The beginning of a prompt or of an answer's text.
    pub preview: Option<String>,
}

impl<'a> Columns<'a> {
    pub(crate) fn of(event: &'a Event) -> Self {
        let none = Self::default();
        match event {
            Event::SessionConfigured(e) => Self { name: Some(&e.model.url), ..none },
            Event::PromptSubmitted(e) => Self { preview: Some(preview_of(&e.content)), ..none },
            Event::ModelReplied(e) => Self {
                name: Some(&e.reply.issuer),
                how: Some(reply_stop(e)),
                usage: e.reply.usage,
                cost_nano_usd: e.cost_nano_usd,
                ms: Some(e.ms),
                preview: Some(head_of(&e.reply.text())),
                ..none
            },
            Event::ModelFailed(e) => Self {
                how: Some(e.class.as_str()),
                usage: e.usage,
                cost_nano_usd: e.cost_nano_usd,
                ms: Some(e.ms),
                ..none
            },
            Event::GateJudged(e) => Self { call: Some(&e.call.0), name: Some(&e.gate), ..none },
            Event::PermissionAsked(e) => {
                Self { call: Some(&e.call.0), name: Some(&e.name), ..none }
            }
            Event::PermissionAnswered(e) => Self { call: Some(&e.call.0), ..none },
            Event::ToolStarted(e) => Self { call: Some(&e.call.0), name: Some(&e.name), ..none },
            Event::ToolFinished(e) => Self {
                call: Some(&e.call.0),
                name: Some(&e.name),
                how: Some(e.how.as_str()),
                ms: Some(e.ms),
                ..none
            },
            Event::ToolDeferred(e) => Self { call: Some(&e.call.0), name: Some(&e.name), ..none },
            Event::TurnEnded(e) => Self { stop: Some(e.stop.as_str()), ..none },
            Event::ModelSwitched(e) => Self { name: Some(&e.model), ..none },
            Event::SessionStarted(_)
            | Event::SessionForked(_)
            | Event::CatalogueChanged(_)
            | Event::RoundStarted(_)
            | Event::ProjectionRepaired(_)
            | Event::PromptCut(_)
            | Event::LimitNeared(_)
            | Event::Parked(_)
            | Event::Woken(_)
            | Event::CancelRequested(_)
            | Event::Unknown(_) => none,
        }
    }
}

fn reply_stop(replied: &ModelReplied) -> &'static str {
    use crate::message::ReplyStop;
    match replied.reply.stop {
        ReplyStop::End => "ok",
        ReplyStop::Length => "length",
        ReplyStop::Broken => "broken",
        ReplyStop::Cancelled => "cancelled",
        ReplyStop::Paused => "paused",
        ReplyStop::Refusal => "refusal",
    }
}

fn preview_of(content: &[Content]) -> String {
    let first = content.iter().find_map(|content| match content {
        Content::Text { text } => Some(text.as_str()),
        Content::Image(_) => None,
    });
    head_of(first.unwrap_or("[image]"))
}

fn head_of(text: &str) -> String {
    text.chars().take(PREVIEW_CHARS_MAX).collect()
}
