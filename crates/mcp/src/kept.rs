//! What was learned of a server, kept from one process to the next: in which revision it talks, and
//! what it offers. A cache: without it a server is started and asked.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use inspan_core::hash::Hash;
use serde_json::{Value, json};

use crate::{
    catalogue::{Catalogue, Hints, Offered},
    readable::{PromptListed, Readable, ResourceListed},
};

/// The version of the file; others are not read.
const FORMAT: u64 = 2;
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
    pub readable: Readable,
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
    let readable = &kept.readable;
    let resources = readable.resources.iter().map(|r| json!([r.uri, r.name, r.about]));
    let prompts = readable.prompts.iter().map(|p| json!([p.name, p.about, p.arguments]));
    json!({
        "format": FORMAT,
        "era": match kept.era { Era::Legacy => "legacy", Era::Modern => "modern" },
        "tools": kept.catalogue.tools.iter().map(tool).collect::<Vec<_>>(),
        "set_aside": kept.catalogue.set_aside,
        "resources": resources.collect::<Vec<_>>(),
        "prompts": prompts.collect::<Vec<_>>(),
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
    let resource = |listed: &Value| {
        let [uri, name, about] = [0, 1, 2].map(|at| listed.get(at).and_then(text));
        Some(ResourceListed { uri: uri?, name: name?, about: about? })
    };
    let prompt = |listed: &Value| {
        let argument = |pair: &Value| Some((text(pair.get(0)?)?, pair.get(1)?.as_bool()?));
        let arguments = listed.get(2)?.as_array()?.iter().map(argument);
        Some(PromptListed {
            name: text(listed.get(0)?)?,
            about: text(listed.get(1)?)?,
            arguments: arguments.collect::<Option<_>>()?,
        })
    };
    let resources: Option<_> = value.get("resources")?.as_array()?.iter().map(resource).collect();
    let prompts: Option<_> = value.get("prompts")?.as_array()?.iter().map(prompt).collect();
    let catalogue = Catalogue { tools: tools?, set_aside: set_aside? };
    Some(Kept { era, catalogue, readable: Readable { resources: resources?, prompts: prompts? } })
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
        let text = str::to_owned;
        let resource =
            ResourceListed { uri: text("a://b"), name: text("b"), about: text("About b.") };
        let arguments = vec![(text("city"), true), (text("day"), false)];
        let prompt = PromptListed { name: text("plan"), about: String::new(), arguments };
        let readable = Readable { resources: vec![resource], prompts: vec![prompt] };
        let catalogue = Catalogue { tools: vec![tool], set_aside };
        Kept { era: Era::Legacy, catalogue, readable }
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
        for damaged in ["", "{", "[]", "{\"format\":1}", "{\"format\":2,\"era\":\"modern\"}"] {
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
