//! What Inspan takes beside the model. `benches/run` builds the command, the programs beside it and
//! rig's, and starts this.
//!
//! Prints each figure beside its limit; the names of sections (`starts`, `rig`, …) as arguments
//! leave out the others. Nothing fails here: machines differ, and people judge.
//! docs/benchmarks.md says what is measured and what was seen.

mod command;
mod library;
mod long;
mod peers;
mod plain;
mod process;
mod program;
mod script;
mod server;
mod table;

use std::{
    error::Error,
    io::{Write, stdout},
    path::PathBuf,
    time::Duration,
};

use inspan_core::effects::Repeat;

use command::Bench;
use process::Seen;
use program::{Run, rounds};
use table::{Table, median, ms};

/// Starts that are measured, on a home that exists.
const STARTS: usize = 30;
/// Starts that are measured, each with a new home.
const FIRST_STARTS: usize = 10;
/// Rounds of a long session.
const ROUNDS: usize = 1_000;
/// Long sessions that are measured.
const LONG_RUNS: usize = 10;
/// Servers of an agent that has many.
const SERVERS: usize = 20;
/// Rounds of a session in this process.
const LIBRARY_ROUNDS: usize = 200;
/// Rounds at the beginning, in the middle and at the end that are compared.
const TEN: usize = 10;
/// Entries of a session with a long past.
const PAST_ENTRIES: u64 = 100_000;
/// Times that it is opened with a snapshot, and as many without.
const OPENINGS: usize = 5;
/// Sessions that write one database at once.
const WRITERS: usize = 64;
/// Entries of each of them.
const WRITTEN: usize = 100;
/// Times that this is measured.
const WRITINGS: usize = 5;
/// What a model takes for a reply where it is not there at once.
const THINK: Duration = Duration::from_millis(10);

/// A million bytes.
const MB: f64 = 1e6;

fn main() -> Result<(), Box<dyn Error>> {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let sections: [(&str, Section); 9] = [
        ("starts", starts),
        ("servers", servers),
        ("command", long_sessions),
        ("long", long_past),
        ("writers", many_writers),
        ("durable", durable_rounds),
        ("rig", peers::beside_rig),
        ("library", peers::long_session),
        ("sessions", peers::many_sessions),
    ];
    let mut table = Table::default();
    for (name, section) in sections {
        if wanted.is_empty() || wanted.iter().any(|wanted| wanted == name) {
            section(&mut table)?;
        }
    }
    Ok(stdout().write_all(table.into_text().as_bytes())?)
}

type Section = fn(&mut Table) -> Result<(), Box<dyn Error>>;

/// A program that is measured: `name` is its path from the folder of this program.
fn program(name: &str) -> Result<PathBuf, Box<dyn Error>> {
    let path = std::env::current_exe()?.with_file_name(name);
    if path.is_file() {
        return Ok(path);
    }
    Err(format!("{} is not there: `benches/run` builds all and measures", path.display()).into())
}

