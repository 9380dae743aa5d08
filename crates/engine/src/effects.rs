//! What is under way: model calls and tool calls as futures that end by themselves or by an abort,
//! and always say how.

use std::{borrow::Cow, collections::VecDeque, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::{FutureExt, StreamExt};
use inspan_core::{
    arguments,
    blobs::Blobs,
    budget::{
        EVIDENCE_BYTES_MAX, JSON_DEPTH_MAX, RESULT_BYTES_MAX, RESULT_PIECES_MAX, SPILLED_BYTES_MAX,
        tokens_estimate,
    },
    decide::Abort,
    event::{ToolFinished, ToolStarted},
    mask::Mask,
    message::{
        BlobRef, CallId, Content, How, ReplyPart, ReplyStop, ResultState, ToolResult, Usage,
    },
    provider::{ErrorClass, ModelError, ModelEvent, Provider, ReplyBuilder, Request},
    tool::{Invocation, Tool, ToolError},
    words,
};
use serde_json::Value;
use tokio::{sync::watch, task::yield_now, time::Instant};

use crate::{
    tools::{
        cap::{self, Written},
        open_result,
    },
    updates::{Tell, UPDATES_WAITING_MAX, Update},
};

/// How something that was under way ended.
pub(crate) enum Done {
    /// A model call.
    Model(ModelDone),
    /// A tool call.
    Tool(ToolFinished),
    /// The whole of a result that came from outside is kept.
    Delivered {
        call: CallId,
        how: How,
        /// As it may stand in the log.
        result: ToolResult,
    },
}

/// How a model call ended.
pub(crate) struct ModelDone {
    pub(crate) built: ReplyBuilder,
    pub(crate) end: ModelEnd,
    pub(crate) first_ms: u64,
    pub(crate) ms: u64,
}

impl ModelDone {
    /// A call that was announced and never begun.
    pub(crate) fn none(why: Abort) -> Self {
        Self { built: ReplyBuilder::default(), end: ModelEnd::Aborted(why), first_ms: 0, ms: 0 }
    }
}

pub(crate) enum ModelEnd {
    Finished(ReplyStop),
    Failed(ModelError),
    Aborted(Abort),
}

/// Tells what is under way to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ending {
    pub(crate) why: Abort,
    /// A call that can't be run again may come to its own end.
    pub(crate) is_patient: bool,
}

/// Where everything that is under way hears of its [`Ending`].
pub(crate) type AbortSignal = watch::Receiver<Option<Ending>>;

