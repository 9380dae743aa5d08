//! What SQLite and the file system say, in words that a person can act on.

use std::path::Path;

use inspan_core::store::StoreError;

use crate::disk::FULL;

/// The primary result codes of SQLite that mean something of their own here.
mod code {
    pub(super) const ERROR: i32 = 1;
    pub(super) const PERM: i32 = 3;
    pub(super) const BUSY: i32 = 5;
    pub(super) const READONLY: i32 = 8;
    pub(super) const CORRUPT: i32 = 11;
    pub(super) const FULL: i32 = 13;
    pub(super) const CANTOPEN: i32 = 14;
    pub(super) const CONSTRAINT: i32 = 19;
    pub(super) const MISMATCH: i32 = 20;
    pub(super) const NOTADB: i32 = 26;
    /// An extended code: the shared memory beside the database could not grow.
    pub(super) const IOERR_SHMSIZE: i32 = 4874;
}

/// What went wrong with the database at `path`.
pub(super) fn of_database(path: &Path, error: &sqlx::Error) -> StoreError {
    let what = path.display().to_string();
    let said = error.as_database_error().map_or_else(|| error.to_string(), |e| e.message().into());
    let extended = extended_code(error).unwrap_or_default();
    match extended & 0xff {
        _ if extended == code::IOERR_SHMSIZE => StoreError::NotWritable { what, why: FULL.into() },
        code::FULL => StoreError::NotWritable { what, why: FULL.into() },
        code::READONLY | code::PERM => not_permitted(what, &said),
        code::CANTOPEN => {
            let why = format!("{said}: check that it is a file and that its folder is writable");
            StoreError::NotWritable { what, why }
        }
        code::NOTADB => StoreError::Damaged {
            why: format!("it is no SQLite database: {}, and a new one is made", move_away(&what)),
            what,
        },
        code::CORRUPT => damaged(path, &said),
        code::BUSY => StoreError::Other {
            what,
            why: "another process has kept it locked for too long: try again".into(),
        },
        _ => match error {
            sqlx::Error::ColumnDecode { index, source } => StoreError::Damaged {
                why: format!(
                    "{index} in a row of it can't be read ({source}): `inspan verify ID` says which \
                     entries are as they were written"
                ),
                what,
            },
            sqlx::Error::PoolClosed => StoreError::Other { what, why: crate::CLOSED.into() },
            _ => StoreError::Other { what, why: said },
        },
    }
}

/// Whether the whole database is locked by another process, so that it is no use to try at once.
pub(super) fn is_busy(error: &sqlx::Error) -> bool {
    extended_code(error).is_some_and(|code| code & 0xff == code::BUSY)
}

/// Whether it can be damage in the table that was asked: broken pages, a table that is gone, rows
/// that must not be there.
pub(super) fn is_damage(error: &sqlx::Error) -> bool {
    extended_code(error).is_some_and(|code| {
        [code::ERROR, code::CORRUPT, code::CONSTRAINT, code::MISMATCH].contains(&(code & 0xff))
    })
}

/// The database at `path` was opened to be read alone.
pub(super) fn read_only(path: &Path) -> StoreError {
    not_permitted(path.display().to_string(), "attempt to write a readonly database")
}

fn not_permitted(what: String, said: &str) -> StoreError {
    let why = format!("{said}: check the permissions of the file and its folder");
    StoreError::NotWritable { what, why }
}

/// Whether something may not be written here, in place of no room for it.
pub(super) fn is_about_rights(error: &StoreError) -> bool {
    matches!(error, StoreError::NotWritable { why, .. } if why != FULL)
}

/// The database at `path` can be opened, but something in it can't be.
pub(super) fn damaged(path: &Path, why: &str) -> StoreError {
    let what = path.display().to_string();
    let why = format!(
        "{why}: {}, to begin a new one, or save what can be saved with `sqlite3 {what} .recover`",
        move_away(&what)
    );
    StoreError::Damaged { what, why }
}

/// The database at `path` is gone or empty, but the log that SQLite keeps beside it is not. SQLite
/// would take such a log for a leftover and remove it.
pub(super) fn only_its_log(path: &Path) -> StoreError {
    let what = path.display().to_string();
    let why = format!(
        "it is missing or empty, but what was written last to it is in {what}-wal: bring it back, \
         or move away {what}-wal too to begin a new one"
    );
    StoreError::Damaged { what, why }
}

/// What was written last is not in the database itself, so the advice names all of its files.
fn move_away(what: &str) -> String {
    format!("move it away together with {what}-wal and {what}-shm, if they are there")
}

fn extended_code(error: &sqlx::Error) -> Option<i32> {
    error.as_database_error()?.code()?.parse().ok()
}
