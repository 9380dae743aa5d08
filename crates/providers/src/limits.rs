//! Time limits of a model call, measured on model events. Bytes and pings are no sign of life: a
//! stream that only pings is stalled.

use std::{pin::Pin, time::Duration};

use futures_util::{Stream, StreamExt, stream};
use inspan_core::provider::{ErrorClass, ModelError, ModelEvent};
use tokio::time::{Instant, timeout_at};

/// Time limits of a model call in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Until the server is connected to.
    pub connect_ms_max: u64,
    /// From the beginning until the first piece of the answer. Reading a long prompt is in it, and
    /// all reasoning that is not shown.
    pub first_ms_max: u64,
    /// Between two events of the answer. Servers that check a long argument before they send it
    /// are silent meanwhile.
    pub silence_ms_max: u64,
    /// From the beginning to the end.
    pub whole_ms_max: u64,
}

impl Timeouts {
    /// For a provider on the network: 10 s, 5 min, 2 min, 20 min.
    pub const REMOTE: Self = Self {
        connect_ms_max: 10_000,
        first_ms_max: 300_000,
        silence_ms_max: 120_000,
        whole_ms_max: 1_200_000,
    };
    /// For a server on this machine, which may have to load its model and reads prompts slowly:
    /// 10 s, 10 min, 2 min, 60 min.
    pub const LOCAL: Self = Self {
        connect_ms_max: 10_000,
        first_ms_max: 600_000,
        silence_ms_max: 120_000,
        whole_ms_max: 3_600_000,
    };
}

/// The events, and [`ErrorClass::Stalled`] in place of one that takes too long. Nothing follows
/// the end or a failure. `place` begins the message.
pub(crate) fn watch(
    events: Pin<Box<dyn Stream<Item = ModelEvent> + Send>>,
    timeouts: Timeouts,
    place: String,
) -> impl Stream<Item = ModelEvent> + Send {
    let watched = Watched { events, timeouts, place, began: None, seen: None, over: false };
    stream::unfold(watched, |mut watched| async {
        let event = watched.next().await?;
        Some((event, watched))
    })
}

struct Watched {
    events: Pin<Box<dyn Stream<Item = ModelEvent> + Send>>,
    timeouts: Timeouts,
    place: String,
    /// When the stream was first asked.
    began: Option<Instant>,
    /// When the last event came; none before the first piece of the answer.
    seen: Option<Instant>,
    over: bool,
}

impl Watched {
    async fn next(&mut self) -> Option<ModelEvent> {
        if self.over {
            return None;
        }
        let began = *self.began.get_or_insert_with(Instant::now);
        let limits = self.timeouts;
        let (pause_until, pause_ms, pause) = match self.seen {
            None => (began, limits.first_ms_max, "gave no answer for"),
            Some(seen) => {
                (seen, limits.silence_ms_max, "was silent in the middle of its answer for")
            }
        };
        let pause_until = pause_until + Duration::from_millis(pause_ms);
        let whole_until = began + Duration::from_millis(limits.whole_ms_max);
        match timeout_at(pause_until.min(whole_until), self.events.next()).await {
            Ok(event) => {
                self.take(event.as_ref());
                event
            }
            Err(_) if pause_until < whole_until => Some(self.stalled(pause, pause_ms)),
            Err(_) => Some(self.stalled("was not done after", limits.whole_ms_max)),
        }
    }

    fn take(&mut self, event: Option<&ModelEvent>) {
        let piece = match event {
            Some(ModelEvent::Delta { .. } | ModelEvent::PartFinished { .. }) => true,
            Some(ModelEvent::Started { .. } | ModelEvent::Counted(_)) => self.seen.is_some(),
            Some(ModelEvent::Finished(_) | ModelEvent::Failed(_)) | None => {
                self.over = true;
                false
            }
        };
        if piece {
            self.seen = Some(Instant::now());
        }
    }

    fn stalled(&mut self, what: &str, limit_ms: u64) -> ModelEvent {
        self.over = true;
        let place = &self.place;
        let message = format!("{place} {what} {}", seconds(limit_ms));
        ModelEvent::Failed(ModelError {
            class: ErrorClass::Stalled,
            message,
            retry_after_ms: None,
            refused: None,
        })
    }
}

/// A time limit in words.
fn seconds(ms: u64) -> String {
    if ms.is_multiple_of(1000) { format!("{} s", ms / 1000) } else { format!("{ms} ms") }
}

#[cfg(test)]
mod tests {
    use inspan_core::{
        message::{ReplyStop, Usage},
        provider::Delta,
    };
    use tokio::time::sleep;

    use super::*;

    const LIMITS: Timeouts =
        Timeouts { connect_ms_max: 0, first_ms_max: 100, silence_ms_max: 30, whole_ms_max: 300 };

    fn delta() -> ModelEvent {
        ModelEvent::Delta { part: 0, delta: Delta::Text("a".into()) }
    }

    fn counted() -> ModelEvent {
        ModelEvent::Counted(Usage::default())
    }

    /// Plays events, each after so many milliseconds of a clock that stands still otherwise.
    async fn play(script: Vec<(u64, ModelEvent)>) -> (Vec<ModelEvent>, u64) {
        let began = Instant::now();
        let events = stream::iter(script).then(|(ms, event)| async move {
            sleep(Duration::from_millis(ms)).await;
            event
        });
        let events = events.chain(stream::pending()).boxed();
        let seen = watch(events, LIMITS, "here".into()).collect().await;
        (seen, began.elapsed().as_millis() as u64)
    }

    fn stalled(message: &str) -> ModelEvent {
        ModelEvent::Failed(ModelError {
            class: ErrorClass::Stalled,
            message: message.into(),
            retry_after_ms: None,
            refused: None,
        })
    }

    #[tokio::test(start_paused = true)]
    async fn each_limit_has_its_own_failure() {
        let first = stalled("here gave no answer for 100 ms");
        let silence = stalled("here was silent in the middle of its answer for 30 ms");
        let whole = stalled("here was not done after 300 ms");
        let end = ModelEvent::Finished(ReplyStop::End);
        let table = [
            (vec![], vec![first.clone()], 100),
            (vec![(90, counted())], vec![counted(), first], 100),
            (vec![(90, delta())], vec![delta(), silence.clone()], 120),
            (vec![(0, delta()), (29, counted())], vec![delta(), counted(), silence], 59),
            (vec![(26, delta()); 20], [vec![delta(); 11], vec![whole]].concat(), 300),
            (vec![(90, delta()), (20, end.clone()), (0, delta())], vec![delta(), end], 110),
        ];
        for (script, events, ms) in table {
            assert_eq!(play(script).await, (events, ms));
        }
    }
}
