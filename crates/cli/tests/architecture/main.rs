//! What ARCHITECTURE.md says of the crates, and what docs/ says of the log and of the limits, held
//! against the code.

mod crates;
mod limits;
mod pages;
mod sources;

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The folder of the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A file of the workspace.
fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What is in a folder of the workspace, by name.
fn list(folder: impl AsRef<Path>) -> Vec<PathBuf> {
    let folder = folder.as_ref();
    let entries = fs::read_dir(root().join(folder)).expect("a folder of the workspace");
    let mut paths: Vec<_> =
        entries.map(|entry| folder.join(entry.expect("an entry").file_name())).collect();
    paths.sort();
    paths
}

/// The names of our crates, which are those of their folders.
fn crate_names() -> Vec<String> {
    let name = |path: &PathBuf| path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
    list("crates").iter().filter_map(name).collect()
}
