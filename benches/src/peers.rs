//! The library with its log in memory, beside rig, which keeps no log.

use std::{error::Error, path::PathBuf, process::Command, time::Duration};

use crate::{
    MB, ROUNDS, STARTS, TEN, last_to_first, program,
    program::Run,
    script,
    table::{Table, ms},
};

/// Rounds of a session that is compared.
const SHORT: usize = 50;
/// Sessions of so many rounds that are measured.
const RUNS: usize = 20;
/// Sessions at once.
const SESSIONS: usize = 1_000;

/// The two programs.
pub(crate) fn beside_rig(table: &mut Table) -> Result<(), Box<dyn Error>> {
    let programs = [program("with-inspan")?, program("../rig/release/with-rig")?];
    // In turn, so that both have the same machine.
    let run = |times: usize, rounds: usize, looks: &'static [usize]| {
        let mut runs = [Vec::new(), Vec::new()];
        for _ in 0..times {
            for (program, runs) in programs.iter().zip(&mut runs) {
                runs.push(note(program, rounds, looks)?);
            }
        }
        Ok::<_, Box<dyn Error>>(runs)
    };
    let starts = run(STARTS, 0, &[])?;
    let rounds = run(RUNS, SHORT, &[SHORT])?;

    table.versus("the library, its log in memory, and rig, without a log", ["inspan", "rig"]);
    let first = |run: &Run| run.first_request().into_iter().collect();
    table.pair("the first request after the start, ms", times(&starts, first), Some(10.0));
    table.pair("a round of fifty, ms", times(&rounds, Run::rounds), Some(0.5));
    let first = |run: &Run| run.rounds()[..TEN].to_vec();
    table.pair("  of the first ten", times(&rounds, first), None);
    let last = |run: &Run| run.rounds()[SHORT - TEN..].to_vec();
    table.pair("  of the last ten", times(&rounds, last), None);
    let resident = |run: &Run| run.seen.iter().flatten().map(|seen| seen.resident).max();
    let resident = |runs: &Vec<Run>| {
        runs.iter().filter_map(resident).map(|bytes| bytes as f64 / MB).collect::<Vec<_>>()
    };
    table.pair("resident after fifty rounds, MB", rounds.each_ref().map(resident), Some(12.0));
    Ok(())
}

fn note(program: &PathBuf, rounds: usize, looks: &'static [usize]) -> Result<Run, Box<dyn Error>> {
    program::run(Command::new(program), script::rounds(rounds, "note"), looks)
}

/// Milliseconds of all runs of each of the two.
fn times(runs: &[Vec<Run>; 2], of: impl Fn(&Run) -> Vec<Duration>) -> [Vec<f64>; 2] {
    runs.each_ref().map(|runs| runs.iter().flat_map(&of).map(ms).collect())
}

/// A thousand rounds of the library.
pub(crate) fn long_session(table: &mut Table) -> Result<(), Box<dyn Error>> {
    let program = program("with-inspan")?;
    let runs = (0..TEN).map(|_| note(&program, ROUNDS, &[])).collect::<Result<Vec<_>, _>>()?;
    let of = |from: usize| -> Vec<Duration> {
        runs.iter().flat_map(|run| run.rounds()[from..][..TEN].to_vec()).collect()
    };
    let (first, last) = (of(0), of(ROUNDS - TEN));
    table.heading("the library: a round of a thousand, ms");
    table.times("the first ten", &first, Some(0.5));
    table.times("the last ten", &last, Some(0.5));
    last_to_first(table, &runs[0], &first, &last)
}

/// A thousand sessions in one process.
pub(crate) fn many_sessions(table: &mut Table) -> Result<(), Box<dyn Error>> {
    let mut command = Command::new(program("with-inspan")?);
    command.args(["sessions", &SESSIONS.to_string()]);
    let run = program::run(command, script::meetings(SESSIONS), &[])?;
    let told = run.answer.split_whitespace().map(str::parse).collect::<Result<Vec<f64>, _>>()?;
    let [before, within, after] = told[..] else { return Err(run.answer.into()) };
    table.heading("a thousand sessions at once in one process, kB each");
    let each = |bytes: f64| (bytes - before) / SESSIONS as f64 / 1e3;
    table.figure("all in a tool call", each(within), Some(60.0));
    table.figure("all after their turn", each(after), Some(60.0));
    Ok(())
}
