//! Runs the command `inspan run` against the server, as a person would.

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

use crate::{
    program::{self, Run},
    script,
};

/// The agent: one tool, which is part of the command and `pure`.
const AGENT: &str =
    "name: bench\nmodel: anthropic://bench\nprompt: prompt.md\ntools:\n  echo: {}\n";

/// A server with fifteen tools, which are never called.
const TOOL_SERVER: &str = r#"
import json, sys
TOOL = {"description": "Reads or changes one thing of many and tells how it is from then on.",
        "inputSchema": {"type": "object", "required": ["id"], "properties": {
            "id": {"type": "integer", "description": "The number of the thing"},
            "note": {"type": "string", "description": "What to write beside it"}}}}
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                  "serverInfo": {"name": "bench", "version": "1"}}
    elif message.get("method") == "tools/list":
        result = {"tools": [{"name": f"thing_{n}", **TOOL} for n in range(15)]}
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"#;

const PROMPT: &str = "You are {{ agent.name }}. Say everything with your tool.\n";

/// A command, and a folder for agents and homes.
pub(crate) struct Bench {
    inspan: PathBuf,
    folder: TempDir,
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
        program::run(self.command(home), script::rounds(rounds, "echo"), looks)
    }

    /// Goes on with a session of this home and looks at the process at its first request.
    ///
    /// # Errors
    /// See [`Bench::run`].
    pub(crate) fn go_on(&self, home: &str, session: &str) -> Result<Run, Box<dyn Error>> {
        let mut command = self.command(home);
        command.args(["--session", session]);
        program::run(command, script::rounds(0, "echo"), &[0])
    }

    /// Makes the same agent with so many servers of tools, in the folder of this name; `more` is
    /// added to its file.
    ///
    /// # Errors
    /// The folder can't be written.
    pub(crate) fn add_servers(&self, name: &str, count: usize, more: &str) -> std::io::Result<()> {
        let folder = self.path(name);
        fs::create_dir(&folder)?;
        let server = |number| {
            format!("  s{number}: {{ command: python3, args: [server.py], protocol: legacy }}\n")
        };
        let servers: String = (0..count).map(server).collect();
        fs::write(folder.join("agent.yaml"), format!("{AGENT}{more}mcpServers:\n{servers}"))?;
        fs::write(folder.join("server.py"), TOOL_SERVER)?;
        fs::write(folder.join("prompt.md"), PROMPT)
    }

    /// The first request of a session of the agent in the folder of this name.
    ///
    /// # Errors
    /// See [`Bench::run`].
    pub(crate) fn start(&self, agent: &str) -> Result<Run, Box<dyn Error>> {
        program::run(self.command_of(agent, "home"), script::rounds(0, "echo"), &[0])
    }

    fn command(&self, home: &str) -> Command {
        self.command_of("agent", home)
    }

    fn command_of(&self, agent: &str, home: &str) -> Command {
        let mut command = Command::new(&self.inspan);
        command
            .args(["run", "--agent"])
            .arg(self.path(agent))
            .args(["--rounds-max", "2000", "--calls-max", "2000", "--tokens-max", "none"])
            .arg("Say a thousand things.")
            .env("INSPAN_HOME", self.path(home));
        command
    }

    /// The home folder of this name, and the like.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        let folder: &Path = self.folder.path();
        folder.join(name)
    }
}
