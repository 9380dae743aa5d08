//! A log as a list of what was asked and what was answered.

use inspan_core::{
    Entry, Event, State,
    message::{Content, Reply},
    prompt::{Segment, project},
    provider::NoImages,
};

use crate::replay::Plain;

/// What keeps a file from being a recording.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordingError {
    /// A line is no entry of a log.
    #[error("line {line} is no entry of a log: {why}")]
    Line {
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// There is no reply in it.
    #[error("it holds no reply of a model: record one with `inspan run --record FILE`")]
    Empty,
}

/// The replies of recorded sessions, by prompt and round.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    pub(crate) turns: Vec<RecordedTurn>,
}

/// A turn: what was said, and the replies in their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RecordedTurn {
    /// The first thing that was said; it names the turn.
    pub(crate) prompt: String,
    pub(crate) replies: Vec<RecordedReply>,
}

/// A reply with the request that it answered, as plain lines.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RecordedReply {
    pub(crate) request: String,
    pub(crate) reply: Reply,
}

impl Recording {
    /// Reads JSON lines as `inspan run --record` writes them: the log of one session, or of several
    /// one after the other. Empty lines are passed over.
    ///
    /// # Errors
    /// See [`RecordingError`].
    pub fn read(text: &str) -> Result<Self, RecordingError> {
        let mut entries = Vec::new();
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let entry = Entry::from_line(line)
                .map_err(|why| RecordingError::Line { line: index + 1, why })?;
            entries.push(entry);
        }
        let recording = Self::of(&entries);
        if recording.turns.iter().all(|turn| turn.replies.is_empty()) {
            return Err(RecordingError::Empty);
        }
        Ok(recording)
    }

    /// The recording that a log is, or several logs one after the other.
    pub fn of(entries: &[Entry]) -> Self {
        let mut state = State::default();
        let mut turns: Vec<RecordedTurn> = Vec::new();
        let mut request = String::new();
        for entry in entries {
            if matches!(entry.event, Event::SessionStarted(_)) {
                state = State::default();
            }
            let turn_was_open = state.turn.is_some();
            state.apply(entry);
            match &entry.event {
                Event::PromptSubmitted(e) if !turn_was_open => {
                    let prompt = text_of(e.content.get(..1).unwrap_or_default());
                    turns.push(RecordedTurn { prompt, replies: Vec::new() });
                }
                Event::RoundStarted(_) => request = plain_request(&state),
                Event::ModelReplied(e) => {
                    if let Some(turn) = turns.last_mut() {
                        let (request, reply) = (std::mem::take(&mut request), e.reply.clone());
                        turn.replies.push(RecordedReply { request, reply });
                    }
                }
                _ => {}
            }
        }
        Self { turns }
    }

    /// Both recordings in one.
    pub fn and(mut self, other: Self) -> Self {
        self.turns.extend(other.turns);
        self
    }

    /// The prompts, in order.
    pub fn prompts(&self) -> impl Iterator<Item = &str> {
        self.turns.iter().map(|turn| turn.prompt.as_str())
    }

    /// Whose replies they are.
    pub(crate) fn issuer(&self) -> &str {
        let mut replies = self.turns.iter().flat_map(|turn| &turn.replies);
        replies.next().map_or("", |recorded| recorded.reply.issuer.as_str())
    }
}

pub(crate) fn text_of(content: &[Content]) -> String {
    let texts: Vec<&str> = content
        .iter()
        .map(|content| match content {
            Content::Text { text } => text.as_str(),
            Content::Image(_) => "[image]",
        })
        .collect();
    texts.join("\n")
}

/// What the model was asked, in the lines in which a replay is asked.
fn plain_request(state: &State) -> String {
    let issuer = state.messages.iter().rev().find_map(|message| match &**message {
        inspan_core::prompt::Message::Assistant(reply) => Some(reply.issuer.to_string()),
        inspan_core::prompt::Message::User(_) => None,
    });
    let projection = project(state, issuer.as_deref().unwrap_or_default());
    let mut segments = vec![
        Plain.render(Segment::Tools(&projection.tools), &NoImages),
        Plain.render(Segment::System(projection.system), &NoImages),
    ];
    segments
        .extend(projection.messages.iter().map(|m| Plain.render(Segment::Message(m), &NoImages)));
    segments.iter().map(|segment| String::from_utf8_lossy(segment)).collect()
}
