//! What a person sees of a run while it goes on: on standard error, coloured on a terminal, plain
//! in a pipe.

use std::collections::HashMap;

use inspan_core::{
    Entry, Event,
    event::{ModelFailed, ModelReplied, Stop, ToolFinished},
    message::{CallId, How},
    provider::Delta,
    recover::is_parked_for,
    state::State,
    turn::{CallStatus, OpenCall, Phase},
    words::{dollars, duration},
};

use crate::out::{BAD, DIM, GOOD, NOTE, Out, counted, grouped, line_of, styled};

/// Characters of arguments and results in a line.
const ARGUMENTS_CHARS_MAX: usize = 60;
const RESULT_CHARS_MAX: usize = 70;

/// Characters of a note's first line, and of a stop's detail.
const NOTE_CHARS_MAX: usize = 300;

/// Milliseconds after which a tool that still runs is shown to do so.
const RUNNING_SHOWN_MS: i64 = 1_000;

/// Draws the progress of one run.
#[derive(Default)]
pub(crate) struct Progress {
    text: Words,
    /// What of the reply that came last was streamed.
    streamed: String,
    /// The failure that was told last.
    failure: String,
    line_is_open: bool,
    running: HashMap<CallId, Running>,
}

struct Running {
    since_ms: i64,
    what: String,
    is_shown: bool,
}

impl Progress {
    /// Begins with a turn that an earlier process left waiting for its next attempt.
    pub(crate) fn resumed(&mut self, state: &State, now_ms: i64, out: &Out) {
        if let Some(Phase::Failed { failed, .. }) = state.turn.as_ref().map(|turn| &turn.phase)
            && failed.retry_at_ms.is_some_and(|at_ms| at_ms > now_ms)
        {
            self.failed(failed, now_ms, out);
        }
    }

    /// A piece of an answer.
    pub(crate) fn delta(&mut self, delta: &Delta, out: &Out) {
        if let Delta::Text(text) = delta {
            let ready = self.text.push(text, out);
            self.stream(&ready, out);
        }
    }

    /// Whether all of `answer` was streamed. Deltas may be lost.
    pub(crate) fn has_streamed(&self, answer: &str) -> bool {
        self.streamed.trim() == answer.trim()
    }

