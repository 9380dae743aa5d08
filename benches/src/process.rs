//! What the system tells of a process. Only Linux does.

use std::{fs, time::Duration};

/// A process at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// Resident memory in bytes.
    pub(crate) resident: u64,
    /// The most resident memory so far, in bytes.
    pub(crate) resident_most: u64,
    /// The part of `resident` that is its own: without the pages of its program, which are those of
    /// a file.
    pub(crate) own: u64,
    /// Time that its threads have been on a processor.
    pub(crate) busy: Duration,
}

/// Looks at the process `id`; `None` where there is no `/proc`.
pub(crate) fn look(id: u32) -> Option<Seen> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
    };
    Some(Seen {
        resident: field("VmRSS:")?,
        resident_most: field("VmHWM:")?,
        own: field("RssAnon:")?,
        busy: busy(id)?,
    })
}

/// The sum over its threads: each tells how many nanoseconds it ran.
fn busy(id: u32) -> Option<Duration> {
    let threads = fs::read_dir(format!("/proc/{id}/task")).ok()?;
    let nanoseconds = threads.filter_map(|thread| {
        let told = fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        told.split(' ').next()?.parse::<u64>().ok()
    });
    Some(Duration::from_nanos(nanoseconds.sum()))
}
