//! Where the program of a command is.

use std::{
    ffi::{OsStr, OsString},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// The program as it can be started: a name with a slash is a file below `folder`, any other is
/// looked for on `PATH` of `environment`, then in `folder`. The error says where it is not.
pub(crate) fn find(
    name: &str,
    folder: &Path,
    environment: &[(OsString, OsString)],
) -> Result<String, String> {
    if name.is_empty() {
        return Err("the program has no name".to_owned());
    }
    let in_folder = folder.join(name);
    if name.contains('/') {
        return runnable(&in_folder).map(|()| in_folder.display().to_string());
    }
    if on_path(name, environment).is_some() {
        return Ok(name.to_owned());
    }
    if in_folder.is_file() {
        return runnable(&in_folder).map(|()| in_folder.display().to_string());
    }
    Err(format!("the program `{name}` is neither on PATH nor in {}", folder.display()))
}

fn on_path(name: &str, environment: &[(OsString, OsString)]) -> Option<PathBuf> {
    let path = environment.iter().find(|(name, _)| name == OsStr::new("PATH"))?;
    std::env::split_paths(&path.1)
        .map(|folder| folder.join(name))
        .find(|file| runnable(file).is_ok())
}

fn runnable(file: &Path) -> Result<(), String> {
    let shown = file.display();
    match file.metadata() {
        Ok(found) if !found.is_file() => Err(format!("{shown} is not a file")),
        Ok(found) if found.permissions().mode() & 0o111 == 0 => {
            Err(format!("{shown} is not executable; run: chmod +x {shown}"))
        }
        Ok(_) => Ok(()),
        Err(why) => Err(format!("{shown}: {why}")),
    }
}
