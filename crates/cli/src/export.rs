//! `inspan export` and `inspan import`: a session's whole log as JSON lines, from one database to
//! another.

use std::{fs, io::Read, path::Path};

use inspan_core::{Entry, Event, event::Head, store::SessionId};
use inspan_engine::session::log;
use serde::{Deserialize, Serialize};

use crate::{
    exit::Failure,
    home::{Home, session_of},
    out::{DIM, Out, counted, styled},
    verify::first_changed,
    whole::WholeFile,
};

/// The form of the lines after the header, each an entry.
const EXPORT_VERSION: u32 = 1;

/// The first line.
#[derive(Serialize, Deserialize)]
struct Header {
    /// `log`, by which such a file is known.
    inspan: String,
    /// The form of the lines.
    version: u32,
    session: SessionId,
    entries: u64,
    /// Secrets were masked: its hashes are not those of its bodies.
    masked: bool,
}

/// Writes the session whose identifier is `given` or begins so, with the entries that it shares
/// with those that it was forked from, to a file or to standard output.
pub(crate) async fn export(
    home: &Home,
    given: &str,
    file: Option<&Path>,
    masked: bool,
) -> Result<u8, Failure> {
    let out = Out::new(home.mask()?);
    let store = home.store().await?;
    let id = session_of(&*store, given).await?;
    let entries = log(&*store, &id).await?;
    let header = Header {
        inspan: "log".to_owned(),
        version: EXPORT_VERSION,
        session: id.clone(),
        entries: entries.len() as u64,
        masked,
    };
    let mut text = serde_json::to_string(&header).unwrap_or_default() + "\n";
    for entry in &entries {
        let line = entry.to_line();
        text += &if masked { out.masked(&line).into_owned() } else { line };
        text.push('\n');
    }
    match file {
        None => out.bytes(text.as_bytes())?,
        Some(path) => {
            let written = WholeFile::begin(path).and_then(|file| file.finish(text.as_bytes()));
            written.map_err(|why| Failure::File {
                what: format!("the export {}", path.display()),
                why,
            })?;
            let told = counted(header.entries, "entry", "entries");
            let aside = if masked { "; masked, for reading only" } else { "" };
            let told = format!("session {id}: {told} in {}{aside}", path.display());
            out.progress(&format!("{}\n", styled(DIM, &told)));
        }
    }
    match first_changed(&entries) {
        Some(changed) if !masked => Err(Failure::Verify(format!(
            "session {id}: entry {} is not what was written after entry {}; the export is the log \
             as it is, and `inspan import` takes no such log",
            changed.entry, changed.after
        ))),
        _ => Ok(0),
    }
}

/// Takes a session from a file, or from standard input, into this database.
pub(crate) async fn import(home: &Home, file: &Path) -> Result<u8, Failure> {
    let out = Out::new(home.mask()?);
    let shown = file.display().to_string();
    let wrong = |why: String| Failure::Usage(format!("{shown} can't be imported: {why}"));
    let text = read(file).map_err(|why| wrong(why.to_string()))?;
    let (header, entries) = parse(&text).map_err(wrong)?;
    let store = home.store().await?;
    let claim = store.create(&header.session).await?;
    let count = entries.len() as u64;
    store.append(&claim, Head::default(), entries.into()).await?;
    drop(claim);
    let told = counted(count, "entry", "entries");
    out.progress(&format!("{}\n", styled(DIM, &format!("{told} of session {}", header.session))));
    out.answer(&format!("{}\n", header.session))?;
    Ok(0)
}

fn read(file: &Path) -> std::io::Result<String> {
    if file.as_os_str() != "-" {
        return fs::read_to_string(file);
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    Ok(text)
}

/// The entries of an export, their chain of hashes checked from end to end.
fn parse(text: &str) -> Result<(Header, Vec<Entry>), String> {
    let mut lines = text.lines().enumerate();
    let header = lines.next().map(|(_, line)| serde_json::from_str::<Header>(line));
    let Some(Ok(header)) =
        header.filter(|header| header.as_ref().is_ok_and(|header| header.inspan == "log"))
    else {
        return Err("its first line is not that of `inspan export`".to_owned());
    };
    if header.version != EXPORT_VERSION {
        return Err(format!("it is of version {}, which a newer Inspan reads", header.version));
    }
    if header.masked {
        return Err("its secrets are masked, so its hashes can't be checked: export it again \
                    without --masked"
            .to_owned());
    }
    let mut entries = Vec::new();
    for (number, line) in lines {
        let entry = Entry::from_line(line).map_err(|why| format!("line {}: {why}", number + 1))?;
        entries.push(entry);
    }
    if let Some(changed) = first_changed(&entries) {
        return Err(format!(
            "entry {} is not what was written after entry {}",
            changed.entry, changed.after
        ));
    }
    if entries.len() as u64 != header.entries {
        return Err(format!("it has {} entries of {}", entries.len(), header.entries));
    }
    let named = entries.iter().rev().find_map(|entry| match &entry.event {
        Event::SessionStarted(e) => Some(&e.session),
        Event::SessionForked(e) => Some(&e.session),
        _ => None,
    });
    match (entries.first().map(|first| &first.event), named) {
        (Some(Event::SessionStarted(_)), Some(named)) if *named == header.session => {
            Ok((header, entries))
        }
        (Some(Event::SessionStarted(_)), Some(named)) => {
            Err(format!("it is the log of session {named}, and not of {}", header.session))
        }
        _ => Err("it does not begin with the beginning of a session".to_owned()),
    }
}
