//! `inspan verify`: is the log the one that was written?

use inspan_core::{
    Entry, State,
    event::{Event, Head},
    mask::Mask,
    store::{SessionFilter, Wrong},
};

use inspan_engine::session::log;

use crate::{
    exit::Failure,
    home::{Home, session_of},
    out::{GOOD, Out, styled},
};

/// Checks the hash of every entry, each over the one before it.
pub(crate) async fn verify(home: &Home, given: &str) -> Result<u8, Failure> {
    let out = Out::new(Mask::new([]));
    let store = home.store().await?;
    let id = session_of(&*store, given).await?;
    // Counted before they are read: somebody may be writing.
    let rows = store.sessions(&SessionFilter::prefix(id.as_str(), 1)).await?;
    let written = rows.first().filter(|row| row.id == id).map_or(0, |row| row.head_seq);
    let entries = log(&store, &id).await?;
    if let Some(Changed { entry, after }) = first_changed(&entries) {
        return Err(Failure::Verify(format!(
            "session {id}: entry {entry} is not what was written after entry {after}; the entries \
             before it are as they were"
        )));
    }
    let head = entries.last().map(Entry::head).unwrap_or_default();
    if head.seq < written {
        return Err(Failure::Verify(format!(
            "session {id}: its last entries are missing: {written} were written, {} are there, and \
             those are as they were",
            head.seq
        )));
    }
    let mut wrong = wrong_places(&entries);
    wrong.extend(store.check(&id).await?);
    if let Some(told) = wrong_columns(&wrong) {
        return Err(Failure::Verify(format!(
            "session {id}: its entries are as they were written, but what lists and views read \
             beside them is not: {told}"
        )));
    }
    let unknown = entries.iter().filter(|entry| matches!(entry.event, Event::Unknown(_))).count();
    let aside = match unknown {
        0 => String::new(),
        n => format!("; {n} of them can't be read by this version and are kept"),
    };
    out.answer(&format!(
        "{} session {id}: {} entries are as they were written{aside}\nlast hash {}\n",
        styled(GOOD, "✓"),
        entries.len(),
        head.hash
    ))?;
    Ok(0)
}

/// The columns `turn` and `round` that are not what the entries before them say. What this version
/// can't read may have opened a turn: from there on nobody knows.
fn wrong_places(entries: &[Entry]) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    let mut state = State::default();
    for entry in entries {
        if matches!(entry.event, Event::Unknown(_)) {
            break;
        }
        let (turn, round) = state.place(&entry.event);
        for (column, found, expected) in [("turn", entry.turn, turn), ("round", entry.round, round)]
        {
            if found != expected {
                let (found, expected) = (found.to_string(), expected.to_string());
                wrong.push(Wrong { seq: entry.seq, column, found, expected });
            }
        }
        state.apply(entry);
    }
    wrong
}

/// The first of the columns that are not what their entries say; `None` when all are.
fn wrong_columns(wrong: &[Wrong]) -> Option<String> {
    let Wrong { seq, column, found, expected } = wrong.first()?;
    let place = match seq {
        0 => "the session".to_owned(),
        seq => format!("entry {seq}"),
    };
    let others = match wrong.len() - 1 {
        0 => String::new(),
        others => format!(", and {others} more"),
    };
    Some(format!("{column} of {place} is {found} in place of {expected}{others}"))
}

/// An entry that is not the one that was written.
pub(crate) struct Changed {
    /// Its number.
    pub(crate) entry: u64,
    /// That of the entry before it.
    pub(crate) after: u64,
}

/// The first entry whose hash is not that of its body after the one before it.
pub(crate) fn first_changed(entries: &[Entry]) -> Option<Changed> {
    let mut head = Head::default();
    for entry in entries {
        if !entry.follows(head) {
            return Some(Changed { entry: entry.seq, after: head.seq });
        }
        head = entry.head();
    }
    None
}
