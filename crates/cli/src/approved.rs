//! What was approved of the tools of servers: their descriptions and schemas as they were when they
//! were first offered, or when a person accepted that they changed. Kept in the home folder, in a file
//! for each server; it is a person's word, and no cache.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use inspan_core::{hash::Hash, tool::ToolSpec};
use inspan_mcp::Offer;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use similar::TextDiff;

use crate::{exit::Failure, folder::FolderFile};

/// Lines around a changed one that are shown.
const CONTEXT_LINES: usize = 2;

/// The approvals of a home folder.
#[derive(Clone)]
pub(crate) struct Approved {
    folder: PathBuf,
}

/// What was approved of a server.
#[derive(Default, PartialEq, Serialize, Deserialize)]
struct File {
    tools: BTreeMap<String, Tool>,
}

/// What was approved of a tool.
#[derive(PartialEq, Serialize, Deserialize)]
struct Tool {
    description: String,
    schema: Value,
}

/// What a person said to the servers of a folder.
#[derive(Serialize, Deserialize)]
struct Said {
    folder: String,
    /// The hash of the file that they said it to.
    content: Hash,
    agreed: bool,
}

/// A tool that is not as it was approved.
pub(crate) struct Change {
    /// Its name.
    pub(crate) tool: String,
    /// What is other than it was, line by line.
    pub(crate) diff: String,
}

impl Approved {
    pub(crate) fn new(home: &Path) -> Self {
        Self { folder: home.join("approved") }
    }

    /// The tools that are not as they were approved. Those that are seen for the first time are
    /// approved by that: the person has named the server.
    ///
    /// # Errors
    /// The approvals can't be read or written.
    pub(crate) fn review(&self, offer: &Offer) -> Result<Vec<Change>, Failure> {
        let mut changes = Vec::new();
        for (server, specs) in by_server(offer) {
            let mut file = self.read(&server)?;
            let known = file.tools.len();
            for spec in specs {
                let now = Tool::of(&spec);
                match file.tools.get(&spec.name) {
                    None => {
                        file.tools.insert(spec.name.clone(), now);
                    }
                    Some(was) if *was != now => {
                        changes.push(Change { tool: spec.name.clone(), diff: diff(was, &now) });
                    }
                    Some(_) => {}
                }
            }
            if file.tools.len() > known {
                self.write(&server, &file)?;
            }
        }
        changes.sort_by(|a, b| a.tool.cmp(&b.tool));
        Ok(changes)
    }

    /// Approves these tools as they are offered.
    ///
    /// # Errors
    /// The approvals can't be read or written.
    pub(crate) fn accept(&self, offer: &Offer, changes: &[Change]) -> Result<(), Failure> {
        for (server, specs) in by_server(offer) {
            let mut file = self.read(&server)?;
            let is_meant = |spec: &&Arc<ToolSpec>| changes.iter().any(|c| c.tool == spec.name);
            let meant: Vec<_> = specs.iter().filter(is_meant).collect();
            if meant.is_empty() {
                continue;
            }
            file.tools.extend(meant.iter().map(|spec| (spec.name.clone(), Tool::of(spec))));
            self.write(&server, &file)?;
        }
        Ok(())
    }

    /// What the person said to a folder's file as it is now; `None` when they were not asked about
    /// it, or about another content.
    ///
    /// # Errors
    /// It can't be read.
    pub(crate) fn said_of(&self, file: &FolderFile) -> Result<Option<bool>, Failure> {
        let said: Option<Said> = self.read_file(&self.folder_path(file))?;
        Ok(said.filter(|said| said.content == file.hash()).map(|said| said.agreed))
    }

    /// Keeps what the person said to a folder's file as it is now.
    ///
    /// # Errors
    /// It can't be written.
    pub(crate) fn say_of(&self, file: &FolderFile, agreed: bool) -> Result<(), Failure> {
        let folder = file.folder().display().to_string();
        let said = Said { folder, content: file.hash(), agreed };
        self.write_file(&self.folder_path(file), &said)
    }

    fn folder_path(&self, file: &FolderFile) -> PathBuf {
        let folder = Hash::of(&[file.folder().as_os_str().as_encoded_bytes()]);
        self.folder.join(format!("folder-{folder}.json"))
    }

    fn read(&self, server: &Hash) -> Result<File, Failure> {
        Ok(self.read_file(&self.path(server))?.unwrap_or_default())
    }

    /// A file that can't be understood is an error: it would approve anything.
    fn read_file<T: DeserializeOwned>(&self, path: &Path) -> Result<Option<T>, Failure> {
        let read = match fs::read(path) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(why) => Err(why),
            Ok(text) => serde_json::from_slice(&text).map_err(io::Error::from),
        };
        read.map(Some).map_err(|why| Failure::File { what: what(path), why })
    }

    fn write(&self, server: &Hash, file: &File) -> Result<(), Failure> {
        self.write_file(&self.path(server), file)
    }

    fn write_file(&self, path: &Path, file: &impl Serialize) -> Result<(), Failure> {
        let beside = path.with_extension(format!("{}.new", std::process::id()));
        let write = || {
            fs::create_dir_all(&self.folder)?;
            fs::write(&beside, serde_json::to_string(file)?)?;
            fs::rename(&beside, path)
        };
        write().map_err(|why| Failure::File { what: what(path), why })
    }

    fn path(&self, server: &Hash) -> PathBuf {
        self.folder.join(format!("{server}.json"))
    }
}

fn what(path: &Path) -> String {
    format!("what was approved of MCP servers, {}", path.display())
}

fn by_server(offer: &Offer) -> BTreeMap<Hash, Vec<Arc<ToolSpec>>> {
    let mut servers: BTreeMap<Hash, Vec<Arc<ToolSpec>>> = BTreeMap::new();
    for tool in &offer.tools {
        let spec = tool.spec();
        if let Some(server) = offer.servers.get(&spec.name) {
            servers.entry(*server).or_default().push(spec);
        }
    }
    servers
}

impl Tool {
    fn of(spec: &ToolSpec) -> Self {
        Self { description: spec.description.clone(), schema: spec.input.clone() }
    }

    /// As it is compared: the description, and the schema line by line.
    fn text(&self) -> String {
        let schema = serde_json::to_string_pretty(&self.schema).unwrap_or_default();
        format!("{}\n{schema}\n", self.description)
    }
}

fn diff(was: &Tool, now: &Tool) -> String {
    let (was, now) = (was.text(), now.text());
    let diff = TextDiff::from_lines(&was, &now);
    let diff = diff.unified_diff().context_radius(CONTEXT_LINES).to_string();
    diff.trim_end().to_owned()
}
