//! What a client gets of a call, in the words of the protocol.

use base64::{Engine, engine::general_purpose::STANDARD};
use inspan_core::{
    blobs::Blobs,
    event::Stop,
    message::{Content, How, ImageRef, ResultState, ToolResult},
    words,
};
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, MetaObject};
use serde_json::{Value, json};

/// Where a result says what it established, beside its text. Not as structured content: clients
/// show that in place of the text.
const EVIDENCE: &str = "inspan/evidence";
/// Where a result says in which session it stands.
const SESSION: &str = "inspan/session";
/// Where a result says how the call was answered, by the words of the log.
const HOW: &str = "inspan/how";

/// How a call ended.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) content: Vec<Content>,
    pub(crate) evidence: Option<Value>,
    pub(crate) is_error: bool,
    /// A word of the log.
    pub(crate) how: &'static str,
    /// The session; empty where none was begun.
    pub(crate) session: String,
}

impl Outcome {
    /// The result of a tool, however it came about.
    pub(crate) fn of_tool(how: How, result: ToolResult, session: &str) -> Self {
        let ToolResult { mut content, evidence, state, .. } = result;
        match state {
            ResultState::Accepted(job) => content.push(Content::text(words::accepted(&job))),
            ResultState::Finished | ResultState::Later(_) => {}
        }
        let is_error = how != How::Ok;
        Self { content, evidence, is_error, how: how.as_str(), session: session.to_owned() }
    }

    /// The answer of an agent.
    pub(crate) fn of_turn(stop: Stop, detail: &str, answer: &str, session: &str) -> Self {
        let is_error = stop != Stop::End;
        let mut content = Vec::new();
        if !answer.is_empty() {
            content.push(Content::text(answer));
        }
        if is_error {
            content.push(Content::text(stopped(stop, detail, session)));
        }
        let session = session.to_owned();
        Self { content, evidence: None, is_error, how: stop.as_str(), session }
    }

    /// What kept a call from being answered at all.
    pub(crate) fn failed(why: impl Into<String>) -> Self {
        Self {
            content: vec![Content::text(why)],
            evidence: None,
            is_error: true,
            how: How::NotRun.as_str(),
            session: String::new(),
        }
    }

    pub(crate) fn in_session(self, session: &str) -> Self {
        Self { session: session.to_owned(), ..self }
    }
}

/// Why a turn ended without being done.
fn stopped(stop: Stop, detail: &str, session: &str) -> String {
    let why = match detail {
        "" => String::new(),
        detail => format!(": {detail}"),
    };
    let more = match stop {
        Stop::Parked => format!("; `inspan resume {session}` goes on"),
        _ => String::new(),
    };
    format!("[stopped: {}{why}{more}]", stop.as_str())
}

/// The outcome as it is sent, with the bytes of pictures.
pub(crate) async fn result(outcome: Outcome, blobs: Option<&dyn Blobs>) -> CallToolResult {
    let Outcome { content, evidence, is_error, how, session } = outcome;
    let mut blocks = Vec::with_capacity(content.len());
    for content in content {
        blocks.push(match content {
            Content::Text { text } => ContentBlock::text(text),
            Content::Image(image) => picture(&image, blobs).await,
        });
    }
    let mut result =
        if is_error { CallToolResult::error(blocks) } else { CallToolResult::success(blocks) };
    let mut meta = JsonObject::new();
    meta.insert(HOW.to_owned(), json!(how));
    if !session.is_empty() {
        meta.insert(SESSION.to_owned(), json!(session));
    }
    if let Some(evidence) = evidence {
        meta.insert(EVIDENCE.to_owned(), evidence);
    }
    result.meta = Some(MetaObject(meta));
    result
}

async fn picture(image: &ImageRef, blobs: Option<&dyn Blobs>) -> ContentBlock {
    let read = match blobs {
        Some(blobs) => blobs.get(&image.hash).await.ok().flatten(),
        None => None,
    };
    match read {
        Some(bytes) => ContentBlock::image(STANDARD.encode(bytes), image.media_type.clone()),
        None => ContentBlock::text("[a picture that is lost]"),
    }
}
