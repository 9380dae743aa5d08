//! What Inspan takes beside the model. Both programs are built at once, so that it is the command
//! as people get it, from this source:
//!
//! ```text
//! cargo build --release -p inspan-cli -p inspan-benches && target/release/inspan-benches
//! ```
//!
//! Prints each figure beside its limit. Nothing fails here: machines differ, and people judge.
//! docs/benchmarks.md says what is measured and what was seen.

mod command;
mod library;
mod plain;
mod process;
mod script;
mod server;
mod table;

use std::{
    error::Error,
    io::{self, Write, stdout},
    path::PathBuf,
    time::Duration,
};

use inspan_core::effects::Repeat;

use command::{Bench, Run};
use process::Seen;
use server::Exchange;
use table::{Table, median, ms};

/// Starts that are measured, on a home that exists.
const STARTS: usize = 30;
/// Starts that are measured, each with a new home.
const FIRST_STARTS: usize = 10;
/// Rounds of a long session.
const ROUNDS: usize = 1_000;
/// Long sessions that are measured.
const LONG_RUNS: usize = 10;
/// Rounds of a session in this process.
const LIBRARY_ROUNDS: usize = 200;
/// Rounds at the beginning, in the middle and at the end that are compared.
const TEN: usize = 10;
/// What a model takes for a reply where it is not there at once.
const THINK: Duration = Duration::from_millis(10);

/// A million bytes.
const MB: f64 = 1e6;

fn main() -> Result<(), Box<dyn Error>> {
    let bench = Bench::new(inspan()?)?;
    let mut table = Table::default();
    starts(&bench, &mut table)?;
    long_sessions(&bench, &mut table)?;
    durable_rounds(&mut table)?;
    Ok(stdout().write_all(table.into_text().as_bytes())?)
}

/// The command that is measured: the one given, else the one beside this program.
fn inspan() -> Result<PathBuf, Box<dyn Error>> {
    let beside = || Ok(std::env::current_exe()?.with_file_name("inspan"));
    let path: io::Result<PathBuf> =
        std::env::args_os().nth(1).map_or_else(beside, |p| Ok(p.into()));
    let path = path?;
    if path.is_file() {
        return Ok(path);
    }
    Err(format!("{} is not there: build it with -p inspan-cli", path.display()).into())
}

fn starts(bench: &Bench, table: &mut Table) -> Result<(), Box<dyn Error>> {
    table.heading("from the start of the process to its first request, ms");
    let first_ever = (0..FIRST_STARTS)
        .map(|number| bench.run(&format!("new-{number}"), 0, &[0]))
        .collect::<Result<Vec<_>, _>>()?;
    // A home with a past: its log is not empty.
    bench.run("home", ROUNDS, &[])?;
    let again = (0..STARTS).map(|_| bench.run("home", 0, &[0])).collect::<Result<Vec<_>, _>>()?;
    let times = |runs: &[Run]| runs.iter().filter_map(Run::first_request).collect::<Vec<_>>();
    table.times("on a home that exists", &times(&again), Some(15.0));
    table.times("  of it on a processor", &busy(&again), None);
    table.times("the first start ever", &times(&first_ever), Some(60.0));
    table.times("  of it on a processor", &busy(&first_ever), None);
    let bytes = again.last().and_then(|run| run.exchanges.first()).map_or(0, |first| first.bytes);
    table.heading("bytes");
    table.figure("of the first request, with one tool", bytes as f64, Some(6_000.0));
    Ok(())
}

/// Processor time at the first request.
fn busy(runs: &[Run]) -> Vec<Duration> {
    let first = |run: &Run| run.seen.first().copied().flatten();
    runs.iter().filter_map(first).map(|seen| seen.busy).collect()
}

