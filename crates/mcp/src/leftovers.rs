//! Servers that a dead process left running. Each is started with a variable that says whose it is,
//! and everything that it starts has that variable, too.

use std::fmt;

use rustix::process::Pid;

/// Whose server it is: a process, told by its number and the time at which it began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pid: u32,
    began: String,
}

impl Owner {
    /// The variable that a server is started with.
    pub(crate) const VARIABLE: &str = "INSPAN_MCP_OWNER";

    /// This process.
    pub(crate) fn this() -> Self {
        let pid = std::process::id();
        Self { pid, began: system::began(pid).unwrap_or_default() }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.pid, self.began)
    }
}

/// Kills the process groups of servers whose owners are dead, and gives how many there were. It
/// reads from the system and waits for nothing else. On systems other than Linux nothing is looked
/// for.
pub(crate) fn end_leftovers() -> usize {
    system::end_leftovers()
}

/// How many processes of the group are left beside its leader, which has ended. On systems other than
/// Linux nothing is looked for.
pub(crate) fn left_in_group(leader: Pid) -> usize {
    system::left_in_group(leader.as_raw_nonzero().get())
}

#[cfg(target_os = "linux")]
mod system {
    use std::{collections::BTreeSet, fs};

    use rustix::process::{Pid, Signal, getpgid, getpgrp, kill_process_group};

    use super::Owner;

    /// When a process began, as the kernel counts it; `None` when it is gone.
    pub(super) fn began(pid: u32) -> Option<String> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name of the program stands in parentheses and may hold anything.
        let (_, fields) = stat.rsplit_once(')')?;
        let mut fields = fields.split_whitespace();
        // One that is dead and not yet waited for owns nothing.
        let state = fields.next()?;
        if state == "Z" {
            return None;
        }
        fields.nth(18).map(str::to_owned)
    }

    pub(super) fn left_in_group(leader: i32) -> usize {
        let Ok(entries) = fs::read_dir("/proc") else { return 0 };
        let is_left = |pid: i32| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
            let (state, group) = (fields.next()?, fields.nth(1)?);
            Some(pid != leader && state != "Z" && group.parse() == Ok(leader))
        };
        let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(|pid| is_left(*pid) == Some(true)).count()
    }

    pub(super) fn end_leftovers() -> usize {
        let Ok(entries) = fs::read_dir("/proc") else { return 0 };
        let ours = getpgrp();
        let groups: BTreeSet<i32> = entries
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let process = Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?;
                // Processes of others can't be read, and are not ours to end.
                let environment = fs::read(entry.path().join("environ")).ok()?;
                let owner = owner(&environment)?;
                if began(owner.pid).is_some_and(|began| began == owner.began) {
                    return None;
                }
                let group = getpgid(Some(process)).ok().filter(|group| *group != ours)?;
                Some(group.as_raw_nonzero().get())
            })
            .collect();
        for group in groups.iter().filter_map(|group| Pid::from_raw(*group)) {
            // It fails only when nothing is left of the group.
            let _ = kill_process_group(group, Signal::KILL);
        }
        groups.len()
    }

    fn owner(environment: &[u8]) -> Option<Owner> {
        let mut variables = environment.split(|byte| *byte == 0);
        let owner = variables.find_map(|variable| {
            variable.strip_prefix(Owner::VARIABLE.as_bytes())?.strip_prefix(b"=")
        })?;
        let (pid, began) = std::str::from_utf8(owner).ok()?.split_once('.')?;
        Some(Owner { pid: pid.parse().ok()?, began: began.to_owned() })
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    pub(super) fn left_in_group(_: i32) -> usize {
        0
    }

    pub(super) fn began(_: u32) -> Option<String> {
        None
    }

    pub(super) fn end_leftovers() -> usize {
        0
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::{
        io::{BufRead, BufReader},
        os::unix::process::{CommandExt, ExitStatusExt},
        process::{Child, Command, Stdio},
    };

    use rustix::process::{Pid, Signal, kill_process_group};

    use super::*;

    fn started(owner: &Owner) -> Child {
        let mut child = Command::new("sh")
            .args(["-c", "echo ready; sleep 60 & wait"])
            .env(Owner::VARIABLE, owner.to_string())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        child
    }

    #[test]
    fn servers_of_the_dead_are_ended_and_no_others() {
        let mut dead = Command::new("true").spawn().unwrap();
        let owner = Owner { pid: dead.id(), began: "1".to_owned() };
        dead.wait().unwrap();
        // The number of this process, which is alive, but began at another time.
        let earlier = Owner { began: "0".to_owned(), ..Owner::this() };
        let (mut left, mut also_left) = (started(&owner), started(&earlier));
        let mut ours = started(&Owner::this());

        assert!(end_leftovers() >= 2);
        assert_eq!(left.wait().unwrap().signal(), Some(9));
        assert_eq!(also_left.wait().unwrap().signal(), Some(9));
        assert_eq!(ours.try_wait().unwrap(), None);
        kill_process_group(Pid::from_child(&ours), Signal::KILL).unwrap();
        ours.wait().unwrap();
    }
}
