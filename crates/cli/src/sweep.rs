//! Removes what no log names any more: from the folder beside the database, and from a bucket that is
//! this database's alone.

use std::sync::Arc;

use inspan_core::{
    blobs::Blobs,
    store::{Archive, StoreError},
};
use inspan_engine::{SystemClock, clock::Clock};
use inspan_store::{S3, Swept};

use crate::{
    config::Config,
    out::{DIM, NOTE, Out, counted, styled},
};

/// Removes the pictures and long results that no session names, from the folder that goes with this
/// database, and from the bucket where the configuration says `sweep: true`. Any other bucket, and the
/// folder of a Postgres database, may hold what another database names: nothing is removed there. A
/// failure is told, and keeps nobody from anything. What was put before this database was made stays:
/// another one, which was moved away, may name it.
pub(crate) async fn sweep(config: &Config, store: &dyn Archive, out: &Out) {
    for place in places(config, store) {
        let swept = match place {
            Ok(blobs) => sweep_one(&*blobs, store).await,
            Err(why) => Err(why),
        };
        match swept {
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
}

/// Where only this database names what is there.
fn places(config: &Config, store: &dyn Archive) -> Vec<Result<Arc<dyn Blobs>, StoreError>> {
    let bucket = config.blobs.as_ref().filter(|_| config.sweeps_bucket);
    let bucket = bucket.map(|place| Ok(Arc::new(S3::new(place)?) as Arc<dyn Blobs>));
    store.blobs().map(Ok).into_iter().chain(bucket).collect()
}

async fn sweep_one(blobs: &dyn Blobs, store: &dyn Archive) -> Result<Swept, StoreError> {
    let unnamed = async |hashes: &[_]| store.unreferenced(hashes).await;
    let made_ms = store.made_ms().await?;
    inspan_store::sweep(blobs, SystemClock.now_ms(), made_ms, unnamed).await
}