fn starts(table: &mut Table) -> Result<(), Box<dyn Error>> {
    let bench = Bench::new(program("inspan")?)?;
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

/// Servers of tools whose catalogues are known, and that are not used.
fn servers(table: &mut Table) -> Result<(), Box<dyn Error>> {
    let bench = Bench::new(program("inspan")?)?;
    bench.add_servers("found", SERVERS, "")?;
    bench.add_servers("told", SERVERS, "tools_tokens_max: none\n")?;
    // They are started once, so that their catalogues are known.
    bench.start("found")?;
    bench.start("told")?;
    table.heading("the first request with 20 servers of 300 tools, known and unused, ms");
    let [mut without, mut found, mut told] = [const { Vec::new() }; 3];
    for _ in 0..STARTS {
        for (agent, runs) in [("agent", &mut without), ("found", &mut found), ("told", &mut told)] {
            runs.extend(bench.start(agent)?.first_request());
        }
    }
    table.times("without servers", &without, None);
    table.times("with them, their tools found", &found, None);
    table.times("with them, their tools told", &told, None);
    let later = |runs: &[Duration]| {
        let pairs = runs.iter().zip(&without);
        pairs.map(|(with, without)| with.saturating_sub(*without)).collect::<Vec<_>>()
    };
    table.times("later, their tools found", &later(&found), Some(20.0));
    table.times("later, their tools told", &later(&told), Some(20.0));
    Ok(())
}

/// Processor time at the first request.
fn busy(runs: &[Run]) -> Vec<Duration> {
    let first = |run: &Run| run.seen.first().copied().flatten();
    runs.iter().filter_map(first).map(|seen| seen.busy).collect()
}

fn long_sessions(table: &mut Table) -> Result<(), Box<dyn Error>> {
    let bench = Bench::new(program("inspan")?)?;
    let runs = (0..LONG_RUNS)
        .map(|_| bench.run("home", ROUNDS, &[0, 50, ROUNDS]))
        .collect::<Result<Vec<_>, _>>()?;
    table.heading("a round with `echo` (pure), from reply to request, ms");
    let of = |from: usize| -> Vec<Duration> {
        runs.iter().flat_map(|run| run.rounds()[from..][..TEN].to_vec()).collect()
    };
    let all: Vec<_> = runs.iter().flat_map(Run::rounds).collect();
    let (first, last) = (of(0), of(ROUNDS - TEN));
    table.times("all", &all, Some(1.5));
    table.times("the first ten", &first, Some(1.5));
    table.times("the middle ten", &of(ROUNDS / 2), Some(1.5));
    table.times("the last ten", &last, Some(1.5));
    let looks: Vec<[Seen; 3]> = runs.iter().filter_map(looks).collect();
    let busy: Vec<_> =
        looks.iter().map(|[start, _, end]| (end.busy - start.busy) / ROUNDS as u32).collect();
    table.times("on a processor, mean of all", &busy, None);

    last_to_first(table, &runs[0], &first, &last)?;
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

/// How much the last rounds take more than the first, with and without the sending of the bytes,
/// which grow with the session.
fn last_to_first(
    table: &mut Table,
    run: &Run,
    first: &[Duration],
    last: &[Duration],
) -> Result<(), Box<dyn Error>> {
    let sizes: Vec<usize> = run.exchanges.iter().skip(1).map(|exchange| exchange.bytes).collect();
    let sent = plain::sendings(&sizes)?;
    let (sent_first, sent_last) = (&sent[..TEN], &sent[sent.len() - TEN..]);
    table.times("the bytes of the first ten, sent by a plain program", sent_first, None);
    table.times("the bytes of the last ten, sent by a plain program", sent_last, None);
    table.heading("");
    let ratio = ms(median(last)) / ms(median(first));
    table.figure("the last ten to the first ten", ratio, None);
    let own =
        |times: &[Duration], sent: &[Duration]| ms(median(times).saturating_sub(median(sent)));
    let ratio = own(last, sent_last) / own(first, sent_first);
    table.figure("the same without the sending of the bytes", ratio, Some(1.3));
    Ok(())
}

/// A session that is opened again, with a snapshot and without. Each opening is of a copy.
fn long_past(table: &mut Table) -> Result<(), Box<dyn Error>> {
    let bench = Bench::new(program("inspan")?)?;
    bench.run("past", 0, &[])?;
    let past = bench.path("past");
    let id = long::grow(&past, PAST_ENTRIES)?;
    long::copy(&past, &bench.path("kept"))?;
    long::keep(&bench.path("kept"), &id)?;

    let mut runs = [Vec::new(), Vec::new()];
    for _ in 0..OPENINGS {
        for (home, runs) in ["kept", "past"].into_iter().zip(&mut runs) {
            let copy = bench.path("copy");
            long::copy(&bench.path(home), &copy)?;
            runs.push(bench.go_on("copy", id.as_str())?);
            std::fs::remove_dir_all(copy)?;
        }
    }
    let [kept, folded] = &runs;
    table.heading("a session of 100,000 entries, from the start of the process to its request, ms");
    let times = |runs: &[Run]| runs.iter().filter_map(Run::first_request).collect::<Vec<_>>();
    table.times("with a snapshot", &times(kept), Some(500.0));
    table.times("  of it on a processor", &busy(kept), None);
    table.times("without", &times(folded), Some(5_000.0));
    table.times("  of it on a processor", &busy(folded), None);

    table.heading("");
    let requests: Vec<_> = runs.iter().flatten().filter_map(|run| run.exchanges.first()).collect();
    let bodies: std::collections::BTreeSet<u64> = requests.iter().map(|one| one.body).collect();
    table.figure("different requests in all openings", bodies.len() as f64, Some(1.0));
    let bytes = requests.first().map_or(0, |first| first.bytes) as f64;
    table.figure("bytes of the request, MB", bytes / MB, None);
    let most = |runs: &[Run], of: fn(&Seen) -> u64| {
        let seen = runs.iter().filter_map(|run| run.seen.first().copied().flatten());
        seen.map(|seen| of(&seen)).max().unwrap_or(0) as f64
    };
    for (runs, name) in [(kept, "with a snapshot"), (folded, "without")] {
        let all = most(runs, |seen| seen.resident_most) / bytes;
        table.figure(&format!("the most memory {name}, by bytes of the request"), all, Some(3.0));
        let own = most(runs, |seen| seen.own) / bytes;
        table.figure("  without the pages of the program's file", own, None);
    }
    table.figure("all of the home without a snapshot, MB", long::bytes(&past)? as f64 / MB, None);
    let blobs = long::bytes(&past.join("sessions.db.blobs"))? as f64;
    table.figure("  of it blobs, MB", blobs / MB, None);
    Ok(())
}

fn looks(run: &Run) -> Option<[Seen; 3]> {
    let seen: Vec<Seen> = run.seen.iter().copied().collect::<Option<_>>()?;
    seen.try_into().ok()
}

fn many_writers(table: &mut Table) -> Result<(), Box<dyn Error>> {
    let mut rates = Vec::new();
    for _ in 0..WRITINGS {
        let folder = tempfile::tempdir()?;
        rates.push(plain::entries_a_second(folder.path(), WRITERS, WRITTEN)?);
    }
    rates.sort_unstable_by(f64::total_cmp);
    table.heading("durable entries a second; the limit is the least");
    let what = "64 sessions in one database, one entry each at once";
    table.row(what, rates[0], rates[WRITINGS / 2], Some(2_000.0));
    Ok(())
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
    table.heading("appends to the store, by rounds; a session's beginning and end are two more");
    for (what, count) in commits {
        table.figure(what, count, None);
    }
    Ok(())
}