    /// What of a stop's detail was not told before it.
    pub(crate) fn news<'a>(&self, detail: &'a str) -> &'a str {
        if detail == self.failure { "" } else { detail }
    }

    /// An entry; `state` is the state after it.
    pub(crate) fn entry(&mut self, entry: &Entry, state: &State, out: &Out) {
        match &entry.event {
            Event::RoundStarted(e) => {
                self.streamed.clear();
                if let (Some(limit), 1) = (e.closing, e.attempt) {
                    let text = format!("limit on {} reached: closing answer", limit.words());
                    self.note(&text, out);
                }
            }
            Event::ModelReplied(e) => self.replied(e, out),
            Event::ModelFailed(e) => self.failed(e, entry.at_ms, out),
            Event::ProjectionRepaired(e) => {
                let words = e.repair.words();
                // Of a refusal it was told why.
                let told = match e.why == self.failure {
                    true => format!("{words}; asked again"),
                    false => format!("{words}: {}", e.why),
                };
                self.note(&told, out);
            }
            Event::PromptCut(e) => self.note(&inspan_core::words::prompt_cut(e), out),
            Event::CatalogueChanged(e) => {
                self.note(&inspan_core::words::catalogue_changed(e), out);
                e.notices.iter().for_each(|notice| self.note(notice, out));
            }
            Event::ModelSwitched(e) => self.note(&format!("{} is asked instead", e.model), out),
            Event::ToolStarted(e) => {
                let what = match state.call(&e.call) {
                    Some(open) => format!("{} {}", e.name, open.asked()),
                    None => e.name.clone(),
                };
                let running = Running { since_ms: entry.at_ms, what, is_shown: false };
                self.running.insert(e.call.clone(), running);
            }
            Event::ToolFinished(e) => self.tool(e, state, out),
            Event::LimitNeared(e) => {
                let text = inspan_core::words::limit_neared(e);
                self.note(text.trim_matches(['[', ']']), out);
            }
            Event::PermissionAnswered(e) if !e.why.is_empty() => {
                self.note(&format!("not allowed: {}", e.why), out);
            }
            Event::CancelRequested(_) => {
                let ends = |open: &&OpenCall| match (&open.status, &open.tool) {
                    (CallStatus::Running(_), Some(tool)) => !tool.repeat.is_repeatable(),
                    _ => false,
                };
                let waited: Vec<&str> =
                    state.calls.iter().filter(ends).map(|open| open.name.as_str()).collect();
                let after = match waited[..] {
                    [] => String::new(),
                    _ => format!(" when {} has ended", waited.join(" and ")),
                };
                self.note(&format!("cancelling{after}; once more ends at once"), out);
            }
            Event::TurnEnded(_) => self.end_line(out),
            _ => {}
        }
    }

    /// Shows tools that have run for a while. Called about once a second.
    pub(crate) fn tick(&mut self, now_ms: i64, out: &Out) {
        if !out.is_terminal {
            return;
        }
        let late = |running: &&mut Running| {
            !running.is_shown && now_ms - running.since_ms >= RUNNING_SHOWN_MS
        };
        let mut lines = String::new();
        for running in self.running.values_mut().filter(late) {
            running.is_shown = true;
            let what = out.line(&running.what, ARGUMENTS_CHARS_MAX);
            lines += &format!("  {}\n", styled(DIM, &format!("… {what}")));
        }
        if !lines.is_empty() {
            self.end_line(out);
            out.progress(&lines);
        }
    }

    fn replied(&mut self, replied: &ModelReplied, out: &Out) {
        let rest = self.text.rest();
        self.stream(&rest, out);
        self.end_line(out);
        // What was not streamed is shown when it is whole. An answer for the terminal comes to it
        // by standard output.
        let said = replied.reply.text();
        let is_shown_later = out.answer_is_terminal && replied.reply.calls().next().is_none();
        if !said.trim().is_empty() && !is_shown_later && !self.has_streamed(&said) {
            out.progress(&format!("{}\n", out.shown(said.trim())));
        }
    }

    fn failed(&mut self, failed: &ModelFailed, at_ms: i64, out: &Out) {
        let rest = self.text.rest();
        self.stream(&rest, out);
        self.end_line(out);
        let again = match failed.retry_at_ms {
            Some(at) => match u64::try_from(at.saturating_sub(at_ms)) {
                // The turn is parked, and nothing happens by itself.
                Ok(wait) if is_parked_for(failed.class, wait) => {
                    format!("; not before {}", duration(wait))
                }
                Ok(wait) if wait > 0 => format!("; again in {}", duration(wait)),
                _ => "; asked again".to_owned(),
            },
            None => String::new(),
        };
        let text = format!("{}: {}{again}", failed.class.as_str(), failed.message);
        self.note(&text, out);
        self.failure.clone_from(&failed.message);
    }

    fn tool(&mut self, finished: &ToolFinished, state: &State, out: &Out) {
        self.end_line(out);
        self.running.remove(&finished.call);
        let arguments = state.call(&finished.call).map(OpenCall::asked).unwrap_or_default();
        let (style, sign) = match finished.how {
            How::Ok => (GOOD, "✓"),
            How::Cancelled | How::NotRun => (NOTE, "-"),
            _ => (BAD, "✗"),
        };
        let arguments = out.line(&arguments, ARGUMENTS_CHARS_MAX);
        let result = out.line(&finished.result.to_text(), RESULT_CHARS_MAX);
        let how = format!("{} {}", finished.how.as_str(), duration(finished.ms));
        out.progress(&format!(
            "  {} {} {}  {}  {}\n",
            styled(style, sign),
            out.line(&finished.name, ARGUMENTS_CHARS_MAX),
            styled(DIM, &arguments),
            result,
            styled(DIM, &how)
        ));
    }

    fn note(&mut self, text: &str, out: &Out) {
        self.end_line(out);
        let text = out.shown(text);
        let (first, more) = text.split_once('\n').unwrap_or((&text, ""));
        let mut note = format!("  {} {}\n", styled(NOTE, "!"), line_of(first, NOTE_CHARS_MAX));
        if !more.trim().is_empty() {
            note += &format!("{}\n", styled(DIM, more.trim_end()));
        }
        out.progress(&note);
    }

    fn stream(&mut self, text: &str, out: &Out) {
        if !text.is_empty() {
            let shown = out.shown(text);
            self.streamed += text;
            self.line_is_open = !shown.ends_with('\n');
            out.progress(&shown);
        }
    }

    fn end_line(&mut self, out: &Out) {
        if std::mem::take(&mut self.line_is_open) {
            out.progress("\n");
        }
    }
}

/// The last line of a run: why it stopped, with as much of its `detail` as is news, and what it
/// used.
pub(crate) fn summary(stop: Stop, detail: &str, used: &Spending, out: &Out) -> String {
    let mut parts = vec![stop.as_str().to_owned()];
    if let Some(first) = detail.lines().next() {
        parts.push(out.line(first, NOTE_CHARS_MAX));
    }
    parts.push(counted(used.rounds, "round", "rounds"));
    if used.calls > 0 {
        parts.push(counted(used.calls, "call", "calls"));
    }
    parts.push(used.tokens());
    if let Some(cost) = used.cost_nano_usd {
        parts.push(dollars(cost));
    }
    parts.push(duration(used.ms));
    parts.join(" · ")
}

/// What a run used, added up from its entries.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spending {
    pub rounds: u64,
    pub calls: u64,
    pub input: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    pub output: u64,
    pub is_incomplete: bool,
    pub cost_nano_usd: Option<u64>,
    pub ms: u64,
    began_ms: Option<i64>,
}

