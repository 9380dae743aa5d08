//! `inspan export` and `inspan import`: a session's whole log as JSON lines, from one database to
//! another, and behind it the pictures and long results that it names.

use std::{
    collections::BTreeSet,
    fs::File,
    io::{self, BufRead, BufReader},
    path::Path,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use inspan_core::{
    Entry, Event,
    hash::Hash,
    store::{Blobs, SessionId},
    stored,
};
use inspan_engine::{SystemClock, outside, session::log};
use serde::{Deserialize, Serialize};

use crate::{
    args::ExportArgs,
    config::Config,
    exit::Failure,
    home::{Home, session_of},
    out::{DIM, NOTE, Out, counted, styled},
    setup::tell_of_blobs,
    verify::first_changed,
    whole::WholeFile,
};

/// The form of a file with an entry a line after the header.
const EXPORT_VERSION: u32 = 1;

/// The form of a file with blobs after the entries, too: all that they name, in the order of their
/// hashes.
const EXPORT_VERSION_BLOBS: u32 = 2;

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

/// A blob.
#[derive(Serialize, Deserialize)]
struct BlobLine {
    /// The hash of its bytes, in 64 hexadecimal digits.
    blob: String,
    size_bytes: u64,
    /// Its bytes; `None` for one that was lost when the export was written.
    base64: Option<String>,
}

/// How many blobs were carried, and what they were in all.
#[derive(Default)]
struct Carried {
    count: u64,
    bytes: u64,
    lost: u64,
}

/// Writes a session, with the entries that it shares with those that it was forked from, to a file
/// or to standard output.
pub(crate) async fn export(home: &Home, args: ExportArgs) -> Result<u8, Failure> {
    let config = Config::load(&home.folder, home.environment.clone())?;
    let out = Out::new(config.mask.clone());
    let store = home.store().await?;
    let id = session_of(&*store, &args.id).await?;
    let entries = log(&*store, &id).await?;
    let header = Header {
        inspan: "log".to_owned(),
        version: if args.blobs { EXPORT_VERSION_BLOBS } else { EXPORT_VERSION },
        session: id.clone(),
        entries: entries.len() as u64,
        masked: args.masked,
    };
    let mut to = To::new(args.file.as_deref(), &out)?;
    to.line(&serde_json::to_string(&header).unwrap_or_default())?;
    for entry in &entries {
        let line = entry.to_line();
        to.line(&if args.masked { out.masked(&line).into_owned() } else { line })?;
    }
    let mut carried = Carried::default();
    if args.blobs {
        let blobs = home.blobs(&config, &*store, tell_of_blobs(config.mask.clone()))?;
        for hash in named(&entries) {
            to.line(&blob_line(&*blobs, hash, &mut carried).await?)?;
        }
    }
    to.end()?;
    if let Some(path) = &args.file {
        let told = counted(header.entries, "entry", "entries");
        let aside = if args.masked { "; masked, for reading only" } else { "" };
        let blobs = carried.told();
        let told = format!("session {id}: {told}{blobs} in {}{aside}", path.display());
        out.progress(&format!("{}\n", styled(DIM, &told)));
    }
    carried.tell_lost(&out);
    match first_changed(&entries) {
        Some(changed) if !args.masked => Err(Failure::Verify(format!(
            "session {id}: entry {} is not what was written after entry {}; the export is the log \
             as it is, and `inspan import` takes no such log",
            changed.entry, changed.after
        ))),
        _ => Ok(0),
    }
}

/// The blobs that a log names.
fn named(entries: &[Entry]) -> BTreeSet<Hash> {
    entries.iter().flat_map(|entry| stored::blobs(&entry.event)).collect()
}

async fn blob_line(
    blobs: &dyn Blobs,
    hash: Hash,
    carried: &mut Carried,
) -> Result<String, Failure> {
    let bytes = blobs.get(&hash).await?;
    carried.take(bytes.as_deref());
    let line = BlobLine {
        blob: hash.to_string(),
        size_bytes: bytes.as_ref().map_or(0, |bytes| bytes.len() as u64),
        base64: bytes.map(|bytes| STANDARD.encode(bytes)),
    };
    Ok(serde_json::to_string(&line).unwrap_or_default())
}

impl Carried {
    fn take(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => {
                self.count += 1;
                self.bytes += bytes.len() as u64;
            }
            None => self.lost += 1,
        }
    }

    fn told(&self) -> String {
        if self.count == 0 {
            return String::new();
        }
        let blobs = counted(self.count, "picture or long result", "pictures and long results");
        format!(" and {blobs} ({})", counted(self.bytes, "byte", "bytes"))
    }

    fn tell_lost(&self, out: &Out) {
        if self.lost > 0 {
            let lost = counted(self.lost, "picture or long result", "pictures and long results");
            let told = format!("it is without {lost} that could not be read");
            out.progress(&format!("  {} {told}\n", styled(NOTE, "!")));
        }
    }
}

