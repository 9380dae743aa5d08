//! What comes from outside: commands of clients, and answers that other processes left.

use futures_util::{FutureExt, future::BoxFuture};
use inspan_core::{
    event::{CancelRequested, PromptSubmitted, Woken, WokenWhy},
    message::{CallId, How, ToolResult},
    recover::supersede,
    store::{AnswerLeft, StoreError},
    tool::ToolError,
};

use super::{ANSWERS_LOOK_MS_MAX, Driver, sleep};
use crate::{
    effects::{Done, fits, for_the_log, within_limits},
    outside,
    session::{Command, Submitted},
};

impl Driver {
    /// Resolves when another process may have left an answer to an open question.
    pub(super) fn may_be_answered(&self) -> BoxFuture<'static, ()> {
        if !self.state.is_asking_a_person() {
            return std::future::pending().boxed();
        }
        let news = self.setup.store.changed(Some(&self.claim.session));
        async move {
            tokio::select! {
                () = news => {}
                () = sleep(Some(ANSWERS_LOOK_MS_MAX)) => {}
            }
        }
        .boxed()
    }

    /// Takes the answers that other processes left. The store forgets each with the entry that has
    /// it, so none is taken twice.
    pub(super) async fn take_answers(&mut self) -> Result<(), StoreError> {
        let left = self.setup.store.answers_left(&self.claim.session).await?;
        for AnswerLeft { call, choice, why } in left {
            if let Ok(event) = outside::answered(&self.state, &call, choice, why) {
                self.record(event);
            }
        }
        Ok(())
    }

    /// Takes the commands that wait, so that the next request carries what was said before it.
    pub(super) fn take_commands(&mut self) -> bool {
        let mut taken = false;
        while let Some(command) =
            self.commands.as_mut().and_then(|commands| commands.try_recv().ok())
        {
            self.command(Some(command));
            taken = true;
        }
        taken
    }

    pub(super) fn command(&mut self, submitted: Option<Submitted>) {
        let Some(Submitted { command, receipt }) = submitted else {
            self.commands = None;
            return;
        };
        match command {
            Command::Prompt(content, labels) => {
                supersede(&self.state).into_iter().for_each(|event| self.record(event));
                self.record(PromptSubmitted { content, labels });
                if let Some(receipt) = receipt {
                    // Whoever asked for it may be gone.
                    let _ = receipt.send(self.state.head.seq);
                }
            }
            cancel @ (Command::Cancel | Command::CancelSafely) => {
                let is_first = self.state.turn.as_ref().is_none_or(|turn| !turn.cancelled);
                // A cancel at once stays one.
                self.is_patient =
                    matches!(cancel, Command::CancelSafely) && (is_first || self.is_patient);
                if self.state.parked.is_some() && self.state.turn.is_none() {
                    self.record(Woken { why: WokenWhy::Unparked });
                }
                if self.state.turn.as_ref().is_some_and(|turn| !turn.cancelled) {
                    self.record(CancelRequested {});
                }
            }
            Command::Wake => {
                if self.state.turn.is_none() && self.state.parked.is_some() {
                    self.record(Woken { why: WokenWhy::Unparked });
                }
            }
            Command::Answer { call, choice, why } => {
                let why = self.setup.mask.text(&why).into_owned();
                if let Ok(event) = outside::answered(&self.state, &call, choice, why) {
                    self.record(event);
                }
            }
            Command::Deliver { call, outcome } => self.deliver(call, outcome),
        }
    }

    /// Records a result from outside. The whole of a long one is durable before: it is recorded when
    /// that is done, if the session still takes it then.
    pub(super) fn deliver(&mut self, call: CallId, outcome: Result<ToolResult, ToolError>) {
        if outside::awaited(&self.state, &call).is_err() {
            return;
        }
        let (how, result) = outside::outcome_of(outcome);
        let mask = self.setup.mask.clone();
        match self.setup.spills().filter(|_| !fits(&result.content)) {
            None => self.delivered(&call, how, within_limits(result, &mask)),
            Some(spills) => {
                let kept = async move {
                    let result = for_the_log(result, &call, &mask, Some(&*spills)).await;
                    Done::Delivered { call, how, result }
                };
                self.under_way.push(kept.boxed());
            }
        }
    }

    pub(super) fn delivered(&mut self, call: &CallId, how: How, result: ToolResult) {
        if let Ok(event) = outside::delivered(&self.state, call, how, result) {
            self.record(event);
        }
    }
}
