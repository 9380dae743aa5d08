//! The person at the terminal, who is asked before a call runs, and what a server wants to be told.

use std::{collections::VecDeque, io::BufRead, thread};

use inspan_core::{event::PermissionAsked, gate::Choice, message::CallId, words};
use inspan_engine::Command;
use inspan_mcp::{Inquiry, Reply};
use tokio::sync::mpsc;

use crate::{
    form::Form,
    out::{BOLD, DIM, NOTE, Out, styled},
};

/// Answers that wait to be looked at.
const ANSWERS_WAITING_MAX: usize = 16;

/// Asks one question after the other.
pub(crate) struct Person {
    /// What servers of tools want to be told.
    inquiries: Option<mpsc::Receiver<Inquiry>>,
    questions: VecDeque<Question>,
    /// The lines that the person types; there from the first question on.
    lines: Option<mpsc::Receiver<String>>,
}

enum Question {
    /// Whether a call may run.
    Permission(PermissionAsked),
    /// What a server wants to be told.
    Input(Form),
}

/// What became of waiting for a person.
enum Said {
    /// What a client submits.
    Command(Command),
    /// A line that ends no question.
    Nothing,
    /// A server wants to be told something.
    Inquiry(Inquiry),
    /// The inquiry in front is over; without a reply when nobody waits for one.
    Over(Option<Reply>),
}

impl Person {
    /// Nobody was asked yet. `inquiries` are asked as they come.
    pub(crate) fn new(inquiries: Option<mpsc::Receiver<Inquiry>>) -> Self {
        Self { inquiries, questions: VecDeque::new(), lines: None }
    }

    /// Asks, as soon as the questions before are answered.
    pub(crate) fn ask(&mut self, question: PermissionAsked, out: &Out) {
        self.add(Question::Permission(question), out);
    }

    fn add(&mut self, question: Question, out: &Out) {
        self.questions.push_back(question);
        if self.questions.len() == 1 {
            self.show(out);
        }
        self.lines.get_or_insert_with(lines);
    }

    /// The question about this call needs no answer any more.
    pub(crate) fn closed(&mut self, call: &CallId, out: &Out) {
        let is_it = |question: &Question| match question {
            Question::Permission(asked) => asked.call == *call,
            // It knows by itself.
            Question::Input(_) => false,
        };
        let was_first = self.questions.front().is_some_and(is_it);
        self.questions.retain(|question| !is_it(question));
        if was_first {
            self.show(out);
        }
    }

    /// Waits for the next answer. Without a question it waits for ever; when nobody can type any
    /// more, the turn is cancelled: that is no answer. May be dropped at any moment.
    pub(crate) async fn next(&mut self, out: &Out) -> Command {
        loop {
            let inquiry = async {
                match &mut self.inquiries {
                    Some(inquiries) => inquiries.recv().await,
                    None => None,
                }
            };
            let said = tokio::select! {
                Some(inquiry) = inquiry => Said::Inquiry(inquiry),
                said = said(self.questions.front_mut(), self.lines.as_mut(), out) => said,
            };
            match said {
                Said::Command(command) => return command,
                Said::Nothing => {}
                Said::Inquiry(inquiry) => self.add(Question::Input(Form::new(inquiry)), out),
                Said::Over(reply) => {
                    if let (Some(Question::Input(form)), Some(reply)) =
                        (self.questions.pop_front(), reply)
                    {
                        form.reply(reply);
                    }
                    self.show(out);
                }
            }
        }
    }

    fn show(&self, out: &Out) {
        match self.questions.front() {
            Some(Question::Permission(asked)) => show(asked, out),
            Some(Question::Input(form)) => form.show(out),
            None => {}
        }
    }
}

/// Waits for a line about the question.
async fn said(
    question: Option<&mut Question>,
    lines: Option<&mut mpsc::Receiver<String>>,
    out: &Out,
) -> Said {
    let (Some(question), Some(lines)) = (question, lines) else {
        return std::future::pending().await;
    };
    match question {
        Question::Permission(asked) => match lines.recv().await.map(|line| read(&line)) {
            None => Said::Command(Command::Cancel),
            Some(Some((choice, why))) => {
                Said::Command(Command::Answer { call: asked.call.clone(), choice, why })
            }
            Some(None) => {
                hint(out);
                Said::Nothing
            }
        },
        Question::Input(form) => {
            let line = tokio::select! {
                line = lines.recv() => line,
                () = form.given_up() => {
                    out.progress(&format!("\n  {}\n", styled(DIM, "it is asked no more")));
                    return Said::Over(None);
                }
            };
            match line.map(|line| form.take(&line, out)) {
                None => Said::Command(Command::Cancel),
                Some(None) => Said::Nothing,
                Some(reply) => Said::Over(reply),
            }
        }
    }
}

/// All of it is shown, since what is approved must be seen; but for secrets, which are masked here
/// as anywhere: the hash says that it is these arguments and no others.
fn show(question: &PermissionAsked, out: &Out) {
    let what = format!("{} {}", question.name, question.arguments);
    let why = out.shown(&question.why);
    let hash = format!("hash of the arguments: {}", question.arguments_hash);
    out.progress(&format!(
        "{} {}\n  {why}\n  {}\n",
        styled(NOTE, "?"),
        styled(BOLD, &out.shown(&what)),
        styled(DIM, &hash)
    ));
    hint(out);
}

fn hint(out: &Out) {
    out.progress(&format!("  {}: ", words::CHOICES));
}

/// `y`, `s`, `n`, or `n` and the reason.
fn read(line: &str) -> Option<(Choice, String)> {
    let (word, why) = line.trim().split_once(char::is_whitespace).unwrap_or((line.trim(), ""));
    let choice = match word.to_lowercase().as_str() {
        "y" | "yes" => Choice::Once,
        "s" | "session" => Choice::Session,
        "n" | "no" => Choice::No,
        _ => return None,
    };
    Some((choice, why.trim().to_owned()))
}

/// The lines of standard input, read where that holds up nobody; the thread ends with the input or
/// with the process.
fn lines() -> mpsc::Receiver<String> {
    let (typed, lines) = mpsc::channel(ANSWERS_WAITING_MAX);
    thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let is_taken = line.is_ok_and(|line| typed.blocking_send(line).is_ok());
            if !is_taken {
                break;
            }
        }
    });
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_short_words() {
        let table = [
            ("y", Some((Choice::Once, ""))),
            (" Yes \n", Some((Choice::Once, ""))),
            ("s", Some((Choice::Session, ""))),
            ("n too dear", Some((Choice::No, "too dear"))),
            ("no", Some((Choice::No, ""))),
            ("", None),
            ("perhaps", None),
        ];
        for (line, expected) in table {
            let expected = expected.map(|(choice, why)| (choice, why.to_owned()));
            assert_eq!(read(line), expected, "{line}");
        }
    }
}