/// Where an export goes.
enum To<'a> {
    Output(&'a Out),
    File(WholeFile, &'a Path),
}

impl<'a> To<'a> {
    fn new(path: Option<&'a Path>, out: &'a Out) -> Result<Self, Failure> {
        Ok(match path {
            None => Self::Output(out),
            Some(path) => {
                let file = WholeFile::begin(path).map_err(|why| failed_to_write(path, why))?;
                Self::File(file, path)
            }
        })
    }

    fn line(&mut self, line: &str) -> Result<(), Failure> {
        let line = format!("{line}\n");
        match self {
            Self::Output(out) => out.bytes(line.as_bytes()),
            Self::File(file, path) => {
                file.write(line.as_bytes()).map_err(|why| failed_to_write(path, why))
            }
        }
    }

    fn end(self) -> Result<(), Failure> {
        match self {
            Self::Output(_) => Ok(()),
            Self::File(file, path) => file.finish().map_err(|why| failed_to_write(path, why)),
        }
    }
}

fn failed_to_write(path: &Path, why: io::Error) -> Failure {
    Failure::File { what: format!("the export {}", path.display()), why }
}

/// Takes a session from a file, or from standard input, into this database. Its blobs come first,
/// each checked: what is put and then not named by a log is swept.
pub(crate) async fn import(home: &Home, file: &Path) -> Result<u8, Failure> {
    let config = Config::load(&home.folder, home.environment.clone())?;
    let out = Out::new(config.mask.clone());
    let shown = file.display().to_string();
    let wrong = |why: String| Failure::Usage(format!("{shown} can't be imported: {why}"));
    let mut lines = Lines::of(file).map_err(wrong)?;
    let header = header(&mut lines).map_err(wrong)?;
    let entries = entries(&header, &mut lines).map_err(wrong)?;
    let store = home.store().await?;
    let mut carried = Carried::default();
    if header.version == EXPORT_VERSION_BLOBS {
        let blobs = home.blobs(&config, &*store, tell_of_blobs(config.mask.clone()))?;
        for hash in named(&entries) {
            let bytes = blob(hash, &mut lines).map_err(wrong)?;
            carried.take(bytes.as_deref());
            if let Some(bytes) = bytes {
                blobs.put(bytes.into()).await?;
            }
        }
        if let Some((number, _)) = lines.next().map_err(wrong)? {
            return Err(wrong(format!("line {number}: nothing names it")));
        }
    }
    let count = entries.len() as u64;
    outside::import(&*store, &SystemClock, header.session.clone(), entries).await?;
    let told = counted(count, "entry", "entries") + &carried.told();
    out.progress(&format!("{}\n", styled(DIM, &format!("{told} of session {}", header.session))));
    carried.tell_lost(&out);
    out.answer(&format!("{}\n", header.session))?;
    Ok(0)
}

/// The lines of a file, one at a time: blobs can be large.
struct Lines {
    lines: io::Lines<Box<dyn BufRead>>,
    number: u64,
}

impl Lines {
    /// `-` is standard input.
    fn of(file: &Path) -> Result<Self, String> {
        let input: Box<dyn BufRead> = match file.as_os_str() == "-" {
            true => Box::new(BufReader::new(io::stdin())),
            false => Box::new(BufReader::new(File::open(file).map_err(|why| why.to_string())?)),
        };
        Ok(Self { lines: input.lines(), number: 0 })
    }

    /// The next line and its number, from 1.
    fn next(&mut self) -> Result<Option<(u64, String)>, String> {
        self.number += 1;
        let number = self.number;
        let line = self.lines.next().transpose().map_err(|why| why.to_string())?;
        Ok(line.map(|line| (number, line)))
    }
}

fn header(lines: &mut Lines) -> Result<Header, String> {
    let header = lines.next()?.and_then(|(_, line)| serde_json::from_str::<Header>(&line).ok());
    let Some(header) = header.filter(|header| header.inspan == "log") else {
        return Err("its first line is not that of `inspan export`".to_owned());
    };
    if ![EXPORT_VERSION, EXPORT_VERSION_BLOBS].contains(&header.version) {
        return Err(format!("it is of version {}, which a newer Inspan reads", header.version));
    }
    if header.masked {
        return Err("its secrets are masked, so its hashes can't be checked: export it again \
                    without --masked"
            .to_owned());
    }
    Ok(header)
}

/// The entries of an export, their chain of hashes checked from end to end.
fn entries(header: &Header, lines: &mut Lines) -> Result<Vec<Entry>, String> {
    let mut entries: Vec<Entry> = Vec::new();
    while header.version == EXPORT_VERSION || (entries.len() as u64) < header.entries {
        let Some((number, line)) = lines.next()? else { break };
        entries.push(Entry::from_line(&line).map_err(|why| format!("line {number}: {why}"))?);
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
        (Some(Event::SessionStarted(_)), Some(named)) if *named == header.session => Ok(entries),
        (Some(Event::SessionStarted(_)), Some(named)) => {
            Err(format!("it is the log of session {named}, and not of {}", header.session))
        }
        _ => Err("it does not begin with the beginning of a session".to_owned()),
    }
}

/// The bytes of the blob that stands in the next line, if they were not lost.
fn blob(hash: Hash, lines: &mut Lines) -> Result<Option<Vec<u8>>, String> {
    let missing = || format!("the blob {hash} is missing");
    let (number, line) = lines.next()?.ok_or_else(missing)?;
    let wrong = |why: String| format!("line {number}: {why}");
    let line: BlobLine = serde_json::from_str(&line).map_err(|why| wrong(why.to_string()))?;
    if line.blob != hash.to_string() {
        return Err(wrong(missing()));
    }
    let Some(base64) = line.base64 else { return Ok(None) };
    let bytes = STANDARD.decode(base64).map_err(|why| wrong(why.to_string()))?;
    match Hash::of_bytes(&bytes) == hash {
        true => Ok(Some(bytes)),
        false => Err(wrong(format!("these are not the bytes of the blob {hash}"))),
    }
}
