//! Removes what no log names any more from the folder beside the database.

use inspan_core::store::Archive;
use inspan_engine::{SystemClock, clock::Clock};

use crate::out::{DIM, NOTE, Out, counted, styled};

/// Removes the pictures and long results that no session names, from the folder that goes with this
/// database, but for those that were there before it: another database may name them. A bucket, or the folder of a Postgres database, may hold what another database names:
/// nothing is removed there. A failure is told, and keeps nobody from anything.
pub(crate) async fn sweep(store: &dyn Archive, out: &Out) {
    let Some(blobs) = store.blobs() else { return };
    let unnamed = async |hashes: &[_]| store.unreferenced(hashes).await;
    let swept = async {
        let made_ms = store.made_ms().await?;
        inspan_store::sweep(&*blobs, SystemClock.now_ms(), made_ms, unnamed).await
    };
    match swept.await {
        Ok(swept) if swept.removed > 0 => {
            let told =
                counted(swept.removed, "picture or long result", "pictures and long results");
            let told = format!("removed {told} that no session names");
            out.progress(&format!("{}\n", styled(DIM, &told)));
        }
        Ok(_) => {}
        Err(why) => {
            let told = out.shown(&format!("what no session names was not removed: {why}"));
            out.progress(&format!("  {} {told}\n", styled(NOTE, "!")));
        }
    }
}