impl Spending {
    /// Takes one entry.
    pub(crate) fn add(&mut self, entry: &Entry) {
        let began = *self.began_ms.get_or_insert(entry.at_ms);
        self.ms = u64::try_from(entry.at_ms - began).unwrap_or(0);
        let (usage, cost) = match &entry.event {
            Event::RoundStarted(e) if e.attempt == 1 && e.closing.is_none() => {
                self.rounds += 1;
                return;
            }
            Event::ToolStarted(e) if e.attempt == 1 => {
                self.calls += 1;
                return;
            }
            Event::ModelReplied(e) => (e.reply.usage, e.cost_nano_usd),
            Event::ModelFailed(e) => (e.usage, e.cost_nano_usd),
            _ => return,
        };
        add(&mut self.input, usage.input.unwrap_or(0));
        add(&mut self.cache_read, usage.cache_read.unwrap_or(0));
        add(&mut self.cache_write, usage.cache_write.unwrap_or(0));
        add(&mut self.output, usage.output.unwrap_or(0));
        let replied = matches!(entry.event, Event::ModelReplied(_));
        self.is_incomplete |= usage.estimated || replied && usage.input.is_none();
        if let Some(cost) = cost {
            add(self.cost_nano_usd.get_or_insert(0), cost);
        }
    }

    /// Time until the next entry is nobody's.
    pub(crate) fn pause(&mut self) {
        (self.began_ms, self.ms) = (None, 0);
    }

    fn tokens(&self) -> String {
        let read = self.input.saturating_add(self.cache_read).saturating_add(self.cache_write);
        if read == 0 && self.output == 0 {
            return "tokens unknown".to_owned();
        }
        let cached = match self.cache_read {
            0 => String::new(),
            cached => format!(" ({} cached)", grouped(cached)),
        };
        let about = if self.is_incomplete { "about " } else { "" };
        format!("{about}{} in{cached} + {} out tokens", grouped(read), grouped(self.output))
    }
}

/// Figures of servers may be anything.
fn add(sum: &mut u64, figure: u64) {
    *sum = sum.saturating_add(figure);
}

/// Text that is streamed word by word, so that a secret or an escape is never cut in two: the
/// last word waits for its end.
#[derive(Default)]
pub(crate) struct Words(String);

impl Words {
    const BLOCK: &str = "-----BEGIN";

    /// Takes text in, and gives what can be shown by now.
    pub(crate) fn push(&mut self, text: &str, out: &Out) -> String {
        self.0.push_str(text);
        // So a long text of one word is not looked through for each of its pieces.
        if !text.contains(char::is_whitespace) {
            return String::new();
        }
        // A key in a block of lines is masked as a whole.
        let free = self.0.find(Self::BLOCK).unwrap_or(self.0.len());
        let end = self.0.get(..free).and_then(|text| text.rfind(char::is_whitespace));
        let at = end.and_then(|end| self.0.get(end..)?.chars().next().map(|c| end + c.len_utf8()));
        let at = after_bearer(&self.0, at.unwrap_or(0));
        let rest = self.0.split_off(out.cut(&self.0, at));
        std::mem::replace(&mut self.0, rest)
    }

    /// What waited, at the end of the text.
    pub(crate) fn rest(&mut self) -> String {
        std::mem::take(&mut self.0)
    }
}

/// Where to cut in place of `at`: what follows the word `Bearer` is known by it, and stays with it.
fn after_bearer(text: &str, at: usize) -> usize {
    let ready = text.get(..at).unwrap_or_default().trim_end();
    let before = ready.len().saturating_sub(BEARER.len());
    match ready.get(before..) {
        Some(last) if last.eq_ignore_ascii_case(BEARER) => before,
        _ => at,
    }
}

const BEARER: &str = "bearer";

#[cfg(test)]
mod tests {
    use inspan_core::mask::Mask;

    use super::*;

    #[test]
    fn words_are_streamed_when_they_are_whole() {
        let out = Out::new(Mask::new(["pass word one".to_owned()]));
        let mut words = Words::default();
        let pieces = ["Lis", "bon is ", "warm\ner", "-----BEGIN X KEY-----\nab cd", " ef"];
        let ready: Vec<String> = pieces.iter().map(|piece| words.push(piece, &out)).collect();
        assert_eq!(ready, ["", "Lisbon is ", "warm\n", "", ""]);
        assert_eq!(words.rest(), "er-----BEGIN X KEY-----\nab cd ef");

        let pieces = ["with Bea", "rer ", "abc", "def1 and", " then"];
        let ready: Vec<String> = pieces.iter().map(|piece| words.push(piece, &out)).collect();
        assert_eq!(ready, ["with ", "", "", "Bearer abcdef1 ", "and "]);
        assert_eq!(words.rest(), "then");

        let pieces = ["a pass", " wo", "rd one", " b pass ", "it "];
        let ready: Vec<String> = pieces.iter().map(|piece| words.push(piece, &out)).collect();
        assert_eq!(ready, ["a ", "", "", "pass word one b ", "pass it "]);
    }
}
