//! A call that goes on for long, and says so.

use std::{future::pending, time::Duration};

use tokio::{sync::watch, time::Instant};

/// Time for which progress can extend one call, in milliseconds.
const EXTENDED_MS_MAX: u64 = 60 * 60 * 1000;

/// Where a call says that it gets on: its time begins anew then. A tool finds it in
/// [`Invocation::shared`](inspan_core::tool::Invocation::shared). Clones are the same.
#[derive(Clone, Debug)]
pub struct Progress(watch::Sender<Instant>);

impl Default for Progress {
    fn default() -> Self {
        Self(watch::Sender::new(Instant::now()))
    }
}

impl Progress {
    /// The call got on.
    pub fn made(&self) {
        self.0.send_replace(Instant::now());
    }

    /// When it last got on; before that, when it began.
    pub fn made_at(&self) -> Instant {
        *self.0.borrow()
    }

    /// Returns when the call gets on the next time.
    pub async fn next(&self) {
        let mut made = self.0.subscribe();
        if made.changed().await.is_err() {
            // The sender is in `self`, so it is never gone.
            pending::<()>().await;
        }
    }

    /// Returns when the call made no progress for `limit_ms`, or took an hour, if that is more.
    pub async fn ceased(&self, limit_ms: u64) {
        let limit = Duration::from_millis(limit_ms);
        let mut made = self.0.subscribe();
        let end = Instant::now() + Duration::from_millis(EXTENDED_MS_MAX.max(limit_ms));
        loop {
            let until = (*made.borrow_and_update() + limit).min(end);
            tokio::select! {
                () = tokio::time::sleep_until(until) => return,
                changed = made.changed() => if changed.is_err() {
                    // The sender is in `self`, so it is never gone.
                    pending::<()>().await;
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn progress_begins_the_time_anew_and_not_for_ever() {
        let began = Instant::now();
        let took = || began.elapsed().as_millis() as u64;
        let progress = Progress::default();
        progress.ceased(1_000).await;
        assert_eq!(took(), 1_000);

        let progress = Progress::default();
        let works = async {
            tokio::time::sleep(Duration::from_millis(900)).await;
            progress.made();
        };
        tokio::join!(works, progress.ceased(1_000));
        assert_eq!(took(), 1_000 + 1_900);

        let progress = Progress::default();
        let works = async {
            loop {
                tokio::time::sleep(Duration::from_millis(900)).await;
                progress.made();
            }
        };
        tokio::select! {
            () = works => {}
            () = progress.ceased(1_000) => {}
        }
        assert_eq!(took(), 2_900 + EXTENDED_MS_MAX);
    }
}
