//! One run of one program: started without a shell in its own process group, fed, read, ended.

use std::{
    ffi::OsString,
    io,
    os::fd::AsFd,
    path::Path,
    process::{ExitStatus, Stdio},
};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
};

use super::cap::{Capped, Written};

/// Bytes that are still read from a pipe after the program has ended: no pipe holds more, so a
/// process it left behind can't keep the call from returning by writing on.
const LEFT_BYTES_MAX: usize = 1024 * 1024;

/// A program to run.
pub(super) struct Program<'a> {
    /// The program and its arguments.
    pub argv: &'a [String],
    /// Its current directory.
    pub folder: &'a Path,
    /// Its whole environment.
    pub environment: Vec<(OsString, OsString)>,
    /// What it can read on its standard input.
    pub input: Vec<u8>,
}

/// A program that has ended.
pub(super) struct Ended {
    pub status: ExitStatus,
    pub output: Capped,
    pub errors: Capped,
}

/// Runs a program until it ends by itself. Dropping the future kills its process group; what it had
/// written by then is in `written`.
///
/// The end is the exit of the program, not the end of its output: a process that it left behind
/// may hold the pipes open for ever.
pub(super) async fn run(program: Program<'_>, written: &Written) -> io::Result<Ended> {
    let mut running = Running::start(&program)?;
    let (Some(stdin), Some(stdout), Some(stderr)) =
        (running.0.stdin.take(), running.0.stdout.take(), running.0.stderr.take())
    else {
        return Err(io::Error::other("the pipes to the program are missing"));
    };
    let mut pipes = Pipes { stdout, stderr, written };
    let status = {
        let talk = async {
            tokio::join!(
                feed(stdin, &program.input),
                fill(|bytes| written.push_output(bytes), &mut pipes.stdout),
                fill(|bytes| written.push_errors(bytes), &mut pipes.stderr)
            )
        };
        tokio::select! {
            status = running.0.wait() => status?,
            _ = talk => running.0.wait().await?,
        }
    };
    drop(pipes);
    let (output, errors) = written.take();
    Ok(Ended { status, output, errors })
}

/// Where a program writes. What they hold when this is dropped is read before they are closed.
struct Pipes<'a> {
    stdout: ChildStdout,
    stderr: ChildStderr,
    written: &'a Written,
}

impl Drop for Pipes<'_> {
    fn drop(&mut self) {
        fill_with_rest(|bytes| self.written.push_output(bytes), &self.stdout);
        fill_with_rest(|bytes| self.written.push_errors(bytes), &self.stderr);
    }
}

/// A child that leads its own process group, which is killed with it when this is dropped before
/// the child has ended. Tokio reaps the child.
struct Running(Child);

impl Running {
    fn start(program: &Program<'_>) -> io::Result<Self> {
        let (name, arguments) = program
            .argv
            .split_first()
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the command is empty"))?;
        let child = Command::new(name)
            .args(arguments)
            .current_dir(program.folder)
            .env_clear()
            .envs(program.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        Ok(Self(child))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The identifier is there until the child has been waited for, so it is still its own.
        let group = self.0.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        if let Some(group) = group {
            // It fails only when nothing is left of the group.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// A program need not read its input: a pipe that it closed is no failure.
async fn feed(mut stdin: ChildStdin, input: &[u8]) {
    let _ = stdin.write_all(input).await;
}

async fn fill(push: impl Fn(&[u8]), from: &mut (impl AsyncRead + Unpin)) {
    let mut buffer = [0; 8 * 1024];
    // An error here is the end of the output, as the program's exit will tell.
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        push(&buffer[..count]);
    }
}

/// Reads what a pipe holds now. Asks the system directly: the pipe does not block, and tokio may
/// not have heard yet that it is readable.
fn fill_with_rest(push: impl Fn(&[u8]), from: &impl AsFd) {
    let mut buffer = [0; 8 * 1024];
    let mut left = LEFT_BYTES_MAX;
    while let Ok(count @ 1..) = rustix::io::retry_on_intr(|| rustix::io::read(from, &mut buffer)) {
        push(&buffer[..count]);
        left = left.saturating_sub(count);
        if left == 0 {
            break;
        }
    }
}
