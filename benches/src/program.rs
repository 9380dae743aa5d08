//! Runs a program against the server, as a person would.

use std::{
    error::Error,
    io::{Read, Seek},
    process::{Command, Stdio},
    sync::mpsc,
    time::{Duration, Instant},
};

use crate::{
    process::{self, Seen},
    server::{Exchange, Server},
};

/// One run of a program.
#[derive(Debug)]
pub(crate) struct Run {
    /// When the process was asked for.
    pub(crate) began: Instant,
    /// What the server saw.
    pub(crate) exchanges: Vec<Exchange>,
    /// The process at the requests that were looked at, in their order.
    pub(crate) seen: Vec<Option<Seen>>,
    /// What it wrote to standard output.
    pub(crate) answer: String,
}

/// Runs a program that asks Anthropic's models, with these replies, and looks at the process at
/// these requests, counted from 0.
///
/// # Errors
/// The program failed, or did not ask for every reply; what it said is in the error.
pub(crate) fn run(
    mut command: Command,
    replies: Vec<Vec<u8>>,
    looks: &'static [usize],
) -> Result<Run, Box<dyn Error>> {
    let (tell_id, id) = mpsc::channel();
    let (tell_seen, seen) = mpsc::channel();
    let mut child = None;
    let look = move |number| {
        if looks.contains(&number) {
            child = child.or_else(|| id.recv().ok());
            // Nobody listens when the run has failed already.
            let _ = tell_seen.send(child.and_then(process::look));
        }
    };
    let requests = replies.len();
    let server = Server::start(replies, Duration::ZERO, look)?;
    let (mut answer, mut said) = (tempfile::tempfile()?, tempfile::tempfile()?);
    command
        .env("ANTHROPIC_BASE_URL", format!("http://{}", server.address()))
        .env("ANTHROPIC_API_KEY", "sk-bench-0123456789")
        .stdin(Stdio::null())
        .stdout(answer.try_clone()?)
        .stderr(said.try_clone()?);
    let began = Instant::now();
    let mut child = command.spawn()?;
    tell_id.send(child.id())?;
    let status = child.wait()?;
    let exchanges = server.finish()?;
    if !status.success() || exchanges.len() != requests {
        let (said, got) = (text(&mut said)?, exchanges.len());
        return Err(format!("{status} after {got} of {requests} requests: {said}").into());
    }
    Ok(Run { began, exchanges, seen: seen.iter().collect(), answer: text(&mut answer)? })
}

fn text(file: &mut std::fs::File) -> Result<String, Box<dyn Error>> {
    let mut text = String::new();
    file.rewind()?;
    file.read_to_string(&mut text)?;
    Ok(text)
}

impl Run {
    /// From the process's start to the arrival of its first request.
    pub(crate) fn first_request(&self) -> Option<Duration> {
        self.exchanges.first().map(|first| first.arrived - self.began)
    }

    /// From the end of each reply to the arrival of the next request.
    pub(crate) fn rounds(&self) -> Vec<Duration> {
        rounds(&self.exchanges)
    }
}

/// From the end of each reply to the arrival of the next request.
pub(crate) fn rounds(exchanges: &[Exchange]) -> Vec<Duration> {
    exchanges.windows(2).map(|pair| pair[1].arrived - pair[0].replied).collect()
}
