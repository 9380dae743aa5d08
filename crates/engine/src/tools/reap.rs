//! Ends what a dead process left running, before its session goes on.

use inspan_core::{message::CallId, store::SessionId};

/// Kills the process groups of every tool that runs for one of the calls `open` of `session`, and
/// waits until they are gone, at most two seconds. Gives how many there were. Only for the one who
/// holds the session's claim: what still runs for a call without a result then was started by a
/// process that is dead. What a call has left behind on purpose, and was answered, goes on.
///
/// Processes are known by the variables `INSPAN_SESSION` and `INSPAN_CALL` that they were started
/// with; the group of this process is never touched. On systems other than Linux nothing is looked
/// for.
pub async fn reap(session: &SessionId, open: Vec<CallId>) -> usize {
    let session = session.clone();
    // The system is asked and waited for without a runtime; an error here is a cancelled runtime.
    tokio::task::spawn_blocking(move || system::reap(&session, &open)).await.unwrap_or(0)
}

#[cfg(target_os = "linux")]
mod system {
    use std::{
        collections::BTreeSet,
        fs,
        os::fd::OwnedFd,
        time::{Duration, Instant},
    };

    use inspan_core::{message::CallId, store::SessionId};
    use rustix::{
        event::{PollFd, PollFlags, Timespec, poll},
        process::{Pid, PidfdFlags, Signal, getpgid, getpgrp, kill_process_group, pidfd_open},
    };

    use crate::tools::command::{CALL, SESSION};

    const TIME_MAX: Duration = Duration::from_secs(2);

    pub(super) fn reap(session: &SessionId, open: &[CallId]) -> usize {
        let until = Instant::now() + TIME_MAX;
        let mut ended = BTreeSet::new();
        // A group may start another process between the look and the kill: look again.
        loop {
            let found = processes_of(session, open);
            // A handle keeps its process's number from being taken for another while we wait.
            let handles: Vec<OwnedFd> = found
                .iter()
                .filter_map(|(process, _)| pidfd_open(*process, PidfdFlags::empty()).ok())
                .collect();
            for (_, group) in &found {
                // It fails only when nothing is left of the group.
                let _ = kill_process_group(*group, Signal::KILL);
                ended.insert(group.as_raw_nonzero());
            }
            let in_time = wait_for(&handles, until) && Instant::now() < until;
            if found.is_empty() || !in_time {
                return ended.len();
            }
        }
    }

    /// The processes of these calls with their groups, ours left out.
    fn processes_of(session: &SessionId, open: &[CallId]) -> Vec<(Pid, Pid)> {
        let session = format!("{SESSION}={session}");
        let calls: Vec<String> = open.iter().map(|call| format!("{CALL}={call}")).collect();
        let ours = getpgrp();
        let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
        entries
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let process = Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?;
                // Processes of others can't be read, and are not ours to end.
                let environment = fs::read(entry.path().join("environ")).ok()?;
                let has = |wanted: &String| {
                    environment.split(|b| *b == 0).any(|pair| pair == wanted.as_bytes())
                };
                if !has(&session) || !calls.iter().any(has) {
                    return None;
                }
                let group = getpgid(Some(process)).ok()?;
                (group != ours).then_some((process, group))
            })
            .collect()
    }

    /// Whether all of the processes ended in time.
    fn wait_for(processes: &[OwnedFd], until: Instant) -> bool {
        processes.iter().all(|process| {
            let left = until.saturating_duration_since(Instant::now());
            let left = Timespec {
                tv_sec: left.as_secs().cast_signed(),
                tv_nsec: left.subsec_nanos().into(),
            };
            let mut wanted = [PollFd::new(process, PollFlags::IN)];
            rustix::io::retry_on_intr(|| poll(&mut wanted, Some(&left)))
                .is_ok_and(|ready| ready > 0)
        })
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use inspan_core::{message::CallId, store::SessionId};

    pub(super) fn reap(_: &SessionId, _: &[CallId]) -> usize {
        0
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::{
        io::{BufRead, BufReader, Read},
        os::unix::process::{CommandExt, ExitStatusExt},
        process::{Child, ChildStdout, Command, Stdio},
    };

    use super::*;

    /// A program with a child, both of which hold the output open, and that is running.
    fn started(session: &str, call: &str) -> (Child, BufReader<ChildStdout>) {
        let mut child = Command::new("sh")
            .args(["-c", "sh -c 'echo ready; sleep 60; echo late' & wait"])
            .env("INSPAN_SESSION", session)
            .env("INSPAN_CALL", call)
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        (child, output)
    }

    #[tokio::test]
    async fn ends_what_runs_for_the_session_and_nothing_else() {
        let name = format!("reap-{}", std::process::id());
        let (mut ours, mut our_output) = started(&name, "call_5_0");
        let (mut other, other_output) = started(&format!("{name}-2"), "call_5_0");
        let (mut left, left_output) = started(&name, "call_3_0");

        let open = || vec![CallId("call_5_0".to_owned()), CallId("call_6_0".to_owned())];
        assert_eq!(reap(&SessionId::try_from(name.clone()).unwrap(), open()).await, 1);
        let mut rest = String::new();
        our_output.read_to_string(&mut rest).unwrap();
        assert_eq!((rest.as_str(), ours.wait().unwrap().signal()), ("", Some(9)));
        assert_eq!((other.try_wait().unwrap(), left.try_wait().unwrap()), (None, None));
        assert_eq!(reap(&SessionId::try_from(name.clone()).unwrap(), open()).await, 0);

        let group = SessionId::try_from(format!("{name}-2")).unwrap();
        assert_eq!(reap(&group, open()).await, 1);
        assert_eq!(other.wait().unwrap().signal(), Some(9));
        let answered = vec![CallId("call_3_0".to_owned())];
        assert_eq!(reap(&SessionId::try_from(name).unwrap(), answered).await, 1);
        assert_eq!(left.wait().unwrap().signal(), Some(9));
        drop((other_output, left_output));
    }
}
