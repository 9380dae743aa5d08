//! A home, an agent's folder and a working directory of their own for each test, and the command
//! run in them.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Lines},
    os::{fd::OwnedFd, unix::fs::PermissionsExt},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Output, Stdio},
};

use inspan_testkit::server::Server;
use rustix::{
    process::{Pid, Signal, kill_process},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
};
use serde_json::Value;
use tempfile::TempDir;

/// The key that must be found nowhere.
pub(crate) const CANARY: &str = "sk-ant-canary-7d3f9a1c5e";

/// An agent with every kind of tool that needs no program.
pub(crate) const ECHO: &str = "\
name: parrot
model: anthropic://claude-scripted
tools: { echo: }
";

/// Where a test plays. It is gone when it is dropped.
pub(crate) struct World {
    folder: TempDir,
    variables: Vec<(String, String)>,
}

impl World {
    /// A world without a home, with an agent that has the tool `echo`.
    pub(crate) fn new() -> Self {
        let folder = TempDir::new().expect("a folder");
        let world = Self { folder, variables: Vec::new() };
        fs::create_dir(world.agent()).expect("a folder");
        fs::create_dir(world.work()).expect("a folder");
        world.write("agent/agent.yaml", ECHO);
        world
    }

    /// A world whose models are at `server`.
    pub(crate) fn at(server: &Server) -> Self {
        Self::new().at_url(&server.url())
    }

    /// The same with the address of a server.
    pub(crate) fn at_url(self, url: &str) -> Self {
        self.with("ANTHROPIC_BASE_URL", url)
            .with("OPENAI_BASE_URL", &format!("{url}/v1"))
            .with("ANTHROPIC_API_KEY", CANARY)
            .with("OPENAI_API_KEY", CANARY)
    }

    /// With a variable of the environment.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With an agent of its own.
    pub(crate) fn with_agent(self, yaml: &str) -> Self {
        self.write("agent/agent.yaml", yaml);
        self
    }

    /// With a file in the agent's folder.
    pub(crate) fn with_file(self, name: &str, text: &str) -> Self {
        self.write(&format!("agent/{name}"), text);
        self
    }

    /// With `config.yaml`.
    pub(crate) fn with_config(self, yaml: &str) -> Self {
        fs::create_dir_all(self.home()).expect("a folder");
        self.write("home/config.yaml", yaml);
        self
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.path("home")
    }

    pub(crate) fn agent(&self) -> PathBuf {
        self.path("agent")
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.path("work")
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.path("home/sessions.db")
    }

    /// Writes a file for everybody to read.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::write(&path, text).expect("a file that can be written");
        fs::set_permissions(path, fs::Permissions::from_mode(0o644)).expect("a mode");
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// The command with these arguments, not yet started.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_inspan"));
        self.surround(&mut command).args(arguments);
        command
    }

    /// Gives `command` the environment of this world and nothing else.
    pub(crate) fn surround<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .current_dir(self.work())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.folder.path())
            .env("INSPAN_HOME", self.home())
            .env("TZ", "UTC")
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
    }

    /// Runs the command to its end.
    pub(crate) fn inspan(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.command(arguments).output().expect("the command"))
    }

    /// `inspan run --agent … PROMPT` to its end.
    pub(crate) fn run(&self, prompt: &str, flags: &[&str]) -> Ran {
        self.inspan(&self.run_arguments(prompt, flags))
    }

    /// `inspan run --json --agent … PROMPT`, while it goes on.
    pub(crate) fn start(&self, prompt: &str, flags: &[&str]) -> Running {
        let flags = [flags, &["--json"]].concat();
        Running::start(self.command(&self.run_arguments(prompt, &flags)))
    }

    fn run_arguments<'a>(&self, prompt: &'a str, flags: &[&'a str]) -> Vec<&'a str> {
        [&["run", "--agent", "../agent", prompt], flags].concat()
    }

    /// Says `go on` to a session and expects the answer of [`crate::model::fine`].
    pub(crate) fn goes_on(&self, id: &str) {
        let ran = self.run("go on", &["--session", id]);
        assert_eq!((ran.code, ran.out.as_str()), (0, "Fine.\n"), "{}", ran.err);
    }

    /// The log of a session.
    pub(crate) fn log(&self, id: &str) -> Vec<Value> {
        let ran = self.inspan(&["show", "--json", id]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        ran.lines()
    }

    /// The only session's identifier.
    pub(crate) fn only_session(&self) -> String {
        let ran = self.inspan(&["sessions", "--json"]);
        let rows = ran.lines();
        assert_eq!((ran.code, rows.len()), (0, 1), "{}", ran.err);
        text(&rows[0]["id"])
    }

    /// Makes a pipe with a name in the agent's folder.
    pub(crate) fn pipe(&self, name: &str) -> PathBuf {
        let path = self.agent().join(name);
        let made = Command::new("mkfifo").arg(&path).status().expect("mkfifo");
        assert!(made.success());
        path
    }

    /// A text with the paths of this world, identifiers of sessions and times taken out.
    pub(crate) fn plain(&self, text: &str) -> String {
        let text = text.replace(&self.folder.path().display().to_string(), "WORLD");
        text.split_inclusive([' ', '\n', '/']).map(plain_word).collect()
    }
}

/// Replaces what is another in every run.
fn plain_word(word: &str) -> String {
    let end = word.trim_end_matches([' ', '\n', '/', ':', ';']).len();
    let (core, rest) = word.split_at(end);
    let is_id = core.len() == 36 && core.matches('-').count() == 4;
    let number = core.trim_end_matches(['m', 's']);
    let is_time = number.len() < core.len()
        && !number.is_empty()
        && number.chars().all(|c| c.is_ascii_digit() || c == 'm');
    match (is_id, is_time) {
        (true, _) => format!("ID{rest}"),
        (_, true) => format!("TIME{rest}"),
        _ => word.to_owned(),
    }
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Ran {
    /// The exit code; -1 after a signal.
    pub(crate) code: i32,
    /// Standard output.
    pub(crate) out: String,
    /// Standard error.
    pub(crate) err: String,
}

impl Ran {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).expect("text"),
            err: String::from_utf8(output.stderr).expect("text"),
        }
    }

    /// The identifier of the session as a person is told it.
    pub(crate) fn id(&self) -> &str {
        let mut lines = self.err.lines().filter_map(|line| line.strip_prefix("session "));
        lines.next().expect("the identifier of the session")
    }

    /// Standard output as lines of JSON.
    pub(crate) fn lines(&self) -> Vec<Value> {
        self.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// The last line of standard output as JSON.
    pub(crate) fn done(&self) -> Value {
        self.lines().pop().unwrap_or_default()
    }
}

