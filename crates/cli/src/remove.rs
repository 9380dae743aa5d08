//! `inspan remove`: takes sessions out of the database.

use std::io::IsTerminal;

use inspan_core::store::{SessionId, StoreError};

use crate::{
    config::Config,
    exit::Failure,
    home::{Home, session_of},
    input::is_yes,
    out::{DIM, Out, counted, styled},
    sweep::sweep,
};

/// Removes the sessions whose identifiers are `given` or begin so, after a question.
pub(crate) async fn remove(home: &Home, given: &[String], yes: bool) -> Result<u8, Failure> {
    let config = Config::load(&home.folder, home.environment.clone())?;
    let out = Out::new(config.mask.clone());
    let store = home.store().await?;
    let mut ids: Vec<SessionId> = Vec::new();
    for given in given {
        let id = session_of(&*store, given).await?;
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    if !yes && !is_meant(&ids, &out)? {
        return Ok(0);
    }
    for id in &ids {
        match store.remove(id).await {
            // Somebody else was faster.
            Ok(()) | Err(StoreError::NoSession(_)) => {
                out.progress(&format!("{}\n", styled(DIM, &format!("removed session {id}"))));
            }
            Err(error) => return Err(error.into()),
        }
    }
    sweep(&config, &*store, &out).await;
    Ok(0)
}

/// Asks the person; without anybody to ask, nothing is removed.
fn is_meant(ids: &[SessionId], out: &Out) -> Result<bool, Failure> {
    let what = match ids {
        [id] => format!("session {id}"),
        ids => counted(ids.len() as u64, "session", "sessions"),
    };
    if !std::io::stdin().is_terminal() {
        let why = format!("nobody can be asked whether {what} may go: add --yes");
        return Err(Failure::Usage(why));
    }
    is_yes(&format!("Remove {what} for ever?"), out)
}
