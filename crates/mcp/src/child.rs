//! A server that is a program: started in its own process group, listened to, and ended with
//! everything that it started.

use std::{
    collections::VecDeque,
    ffi::OsString,
    io,
    os::unix::process::{CommandExt, ExitStatusExt},
    process::{Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use inspan_engine::tools::command::VARIABLES_ALLOWED;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use secrecy::ExposeSecret;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt, DuplexStream},
    process::{ChildStdin, ChildStdout},
    sync::watch,
    time::timeout,
};

use crate::{
    config::ProgramLink,
    leftovers::{Owner, left_in_group},
};

/// Bytes of one message of a server.
const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Bytes of the end of a server's error output that are kept.
const ERROR_BYTES_MAX: usize = 4 * 1024;
/// Lines of it that are shown in an error.
const ERROR_LINES_MAX: usize = 5;
/// Characters of the first line that is no message, which is shown.
const JUNK_CHARS_MAX: usize = 200;
/// How long a server may take to end once its input is closed, in milliseconds.
const CLOSE_MS_MAX: u64 = 3_000;
/// How long it may take after it was asked by a signal.
const TERMINATE_MS_MAX: u64 = 1_000;
/// How long its output is still read when it has ended: what it left behind may hold it open.
const LEFT_MS_MAX: u64 = 200;
/// Bytes on their way from the program to whoever understands them.
const BYTES_BETWEEN: usize = 64 * 1024;

/// How the close of a server went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    /// It ended when its input was closed.
    ByItself,
    /// It had to be asked by a signal.
    Terminated,
    /// It had to be killed.
    Killed,
}

/// A running server. Dropping it kills its process group.
pub(crate) struct Child {
    group: Arc<Group>,
    ended: watch::Receiver<Option<ExitStatus>>,
    heard: Arc<Mutex<Heard>>,
    /// Its other end is gone when nothing more comes on the error output.
    errors: watch::Receiver<()>,
}

/// What a server said beside its messages.
#[derive(Debug, Default)]
struct Heard {
    errors: VecDeque<u8>,
    junk_lines: u64,
    junk_first: Option<String>,
    fault: Option<String>,
    /// Processes that it left when it ended by itself.
    left: usize,
}

/// Lines on a server's output that are no messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Junk {
    /// How many there were.
    pub lines: u64,
    /// The beginning of the first.
    pub first: Option<String>,
}

/// The ends of the two pipes over which messages go.
pub(crate) type Pipes = (DuplexStream, ChildStdin);

