//! What a person or the system does to end a run: Ctrl-C, `kill`, and closing the terminal.

use std::fs;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Failure;

/// The number of the signal that tells of the end of a terminal.
const SIGHUP: u32 = 1;

/// The signals that ask a run to stop. From its making on, none of them ends the process by itself.
pub(crate) struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
    /// None where the process was started to outlive its terminal, as `nohup` does.
    hangup: Option<Signal>,
    /// How many have come.
    pub count: u32,
}

impl Interrupts {
    /// Begins to listen.
    ///
    /// # Errors
    /// The system does not let us.
    pub(crate) fn new() -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind)
                .map_err(|why| Failure::File { what: "listening for Ctrl-C".to_owned(), why })
        };
        let outlives = ignores_hangups(&fs::read_to_string(STATUS).unwrap_or_default());
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hangup: (!outlives).then(|| listen(SignalKind::hangup())).transpose()?,
            count: 0,
        })
    }

    /// Waits for the next. Whether it was Ctrl-C: whoever pressed it can press it again.
    pub(crate) async fn next(&mut self) -> bool {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        let is_by_hand = tokio::select! {
            _ = self.interrupt.recv() => true,
            _ = self.terminate.recv() => false,
            _ = hangup => false,
        };
        self.count += 1;
        is_by_hand
    }
}

/// Where Linux tells what a process does with signals.
const STATUS: &str = "/proc/self/status";

/// Whether a process of this status was told to outlive its terminal: to listen would undo that.
/// Where the system doesn't tell, it was not.
fn ignores_hangups(status: &str) -> bool {
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask & (1 << (SIGHUP - 1)) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_ignores_hangups_outlives_the_terminal() {
        let table = [
            ("Name:\tinspan\nSigIgn:\t0000000000000001\nSigCgt:\t0000000000000000\n", true),
            ("SigIgn:\t0000000000001007\n", true),
            ("SigIgn:\t0000000000001000\nSigCgt:\t0000000000000001\n", false),
            ("SigIgn:\tno mask\n", false),
            ("", false),
        ];
        for (status, ignored) in table {
            assert_eq!(ignores_hangups(status), ignored, "{status}");
        }
    }
}
