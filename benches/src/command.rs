//! Runs the command `inspan run` against the server, as a person would.

use std::{
    error::Error,
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    sync::mpsc,
    time::{Duration, Instant},
};

use tempfile::TempDir;

use crate::{
    process::{self, Seen},
    script,
    server::{Exchange, Server},
};

/// The agent: one tool, which is part of the command and `pure`.
const AGENT: &str =
    "name: bench\nmodel: anthropic://bench\nprompt: prompt.md\ntools:\n  echo: {}\n";

const PROMPT: &str = "You are {{ agent.name }}. Say everything with your tool.\n";

/// A command, and a folder for agents and homes.
pub(crate) struct Bench {
    inspan: PathBuf,
    folder: TempDir,
}

/// One run of the command.
#[derive(Debug)]
pub(crate) struct Run {
    /// When the process was asked for.
    pub(crate) began: Instant,
    /// What the server saw.
    pub(crate) exchanges: Vec<Exchange>,
    /// The process at the requests that were looked at, in their order.
    pub(crate) seen: Vec<Option<Seen>>,
}

impl Bench {
    /// Makes an agent's folder for the command at `inspan`.
    pub(crate) fn new(inspan: PathBuf) -> Result<Self, Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        fs::create_dir(folder.path().join("agent"))?;
        fs::write(folder.path().join("agent/agent.yaml"), AGENT)?;
        fs::write(folder.path().join("agent/prompt.md"), PROMPT)?;
        Ok(Self { inspan, folder })
    }

    /// Runs so many rounds with the home folder of this name and looks at the process at these
    /// requests, counted from 0.
    ///
    /// # Errors
    /// The command failed; what it said is in the error.
    pub(crate) fn run(
        &self,
        home: &str,
        rounds: usize,
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
        let server = Server::start(script::rounds(rounds, "echo"), Duration::ZERO, look)?;
        let said = self.path("said");
        let url = format!("http://{}", server.address());
        let mut command = self.command(home, &url, File::create(&said)?);
        let began = Instant::now();
        let mut child = command.spawn()?;
        tell_id.send(child.id())?;
        let status = child.wait()?;
        let exchanges = server.finish()?;
        if !status.success() || exchanges.len() != rounds + 1 {
            let said = fs::read_to_string(said)?;
            let requests = exchanges.len();
            return Err(format!("{status} after {requests} requests: {said}").into());
        }
        Ok(Run { began, exchanges, seen: seen.iter().collect() })
    }

    fn command(&self, home: &str, url: &str, said: File) -> Command {
        let mut command = Command::new(&self.inspan);
        command
            .args(["run", "--agent"])
            .arg(self.path("agent"))
            .args(["--rounds-max", "2000", "--calls-max", "2000", "--tokens-max", "none"])
            .arg("Say a thousand things.")
            .env("INSPAN_HOME", self.path(home))
            .env("ANTHROPIC_BASE_URL", url)
            .env("ANTHROPIC_API_KEY", "sk-bench-0123456789")
            .stdout(std::process::Stdio::null())
            .stderr(said);
        command
    }

    fn path(&self, name: &str) -> PathBuf {
        let folder: &Path = self.folder.path();
        folder.join(name)
    }
}

impl Run {
    /// From the process's start to the arrival of its first request.
    pub(crate) fn first_request(&self) -> Option<Duration> {
        self.exchanges.first().map(|first| first.arrived - self.began)
    }
}
