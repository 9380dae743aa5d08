//! Model calls: what is asked, and what comes back.

use inspan_core::{
    decide::Abort,
    event::{ModelFailed, ModelReplied, ProjectionRepaired, RoundStarted},
    message::{Reply, ReplyPart, ReplyStop, Usage},
    provider::ErrorClass,
    recover::{fallback, retry_at_ms},
    repair::pictures_within,
    turn::Phase,
    words,
};

use super::{Announced, Driver};
use crate::effects::{ModelDone, ModelEnd, usage_estimated};

impl Driver {
    /// Announces a model call, or first leaves out the pictures that its provider would refuse.
    pub(super) fn call_model(&mut self, started: RoundStarted) {
        // A server that takes none is told of them in words.
        let count_max = Some(self.provider().picture_limits().count_max).filter(|max| *max > 0);
        match count_max.and_then(|max| Some((max, pictures_within(&self.state, max)?))) {
            Some((max, repair)) => {
                self.record(ProjectionRepaired { repair, why: words::pictures_taken(max) });
            }
            None => {
                self.record(started.clone());
                self.announced.push(Announced::Model(started));
            }
        }
    }

    pub(super) fn model_ended(&mut self, done: ModelDone) {
        let ModelDone { built, end, first_ms, ms } = done;
        let seq = self.state.head.seq + 1;
        let issuer = self.provider().issuer().to_owned();
        let (is_empty, counted) = (built.is_empty(), *built.usage());
        let (class, message, retry_at_ms, refused) = match end {
            ModelEnd::Finished(stop) => {
                let mut reply = built.finish(stop, &issuer, seq);
                // A server that never counts would spend nothing for ever, and one that says anything
                // would spend all.
                let is_plausible = counted.is_plausible(self.asked_tokens());
                if counted.input_total() == 0 || !is_plausible {
                    let counted = if is_plausible { counted } else { Usage::default() };
                    reply.usage = self.estimated(&counted, &reply.parts);
                }
                return self.replied(reply, first_ms, ms);
            }
            ModelEnd::Aborted(Abort::Cancelled) if !is_empty => {
                let mut reply = built.finish(ReplyStop::Cancelled, &issuer, seq);
                reply.usage = self.estimated(&counted, &reply.parts);
                return self.replied(reply, first_ms, ms);
            }
            ModelEnd::Aborted(Abort::Cancelled) => (
                ErrorClass::Cancelled,
                "cancelled before anything had arrived".to_owned(),
                None,
                None,
            ),
            ModelEnd::Aborted(Abort::OutOfTime) => {
                (ErrorClass::TimeLimit, "the time of this turn was over".to_owned(), None, None)
            }
            ModelEnd::Failed(error) => {
                let clock = &self.setup.clock;
                let retry = retry_at_ms(&self.state, &error, clock.now_ms(), clock.chance());
                let message = self.setup.mask.text(&error.message).into_owned();
                (error.class, message, retry, error.refused)
            }
        };
        let reply = built.finish(ReplyStop::Broken, &issuer, seq);
        // What was refused at the door is free. What had begun, or was ended by us, is not.
        let is_free = is_empty && counted == Usage::default() && class.is_refusal();
        let usage = if is_free { counted } else { self.estimated(&counted, &reply.parts) };
        let cost_nano_usd = self.cost(&usage);
        let is_asked_again = retry_at_ms.is_some() || fallback(&self.state, class, None).is_some();
        let partial = (!is_asked_again && !is_empty).then_some(reply);
        self.record(ModelFailed {
            class,
            message,
            retry_at_ms,
            refused,
            usage,
            cost_nano_usd,
            ms,
            partial,
        });
    }

    pub(super) fn replied(&mut self, reply: Reply, first_ms: u64, ms: u64) {
        let cost_nano_usd = self.cost(&reply.usage);
        self.record(ModelReplied { reply, cost_nano_usd, first_ms, ms });
    }

    pub(super) fn estimated(&self, counted: &Usage, parts: &[ReplyPart]) -> Usage {
        usage_estimated(counted, parts, self.asked_tokens())
    }

    pub(super) fn asked_tokens(&self) -> u64 {
        match self.state.turn.as_ref().map(|turn| &turn.phase) {
            Some(Phase::Asking(started)) => started.input_tokens_estimate,
            _ => 0,
        }
    }

    pub(super) fn cost(&self, usage: &Usage) -> Option<u64> {
        self.state.model()?.price.map(|price| price.of(usage))
    }
}
