//! The person at the terminal, who is asked before a call runs.

use std::{collections::VecDeque, io::BufRead, thread};

use inspan_core::{event::PermissionAsked, gate::Choice, message::CallId, words};
use inspan_engine::Command;
use tokio::sync::mpsc;

use crate::out::{BOLD, DIM, NOTE, Out, styled};

/// Answers that wait to be looked at.
const ANSWERS_WAITING_MAX: usize = 16;

/// Asks one question after the other.
#[derive(Default)]
pub(crate) struct Person {
    questions: VecDeque<PermissionAsked>,
    /// The lines that the person types; there from the first question on.
    lines: Option<mpsc::Receiver<String>>,
}

impl Person {
    /// Asks, as soon as the questions before are answered.
    pub(crate) fn ask(&mut self, question: PermissionAsked, out: &Out) {
        self.questions.push_back(question);
        if self.questions.len() == 1 {
            self.show(out);
        }
        self.lines.get_or_insert_with(lines);
    }

    /// The question about this call needs no answer any more.
    pub(crate) fn closed(&mut self, call: &CallId, out: &Out) {
        let was_first = self.questions.front().is_some_and(|first| first.call == *call);
        self.questions.retain(|question| question.call != *call);
        if was_first && !self.questions.is_empty() {
            self.show(out);
        }
    }

    /// Waits for the next answer. Without a question it waits for ever; when nobody can type any
    /// more, the turn is cancelled: that is no answer.
    pub(crate) async fn next(&mut self, out: &Out) -> Command {
        loop {
            let (Some(question), Some(lines)) = (self.questions.front(), &mut self.lines) else {
                return std::future::pending().await;
            };
            let call = question.call.clone();
            let Some(line) = lines.recv().await else { return Command::Cancel };
            match read(&line) {
                Some((choice, why)) => return Command::Answer { call, choice, why },
                None => self.hint(out),
            }
        }
    }

    /// All of it is shown, since what is approved must be seen; but for secrets, which are masked
    /// here as anywhere: the hash says that it is these arguments and no others.
    fn show(&self, out: &Out) {
        let Some(question) = self.questions.front() else { return };
        let what = format!("{} {}", question.name, question.arguments);
        let why = out.shown(&question.why);
        let hash = format!("hash of the arguments: {}", question.arguments_hash);
        out.progress(&format!(
            "{} {}\n  {why}\n  {}\n",
            styled(NOTE, "?"),
            styled(BOLD, &out.shown(&what)),
            styled(DIM, &hash)
        ));
        self.hint(out);
    }

    fn hint(&self, out: &Out) {
        out.progress(&format!("  {}: ", words::CHOICES));
    }
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