impl Child {
    /// Starts the program. `launcher` are the words before it that tie its life to that of this
    /// process; without them only its input does.
    pub(crate) fn start(
        program: &ProgramLink,
        owner: &Owner,
        launcher: &[OsString],
    ) -> io::Result<(Self, Pipes)> {
        let mut words = launcher.to_vec();
        words.extend(program.argv.iter().map(OsString::from));
        let (name, arguments) = words
            .split_first()
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the command is empty"))?;
        let allowed = program.environment.iter().filter(|(name, _)| {
            let known = |name: &str| VARIABLES_ALLOWED.contains(&name) || name.starts_with("LC_");
            name.to_str().is_some_and(known)
        });
        let mut process = Command::new(name)
            .args(arguments)
            .current_dir(&program.folder)
            .env_clear()
            .envs(allowed.map(|(name, value)| (name, value)))
            .envs(program.env.iter().map(|(name, value)| (name, value.expose_secret())))
            .env(Owner::VARIABLE, owner.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let pid = Pid::from_child(&process);
        let group = Arc::new(Group { pid, is_there: Mutex::new(true) });
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (process.stdin.take(), process.stdout.take(), process.stderr.take())
        else {
            group.signal(Signal::KILL);
            return Err(io::Error::other("the pipes to the program are missing"));
        };
        let (tell, ended) = watch::channel(None);
        let (listens, errors) = watch::channel(());
        let heard = Arc::<Mutex<Heard>>::default();
        let heard_last = heard.clone();
        let child = Self { group: group.clone(), ended: ended.clone(), heard, errors };
        // A thread, since nothing else learns of an end without also forgetting the process: its
        // group must be killed while its number can't be another's.
        let wait = move || {
            let _ = rustix::io::retry_on_intr(|| {
                waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
            });
            locked(&heard_last).left = left_in_group(pid);
            group.end();
            let status = process.wait().unwrap_or_else(|_| ExitStatus::from_raw(0));
            let _ = tell.send(Some(status));
        };
        std::thread::Builder::new().name("mcp-server".to_owned()).spawn(wait)?;

        let (read, write) = tokio::io::duplex(BYTES_BETWEEN);
        let (stdin, stdout) = (ChildStdin::from_std(stdin)?, ChildStdout::from_std(stdout)?);
        let stderr = tokio::process::ChildStderr::from_std(stderr)?;
        let listening = listen(stderr, child.heard.clone());
        tokio::spawn(async move {
            listening.await;
            drop(listens);
        });
        let pump = Pump { heard: child.heard.clone(), group: child.group.clone(), to: write };
        tokio::spawn(pump.run(stdout, ended));
        Ok((child, (read, stdin)))
    }

    /// Waits until the server ended, whose input was closed; asks it, and then makes it.
    pub(crate) async fn close(&self) -> Closed {
        if self.ends_in(CLOSE_MS_MAX).await {
            return Closed::ByItself;
        }
        self.group.signal(Signal::TERM);
        if self.ends_in(TERMINATE_MS_MAX).await {
            return Closed::Terminated;
        }
        self.group.signal(Signal::KILL);
        self.ends_in(TERMINATE_MS_MAX).await;
        Closed::Killed
    }

    async fn ends_in(&self, ms_max: u64) -> bool {
        let mut ended = self.ended.clone();
        let end = ended.wait_for(Option::is_some);
        timeout(Duration::from_millis(ms_max), end).await.is_ok()
    }

    /// Whether it ended, or broke the rules so that it was ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.borrow().is_some() || self.heard().fault.is_some()
    }

    /// Lines of its output that are no messages.
    pub(crate) fn junk(&self) -> Junk {
        let heard = self.heard();
        Junk { lines: heard.junk_lines, first: heard.junk_first.clone() }
    }

    /// How many processes it left when it ended; they were ended, too.
    pub(crate) fn left(&self) -> usize {
        self.heard().left
    }

    /// How it ended, if it did, and what it last said, in words that follow a sentence.
    pub(crate) async fn last_words(&self) -> String {
        // Its last words may still be on their way.
        if self.ends_in(LEFT_MS_MAX).await {
            let mut errors = self.errors.clone();
            let _ = timeout(Duration::from_millis(LEFT_MS_MAX), errors.changed()).await;
        }
        let status = *self.ended.borrow();
        let heard = self.heard();
        let mut words = match (&heard.fault, status.map(|status| (status.code(), status.signal())))
        {
            (Some(fault), _) => format!(": it {fault}"),
            (None, Some((Some(code), _))) => format!(": it ended with exit status {code}"),
            (None, Some((None, Some(signal)))) => format!(": it ended by signal {signal}"),
            (None, Some((None, None)) | None) => String::new(),
        };
        drop(heard);
        words.push_str(&self.said());
        words
    }

    /// What it last said beside its messages, in words that follow a sentence.
    pub(crate) fn said(&self) -> String {
        let heard = self.heard();
        let mut words = String::new();
        if let Some(first) = &heard.junk_first {
            let lines = heard.junk_lines;
            words.push_str(&format!("; {lines} lines on its output are no messages, as: {first}"));
        }
        let errors: Vec<u8> = heard.errors.iter().copied().collect();
        let errors = String::from_utf8_lossy(&errors);
        let lines: Vec<&str> = errors.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = lines.get(lines.len().saturating_sub(ERROR_LINES_MAX)..).unwrap_or_default();
        if !last.is_empty() {
            words.push_str(&format!("; it last said:\n{}", last.join("\n")));
        }
        words
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        locked(&self.heard)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.group.signal(Signal::KILL);
    }
}