/// A command that goes on, with its standard output as it comes.
pub(crate) struct Running {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    seen: Vec<Value>,
}

impl Running {
    /// Starts a command that writes lines of JSON.
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Self { child, lines, seen: Vec::new() }
    }

    /// Reads until a line that `is_it`; false when there is none.
    pub(crate) fn read_until(&mut self, mut is_it: impl FnMut(&Value) -> bool) -> bool {
        for line in self.lines.by_ref() {
            let line: Value = serde_json::from_str(&line.expect("text")).expect("JSON");
            let found = is_it(&line);
            self.seen.push(line);
            if found {
                return true;
            }
        }
        false
    }

    /// Reads until an entry of this kind.
    pub(crate) fn read_entry(&mut self, kind: &str) {
        assert!(self.read_until(|line| line["entry"]["kind"] == kind), "no {kind}");
    }

    /// The identifier of the session, which is the first that is said.
    pub(crate) fn id(&mut self) -> String {
        if self.seen.is_empty() {
            self.read_until(|_| true);
        }
        text(&self.seen[0]["id"])
    }

    /// What `kill -9` does.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("a process");
        self.child.wait().expect("a process");
    }

    /// Sends a signal: what Ctrl-C does, and `kill`.
    pub(crate) fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("a process");
    }

    /// Waits for the end. Standard output holds what was read before, too.
    pub(crate) fn finish(mut self) -> Ran {
        self.read_until(|_| false);
        let mut ran = Ran::of(self.child.wait_with_output().expect("the command"));
        ran.out = self.seen.iter().map(|line| format!("{line}\n")).collect();
        ran
    }
}

/// Runs a command with a terminal as its standard output and error, and gives what was drawn.
pub(crate) fn on_terminal(command: Command) -> (i32, String) {
    at_terminal(command, None)
}

/// The same with a person who types.
pub(crate) fn typing(command: Command, typed: &str) -> (i32, String) {
    at_terminal(command, Some(typed))
}

fn at_terminal(mut command: Command, typed: Option<&str>) -> (i32, String) {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&terminal).and_then(|()| unlockpt(&terminal)).expect("a terminal");
    let name = ptsname(&terminal, Vec::new()).expect("a terminal").into_string().expect("a path");
    let open = || OwnedFd::from(File::options().write(true).open(&name).expect("a terminal"));
    if let Some(typed) = typed {
        rustix::io::write(&terminal, typed.as_bytes()).expect("a terminal");
        let input = File::open(&name).expect("a terminal");
        command.stdin(OwnedFd::from(input));
    }
    let mut child = command
        .env("TERM", "xterm-256color")
        .stdout(open())
        .stderr(open())
        .spawn()
        .expect("the command");
    drop(command);
    let mut drawn = Vec::new();
    let mut buffer = [0; 4096];
    // A terminal that nobody holds any more ends with an error.
    while let Ok(count @ 1..) = rustix::io::read(&terminal, &mut buffer) {
        drawn.extend_from_slice(&buffer[..count]);
    }
    let code = child.wait().expect("the command").code().unwrap_or(-1);
    (code, String::from_utf8(drawn).expect("text").replace("\r\n", "\n"))
}

/// Whether any file below `folder` holds `bytes`.
pub(crate) fn found_in(folder: &Path, bytes: &[u8]) -> Vec<PathBuf> {
    let mut folders = vec![folder.to_owned()];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("a file").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.is_file() {
                let held = fs::read(&path).expect("a file");
                if held.windows(bytes.len()).any(|window| window == bytes) {
                    found.push(path);
                }
            }
        }
    }
    found
}

/// The text of a value, or nothing.
pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
