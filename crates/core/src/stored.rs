//! What a store keeps beside its entries: how a session stands, its words, its blobs. All of it is
//! taken from the entries when they are written, and can be made again from them.

use std::borrow::Cow;

use crate::{
    event::{Entry, Event, Head, Stop},
    hash::Hash,
    message::Content,
    store::SessionId,
};

/// How a session stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// No turn is open, or has been yet.
    #[default]
    Idle,
    /// A turn is open: somebody drives it, or its process died.
    Open,
    /// A turn waits for its model's server.
    Parked,
    /// A turn waits for calls: for a person's answer, or for work that goes on elsewhere.
    Waiting,
}

impl Standing {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Idle, Self::Open, Self::Parked, Self::Waiting];

    /// The word in tables and lists.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Open => "open",
            Self::Parked => "parked",
            Self::Waiting => "waiting",
        }
    }

    /// Reads what [`Standing::as_str`] gives; `None` for anything else.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|standing| standing.as_str() == word)
    }
}

/// What entries that are appended change of their session's row; `None` for what they leave as it
/// is. The last entry that says something counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes<'a> {
    /// The name of its agent.
    pub agent: Option<&'a str>,
    /// Its working directory.
    pub workdir: Option<&'a str>,
    /// How it stands, and why its last turn ended, if one has.
    pub standing: Option<(Standing, Option<Stop>)>,
    /// When to go on with a turn that waits, in milliseconds since 1970, if anybody knows.
    pub wake_ms: Option<Option<i64>>,
    /// When a call was answered, in milliseconds since 1970: a turn that waits for calls goes on.
    pub answered_ms: Option<i64>,
    /// A turn that is parked next waits for calls.
    for_calls: bool,
    /// The newest version of the log's format in the entries.
    pub format: u32,
}

impl<'a> Changes<'a> {
    /// What `entries` change.
    pub fn of(entries: &'a [Entry]) -> Self {
        let mut changes = Self::default();
        for entry in entries {
            changes.add(entry);
        }
        changes
    }

    /// The changes after one more entry.
    pub fn add(&mut self, entry: &'a Entry) {
        self.format = self.format.max(entry.version);
        match &entry.event {
            Event::SessionStarted(e) => {
                self.workdir = Some(&e.workdir);
                self.format = self.format.max(e.format);
            }
            Event::SessionConfigured(e) => {
                self.agent = Some(e.agent.as_ref().map_or("", |agent| &agent.name));
                self.workdir = e.workdir.as_deref().or(self.workdir);
            }
            // Logs from before `unread` say only by a round that a late prompt opened a turn.
            Event::PromptSubmitted(_) | Event::Woken(_) | Event::RoundStarted(_) => {
                self.stands(Standing::Open, None);
            }
            Event::Parked(e) => {
                (self.wake_ms, self.answered_ms) = (Some(e.until_ms), None);
                self.for_calls = !e.calls.is_empty();
            }
            Event::PermissionAnswered(_) | Event::ToolFinished(_) => self.answered(entry.at_ms),
            Event::TurnEnded(e) => match (e.stop, self.for_calls) {
                (Stop::Parked, true) => self.stands(Standing::Waiting, Some(e.stop)),
                (Stop::Parked, false) => self.stands(Standing::Parked, Some(e.stop)),
                _ if e.unread => self.stands(Standing::Open, None),
                _ => self.stands(Standing::Idle, Some(e.stop)),
            },
            Event::ModelReplied(_)
            | Event::ModelFailed(_)
            | Event::ProjectionRepaired(_)
            | Event::PromptCut(_)
            | Event::ModelSwitched(_)
            | Event::GateJudged(_)
            | Event::PermissionAsked(_)
            | Event::ToolStarted(_)
            | Event::ToolDeferred(_)
            | Event::SessionForked(_)
            | Event::CatalogueChanged(_)
            | Event::LimitNeared(_)
            | Event::CancelRequested(_)
            | Event::Unknown(_) => {}
        }
    }
}

impl Changes<'_> {
    fn stands(&mut self, standing: Standing, stop: Option<Stop>) {
        self.standing = Some((standing, stop));
        if matches!(standing, Standing::Idle | Standing::Open) {
            (self.wake_ms, self.answered_ms) = (Some(None), None);
        }
    }

    fn answered(&mut self, at_ms: i64) {
        match self.standing {
            Some((Standing::Waiting, _)) => self.wake_ms = Some(Some(at_ms)),
            Some((Standing::Idle | Standing::Open | Standing::Parked, _)) => {}
            // How it stands, only its row knows.
            None => self.answered_ms = Some(at_ms),
        }
    }
}

/// What a search looks through: prompts, answers and the results of tools.
pub fn searchable(event: &Event) -> Option<Cow<'_, str>> {
    let text: Cow<'_, str> = match event {
        Event::PromptSubmitted(e) => text_of(&e.content),
        Event::ModelReplied(e) => e.reply.text().into(),
        Event::ToolFinished(e) => text_of(&e.result.content),
        _ => return None,
    };
    (!text.trim().is_empty()).then_some(text)
}

fn text_of(content: &[Content]) -> Cow<'_, str> {
    let mut texts = content.iter().filter_map(|content| match content {
        Content::Text { text } => Some(text.as_str()),
        Content::Image(_) => None,
    });
    match (texts.next(), texts.next()) {
        (first, None) => first.unwrap_or_default().into(),
        (first, second) => {
            first.into_iter().chain(second).chain(texts).collect::<Vec<_>>().join("\n").into()
        }
    }
}

/// The blobs that an event needs, each once for each time that it is named.
pub fn blobs(event: &Event) -> Vec<Hash> {
    let (content, spilled) = match event {
        Event::PromptSubmitted(e) => (&e.content, None),
        Event::ToolFinished(e) => (&e.result.content, e.result.spilled.as_ref()),
        _ => return Vec::new(),
    };
    let hash = |content: &Content| match content {
        Content::Image(image) => Some(image.hash),
        Content::Text { .. } => None,
    };
    content.iter().filter_map(hash).chain(spilled.map(|blob| blob.hash)).collect()
}

/// The session that a log goes on from, and where, when this is the first entry of a fork.
pub fn forked_from(event: &Event) -> Option<(&SessionId, Head)> {
    match event {
        Event::SessionForked(e) => Some((&e.parent, Head { seq: e.seq, hash: e.hash })),
        _ => None,
    }
}
