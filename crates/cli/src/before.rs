//! A session that a run goes on with, and what a client keeps of its last turn.

use inspan_core::{
    Entry, Event, State,
    event::{Stop, TurnEnded},
    gate::AnsweredBy,
    store::{ENTRIES_READ_MAX, SessionId, Store},
};
use inspan_engine::session::Folded;

use crate::{
    args::DriveArgs,
    exit::{Failure, code_of},
    json,
    out::{NOTE, Out, styled},
    progress::Spending,
};

/// A session as it was before this run.
#[derive(Default)]
pub(crate) struct Before {
    pub(crate) folded: Folded,
    pub(crate) seen: Seen,
}

impl Before {
    /// Reads it, and says when what is read of its log is not what was written: it goes on all the
    /// same, with what can be read.
    pub(crate) async fn read(
        store: &dyn Store,
        id: &SessionId,
        out: &Out,
    ) -> Result<Self, Failure> {
        let mut changed = None;
        let folded = Folded::read(store, id, |state, entry| {
            if changed.is_none() && !entry.follows(state.head) {
                changed = Some((entry.seq, state.head.seq));
            }
        })
        .await?;
        if let Some((entry, after)) = changed {
            let note = format!(
                "entry {entry} is not what was written after entry {after}: inspan verify {id}"
            );
            out.progress(&format!("  {} {note}\n", styled(NOTE, "!")));
        }
        let mut seen = Seen::default();
        let state = &folded.state;
        if let Some(turn) = state.turn.as_ref().or(state.parked.as_ref()) {
            seen.take_turn(store, id, state, turn.number).await?;
        }
        seen.spending.pause();
        Ok(Self { folded, seen })
    }
}

/// What a client keeps of the last turn that it follows.
#[derive(Clone, Default)]
pub(crate) struct Seen {
    turn: u32,
    /// Questions that counted as answered with no because nobody could answer.
    denied: Vec<String>,
    pub(crate) spending: Spending,
}

impl Seen {
    /// Takes the entries of a turn that is the last one, up to where `state` ends. Only its own
    /// pages are read: a log may be long.
    pub(crate) async fn take_turn(
        &mut self,
        store: &dyn Store,
        id: &SessionId,
        state: &State,
        turn: u32,
    ) -> Result<(), Failure> {
        let page = ENTRIES_READ_MAX as u64;
        let mut after = state.head.seq;
        loop {
            after = after.saturating_sub(page);
            let first = store.read(id, after, 1).await?;
            if after == 0 || first.first().is_none_or(|entry| entry.turn < turn) {
                break;
            }
        }
        while after < state.head.seq {
            let entries = store.read(id, after, ENTRIES_READ_MAX).await?;
            let Some(last) = entries.last() else { break };
            after = last.seq;
            let known = entries.iter().take_while(|entry| entry.seq <= state.head.seq);
            known.for_each(|entry| self.take(entry));
        }
        Ok(())
    }

    pub(crate) fn take(&mut self, entry: &Entry) {
        if entry.turn != self.turn {
            *self = Self { turn: entry.turn, ..Self::default() };
        }
        if let Event::PermissionAnswered(e) = &entry.event
            && e.by == AnsweredBy::Nobody
        {
            self.denied.push(format!("{}: {}", e.call, e.why));
        }
        self.spending.add(entry);
    }

    /// The answer on standard output, and the exit code.
    pub(crate) fn give(
        &self,
        id: &str,
        ended: &TurnEnded,
        answer: &str,
        args: &DriveArgs,
        out: &Out,
        is_on_the_terminal: bool,
    ) -> Result<u8, Failure> {
        let code = code_of(ended.stop, !self.denied.is_empty());
        // What was said before a failure or a cancel is in the log; an answer it is not.
        let is_answer = !matches!(ended.stop, Stop::Failed | Stop::Cancelled | Stop::Parked);
        let answer = if is_answer { answer } else { "" };
        if args.json {
            let done = json::done(id, ended, answer, &self.denied, &self.spending, code);
            out.json(&done)?;
        } else if !answer.trim().is_empty() && !is_on_the_terminal {
            out.answer(&format!("{}\n", out.shown(answer.trim_end())))?;
        }
        Ok(code)
    }
}