fn long_sessions(bench: &Bench, table: &mut Table) -> Result<(), Box<dyn Error>> {
    let runs = (0..LONG_RUNS)
        .map(|_| bench.run("home", ROUNDS, &[0, 50, ROUNDS]))
        .collect::<Result<Vec<_>, _>>()?;
    table.heading("a round with `echo` (pure), from reply to request, ms");
    let of = |from: usize| -> Vec<Duration> {
        runs.iter().flat_map(|run| rounds(&run.exchanges)[from..][..TEN].to_vec()).collect()
    };
    let all: Vec<_> = runs.iter().flat_map(|run| rounds(&run.exchanges)).collect();
    let (first, last) = (of(0), of(ROUNDS - TEN));
    table.times("all", &all, Some(1.5));
    table.times("the first ten", &first, Some(1.5));
    table.times("the middle ten", &of(ROUNDS / 2), Some(1.5));
    table.times("the last ten", &last, Some(1.5));
    let looks: Vec<[Seen; 3]> = runs.iter().filter_map(looks).collect();
    let busy: Vec<_> =
        looks.iter().map(|[start, _, end]| (end.busy - start.busy) / ROUNDS as u32).collect();
    table.times("on a processor, mean of all", &busy, None);

    let sizes: Vec<usize> =
        runs[0].exchanges.iter().skip(1).map(|exchange| exchange.bytes).collect();
    let sent = plain::sendings(&sizes)?;
    let (sent_first, sent_last) = (&sent[..TEN], &sent[ROUNDS - TEN..]);
    table.times("the bytes of the first ten, sent by a plain program", sent_first, None);
    table.times("the bytes of the last ten, sent by a plain program", sent_last, None);
    table.heading("");
    let ratio = ms(median(&last)) / ms(median(&first));
    table.figure("the last ten to the first ten", ratio, None);
    let own =
        |times: &[Duration], sent: &[Duration]| ms(median(times).saturating_sub(median(sent)));
    let ratio = own(&last, sent_last) / own(&first, sent_first);
    table.figure("the same without the sending of the bytes", ratio, Some(1.3));
    let connections = runs.iter().flat_map(|run| &run.exchanges).map(|e| e.connection + 1);
    table.figure("connections in a session", connections.max().unwrap_or(0) as f64, Some(1.0));

    table.heading("resident memory, MB");
    let most = |at: usize, of: fn(&Seen) -> u64| {
        looks.iter().map(|seen| of(&seen[at])).max().unwrap_or(0) as f64 / MB
    };
    table.figure("after 50 rounds", most(1, |seen| seen.resident), Some(20.0));
    table.figure("the most until then", most(1, |seen| seen.resident_most), Some(20.0));
    table.figure("after 1,000 rounds", most(2, |seen| seen.resident), None);
    Ok(())
}

fn looks(run: &Run) -> Option<[Seen; 3]> {
    let seen: Vec<Seen> = run.seen.iter().copied().collect::<Option<_>>()?;
    seen.try_into().ok()
}

/// From the end of each reply to the arrival of the next request.
fn rounds(exchanges: &[Exchange]) -> Vec<Duration> {
    exchanges.windows(2).map(|pair| pair[1].arrived - pair[0].replied).collect()
}

fn durable_rounds(table: &mut Table) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let appends = plain::appends(folder.path(), LIBRARY_ROUNDS)?;
    let commits = plain::commits(folder.path(), LIBRARY_ROUNDS, Duration::ZERO)?;
    let rested = plain::commits(folder.path(), LIBRARY_ROUNDS, THINK)?;
    table.heading("one durable commit, ms");
    table.times("4 KiB appended to a file, and synced", &appends, None);
    table.times("one entry appended to a log", &commits, None);
    table.times("the same, 10 ms after the one before", &rested, None);

    let own_ms = |commits: &[Duration]| ms(median(commits)) + 1.5;
    table.heading("a round in this process, from reply to request, ms");
    let table_of = [
        ("`pure`, the reply at once", Repeat::Pure, Duration::ZERO, 1.5),
        ("`once`, the reply at once", Repeat::Once, Duration::ZERO, own_ms(&commits)),
        ("`once`, the reply after 10 ms", Repeat::Once, THINK, own_ms(&rested)),
    ];
    let mut commits = Vec::new();
    for (what, repeat, think, limit) in table_of {
        let run = library::run(folder.path(), repeat, LIBRARY_ROUNDS, think)?;
        table.times(what, &rounds(&run.exchanges), Some(limit));
        commits.push((what, run.commits.len() as f64 / LIBRARY_ROUNDS as f64));
    }
    table.heading("appends to the store in a round");
    for (what, count) in commits {
        table.figure(what, count, Some(2.0));
    }
    Ok(())
}
