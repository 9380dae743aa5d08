//! Tool calls: their judging, their running, and the probing of what nobody knows.

use std::{panic::AssertUnwindSafe, time::Duration};

use futures_util::{FutureExt, future::BoxFuture};
use inspan_core::{
    event::{ToolDeferred, ToolFinished, ToolStarted},
    message::{CallId, How, Job, ResultState, ToolResult},
    store::StoreError,
    tool::{Invocation, Probed},
    turn::{CallStatus, OpenCall},
    words,
};

use super::{Announced, Driver, PROBE_AFTER_MS_MIN, finished};
use crate::{
    effects::{AbortSignal, Done, for_the_log, run_tool},
    judge::judge,
    session::Setup,
};

impl Driver {
    pub(super) fn tool_work(
        &self,
        started: ToolStarted,
        signal: AbortSignal,
    ) -> BoxFuture<'static, Done> {
        let open = self.state.call(&started.call);
        let arguments = open.and_then(|open| open.arguments.clone()).unwrap_or_default();
        let invocation = self.invocation(&started, arguments);
        match self.tools.get(&started.name) {
            Some(tool) => {
                let (mask, spills) = (self.setup.mask.clone(), self.setup.spills());
                run_tool(tool.clone(), started, invocation, mask, signal, spills).boxed()
            }
            // Judged, or even started, by an earlier process, whose agent still had it.
            None => {
                let (how, text) = match started.attempt {
                    1 => (How::UnknownTool, words::unknown_tool(&started.name, &[])),
                    _ => (How::Unknown, words::UNKNOWN.to_owned()),
                };
                let finished = finished(&started, how, ToolResult::text(text));
                std::future::ready(Done::Tool(finished)).boxed()
            }
        }
    }

    pub(super) fn invocation(
        &self,
        started: &ToolStarted,
        arguments: serde_json::Value,
    ) -> Invocation {
        Invocation {
            session: self.claim.session.clone(),
            call: started.call.clone(),
            key: started.key.clone(),
            attempt: started.attempt,
            arguments,
            shared: self.setup.shared.clone(),
        }
    }

    /// A result that says it comes later leaves the call open.
    pub(super) fn tool_ended(&mut self, finished: ToolFinished) {
        match finished.result.state {
            ResultState::Later(job) => self.deferred(finished.call, finished.name, &job),
            ResultState::Finished | ResultState::Accepted(_) => self.record(finished),
        }
    }

    pub(super) fn deferred(&mut self, call: CallId, name: String, job: &Job) {
        let after = |ms: u64| {
            self.setup.clock.now_ms().saturating_add(i64::try_from(ms).unwrap_or(i64::MAX))
        };
        let probe_at_ms = job.probe_after_ms.map(|ms| after(ms.max(PROBE_AFTER_MS_MIN)));
        let job = self.setup.mask.text(&job.id).into_owned();
        self.record(ToolDeferred { call, name, job, probe_at_ms });
    }

    pub(super) async fn judge(&mut self, call: &CallId) -> Result<(), StoreError> {
        let Some(open) = self.state.call(call).cloned() else { return Ok(()) };
        let session = self.claim.session.clone();
        let Setup { gates, shared, mask, .. } = &self.setup;
        let (gates, shared, mask) = (gates.clone(), shared.clone(), mask.clone());
        // In a box: the driver of a session that waits for its model stays small.
        let judged = judge(session, open, self.tools.clone(), gates, shared, mask).boxed();
        if let Some(event) = self.unless_cancelled(judged).await? {
            self.record(event);
        }
        Ok(())
    }

    pub(super) async fn probe(&mut self, call: &CallId) -> Result<(), StoreError> {
        let Some(OpenCall { status: CallStatus::Probing(started), arguments, .. }) =
            self.state.call(call).cloned()
        else {
            return Ok(());
        };
        let invocation = self.invocation(&started, arguments.unwrap_or_default());
        let probed = match self.tools.get(&started.name) {
            Some(tool) => {
                let limit = Duration::from_millis(tool.spec().timeout_ms_max);
                let tool = tool.clone();
                let probed = AssertUnwindSafe(async move { tool.probe(invocation).await });
                let probed = tokio::time::timeout(limit, probed.catch_unwind());
                let known = probed.map(|probed| match probed {
                    Ok(Ok(probed)) => probed,
                    // It took too long, or broke down.
                    Err(_) | Ok(Err(_)) => Probed::Unknown,
                });
                self.unless_cancelled(known).await?
            }
            None => Some(Probed::Unknown),
        };
        match probed {
            None => {}
            Some(Probed::Done(result)) => {
                let result =
                    for_the_log(result, call, &self.setup.mask, self.setup.spills().as_deref())
                        .await;
                self.record(finished(&started, How::Ok, result));
            }
            Some(Probed::Pending(job)) => self.deferred(started.call, started.name, &job),
            Some(Probed::Absent) => {
                let again = ToolStarted { attempt: started.attempt + 1, ..started };
                self.record(again.clone());
                self.announced.push(Announced::Tool(again));
            }
            Some(Probed::Unknown) => {
                let text = ToolResult::text(words::UNKNOWN);
                self.record(finished(&started, How::Unknown, text));
            }
        }
        Ok(())
    }
}
