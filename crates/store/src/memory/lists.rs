//! The questions over many sessions.

use inspan_core::{
    event::Event,
    store::{SessionFilter, SessionId, SessionRow},
    stored::{Changes, Standing},
};

use super::{Kept, Log, Memory, is_found};
use crate::words::Query;

impl Memory {
    pub(super) fn list(&self, filter: &SessionFilter) -> Vec<SessionRow> {
        let kept = self.kept();
        let query = filter.words.as_deref().map(Query::parse);
        let is_found = |log: &Log| match &query {
            None => true,
            Some(None) => false,
            Some(Some(query)) => log.entries().any(|entry| is_found(query, entry)),
        };
        let rows = kept.seen().filter(|(_, log)| is_found(log));
        let rows = rows.filter_map(|(id, log)| row(&kept, id, log));
        let mut rows: Vec<SessionRow> = rows.filter(|row| keeps(filter, row)).collect();
        rows.sort_by(|a, b| (b.updated_ms, &b.id).cmp(&(a.updated_ms, &a.id)));
        rows.truncate(filter.count_max);
        rows
    }

    pub(super) fn due_at(&self, now_ms: i64, count_max: usize) -> Vec<SessionId> {
        let kept = self.kept();
        let free = kept.seen().filter(|(_, log)| !log.claimed);
        let is_due = |row: &SessionRow, log: &Log| match row.standing {
            Standing::Idle => false,
            Standing::Open => true,
            Standing::Waiting if !log.answers.is_empty() => true,
            Standing::Parked | Standing::Waiting => {
                row.wake_ms.is_some_and(|wake_ms| wake_ms <= now_ms)
            }
        };
        let mut due: Vec<SessionRow> = free
            .filter_map(|(id, log)| row(&kept, id, log).filter(|row| is_due(row, log)))
            .collect();
        due.sort_by(|a, b| (a.updated_ms, &a.id).cmp(&(b.updated_ms, &b.id)));
        due.into_iter().take(count_max).map(|row| row.id).collect()
    }
}

fn keeps(filter: &SessionFilter, row: &SessionRow) -> bool {
    let SessionFilter { prefix, agent, workdir, standing, stop, since_ms, until_ms, .. } = filter;
    row.id.as_str().starts_with(prefix)
        && agent.as_ref().is_none_or(|agent| row.agent == *agent)
        && workdir.as_ref().is_none_or(|workdir| row.workdir == *workdir)
        && standing.is_none_or(|standing| row.standing == standing)
        && stop.is_none_or(|stop| row.stop.as_deref() == Some(stop.as_str()))
        && since_ms.is_none_or(|since_ms| row.updated_ms >= since_ms)
        && until_ms.is_none_or(|until_ms| row.updated_ms < until_ms)
}

fn row(kept: &Kept, id: &SessionId, log: &Log) -> Option<SessionRow> {
    let (first, last) = (log.entries().next()?, log.last()?);
    let mut changes = Changes::default();
    // A fork takes over what its own entries leave as it is.
    for (part, upto) in kept.lineage(id) {
        if !std::ptr::eq(part, log) {
            let shared = part.after(0).take_while(|entry| entry.seq <= upto);
            shared.for_each(|entry| changes.add(entry));
        }
    }
    let (mut tokens, mut cost_nano_usd, mut title) = (0, 0, None);
    for entry in log.entries() {
        changes.add(entry);
        let columns = entry.columns();
        tokens += columns.usage.total();
        cost_nano_usd += columns.cost_nano_usd.unwrap_or(0);
        if matches!(entry.event, Event::PromptSubmitted(_)) && title.is_none() {
            title = columns.preview;
        }
    }
    let (standing, stop) = changes.standing.unwrap_or_default();
    let shared = log.parent.as_ref().map_or(0, |(_, seq)| *seq);
    Some(SessionRow {
        id: id.clone(),
        started_ms: first.at_ms,
        updated_ms: last.at_ms,
        head_seq: last.seq,
        head_hash: last.hash,
        entries: last.seq - shared,
        turns: last.turn,
        title: title.unwrap_or_default(),
        agent: changes.agent.unwrap_or_default().to_owned(),
        workdir: changes.workdir.unwrap_or_default().to_owned(),
        standing,
        wake_ms: changes.wake_ms.flatten(),
        stop: stop.map(|stop| stop.as_str().to_owned()),
        parent: log.parent.clone(),
        tokens,
        cost_nano_usd,
    })
}
