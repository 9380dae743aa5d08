//! What a tool that is made from a function can know of its call.

use std::any::{Any, type_name};

use inspan_core::{
    message::CallId,
    shared::Shared,
    store::SessionId,
    tool::{Invocation, ToolError},
};
use tokio::sync::watch;

/// The call that a tool runs for. A function takes it as a `&Context` parameter, which the model
/// does not see.
#[derive(Debug)]
pub struct Context {
    session: SessionId,
    call: CallId,
    key: String,
    attempt: u32,
    shared: Shared,
    /// Goes with the run: whoever waits for its end hears of it.
    over: watch::Sender<()>,
}

impl Context {
    pub(crate) fn new(
        session: SessionId,
        call: CallId,
        key: String,
        attempt: u32,
        shared: Shared,
    ) -> Self {
        Self { session, call, key, attempt, shared, over: watch::Sender::new(()) }
    }

    /// The session.
    pub fn session(&self) -> &SessionId {
        &self.session
    }

    /// The call's identifier, unique in its session.
    pub fn call(&self) -> &CallId {
        &self.call
    }

    /// The idempotency key: the same for all attempts of this call, and for no other call. Hand it
    /// to the service that does the work, and declare `repeat = keyed`.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// 1 for the first attempt; more after a process died in an earlier one.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// What the program lent with [`Agent::shared`](crate::Agent::shared), by its type.
    ///
    /// # Errors
    /// Nothing of this type was lent: a mistake of the program, told as a failed call.
    pub fn shared<T: Any + Send + Sync>(&self) -> Result<&T, ToolError> {
        self.shared.get().ok_or_else(|| {
            let name = type_name::<T>();
            ToolError::new(format!("the program lends no `{name}` to its tools"))
        })
    }

    /// Tells work outside this function's own future (a thread, a spawned task) when to stop. The
    /// function itself needs none: its future is dropped when the call is cancelled or runs out of
    /// time.
    pub fn cancellation(&self) -> Cancellation {
        Cancellation(self.over.subscribe())
    }
}

impl From<Invocation> for Context {
    fn from(call: Invocation) -> Self {
        Self::new(call.session, call.call, call.key, call.attempt, call.shared)
    }
}

/// Whether the run of a tool is over: cancelled, out of time, or done.
#[derive(Clone, Debug)]
pub struct Cancellation(watch::Receiver<()>);

impl Cancellation {
    /// Whether the run is over.
    pub fn is_over(&self) -> bool {
        self.0.has_changed().is_err()
    }

    /// Returns when the run is over.
    pub async fn over(mut self) {
        while self.0.changed().await.is_ok() {}
    }
}
