//! Ending what is under way.

use futures_util::{FutureExt, StreamExt};
use inspan_core::{
    decide::{Abort, not_run},
    message::How,
    store::StoreError,
    turn::CallStatus,
    words,
};

use super::{Announced, Driver, next_command, sleep};
use crate::effects::{Ending, ModelDone};

impl Driver {
    /// `work`, while commands are taken and what is under way goes on; `None` when the turn was
    /// cancelled meanwhile, or its time is over.
    pub(super) async fn unless_cancelled<T>(
        &mut self,
        work: impl Future<Output = T>,
    ) -> Result<Option<T>, StoreError> {
        let mut work = std::pin::pin!(work);
        let deadline_ms = self.deadline_ms();
        loop {
            if let Some(done) = work.as_mut().now_or_never() {
                return Ok(Some(done));
            }
            self.flush().await?;
            let wait_ms = self.wait_ms(deadline_ms);
            tokio::select! {
                biased;
                () = &mut self.lost => return Err(self.moved()),
                done = &mut work => return Ok(Some(done)),
                Some(commit) = self.commits.next() => self.publish(commit)?,
                Some(done) = self.under_way.next() => self.ended(done),
                command = next_command(&mut self.commands) => self.command(command),
                () = sleep(wait_ms) => {}
            }
            let is_over = deadline_ms.is_some_and(|end| self.setup.clock.now_ms() >= end);
            if is_over || self.state.turn.as_ref().is_none_or(|turn| turn.cancelled) {
                return Ok(None);
            }
        }
    }

    /// Ends everything under way and records how; what was announced and not begun ends too.
    pub(super) async fn abort_all(&mut self, why: Abort) -> Result<(), StoreError> {
        for announced in std::mem::take(&mut self.announced) {
            match announced {
                Announced::Tool(started) => {
                    let open = self.state.call(&started.call).cloned();
                    let (how, text) = match why {
                        Abort::Cancelled => (How::Cancelled, words::CANCELLED.to_owned()),
                        Abort::OutOfTime => (How::TimedOut, words::out_of_time()),
                    };
                    if let Some(open) = open {
                        self.record(not_run(&open, how, &text));
                    }
                }
                Announced::Model(_) => self.model_ended(ModelDone::none(why)),
            }
        }
        self.end_effects(why).await?;
        // Only a damaged log holds more than was begun here: that ends, too.
        if self.state.is_asking() {
            self.model_ended(ModelDone::none(why));
        }
        for open in self.state.calls.clone() {
            if matches!(open.status, CallStatus::Running(_)) {
                self.record(not_run(&open, How::Unknown, words::UNKNOWN));
            }
        }
        Ok(())
    }

    /// Ends what is under way. While a patient cancel waits for a call, another one ends it, and so
    /// does the end of the turn's time.
    pub(super) async fn end_effects(&mut self, why: Abort) -> Result<(), StoreError> {
        let deadline_ms = self.deadline_ms();
        loop {
            let wait_ms = self.wait_ms(deadline_ms);
            let is_patient = self.is_patient && why == Abort::Cancelled;
            self.abort.send_replace(Some(Ending { why, is_patient }));
            if is_patient {
                self.flush().await?;
            }
            tokio::select! {
                biased;
                () = &mut self.lost => return Err(self.moved()),
                done = self.under_way.next() => match done {
                    Some(done) => self.ended(done),
                    None => break,
                },
                Some(commit) = self.commits.next(), if is_patient => self.publish(commit)?,
                command = next_command(&mut self.commands), if is_patient => self.command(command),
                () = sleep(wait_ms), if is_patient => {
                    let is_over = deadline_ms.is_some_and(|end| self.setup.clock.now_ms() >= end);
                    self.is_patient = !is_over;
                }
            }
        }
        self.abort.send_replace(None);
        self.is_patient = false;
        Ok(())
    }
}
