//! The one loop that carries out actions: append, then act. Only this writes the log of its
//! session, and only the log says what was started.

use std::{collections::HashMap, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::{
    FutureExt, StreamExt,
    future::BoxFuture,
    stream::{FuturesOrdered, FuturesUnordered},
};
use inspan_core::{
    Action, Entry, Event, Policy, State, decide,
    decide::{Abort, not_run},
    effects::Repeat,
    event::{
        CancelRequested, Head, ModelFailed, ModelReplied, ProjectionRepaired, PromptSubmitted,
        RoundStarted, ToolDeferred, ToolFinished, ToolStarted, Woken, WokenWhy,
    },
    gate::Asking,
    message::{CallId, How, Job, Reply, ReplyPart, ReplyStop, ResultState, ToolResult, Usage},
    provider::{ErrorClass, Provider},
    recover::{fallback, retry_at_ms, supersede},
    repair::pictures_within,
    store::{AnswerLeft, Claim, StoreError},
    tool::{Invocation, Probed, Tool, ToolError},
    turn::{CallStatus, OpenCall, Phase},
    words,
};
use tokio::sync::{mpsc, watch};

use crate::{
    effects::{
        AbortSignal, Clients, Done, Ending, ModelDone, ModelEnd, ask_model, fits, for_the_log,
        run_tool, usage_estimated, within_limits,
    },
    folded::{Folded, SnapshotKept},
    judge::judge,
    outside,
    request::{Kept, Rendered},
    session::{Command, Setup, Submitted},
    updates::{Tell, Update},
};

/// What a driver begins with.
pub(crate) struct Start {
    pub(crate) setup: Setup,
    pub(crate) claim: Claim,
    pub(crate) folded: Folded,
    pub(crate) tools: HashMap<String, Arc<dyn Tool>>,
    pub(crate) commands: mpsc::Receiver<Submitted>,
    pub(crate) updates: Tell,
}

/// How long a driver waits before it looks for an answer that another process left, when nobody tells
/// it of one.
const ANSWERS_LOOK_MS_MAX: u64 = 1_000;

/// How soon a job is probed again at least, in milliseconds.
const PROBE_AFTER_MS_MIN: u64 = 1_000;

type Commit = BoxFuture<'static, (Arc<[Entry]>, Result<(), StoreError>)>;

/// What begins when the entries that announce it are on their way to the store.
enum Announced {
    Model(RoundStarted),
    Tool(ToolStarted),
}

pub(crate) struct Driver {
    setup: Setup,
    claim: Claim,
    /// Resolves when the claim is lost.
    lost: BoxFuture<'static, ()>,
    state: State,
    tools: Arc<HashMap<String, Arc<dyn Tool>>>,
    /// `None` when every handle of the session is gone.
    commands: Option<mpsc::Receiver<Submitted>>,
    updates: Tell,
    /// Entries that are in the state and not yet on their way to the store.
    pending: Vec<Entry>,
    /// What the store has been given.
    stored: Head,
    /// The last snapshot.
    snapshot: SnapshotKept,
    announced: Vec<Announced>,
    commits: FuturesOrdered<Commit>,
    under_way: FuturesUnordered<BoxFuture<'static, Done>>,
    abort: watch::Sender<Option<Ending>>,
    /// The cancel waits for calls that can't be run again.
    is_patient: bool,
    /// The last entry that clients were told.
    told: watch::Sender<u64>,
    /// One for the session's model and for each of its fallbacks, from the first request on.
    rendered: Vec<Rendered>,
}

impl Driver {
    pub(crate) fn new(start: Start) -> Self {
        let Start { setup, claim, folded, tools, commands, updates } = start;
        let Folded { state, snapshot } = folded;
        Self {
            setup,
            lost: claim.guard.lost(),
            claim,
            snapshot,
            stored: state.head,
            state,
            tools: Arc::new(tools),
            commands: Some(commands),
            updates,
            pending: Vec::new(),
            announced: Vec::new(),
            commits: FuturesOrdered::new(),
            under_way: FuturesUnordered::new(),
            abort: watch::Sender::new(None),
            is_patient: false,
            told: watch::Sender::new(0),
            rendered: Vec::new(),
        }
    }

    /// Appends `events` and returns when they are durable.
    pub(crate) async fn append(&mut self, events: Vec<Event>) -> Result<(), StoreError> {
        events.into_iter().for_each(|event| self.record(event));
        self.flush().await?;
        self.committed().await
    }

    /// Runs until every handle is gone and no turn is open, or the store fails.
    pub(crate) async fn drive(&mut self) -> Result<(), StoreError> {
        loop {
            self.take_commands();
            let policy = Policy {
                now_ms: self.setup.clock.now_ms(),
                asking: match self.setup.asking {
                    Asking::Now if self.commands.is_none() => Asking::Never,
                    asking => asking,
                },
            };
            match decide(&self.state, &policy) {
                Action::AppendEvent(event) => self.record(event),
                Action::CallModel(started) => self.call_model(started),
                Action::RunTool(started) => {
                    self.record(started.clone());
                    self.announced.push(Announced::Tool(started));
                }
                Action::AskPerson(asked) => self.record(asked),
                Action::JudgeCall(call) => self.judge(&call).await?,
                Action::ProbeTool(call) => self.probe(&call).await?,
                Action::AbortEffects(why) => self.abort_all(why).await?,
                Action::Wait { until_ms } => self.wait(until_ms).await?,
                Action::Idle { until_ms }
                    if self.commands.is_some() || !self.under_way.is_empty() =>
                {
                    self.wait(until_ms).await?;
                }
                Action::Idle { .. } => {
                    self.flush().await?;
                    return self.committed().await;
                }
            }
        }
    }

    /// Announces a model call, or first leaves out the pictures that its provider would refuse.
    fn call_model(&mut self, started: RoundStarted) {
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

    fn record(&mut self, event: impl Into<Event>) {
        let entry = self.state.entry(self.setup.clock.now_ms(), event.into());
        self.state.apply(&entry);
        self.pending.push(entry);
    }

    /// Hands what is pending to the store as one commit and begins what it announces. Only an
    /// effect with consequences waits until its announcement is durable.
    async fn flush(&mut self) -> Result<(), StoreError> {
        if !self.pending.is_empty() {
            let entries: Arc<[Entry]> = std::mem::take(&mut self.pending).into();
            let commit = self.setup.store.append(&self.claim, self.stored, entries.clone());
            self.stored = entries.last().map_or(self.stored, Entry::head);
            self.commits.push_back(commit.map(|done| (entries, done)).boxed());
            self.keep_snapshot();
        }
        let (at_once, when_durable) =
            std::mem::take(&mut self.announced).into_iter().partition(Announced::may_start_early);
        self.begin(at_once).await;
        let when_durable: Vec<Announced> = when_durable;
        if !when_durable.is_empty() {
            self.committed().await?;
            self.begin(when_durable).await;
        }
        Ok(())
    }

    /// After the end of a turn, hands the state to the store, so that a long log is not folded again
    /// from its beginning. It is a cache: whether it was kept matters to nobody.
    fn keep_snapshot(&mut self) {
        if self.state.turn.is_some() || self.stored.seq != self.state.head.seq {
            return;
        }
        if let Some((snapshot, pieces)) = self.snapshot.next(&self.state) {
            tokio::spawn(self.setup.store.keep_snapshot(&self.claim, snapshot, pieces));
        }
    }

    /// The claim is lost: nothing more may be begun, and what is under way ends with the driver.
    fn moved(&self) -> StoreError {
        StoreError::Moved { session: self.claim.session.clone(), after: self.stored.seq }
    }

    /// Waits until everything that the store was given is durable.
    async fn committed(&mut self) -> Result<(), StoreError> {
        loop {
            tokio::select! {
                biased;
                commit = self.commits.next() => match commit {
                    Some(commit) => self.publish(commit)?,
                    None => return Ok(()),
                },
                () = &mut self.lost => return Err(self.moved()),
            }
        }
    }

    fn publish(&self, commit: (Arc<[Entry]>, Result<(), StoreError>)) -> Result<(), StoreError> {
        commit.1?;
        for entry in commit.0.iter() {
            if self.updates.receiver_count() > 0 {
                // A client may go in this moment; then there is nobody to tell.
                let _ = self.updates.send(Arc::new(Update::Entry(Arc::new(entry.clone()))));
            }
            self.told.send_replace(entry.seq);
        }
        Ok(())
    }

    async fn begin(&mut self, announced: Vec<Announced>) {
        for start in announced {
            let signal: AbortSignal = self.abort.subscribe();
            let work = match start {
                Announced::Model(started) => {
                    let provider = self.provider().clone();
                    let number = self.state.turn.as_ref().map_or(0, |turn| turn.fallback as usize);
                    if self.rendered.len() <= number {
                        self.rendered.resize_with(number + 1, Rendered::default);
                    }
                    let request = self.rendered[number]
                        .request(
                            &self.state,
                            &*provider,
                            Kept {
                                blobs: self.setup.blobs.as_deref(),
                                fit: self.setup.pictures.as_ref(),
                            },
                            started.output_tokens_max,
                        )
                        .await;
                    let clients =
                        Clients::new(self.updates.clone(), self.told.subscribe(), self.stored.seq);
                    ask_model(provider, request, clients, signal).boxed()
                }
                Announced::Tool(started) => self.tool_work(started, signal),
            };
            self.under_way.push(work);
        }
    }

    /// Whoever answers now.
    fn provider(&self) -> &Arc<dyn Provider> {
        let number = self.state.turn.as_ref().map_or(0, |turn| turn.fallback as usize);
        let fallback = number.checked_sub(1).and_then(|index| self.setup.fallbacks.get(index));
        fallback.map_or(&self.setup.provider, |fallback| &fallback.provider)
    }

    fn tool_work(&self, started: ToolStarted, signal: AbortSignal) -> BoxFuture<'static, Done> {
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

    fn invocation(&self, started: &ToolStarted, arguments: serde_json::Value) -> Invocation {
        Invocation {
            session: self.claim.session.clone(),
            call: started.call.clone(),
            key: started.key.clone(),
            attempt: started.attempt,
            arguments,
            shared: self.setup.shared.clone(),
        }
    }

    /// Takes everything that is there already; if that is nothing, hands over what is pending and
    /// waits for the first of: a commit, the end of an effect, a command, the time.
    async fn wait(&mut self, until_ms: Option<i64>) -> Result<(), StoreError> {
        if self.take_what_is_there() {
            return Ok(());
        }
        self.flush().await?;
        let wait_ms = self.wait_ms(until_ms);
        let may_be_answered = self.may_be_answered();
        tokio::select! {
            biased;
            () = &mut self.lost => return Err(self.moved()),
            Some(commit) = self.commits.next() => self.publish(commit)?,
            Some(done) = self.under_way.next() => self.ended(done),
            command = next_command(&mut self.commands) => self.command(command),
            () = may_be_answered => self.take_answers().await?,
            () = sleep(wait_ms) => {}
        }
        Ok(())
    }

    /// Resolves when another process may have left an answer to an open question.
    fn may_be_answered(&self) -> BoxFuture<'static, ()> {
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
    async fn take_answers(&mut self) -> Result<(), StoreError> {
        let left = self.setup.store.answers_left(&self.claim.session).await?;
        for AnswerLeft { call, choice, why } in left {
            if let Ok(event) = outside::answered(&self.state, &call, choice, why) {
                self.record(event);
            }
        }
        Ok(())
    }

    fn wait_ms(&self, until_ms: Option<i64>) -> Option<u64> {
        let left_ms = until_ms?.saturating_sub(self.setup.clock.now_ms());
        Some(u64::try_from(left_ms).unwrap_or(0).max(1))
    }

    fn take_what_is_there(&mut self) -> bool {
        let mut taken = self.take_commands();
        while let Some(Some(done)) = self.under_way.next().now_or_never() {
            self.ended(done);
            taken = true;
        }
        taken
    }

    /// Takes the commands that wait, so that the next request carries what was said before it.
    fn take_commands(&mut self) -> bool {
        let mut taken = false;
        while let Some(command) =
            self.commands.as_mut().and_then(|commands| commands.try_recv().ok())
        {
            self.command(Some(command));
            taken = true;
        }
        taken
    }

    fn command(&mut self, submitted: Option<Submitted>) {
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
    fn deliver(&mut self, call: CallId, outcome: Result<ToolResult, ToolError>) {
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

    fn delivered(&mut self, call: &CallId, how: How, result: ToolResult) {
        if let Ok(event) = outside::delivered(&self.state, call, how, result) {
            self.record(event);
        }
    }

    fn ended(&mut self, done: Done) {
        match done {
            Done::Tool(finished) => self.tool_ended(finished),
            Done::Delivered { call, how, result } => self.delivered(&call, how, result),
            Done::Model(done) => self.model_ended(done),
        }
    }

    /// A result that says it comes later leaves the call open.
    fn tool_ended(&mut self, finished: ToolFinished) {
        match finished.result.state {
            ResultState::Later(job) => self.deferred(finished.call, finished.name, &job),
            ResultState::Finished | ResultState::Accepted(_) => self.record(finished),
        }
    }

    fn deferred(&mut self, call: CallId, name: String, job: &Job) {
        let after = |ms: u64| {
            self.setup.clock.now_ms().saturating_add(i64::try_from(ms).unwrap_or(i64::MAX))
        };
        let probe_at_ms = job.probe_after_ms.map(|ms| after(ms.max(PROBE_AFTER_MS_MIN)));
        let job = self.setup.mask.text(&job.id).into_owned();
        self.record(ToolDeferred { call, name, job, probe_at_ms });
    }

    fn model_ended(&mut self, done: ModelDone) {
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

    fn replied(&mut self, reply: Reply, first_ms: u64, ms: u64) {
        let cost_nano_usd = self.cost(&reply.usage);
        self.record(ModelReplied { reply, cost_nano_usd, first_ms, ms });
    }

    fn estimated(&self, counted: &Usage, parts: &[ReplyPart]) -> Usage {
        usage_estimated(counted, parts, self.asked_tokens())
    }

    fn asked_tokens(&self) -> u64 {
        match self.state.turn.as_ref().map(|turn| &turn.phase) {
            Some(Phase::Asking(started)) => started.input_tokens_estimate,
            _ => 0,
        }
    }

    fn cost(&self, usage: &Usage) -> Option<u64> {
        self.state.model()?.price.map(|price| price.of(usage))
    }

    async fn judge(&mut self, call: &CallId) -> Result<(), StoreError> {
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

    async fn probe(&mut self, call: &CallId) -> Result<(), StoreError> {
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

    /// When the time of the open turn is over.
    fn deadline_ms(&self) -> Option<i64> {
        let max = self.setup.config.limits.time_ms_max?;
        Some(self.state.turn.as_ref()?.deadline_ms(max))
    }

    /// `work`, while commands are taken and what is under way goes on; `None` when the turn was
    /// cancelled meanwhile, or its time is over.
    async fn unless_cancelled<T>(
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
    async fn abort_all(&mut self, why: Abort) -> Result<(), StoreError> {
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
    async fn end_effects(&mut self, why: Abort) -> Result<(), StoreError> {
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

impl Announced {
    /// A model call, and a tool that changes nothing, may begin while the entry that announces it
    /// is being committed: if the commit fails, they are dropped and nobody is the worse.
    fn may_start_early(&self) -> bool {
        match self {
            Self::Model(_) => true,
            Self::Tool(started) => started.repeat == Repeat::Pure && started.effects.only_reads(),
        }
    }
}

fn finished(started: &ToolStarted, how: How, result: ToolResult) -> ToolFinished {
    ToolFinished {
        call: started.call.clone(),
        name: started.name.clone(),
        how,
        result,
        labels: started.effects.labels(),
        ms: 0,
    }
}

async fn next_command(commands: &mut Option<mpsc::Receiver<Submitted>>) -> Option<Submitted> {
    match commands {
        Some(commands) => commands.recv().await,
        None => std::future::pending().await,
    }
}

async fn sleep(wait_ms: Option<u64>) {
    match wait_ms {
        Some(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
        None => std::future::pending().await,
    }
}
