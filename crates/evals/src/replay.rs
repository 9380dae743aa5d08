//! A recording in the model's place.

use std::sync::Arc;

use futures_util::{StreamExt, stream};
use inspan_core::{
    message::{CallId, Reply, ReplyPart, ToolCall},
    prompt::{Message, Segment},
    provider::{BoxStream, Delta, ErrorClass, Images, ModelError, ModelEvent, Provider, Request},
};
use similar::TextDiff;

use crate::recording::{RecordedReply, RecordedTurn, Recording, text_of};

/// A request that is not the one that was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift {
    /// The prompt of the turn.
    pub prompt: String,
    /// The number of the reply in its turn, from 1.
    pub round: usize,
    /// What differs, as a unified diff from the recorded request to this one.
    pub diff: String,
}

/// Takes each drift as it is noticed.
pub type OnDrift = Arc<dyn Fn(Drift) + Send + Sync>;

/// A provider that answers from a recording, by prompt and round.
pub struct Replay {
    recording: Recording,
    issuer: String,
    strict: bool,
    on_drift: OnDrift,
}

impl Replay {
    /// Answers from `recording`. A request that has drifted from the recorded one is told to
    /// `on_drift` and answered all the same; `strict` makes it a failure that shows the
    /// difference.
    pub fn new(recording: Recording, strict: bool, on_drift: OnDrift) -> Self {
        let issuer = recording.issuer().to_owned();
        Self { recording, issuer, strict, on_drift }
    }

    fn answer(&self, request: &Request) -> Result<Vec<ModelEvent>, String> {
        let messages: Vec<String> = request.messages.iter().map(|bytes| plain(bytes)).collect();
        let head = [plain(&request.tools), plain(&request.system)].concat();
        let asked = head + &messages.concat();
        let (prompt, round, recorded) = self.find(&messages, &asked)?;
        if asked != recorded.request {
            let diff = TextDiff::from_lines(&recorded.request, &asked)
                .unified_diff()
                .context_radius(2)
                .header("recorded", "now")
                .to_string();
            if self.strict {
                return Err(format!(
                    "reply {round} to `{prompt}` was recorded for another request:\n{diff}"
                ));
            }
            (self.on_drift)(Drift { prompt: prompt.to_owned(), round, diff });
        }
        Ok(events_of(&recorded.reply))
    }

    /// The recorded reply for the last prompt in `messages` that the recording knows.
    fn find(
        &self,
        messages: &[String],
        asked: &str,
    ) -> Result<(&str, usize, &RecordedReply), String> {
        for (index, message) in messages.iter().enumerate().rev() {
            let known = self.recording.turns.iter().filter(|turn| says(message, &turn.prompt));
            let Some(last) = known.clone().next_back() else { continue };
            let replied = messages.iter().skip(index).filter(|m| m.starts_with(ASSISTANT)).count();
            let round = replied + 1;
            let is_asked = |turn: &&RecordedTurn| {
                turn.replies.get(replied).is_some_and(|recorded| recorded.request == asked)
            };
            // What is said for the second time is answered as it was for the second time.
            let before = messages.iter().take(index).filter(|m| says(m, &last.prompt)).count();
            let by_place = || known.clone().nth(before).unwrap_or(last);
            let turn = known.clone().find(is_asked).unwrap_or_else(by_place);
            return match turn.replies.get(replied) {
                Some(recorded) => Ok((&turn.prompt, round, recorded)),
                None => Err(format!(
                    "the recording has {} replies to `{}`, and this asks for the next",
                    turn.replies.len(),
                    turn.prompt
                )),
            };
        }
        let prompts: Vec<String> = self.recording.prompts().map(|p| format!("`{p}`")).collect();
        Err(format!("the recording knows no such prompt; it has: {}", prompts.join(", ")))
    }
}

impl Provider for Replay {
    fn issuer(&self) -> &str {
        &self.issuer
    }

    fn render(&self, segment: Segment<'_>, images: &dyn Images) -> Vec<u8> {
        Plain.render(segment, images)
    }

    fn stream(&self, request: Request) -> BoxStream<ModelEvent> {
        let events = self.answer(&request).unwrap_or_else(|message| {
            let class = ErrorClass::BadRequest;
            vec![ModelEvent::Failed(ModelError {
                class,
                message,
                retry_after_ms: None,
                refused: None,
            })]
        });
        stream::iter(events).boxed()
    }
}

const ASSISTANT: &str = "assistant\n";
const USER: &str = "user\n";

fn plain(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether a user's message, as plain lines, has this prompt as one of its contents.
fn says(message: &str, prompt: &str) -> bool {
    let content = format!("  says {}\n", quoted(prompt));
    message.starts_with(USER) && message.contains(&content)
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}

/// Renders requests as lines that people can compare. Identifiers of calls are left out: they
/// depend on the place in the log.
pub(crate) struct Plain;

impl Plain {
    pub(crate) fn render(&self, segment: Segment<'_>, _: &dyn Images) -> Vec<u8> {
        let mut text = String::new();
        match segment {
            Segment::Tools(tools) => {
                for tool in tools {
                    let (name, about) = (&tool.name, quoted(&tool.description));
                    text += &format!("tool {name} {about} {}\n", tool.input);
                }
            }
            Segment::System("") => {}
            Segment::System(system) => {
                text += "system\n";
                system.lines().for_each(|line| text += &format!("  {line}\n"));
            }
            Segment::Message(Message::User(message)) => {
                text += USER;
                for result in &message.results {
                    let (name, how) = (&result.name, result.how.as_str());
                    text +=
                        &format!("  {name} {how} {}\n", quoted(&text_of(&result.result.content)));
                }
                for content in &message.content {
                    let said = text_of(std::slice::from_ref(content));
                    text += &format!("  says {}\n", quoted(&said));
                }
            }
            Segment::Message(Message::Assistant(reply)) => {
                text += ASSISTANT;
                for part in &reply.parts {
                    text += &match part {
                        ReplyPart::Text { text } => format!("  says {}\n", quoted(text)),
                        ReplyPart::Reasoning(_) => "  reasons\n".to_owned(),
                        ReplyPart::Call(call) => {
                            format!("  calls {} {}\n", call.name, call.arguments)
                        }
                    };
                }
            }
        }
        text.into_bytes()
    }
}

/// The events of a reply, as a provider would stream it in whole parts.
fn events_of(reply: &Reply) -> Vec<ModelEvent> {
    let (model, provider_id) = (reply.model.clone(), reply.provider_id.clone());
    let mut events = vec![ModelEvent::Started { model, provider_id }];
    for (part, content) in reply.parts.iter().enumerate() {
        let delta = match content {
            ReplyPart::Text { text } => Delta::Text(text.clone()),
            ReplyPart::Reasoning(reasoning) => Delta::Reasoning(reasoning.text.clone()),
            ReplyPart::Call(call) => Delta::CallStarted {
                name: call.name.clone(),
                provider_id: call.provider_id.clone(),
            },
        };
        events.push(ModelEvent::Delta { part, delta });
        match content {
            ReplyPart::Call(call) if !call.complete => {
                let delta = Delta::Arguments(call.arguments.clone());
                events.push(ModelEvent::Delta { part, delta });
            }
            ReplyPart::Call(call) => {
                let content = ReplyPart::Call(ToolCall { id: CallId::default(), ..call.clone() });
                events.push(ModelEvent::PartFinished { part, content });
            }
            content => events.push(ModelEvent::PartFinished { part, content: content.clone() }),
        }
    }
    events.push(ModelEvent::Counted(reply.usage));
    events.push(ModelEvent::Finished(reply.stop.clone()));
    events
}
