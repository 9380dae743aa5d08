//! A call under way, as the side that answers the client holds it, and as the side that runs it
//! does.

use inspan_core::{event::PermissionAsked, gate::Choice, message::CallId};
use tokio::sync::mpsc;

use crate::{Inquiry, serve::result::Outcome};

/// What happened in a call and waits to be told. Progress leaves room for the rest, of which there
/// is never as much.
const HAPPENINGS_WAITING_MAX: usize = 64;

/// Happenings for which progress leaves room.
const HAPPENINGS_KEPT_FREE: usize = 32;

/// Something that happened in a call.
#[derive(Debug)]
pub(crate) enum Happening {
    /// It gets on: what it does, for people.
    Progress(String),
    /// A person is asked.
    Asked(Question),
    /// It ended.
    Ended(Outcome),
}

/// What a person is asked.
#[derive(Debug)]
pub(crate) enum Question {
    /// Whether a tool may run.
    Permission(PermissionAsked),
    /// What a tool wants to be told.
    Inquiry(Inquiry),
}

/// What a person says of a call that wants to run.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) call: CallId,
    pub(crate) choice: Choice,
    /// Why; may be empty.
    pub(crate) why: String,
}

/// A call under way. Dropping it cancels the call.
pub(crate) struct Running {
    happenings: mpsc::Receiver<Happening>,
    answers: mpsc::Sender<Answer>,
}

/// The other side of a [`Running`].
pub(crate) struct Teller {
    happenings: mpsc::Sender<Happening>,
    answers: mpsc::Receiver<Answer>,
    /// Whether anybody waits for what comes of it.
    pub(crate) is_awaited: bool,
}

/// Both sides of a call.
pub(crate) fn sides() -> (Running, Teller) {
    let (tell, happenings) = mpsc::channel(HAPPENINGS_WAITING_MAX);
    let (answer, answers) = mpsc::channel(HAPPENINGS_WAITING_MAX);
    let teller = Teller { happenings: tell, answers, is_awaited: true };
    (Running { happenings, answers: answer }, teller)
}

impl Running {
    /// What happens next; `None` when nothing more will.
    pub(crate) async fn next(&mut self) -> Option<Happening> {
        self.happenings.recv().await
    }

    /// Hands an answer over; one that comes too late changes nothing.
    pub(crate) fn answer(&self, answer: Answer) {
        let _ = self.answers.try_send(answer);
    }
}

impl Teller {
    /// Tells of progress, if there is room for it.
    pub(crate) fn progress(&self, text: String) {
        if self.happenings.capacity() > HAPPENINGS_KEPT_FREE {
            let _ = self.happenings.try_send(Happening::Progress(text));
        }
    }

    /// Tells of what must be heard. There is nobody to tell when the client is gone.
    pub(crate) fn tell(&self, happening: Happening) {
        let _ = self.happenings.try_send(happening);
    }

    /// The next answer; `None`, once, when nobody waits any more.
    pub(crate) async fn answer(&mut self) -> Option<Answer> {
        if !self.is_awaited {
            return std::future::pending().await;
        }
        let answer = self.answers.recv().await;
        self.is_awaited = answer.is_some();
        answer
    }
}
