//! What was learned of a server, kept from one process to the next: in which revision it talks, and
//! what it offers. A cache: without it a server is started and asked.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use inspan_core::hash::Hash;
use serde_json::{Value, json};

use crate::catalogue::{Catalogue, Hints, Offered};

/// The version of the file; others are not read.
const FORMAT: u64 = 1;
/// Servers of which something is kept.
const FILES_MAX: usize = 256;

/// Whether a server has to be greeted with a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    /// Yes: 2025-11-25 and older.
    Legacy,
    /// No: 2026-07-28.
    Modern,
}

/// What is known of a server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Kept {
    pub era: Era,
    pub catalogue: Catalogue,
}

impl Kept {
    /// What the folder has of the server; `None` when that is nothing that can be read.
    pub(crate) fn read(folder: &Path, server: &Hash) -> Option<Self> {
        let text = fs::read(file(folder, server)).ok()?;
        of_json(&serde_json::from_slice(&text).ok()?)
    }

    /// Keeps it in the folder, which is made. What was there is replaced at once or not at all.
    pub(crate) fn write(&self, folder: &Path, server: &Hash) -> io::Result<()> {
        fs::create_dir_all(folder)?;
        let path = file(folder, server);
        if !path.exists() {
            make_room(folder)?;
        }
        let beside = path.with_extension(format!("{}.new", std::process::id()));
        fs::write(&beside, to_json(self).to_string())?;
        fs::rename(&beside, path)
    }
}

fn file(folder: &Path, server: &Hash) -> PathBuf {
    folder.join(format!("{server}.json"))
}

/// Removes those that were written longest ago.
fn make_room(folder: &Path) -> io::Result<()> {
    let mut files: Vec<(SystemTime, PathBuf)> = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        files.push((entry.metadata()?.modified()?, entry.path()));
    }
    files.sort();
    let over = (files.len() + 1).saturating_sub(FILES_MAX);
    for (_, path) in files.iter().take(over) {
        fs::remove_file(path)?;
    }
    Ok(())
}

fn to_json(kept: &Kept) -> Value {
    let tool = |tool: &Offered| {
        let Hints { read_only, destructive, idempotent, open_world } = tool.hints;
        json!({
            "name": tool.name,
            "description": tool.description,
            "schema": tool.schema,
            "hints": [read_only, destructive, idempotent, open_world],
        })
    };
    json!({
        "format": FORMAT,
        "era": match kept.era { Era::Legacy => "legacy", Era::Modern => "modern" },
        "tools": kept.catalogue.tools.iter().map(tool).collect::<Vec<_>>(),
        "set_aside": kept.catalogue.set_aside,
    })
}

fn of_json(value: &Value) -> Option<Kept> {
    if value.get("format")?.as_u64()? != FORMAT {
        return None;
    }
    let era = match value.get("era")?.as_str()? {
        "legacy" => Era::Legacy,
        "modern" => Era::Modern,
        _ => return None,
    };
    let text = |value: &Value| Some(value.as_str()?.to_owned());
    let tool = |tool: &Value| {
        let hints = tool.get("hints")?;
        Some(Offered {
            name: text(tool.get("name")?)?,
            description: text(tool.get("description")?)?,
            schema: tool.get("schema")?.clone(),
            hints: Hints {
                read_only: hints.get(0)?.as_bool(),
                destructive: hints.get(1)?.as_bool(),
                idempotent: hints.get(2)?.as_bool(),
                open_world: hints.get(3)?.as_bool(),
            },
        })
    };
    let aside = |pair: &Value| Some((text(pair.get(0)?)?, text(pair.get(1)?)?));
    let tools: Option<Vec<_>> = value.get("tools")?.as_array()?.iter().map(tool).collect();
    let set_aside: Option<Vec<_>> = value.get("set_aside")?.as_array()?.iter().map(aside).collect();
    Some(Kept { era, catalogue: Catalogue { tools: tools?, set_aside: set_aside? } })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(name: &str) -> Kept {
        let hints = Hints { read_only: Some(true), open_world: Some(false), ..Hints::default() };
        let tool = Offered {
            name: name.to_owned(),
            description: "Does.".to_owned(),
            schema: json!({ "type": "object", "b": 1, "a": 2 }),
            hints,
        };
        let set_aside = vec![("bad".to_owned(), "its schema is no object".to_owned())];
        Kept { era: Era::Legacy, catalogue: Catalogue { tools: vec![tool], set_aside } }
    }

    #[test]
    fn what_is_kept_is_read_again_and_damage_is_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("mcp");
        let server = Hash::of(&[b"server"]);
        assert_eq!(Kept::read(&folder, &server), None);
        kept("one").write(&folder, &server).unwrap();
        kept("two").write(&folder, &server).unwrap();
        assert_eq!(Kept::read(&folder, &server), Some(kept("two")));
        assert_eq!(Kept::read(&folder, &Hash::of(&[b"other"])), None);
        for damaged in ["", "{", "[]", "{\"format\":2}", "{\"format\":1,\"era\":\"modern\"}"] {
            fs::write(file(&folder, &server), damaged).unwrap();
            assert_eq!(Kept::read(&folder, &server), None, "{damaged}");
        }
    }

    #[test]
    fn there_are_never_more_files_than_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..FILES_MAX + 3 {
            let server = Hash::of(&[number.to_string().as_bytes()]);
            kept("one").write(folder.path(), &server).unwrap();
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), FILES_MAX);
    }
}
