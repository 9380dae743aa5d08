//! What is under way: model calls and tool calls as futures that end by themselves or by an abort,
//! and always say how.

use std::{future::Future, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::{FutureExt, StreamExt};
use inspan_core::{
    budget::tokens_estimate,
    decide::Abort,
    event::{ToolFinished, ToolStarted},
    mask::Mask,
    message::{Content, How, Labels, Privacy, Reply, ReplyStop, ToolResult, Trust, Usage},
    provider::{ErrorClass, ModelError, ModelEvent, Provider, ReplyBuilder, Request},
    tool::{Invocation, Tool},
    words,
};
use tokio::{
    sync::{broadcast, watch},
    time::Instant,
};

use crate::{tools::cap, updates::Update};

/// How something that was under way ended.
pub(crate) enum Done {
    /// A model call.
    Model(ModelDone),
    /// A tool call.
    Tool(ToolFinished),
}

/// How a model call ended.
pub(crate) struct ModelDone {
    pub(crate) built: ReplyBuilder,
    pub(crate) end: ModelEnd,
    pub(crate) first_ms: u64,
    pub(crate) ms: u64,
}

pub(crate) enum ModelEnd {
    Finished(ReplyStop),
    Failed(ModelError),
    Aborted(Abort),
}

/// Tells everything that is under way to end.
pub(crate) type AbortSignal = watch::Receiver<Option<Abort>>;

async fn aborted(signal: &mut AbortSignal) -> Abort {
    let why = signal.wait_for(Option::is_some).await.ok().and_then(|why| *why);
    match why {
        Some(why) => why,
        // The driver is gone, and with it whoever polls this.
        None => std::future::pending().await,
    }
}

/// `work` to its end, or the abort. What is done already counts as done.
async fn or_abort<T>(work: impl Future<Output = T>, signal: &mut AbortSignal) -> Result<T, Abort> {
    tokio::select! {
        biased;
        done = work => Ok(done),
        why = aborted(signal) => Err(why),
    }
}

/// Asks the model, hands pieces to the clients, and builds the reply.
pub(crate) async fn ask_model(
    provider: Arc<dyn Provider>,
    request: Request,
    mut clients: Clients,
    mut signal: AbortSignal,
) -> Done {
    let began = Instant::now();
    let mut first_ms = None;
    let mut built = ReplyBuilder::default();
    let mut stream = provider.stream(request);
    let end = loop {
        let event = tokio::select! {
            biased;
            event = stream.next() => event,
            why = aborted(&mut signal) => break ModelEnd::Aborted(why),
            () = clients.may_hear() => continue,
        };
        let Some(event) = event else { break ModelEnd::Failed(no_end()) };
        built.apply(&event);
        match event {
            ModelEvent::Finished(stop) => break ModelEnd::Finished(stop),
            ModelEvent::Failed(error) => break ModelEnd::Failed(error),
            ModelEvent::Delta { part, delta } => {
                first_ms.get_or_insert_with(|| elapsed_ms(began));
                clients.tell(Update::Delta { part, delta });
            }
            ModelEvent::Started { .. }
            | ModelEvent::PartFinished { .. }
            | ModelEvent::Counted(_) => {}
        }
    };
    let ms = elapsed_ms(began);
    Done::Model(ModelDone { built, end, first_ms: first_ms.unwrap_or(ms), ms })
}

/// Those who follow the session, for one model call. They hear of an answer only after the entry
/// that announces the call, which may still be on its way to the store when the answer begins.
pub(crate) struct Clients {
    updates: broadcast::Sender<Update>,
    /// The last entry that clients were told.
    told: watch::Receiver<u64>,
    /// The entry that announces the call.
    announced: u64,
    waiting: Vec<Update>,
}

impl Clients {
    pub(crate) fn new(
        updates: broadcast::Sender<Update>,
        told: watch::Receiver<u64>,
        announced: u64,
    ) -> Self {
        Self { updates, told, announced, waiting: Vec::new() }
    }

    fn tell(&mut self, update: Update) {
        self.waiting.push(update);
        if *self.told.borrow() >= self.announced {
            self.hand_over();
        }
    }

    /// Returns when something waited, and clients may hear it now.
    async fn may_hear(&mut self) {
        let announced = self.announced;
        if self.waiting.is_empty() || self.told.wait_for(|told| *told >= announced).await.is_err() {
            return std::future::pending().await;
        }
        self.hand_over();
    }

    fn hand_over(&mut self) {
        for update in self.waiting.drain(..) {
            // Without a client there is nobody to tell.
            let _ = self.updates.send(update);
        }
    }
}

fn no_end() -> ModelError {
    ModelError {
        class: ErrorClass::Network,
        message: "the provider's stream ended without saying so".to_owned(),
        retry_after_ms: None,
    }
}

/// What a call cost that was cut before its provider counted: never less than it said.
pub(crate) fn usage_of_cut(reply: &Reply, input_tokens_estimate: u64) -> Usage {
    let usage = reply.usage;
    let written = serde_json::to_string(&reply.parts).map_or(0, |text| text.len());
    let output = tokens_estimate(written).max(usage.output.unwrap_or(0));
    let input = usage.input.or_else(|| (usage.input_total() == 0).then_some(input_tokens_estimate));
    Usage { input, output: Some(output), estimated: true, ..usage }
}

/// Runs one call within its time.
pub(crate) async fn run_tool(
    tool: Arc<dyn Tool>,
    started: ToolStarted,
    invocation: Invocation,
    mask: Mask,
    mut signal: AbortSignal,
) -> Done {
    let began = Instant::now();
    let limit_ms = tool.spec().timeout_ms_max;
    let run = AssertUnwindSafe(async { tool.run(invocation).await }).catch_unwind();
    let timed = tokio::time::timeout(Duration::from_millis(limit_ms), run);
    let (how, result) = match or_abort(timed, &mut signal).await {
        Ok(Ok(Ok(Ok(result)))) => (How::Ok, result),
        Ok(Ok(Ok(Err(error)))) => {
            let text = format!("Failed: {}", error.message);
            (How::Failed, ToolResult { evidence: error.evidence, ..ToolResult::text(text) })
        }
        Ok(Ok(Err(_))) => (How::Failed, ToolResult::text("Failed: the tool itself broke down.")),
        Ok(Err(_)) => (How::TimedOut, ToolResult::text(words::timed_out(limit_ms))),
        Err(Abort::Cancelled) => (How::Cancelled, ToolResult::text(words::CANCELLED)),
        Err(Abort::OutOfTime) => (How::TimedOut, ToolResult::text(words::out_of_time())),
    };
    Done::Tool(ToolFinished {
        call: started.call,
        name: started.name,
        how,
        result: for_the_log(result, &mask),
        labels: Labels {
            trust: if started.effects.reads_untrusted { Trust::Untrusted } else { Trust::Trusted },
            privacy: if started.effects.reads_private { Privacy::Private } else { Privacy::Public },
        },
        ms: elapsed_ms(began),
    })
}

/// A result as it may be kept: secrets masked, text capped.
pub(crate) fn for_the_log(mut result: ToolResult, mask: &Mask) -> ToolResult {
    for content in &mut result.content {
        if let Content::Text { text } = content {
            *text = cap::for_the_log(text, mask);
        }
    }
    result.evidence = result.evidence.map(|evidence| {
        let text = evidence.to_string();
        match mask.text(&text) {
            std::borrow::Cow::Borrowed(_) => evidence,
            std::borrow::Cow::Owned(masked) => {
                serde_json::from_str(&masked).unwrap_or(serde_json::Value::String(masked))
            }
        }
    });
    result
}

fn elapsed_ms(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
