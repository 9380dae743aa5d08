//! The step in which this command becomes the program of an MCP server, which then ends with the
//! process that wanted it. It is no command for people, so no help tells of it.

use std::{ffi::OsString, process::ExitCode};

use crate::{
    exit::exit,
    home::arguments,
    mask_at_hand,
    out::{BAD, Out, styled},
};

/// The first word of such a call; the process that wants the server and the program follow.
pub(crate) const WORD: &str = "launch";
/// What a shell says of a program that is not there.
const NOT_STARTED: u8 = 127;

/// Carries it out if this is what the process was started for; it only comes back when it failed.
pub(crate) fn if_asked() -> Option<ExitCode> {
    let words: Vec<OsString> = arguments();
    let [_, word, parent, argv @ ..] = &words[..] else { return None };
    if word != WORD {
        return None;
    }
    let parent = parent.to_str()?.parse().ok()?;
    let error = inspan_mcp::launch(parent, argv);
    let program = argv.first().map(|program| program.to_string_lossy()).unwrap_or_default();
    let out = Out::new(mask_at_hand());
    let text = out.shown(&format!("`{program}` can't be started: {error}"));
    out.progress(&format!("{} {text}\n", styled(BAD, "error:")));
    Some(exit(NOT_STARTED))
}
