//! The servers of tools of a session: where they are named, and what of them counts.

use std::path::Path;

use inspan_core::{State, gate::Asking, mask::Mask};
use inspan_mcp::{Link, ServerConfig};

use crate::{
    agent::{Agent, program},
    approved::{Approved, Change},
    args::DriveArgs,
    config::Config,
    exit::Failure,
    folder::{FolderFile, FolderServers},
    home::Home,
    input::{is_yes, yes_or_no},
    out::{BOLD, NOTE, Out, styled},
    toolbox::{ACCEPT, Reviewed, Source},
};

/// The servers of the working directory's `.mcp.json`, if the person agreed to it as it is now. The
/// one at the terminal is asked; else they are left out with a notice.
///
/// # Errors
/// What was agreed to can't be read, or the answer.
pub(crate) fn of_folder(
    home: &Home,
    config: &Config,
    workdir: &Path,
    asking: Asking,
) -> Result<FolderServers, Failure> {
    let file = match FolderFile::read(workdir) {
        Ok(Some(file)) => file,
        Ok(None) => return Ok(FolderServers::default()),
        Err(why) => return Ok(FolderServers { notices: vec![why], ..FolderServers::default() }),
    };
    let approved = Approved::new(&home.folder);
    let agreed = match approved.said_of(&file)? {
        None if asking == Asking::Now => {
            let said = agrees(&file, &Out::new(config.mask.clone()))?;
            if let Some(agreed) = said {
                approved.say_of(&file, agreed)?;
            }
            said == Some(true)
        }
        None => {
            let path = file.path();
            let note = format!(
                "{} names servers of tools, which are left out until somebody agrees to it as it is \
                 now: inspan mcp trust, in {}",
                path.display(),
                file.folder().display()
            );
            return Ok(FolderServers { notices: vec![note], ..FolderServers::default() });
        }
        Some(false) => {
            let note = format!(
                "{} names servers of tools, which you did not agree to: inspan mcp trust asks again",
                file.path().display()
            );
            return Ok(FolderServers { notices: vec![note], ..FolderServers::default() });
        }
        Some(true) => true,
    };
    Ok(if agreed { file.servers(config) } else { FolderServers::default() })
}

/// Shows what a file of a folder names, and asks whether that may be.
///
/// # Errors
/// The answer can't be read.
pub(crate) fn agrees(file: &FolderFile, out: &Out) -> Result<Option<bool>, Failure> {
    tell(file, out);
    let question =
        "They are programs that run as you, and places that your data goes to. May they?";
    yes_or_no(&format!("{} {question}", styled(NOTE, "?")), out)
}

/// Shows what a file of a folder names.
pub(crate) fn tell(file: &FolderFile, out: &Out) {
    let head = format!("{} names servers of tools:", file.path().display());
    out.progress(&format!("{} {}\n", styled(NOTE, "!"), styled(BOLD, &out.shown(&head))));
    for line in file.lines() {
        out.progress(&format!("  {}\n", out.shown(&line)));
    }
}

/// The agent's servers, those that every agent has, and those of the folder; of two with one name,
/// the one that is named first here. A program of the latter two is where the session works, or on
/// `PATH`; one that is not there is missed when it is started.
pub(crate) fn all(
    config: &Config,
    agent: &Agent,
    folder: &FolderServers,
    workdir: &Path,
) -> Vec<ServerConfig> {
    let mut servers: Vec<ServerConfig> = Vec::new();
    for server in config.mcp.iter().chain(&folder.servers) {
        let is_known = |known: &ServerConfig| known.name == server.name;
        if !agent.mcp.iter().any(is_known) && !servers.iter().any(is_known) {
            servers.push(server.clone());
        }
    }
    for server in &mut servers {
        let Link::Program(link) = &mut server.link else { continue };
        link.folder = workdir.join(&link.folder);
        let name = link.argv.first_mut();
        if let Some(name) = name
            && let Ok(found) = program::find(name, workdir, &link.environment)
        {
            *name = found;
        }
    }
    servers.extend(agent.mcp.iter().cloned());
    servers.sort_by(|a, b| a.name.cmp(&b.name));
    servers
}

/// What the servers offer, as it was approved. What changed since is shown to the person who is there
/// and taken when they agree, or when they said so with the flag; else it is left out.
///
/// # Errors
/// Two tools have one name, or the approvals can't be read or written.
pub(crate) async fn reviewed(
    source: &Source,
    asking: Asking,
    (args, before): (&DriveArgs, Option<&State>),
    mask: &Mask,
    notices: &mut Vec<String>,
) -> Result<Reviewed, Failure> {
    let mut reviewed = source.review().await?;
    notices.extend(reviewed.offer.notices.iter().map(|notice| mask.text(notice).into_owned()));
    if reviewed.changes.is_empty() {
        return Ok(reviewed);
    }
    let out = Out::new(mask.clone());
    let is_shown = args.accept_changes || asking == Asking::Now;
    for Change { tool, diff } in reviewed.changes.iter().filter(|_| is_shown) {
        let head = format!("the tool `{}` is not as it was approved:", out.shown(tool));
        out.progress(&format!("{} {head}\n{}\n", styled(NOTE, "!"), out.shown(diff)));
    }
    let names: Vec<String> = reviewed.changes.iter().map(|c| format!("`{}`", c.tool)).collect();
    let names = names.join(", ");
    let is_accepted = args.accept_changes
        || asking == Asking::Now && {
            let question = out.shown(&format!("May {names} be used as it is now?"));
            is_yes(&format!("{} {question}", styled(NOTE, "?")), &out)?
        };
    if is_accepted {
        notices.push(format!("{names} is approved as it is now"));
        reviewed.accept(source)?;
    } else {
        let session = before.and_then(|state| state.started.as_ref());
        let how = match session {
            Some(started) => format!("inspan resume {} --accept-changes", started.session),
            None => ACCEPT.to_owned(),
        };
        notices.extend(reviewed.leave_out(&how));
    }
    Ok(reviewed)
}