/// Waits for an ending; what `can_wait` hears of no patient one.
async fn aborted(signal: &mut AbortSignal, can_wait: bool) -> Abort {
    let concerns = |ending: &Option<Ending>| ending.is_some_and(|e| !(e.is_patient && can_wait));
    let ending = signal.wait_for(concerns).await.ok().and_then(|ending| *ending);
    match ending {
        Some(ending) => ending.why,
        // The driver is gone, and with it whoever polls this.
        None => std::future::pending().await,
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
            why = aborted(&mut signal, false) => break ModelEnd::Aborted(why),
            () = clients.may_hear() => continue,
        };
        let Some(event) = event else { break ModelEnd::Failed(no_end()) };
        built.apply(&event);
        match event {
            ModelEvent::Finished(stop) => break ModelEnd::Finished(stop),
            ModelEvent::Failed(error) => break ModelEnd::Failed(error),
            ModelEvent::Delta { part, delta } => {
                first_ms.get_or_insert_with(|| elapsed_ms(began));
                clients.tell(Update::Delta { part, delta }).await;
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
    updates: Tell,
    /// The last entry that clients were told.
    told: watch::Receiver<u64>,
    /// The entry that announces the call.
    announced: u64,
    waiting: VecDeque<Update>,
    told_at_once: usize,
}

impl Clients {
    pub(crate) fn new(updates: Tell, told: watch::Receiver<u64>, announced: u64) -> Self {
        Self { updates, told, announced, waiting: VecDeque::new(), told_at_once: 0 }
    }

    async fn tell(&mut self, update: Update) {
        self.waiting.push_back(update);
        if *self.told.borrow() < self.announced {
            return;
        }
        self.hand_over().await;
    }

    /// Returns when something waited, and clients may hear it now.
    async fn may_hear(&mut self) {
        let announced = self.announced;
        if self.waiting.is_empty() || self.told.wait_for(|told| *told >= announced).await.is_err() {
            return std::future::pending().await;
        }
        self.hand_over().await;
    }

    /// May be dropped at any moment: what was not told waits on.
    async fn hand_over(&mut self) {
        while let Some(update) = self.waiting.pop_front() {
            // Without a client there is nobody to tell.
            let _ = self.updates.send(Arc::new(update));
            // An answer can be here all at once: those who follow read it before they miss a piece.
            self.told_at_once += 1;
            if self.told_at_once == UPDATES_WAITING_MAX / 4 {
                self.told_at_once = 0;
                yield_now().await;
            }
        }
    }
}

fn no_end() -> ModelError {
    ModelError {
        class: ErrorClass::Network,
        message: "the provider's stream ended without saying so".to_owned(),
        retry_after_ms: None,
        refused: None,
    }
}

/// What a call cost that its provider did not count to the end: never less than it said.
pub(crate) fn usage_estimated(
    counted: &Usage,
    parts: &[ReplyPart],
    input_tokens_estimate: u64,
) -> Usage {
    let written = if parts.is_empty() {
        0
    } else {
        serde_json::to_string(parts).map_or(0, |text| text.len())
    };
    let output = tokens_estimate(written).max(counted.output.unwrap_or(0));
    let unknown = counted.input_total() == 0;
    let input = if unknown { Some(input_tokens_estimate) } else { counted.input };
    Usage { input, output: Some(output), estimated: true, ..*counted }
}

/// Runs one call within its time.
pub(crate) async fn run_tool(
    tool: Arc<dyn Tool>,
    started: ToolStarted,
    mut invocation: Invocation,
    mask: Mask,
    mut signal: AbortSignal,
    spills: Option<Arc<dyn Blobs>>,
) -> Done {
    let began = Instant::now();
    let limit_ms = tool.spec().timeout_ms_max;
    let written = Written::default();
    invocation.shared.insert(written.clone());
    let run = AssertUnwindSafe(async { tool.run(invocation).await }).catch_unwind();
    let timed = tokio::time::timeout(Duration::from_millis(limit_ms), run);
    let is_harmless = started.repeat.is_repeatable();
    // What is done already counts as done.
    let ended = tokio::select! {
        biased;
        done = timed => Ok(done),
        why = aborted(&mut signal, !is_harmless) => Err(why),
    };
    let (how, result) = match ended {
        Ok(Ok(Ok(Ok(result)))) => (How::Ok, result),
        Ok(Ok(Ok(Err(error)))) => (How::Failed, failed(error)),
        Ok(Ok(Err(_))) => (How::Failed, ToolResult::text("Failed: the tool itself broke down.")),
        Ok(Err(_)) => (How::TimedOut, with(&words::timed_out(limit_ms), written, &mask).await),
        Err(Abort::Cancelled) => {
            let text = if is_harmless { words::CANCELLED } else { words::CANCELLED_IN_THE_MIDDLE };
            (How::Cancelled, with(text, written, &mask).await)
        }
        Err(Abort::OutOfTime) => (How::TimedOut, with(&words::out_of_time(), written, &mask).await),
    };
    let result = for_the_log(result, &started.call, &mask, spills.as_deref()).await;
    Done::Tool(ToolFinished {
        call: started.call,
        name: started.name,
        how,
        result,
        labels: started.effects.labels(),
        ms: elapsed_ms(began),
    })
}

/// What the model reads of a tool that ran and failed.
pub(crate) fn failed(error: ToolError) -> ToolResult {
    let text = format!("Failed: {}", error.message);
    ToolResult { evidence: error.evidence, ..ToolResult::text(text) }
}

/// Why a call was ended, with what it had written until then.
async fn with(why: &str, written: Written, mask: &Mask) -> ToolResult {
    match written.into_text(mask).await {
        output if output.is_empty() => ToolResult::text(why),
        output => ToolResult::text(words::written_until_then(why, &output)),
    }
}

/// A result as it may be kept: secrets masked, text and evidence within their limits. Where there
/// is a place for `spills`, the whole text of a long one is there, durably, when this returns.
pub(crate) async fn for_the_log(
    mut result: ToolResult,
    call: &CallId,
    mask: &Mask,
    spills: Option<&dyn Blobs>,
) -> ToolResult {
    let Some(spills) = spills.filter(|_| !fits(&result.content)) else {
        if fits(&result.content) {
            return within_limits(result, mask);
        }
        let mask = mask.clone();
        return cap::aside(move || within_limits(result, &mask)).await;
    };
    let (content, masked) = (std::mem::take(&mut result.content), mask.clone());
    let (content, whole) = cap::aside(move || {
        let whole = ToolResult { content, ..ToolResult::default() };
        let text = cap::for_the_log(&whole.to_text(), SPILLED_BYTES_MAX, &masked);
        (capped(whole.content, RESULT_BYTES_MAX - SPILL_NOTE_BYTES_MAX, &masked), text)
    })
    .await;
    result = within_limits(ToolResult { content, ..result }, mask);
    let (size_bytes, lines) = (whole.len() as u64, open_result::lines(&whole).count() as u64);
    let note = match spills.put(whole.into_bytes().into()).await {
        Ok(hash) => {
            let spilled = BlobRef { hash, size_bytes, lines };
            let note = words::spilled(call, &spilled);
            result.spilled = Some(spilled);
            note
        }
        Err(error) => words::not_spilled(&mask.text(&error.to_string())),
    };
    result.content.push(Content::text(note));
    result
}

/// A result as it may be kept where the rest of a long one is not: secrets masked, text and evidence
/// within their limits.
pub(crate) fn within_limits(mut result: ToolResult, mask: &Mask) -> ToolResult {
    result.content = capped(result.content, RESULT_BYTES_MAX, mask);
    result.evidence = result.evidence.map(|evidence| evidence_for_the_log(evidence, mask));
    match &mut result.state {
        ResultState::Accepted(job) => *job = mask.text(job).into_owned(),
        ResultState::Later(job) => job.id = mask.text(&job.id).into_owned(),
        ResultState::Finished => {}
    }
    result
}

/// Bytes kept free for the words about what was spilled.
const SPILL_NOTE_BYTES_MAX: usize = 1024;

/// Whether the model can read all of it.
pub(crate) fn fits(content: &[Content]) -> bool {
    let bytes = content.iter().map(|content| match content {
        Content::Text { text } => text.len(),
        Content::Image(_) => 0,
    });
    content.len() <= RESULT_PIECES_MAX && bytes.sum::<usize>() <= RESULT_BYTES_MAX
}

/// The content masked, with `bytes_max` bytes of text at most.
fn capped(mut content: Vec<Content>, bytes_max: usize, mask: &Mask) -> Vec<Content> {
    let pieces = content.len();
    content.truncate(RESULT_PIECES_MAX);
    let mut room = bytes_max;
    for content in &mut content {
        if let Content::Text { text } = content {
            *text = cap::for_the_log(text, room, mask);
            room = room.saturating_sub(text.len());
        }
    }
    if pieces > RESULT_PIECES_MAX {
        let left_out = pieces - RESULT_PIECES_MAX;
        content.push(Content::text(format!("[{left_out} more pieces left out here]")));
    }
    content
}

fn evidence_for_the_log(evidence: Value, mask: &Mask) -> Value {
    if arguments::depth(&evidence) > JSON_DEPTH_MAX {
        return Value::String(format!("[left out: nested deeper than {JSON_DEPTH_MAX}]"));
    }
    let text = evidence.to_string();
    if text.len() > EVIDENCE_BYTES_MAX {
        return Value::String(format!("[left out: {} bytes]", text.len()));
    }
    match mask.text(&text) {
        Cow::Borrowed(_) => evidence,
        Cow::Owned(masked) => serde_json::from_str(&masked).unwrap_or(Value::String(masked)),
    }
}

fn elapsed_ms(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
