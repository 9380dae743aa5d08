//! What Postgres and the network say, in words that a person can act on.

use inspan_core::store::StoreError;

use super::open::Place;

/// What went wrong with the database.
pub(super) fn of_database(place: &Place, error: &sqlx::Error) -> StoreError {
    let what = place.to_string();
    let Some(said) = error.as_database_error() else { return of_connection(what, error) };
    let why = said.message();
    let code = said.code().unwrap_or_default();
    match &*code {
        "53100" => StoreError::NotWritable {
            what,
            why: "the disk of the database is full: make room, then go on".into(),
        },
        "25006" | "42501" => {
            StoreError::NotWritable { what, why: format!("{why}: check the rights of its user") }
        }
        "3D000" => {
            let why = format!("{why}: make it with `createdb`, or correct its name");
            StoreError::Other { what, why }
        }
        "28P01" | "28000" => {
            let why = format!("{why}: check the user and the password in the URL");
            StoreError::Other { what, why }
        }
        _ if is_lost(error) => of_connection(what, error),
        "XX001" | "XX002" => {
            StoreError::Damaged { what, why: format!("{why}: bring back a copy of the database") }
        }
        _ => StoreError::Other { what, why: format!("{why} ({code})") },
    }
}

fn of_connection(what: String, error: &sqlx::Error) -> StoreError {
    let said = |error: &sqlx::Error| match error {
        sqlx::Error::Database(said) => said.message().to_owned(),
        sqlx::Error::Io(said) => said.to_string(),
        other => other.to_string(),
    };
    match error {
        sqlx::Error::ColumnDecode { .. } => StoreError::Damaged {
            what,
            why: format!("{error}: `inspan verify` says which entries are as they were"),
        },
        sqlx::Error::PoolClosed => StoreError::Other { what, why: crate::CLOSED.into() },
        sqlx::Error::PoolTimedOut => StoreError::Other {
            what,
            why: "it did not answer in time: check that it runs and can be reached".into(),
        },
        _ if is_lost(error) => StoreError::Other {
            what,
            why: format!(
                "it can't be reached ({}): check that it runs; nothing that was told as written is \
                 lost",
                said(error)
            ),
        },
        _ => StoreError::Other { what, why: said(error) },
    }
}

/// Whether the connection is of no use any more: a network that broke, a server that ends or
/// restarts. It may have carried out what it was told last.
pub(super) fn is_lost(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) | sqlx::Error::Protocol(_) | sqlx::Error::WorkerCrashed => true,
        sqlx::Error::Database(said) => {
            let code = said.code().unwrap_or_default();
            code.starts_with("08") || ["57P01", "57P02", "57P03"].contains(&&*code)
        }
        _ => false,
    }
}

/// Whether the same may succeed when it is tried once more: the connection was lost, two
/// transactions stood in each other's way.
pub(super) fn is_passing(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|said| said.code()).unwrap_or_default();
    is_lost(error) || ["40001", "40P01", "55P03"].contains(&&*code)
}
