//! The step between Inspan and a server's program: what must be said to the kernel in the new
//! process itself, before the program takes its place.

use std::{ffi::OsString, io, os::unix::process::CommandExt, process::Command};

/// Becomes the program `argv`, which the kernel ends when the process `parent` dies. It returns
/// only when that fails. The program is started by way of a command of ours that calls this, since
/// nothing can be run between the two halves of starting a process without unsafe code.
pub fn launch(parent: u32, argv: &[OsString]) -> io::Error {
    let Some((program, arguments)) = argv.split_first() else {
        return io::Error::new(io::ErrorKind::InvalidInput, "there is no program to start");
    };
    if let Err(error) = end_with_parent() {
        return error;
    }
    // It may have died before the kernel was told.
    if std::os::unix::process::parent_id() != parent {
        return io::Error::other("who started this is gone");
    }
    Command::new(program).args(arguments).exec()
}

#[cfg(target_os = "linux")]
fn end_with_parent() -> io::Result<()> {
    Ok(rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?)
}

/// Other kernels don't offer it: what a killed process left is ended at its next start.
#[cfg(not(target_os = "linux"))]
fn end_with_parent() -> io::Result<()> {
    Ok(())
}