/// The process group of a server. No signal is sent once its number may be another's.
struct Group {
    pid: Pid,
    is_there: Mutex<bool>,
}

impl Group {
    fn signal(&self, signal: Signal) {
        if *locked(&self.is_there) {
            // It fails only when nothing is left of the group.
            let _ = kill_process_group(self.pid, signal);
        }
    }

    /// Kills what the server left behind; its leader has ended and was not yet waited for.
    fn end(&self) {
        let mut is_there = locked(&self.is_there);
        let _ = kill_process_group(self.pid, Signal::KILL);
        *is_there = false;
    }
}

/// No code of ours panics while it holds a lock, so a poisoned one is as good as any.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn listen(mut from: impl AsyncRead + Unpin, heard: Arc<Mutex<Heard>>) {
    let mut piece = [0; 4 * 1024];
    while let Ok(count @ 1..) = from.read(&mut piece).await {
        let mut heard = locked(&heard);
        heard.errors.extend(&piece[..count]);
        let over = heard.errors.len().saturating_sub(ERROR_BYTES_MAX);
        heard.errors.drain(..over);
    }
}

/// Takes messages from a server's output on, and keeps everything else back.
struct Pump {
    heard: Arc<Mutex<Heard>>,
    group: Arc<Group>,
    to: DuplexStream,
}

impl Pump {
    async fn run(mut self, mut from: ChildStdout, mut ended: watch::Receiver<Option<ExitStatus>>) {
        let mut line = Vec::new();
        let mut piece = vec![0; 16 * 1024];
        loop {
            let left = async {
                let _ = ended.wait_for(Option::is_some).await;
                tokio::time::sleep(Duration::from_millis(LEFT_MS_MAX)).await;
            };
            let read = tokio::select! {
                biased;
                read = from.read(&mut piece) => read,
                () = left => return,
            };
            let Ok(count @ 1..) = read else { return };
            let mut rest = &piece[..count];
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let (head, tail) = rest.split_at(end + 1);
                line.extend_from_slice(head);
                if line.len() > MESSAGE_BYTES_MAX {
                    return self.give_up();
                }
                if self.hand_on(&line).await.is_err() {
                    return;
                }
                line.clear();
                rest = tail;
            }
            line.extend_from_slice(rest);
            if line.len() > MESSAGE_BYTES_MAX {
                return self.give_up();
            }
        }
    }

    /// The rest of the message could be of any length.
    fn give_up(&self) {
        let fault = format!("sent a message of more than {MESSAGE_BYTES_MAX} bytes");
        locked(&self.heard).fault = Some(fault);
        self.group.signal(Signal::KILL);
    }

    async fn hand_on(&mut self, line: &[u8]) -> io::Result<()> {
        let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line).trim_ascii();
        if line.is_empty() {
            return Ok(());
        }
        if is_message(line) {
            self.to.write_all(line).await?;
            return self.to.write_all(b"\n").await;
        }
        let mut heard = locked(&self.heard);
        heard.junk_lines += 1;
        heard.junk_first.get_or_insert_with(|| {
            String::from_utf8_lossy(line).chars().take(JUNK_CHARS_MAX).collect()
        });
        Ok(())
    }
}

/// Whether the line can be a message. It is parsed by whoever reads it; logs in JSON are told apart
/// here.
fn is_message(line: &[u8]) -> bool {
    const MARK: &[u8] = b"\"jsonrpc\"";
    line.starts_with(b"{") && line.windows(MARK.len()).any(|part| part == MARK)
}
