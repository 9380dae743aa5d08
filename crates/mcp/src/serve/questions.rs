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

use crate::{
    Inquiry, Wants,
    serve::{
        desk::QUESTION_MS_MAX,
        running::{Answer, Question, Running},
    },
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
    pub(crate) question: Question,
    /// The hash of the call that was asked about: an answer belongs to no other.
    pub(crate) call: Hash,
    since: Instant,
}

/// Calls that wait for a person, by a word that nobody can guess.
#[derive(Default)]
pub(crate) struct Questions(Mutex<HashMap<String, Waiting>>);

impl Questions {
    /// Keeps a call until it comes again. Gives the word that it must bring.
    pub(crate) fn keep(&self, running: Running, question: Question, call: Hash) -> String {
        let word = Uuid::new_v4().to_string();
        let mut waiting = self.waiting();
        let old = Duration::from_millis(QUESTION_MS_MAX);
        waiting.retain(|_, waiting| waiting.since.elapsed() < old);
        if waiting.len() >= QUESTIONS_OPEN_MAX {
            let oldest = waiting.iter().min_by_key(|(_, waiting)| waiting.since);
            let oldest = oldest.map(|(word, _)| word.clone());
            oldest.and_then(|word| waiting.remove(&word));
        }
        waiting.insert(word.clone(), Waiting { running, question, call, since: Instant::now() });
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

impl Question {
    /// What it is called among the questions of a result, where there is one: by whoever asks.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Permission(_) => "permission",
            Self::Inquiry(inquiry) => &inquiry.server,
        }
    }

    /// The question as a form; `None` for what can't be asked by one.
    pub(crate) fn form(&self, mask: &Mask) -> Option<ElicitRequestParams> {
        match self {
            Self::Permission(asked) => Some(permission(asked, mask)),
            Self::Inquiry(inquiry) => inquired(inquiry),
        }
    }

    /// Takes what a person said. Gives what the session must be told of it.
    pub(crate) fn answer(self, said: &ElicitResult) -> Option<Answer> {
        match self {
            Self::Permission(asked) => Some(permitted(&asked, said)),
            Self::Inquiry(inquiry) => {
                let action = match said.action {
                    ElicitationAction::Accept => "accept",
                    ElicitationAction::Decline => "decline",
                    _ => "cancel",
                };
                inquiry.reply_with(action, said.content.as_ref());
                None
            }
        }
    }

    /// The answer where the client could not ask. Whoever inquired hears that nobody is there.
    pub(crate) fn not_asked(self, why: &str) -> Option<Answer> {
        let Self::Permission(asked) = self else { return None };
        let why = format!("the client could not ask a person: {why}");
        Some(Answer { call: asked.call, choice: Choice::No, why })
    }
}

/// What a server wants to be told, with its name before its words. A visit to a page is not passed
/// on.
fn inquired(inquiry: &Inquiry) -> Option<ElicitRequestParams> {
    let Wants::Form(_) = inquiry.wants else { return None };
    let schema = inquiry.params.get("requestedSchema").cloned().unwrap_or_default();
    let requested_schema = serde_json::from_value(schema).ok()?;
    let message = format!("`{}` asks: {}", inquiry.server, inquiry.message);
    Some(ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema })
}

/// Whether a call may run, as a form.
fn permission(asked: &PermissionAsked, mask: &Mask) -> ElicitRequestParams {
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
fn permitted(asked: &PermissionAsked, said: &ElicitResult) -> Answer {
    let allows = said.content.as_ref().and_then(|content| content.get(ALLOW));
    let (choice, why) = match said.action {
        ElicitationAction::Accept if allows == Some(&Value::Bool(true)) => (Choice::Once, ""),
        ElicitationAction::Accept => (Choice::No, "the person did not allow it"),
        ElicitationAction::Decline => (Choice::No, "the person declined"),
        _ => (Choice::No, "the person closed the question without an answer"),
    };
    Answer { call: asked.call.clone(), choice, why: why.to_owned() }
}
