//! Files that a command writes for a person: there as a whole or not at all.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

/// A file that takes its place only when it is whole and on the disk: until then, what was there
/// stays. Only its owner can read it: it holds what was said.
///
/// What is no file, such as a pipe or `/dev/null`, is written through and stays what it is, and a
/// link leads to what is written.
pub(crate) struct WholeFile {
    file: BufWriter<File>,
    /// Where it is written until it is whole, and where it goes then.
    moves: Option<(PathBuf, PathBuf)>,
}

impl WholeFile {
    /// Begins the file that is to be at `path`.
    pub(crate) fn begin(path: &Path) -> io::Result<Self> {
        // A link to nothing leads to what is made.
        let place = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        match fs::symlink_metadata(&place) {
            Ok(found) if !found.is_file() => Ok(Self { file: open(&place)?, moves: None }),
            _ => {
                let mut beside = place.clone().into_os_string();
                beside.push(".part");
                let beside = PathBuf::from(beside);
                Ok(Self { file: open(&beside)?, moves: Some((beside, place)) })
            }
        }
    }

    /// Writes the next bytes of it.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    /// Lets it take its place.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.file.flush()?;
        if let Some((beside, place)) = &self.moves {
            self.file.get_ref().sync_all()?;
            fs::rename(beside, place)?;
            self.moves = None;
        }
        Ok(())
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if let Some((beside, _)) = &self.moves {
            // Half a file is none; if it can't be removed, that adds nothing to the error.
            let _ = fs::remove_file(beside);
        }
    }
}

fn open(path: &Path) -> io::Result<BufWriter<File>> {
    use std::os::unix::fs::OpenOptionsExt;
    File::options()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(path)
        .map(BufWriter::new)
}
