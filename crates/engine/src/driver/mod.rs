//! The one loop that carries out actions: append, then act. Only this writes the log of its
//! session, and only the log says what was started.

mod asking;
mod calls;
mod commands;
mod ending;
mod news;

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::{
    FutureExt, StreamExt,
    future::BoxFuture,
    stream::{FuturesOrdered, FuturesUnordered},
};
use inspan_core::{
    Action, Entry, Event, Policy, State, decide,
    effects::Repeat,
    event::{Head, RoundStarted, ToolFinished, ToolStarted},
    gate::Asking,
    message::{How, ToolResult},
    provider::Provider,
    store::{Claim, StoreError},
    tool::Tool,
};
use tokio::sync::{mpsc, watch};

use crate::{
    effects::{AbortSignal, Clients, Done, Ending, ask_model},
    folded::{Folded, SnapshotKept},
    request::{Kept, Rendered},
    session::{Setup, Submitted},
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
    /// The turn and the round for which it was looked whether the tools are others.
    looked: (u32, u32),
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
            looked: (0, 0),
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
                Action::CallModel(started) => {
                    // In a box: the driver of a session without servers of tools stays small.
                    let may_change = started.attempt == 1 && self.setup.catalogue.is_some();
                    if !may_change || self.has_known_tools(&started).boxed().await? {
                        self.call_model(started);
                    }
                }
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

    fn ended(&mut self, done: Done) {
        match done {
            Done::Tool(finished) => self.tool_ended(finished),
            Done::Delivered { call, how, result } => self.delivered(&call, how, result),
            Done::Model(done) => self.model_ended(done),
        }
    }

    /// When the time of the open turn is over.
    fn deadline_ms(&self) -> Option<i64> {
        let max = self.setup.config.limits.time_ms_max?;
        Some(self.state.turn.as_ref()?.deadline_ms(max))
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
