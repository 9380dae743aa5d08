//! Questions to a person, by way of the client: as a request of ours where the protocol has that,
//! else as the result of the call, which then comes again with the answer.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use inspan_core::{event::PermissionAsked, gate::Choice, hash::Hash, mask::Mask};
use rmcp::model::{
    BooleanSchema, ClientCapabilities, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationSchema, PrimitiveSchemaDefinition,
};
use serde_json::Value;
use tokio::time::Instant;
use uuid::Uuid;

use crate::serve::{
    desk::QUESTION_MS_MAX,
    running::{Answer, Running},
};

/// Questions that wait for their call to come again.
const QUESTIONS_OPEN_MAX: usize = 256;

/// Bytes of the arguments that are shown with a question.
const ARGUMENTS_SHOWN_MAX: usize = 2_000;

/// What a person fills in.
const ALLOW: &str = "allow";

/// A call that waits for a person, and comes again with the answer.
pub(crate) struct Waiting {
    pub(crate) running: Running,
    pub(crate) asked: PermissionAsked,
    /// The hash of the call that was asked about: an answer belongs to no other.
    pub(crate) call: Hash,
    since: Instant,
}

/// Calls that wait for a person, by a word that nobody can guess.
#[derive(Default)]
pub(crate) struct Questions(Mutex<HashMap<String, Waiting>>);

impl Questions {
    /// Keeps a call until it comes again. Gives the word that it must bring.
    pub(crate) fn keep(&self, running: Running, asked: PermissionAsked, call: Hash) -> String {
        let word = Uuid::new_v4().to_string();
        let mut waiting = self.waiting();
        let old = Duration::from_millis(QUESTION_MS_MAX);
        waiting.retain(|_, waiting| waiting.since.elapsed() < old);
        if waiting.len() >= QUESTIONS_OPEN_MAX {
            let oldest = waiting.iter().min_by_key(|(_, waiting)| waiting.since);
            let oldest = oldest.map(|(word, _)| word.clone());
            oldest.and_then(|word| waiting.remove(&word));
        }
        waiting.insert(word.clone(), Waiting { running, asked, call, since: Instant::now() });
        word
    }

    /// The call that waits under this word, if it is `call`.
    pub(crate) fn take(&self, word: &str, call: &Hash) -> Option<Waiting> {
        let mut waiting = self.waiting();
        waiting.get(word).filter(|waiting| waiting.call == *call)?;
        waiting.remove(word)
    }

    /// Gives all of them up.
    pub(crate) fn clear(&self) {
        self.waiting().clear();
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<String, Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a client with these capabilities shows forms to a person.
pub(crate) fn can_ask(capabilities: Option<&ClientCapabilities>) -> bool {
    let elicitation = capabilities.and_then(|capabilities| capabilities.elicitation.as_ref());
    // The revisions before there were two modes had forms only, and say nothing of them.
    elicitation.is_some_and(|modes| modes.form.is_some() || modes.url.is_none())
}

/// The question as a form.
pub(crate) fn form(asked: &PermissionAsked, mask: &Mask) -> ElicitRequestParams {
    let allow = BooleanSchema::new()
        .title("Allow this call")
        .description("Whether the tool may run, this once");
    let schema = ElicitationSchema::builder()
        .required_property(ALLOW, PrimitiveSchemaDefinition::Boolean(allow))
        .build_unchecked();
    ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: message(asked, mask),
        requested_schema: schema,
    }
}

fn message(asked: &PermissionAsked, mask: &Mask) -> String {
    let arguments = asked.arguments.to_string();
    let arguments = mask.text(&arguments);
    let shown = arguments.split_at(arguments.floor_char_boundary(ARGUMENTS_SHOWN_MAX)).0;
    let rest = match arguments.len() - shown.len() {
        0 => String::new(),
        more => format!(" … [{more} more bytes]"),
    };
    format!("May `{}` run? {}\nArguments: {shown}{rest}", asked.name, asked.why)
}

/// What a person said. Nothing but a clear yes is one.
pub(crate) fn answer(asked: &PermissionAsked, said: &ElicitResult) -> Answer {
    let allows = said.content.as_ref().and_then(|content| content.get(ALLOW));
    let (choice, why) = match said.action {
        ElicitationAction::Accept if allows == Some(&Value::Bool(true)) => (Choice::Once, ""),
        ElicitationAction::Accept => (Choice::No, "the person did not allow it"),
        ElicitationAction::Decline => (Choice::No, "the person declined"),
        _ => (Choice::No, "the person closed the question without an answer"),
    };
    Answer { call: asked.call.clone(), choice, why: why.to_owned() }
}

/// The answer where the client could not ask.
pub(crate) fn not_asked(asked: &PermissionAsked, why: &str) -> Answer {
    let why = format!("the client could not ask a person: {why}");
    Answer { call: asked.call.clone(), choice: Choice::No, why }
}
