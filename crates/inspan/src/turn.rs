//! Follows a turn to its end, and has questions answered on the way.

use std::{future::Future, sync::Arc};

use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use inspan_core::{
    Entry, Event,
    event::{PermissionAsked, Stop, TurnEnded},
    gate::{BoxFuture, Choice},
    message::CallId,
};
use inspan_engine::{Command, Update, Updates};

use crate::{
    done::{Done, SoFar},
    error::Error,
};

/// Answers questions in a person's place, or by asking one.
pub(crate) type Asker = Arc<dyn Fn(PermissionAsked) -> BoxFuture<'static, Choice> + Send + Sync>;

pub(crate) fn asker<F, Fut>(answer: F) -> Asker
where
    F: Fn(PermissionAsked) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Choice> + Send + 'static,
{
    Arc::new(move |asked| Box::pin(answer(asked)))
}

/// The turn that is waited for.
pub(crate) enum Awaited {
    /// The one that answers the prompt of this entry.
    Prompt(u64),
    /// The one with this number. Entries up to `known` are its past.
    Turn { number: u32, known: u64 },
}

/// Follows one turn.
pub(crate) struct Follower<'a> {
    session: &'a inspan_engine::Session,
    updates: Updates,
    asker: Option<&'a Asker>,
    awaited: Awaited,
    /// The number of the turn; 0 until the prompt was seen.
    turn: u32,
    /// The prompt came while another turn was open, and no request has carried it yet.
    unread: bool,
    /// The turn that was cancelled last.
    cancelled: u32,
    so_far: SoFar,
    open_questions: Vec<PermissionAsked>,
    answers: FuturesUnordered<BoxFuture<'static, (CallId, Choice)>>,
}

impl<'a> Follower<'a> {
    pub(crate) fn new(
        session: &'a inspan_engine::Session,
        updates: Updates,
        asker: Option<&'a Asker>,
        awaited: Awaited,
        model: &str,
    ) -> Self {
        let turn = match awaited {
            Awaited::Prompt(_) => 0,
            Awaited::Turn { number, .. } => number,
        };
        Self {
            session,
            updates,
            asker,
            awaited,
            turn,
            unread: false,
            cancelled: 0,
            so_far: SoFar::new(model),
            open_questions: Vec::new(),
            answers: FuturesUnordered::new(),
        }
    }

    /// Follows the turn to its end. Gives it with the number of its last entry; `None` when the
    /// driver is gone.
    pub(crate) async fn run(mut self) -> Result<Option<(Done, u64)>, Error> {
        loop {
            let update = tokio::select! {
                biased;
                Some((call, choice)) = self.answers.next(), if !self.answers.is_empty() => {
                    let answer = Command::Answer { call, choice, why: String::new() };
                    self.session.submit(answer).await;
                    continue;
                }
                update = self.updates.next() => update?,
            };
            match update {
                None => return Ok(None),
                Some(Update::Delta { .. }) => {}
                Some(Update::Entry(entry)) => {
                    if let Some(stop) = self.take(&entry) {
                        let done = self.so_far.done(&stop, self.session.id());
                        return Ok(Some((done, entry.seq)));
                    }
                }
            }
        }
    }

    /// Takes an entry; gives the end of the turn.
    fn take(&mut self, entry: &Entry) -> Option<TurnEnded> {
        if matches!(entry.event, Event::CancelRequested(_)) {
            self.cancelled = entry.turn;
        }
        if self.turn == 0 {
            self.look_for_prompt(entry);
            return None;
        }
        if entry.turn != self.turn {
            return None;
        }
        self.so_far.take(entry);
        match &entry.event {
            Event::RoundStarted(_) | Event::CancelRequested(_) => self.unread = false,
            // It was parked, and goes on.
            Event::TurnEnded(_) if self.is_past(entry) => {}
            // The prompt came too late for this turn and begins the next one.
            Event::TurnEnded(ended) if self.unread && ended.stop != Stop::Parked => {
                self.turn += 1;
                self.unread = false;
            }
            Event::TurnEnded(ended) => return Some(ended.clone()),
            _ => {}
        }
        self.take_questions(entry);
        None
    }

    fn look_for_prompt(&mut self, entry: &Entry) {
        if matches!(self.awaited, Awaited::Prompt(seq) if seq == entry.seq) {
            self.turn = entry.turn;
            self.unread = entry.round > 0 || self.cancelled == entry.turn;
        }
    }

    /// Whether the entry was there before this process came to the session.
    fn is_past(&self, entry: &Entry) -> bool {
        matches!(self.awaited, Awaited::Turn { known, .. } if entry.seq <= known)
    }

    fn take_questions(&mut self, entry: &Entry) {
        let Some(asker) = self.asker else { return };
        match &entry.event {
            Event::PermissionAsked(asked) => self.open_questions.push(asked.clone()),
            Event::PermissionAnswered(answered) => {
                self.open_questions.retain(|asked| asked.call != answered.call);
            }
            Event::ToolFinished(finished) => {
                self.open_questions.retain(|asked| asked.call != finished.call);
            }
            _ => {}
        }
        let is_last_past =
            matches!(self.awaited, Awaited::Turn { known, .. } if entry.seq == known);
        if !self.is_past(entry) || is_last_past {
            for asked in self.open_questions.drain(..) {
                let call = asked.call.clone();
                self.answers.push(asker(asked).map(|choice| (call, choice)).boxed());
            }
        }
    }
}
