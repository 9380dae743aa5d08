//! Every sentence that the model is told by the harness itself, in one place. Changing one moves
//! the prefix of running sessions, so change them seldom.

use std::sync::Arc;

use serde_json::Value;

use crate::{
    budget::Limit,
    event::{CatalogueChanged, LimitNeared, PromptCut},
    message::{BlobRef, CallId, ToolCall, ToolResult},
    prompt::CallResult,
    tool::ToolSpec,
    turn::OpenCall,
};

/// Stands where a reply was cut before anything that can be sent.
pub const REPLY_CUT: &str = "[reply cut]";
/// Stands where a whole reply has nothing that can be sent back.
pub const NO_TEXT: &str = "[no text]";
/// Stands for a blank prompt, and where a log has none before its first request or reply.
pub const NO_PROMPT: &str = "[no prompt]";
/// Stands for the result of a tool that gave nothing at all.
pub const NO_OUTPUT: &str = "[no output]";
/// Stands for a picture whose bytes are gone.
pub const IMAGE_LOST: &str = "[image lost]";
/// Stands for a picture that the provider did not take.
pub const IMAGE_LEFT_OUT: &str = "[image left out: the provider did not take it]";
/// Stands for a picture on a server that takes none.
pub const IMAGE_NOT_TAKEN: &str = "[image: this model can't be shown any]";
/// Stands between two messages of the user on servers that refuse them in a row.
pub const NO_REPLY: &str = "[no reply]";
/// Stands, in a result that can't hold pictures, for one that follows.
pub const IMAGE_FOLLOWS: &str = "[image: in the next message]";
/// Why pictures were left out before a provider could refuse them; for people.
pub fn pictures_taken(count_max: u32) -> String {
    format!("the model is shown {count_max} pictures at most")
}

/// The name of the tool that reads what was too long for a result.
pub const OPEN_RESULT: &str = "open_result";
/// Told for a call that was cancelled.
pub const CANCELLED: &str = "Cancelled by the user.";
/// Told for a call that was cancelled while it ran and may have done something by then.
pub const CANCELLED_IN_THE_MIDDLE: &str = "Cancelled by the user while it ran. It may have done \
     some of its work: check before you try it again.";
/// Told for a call whose outcome nobody knows.
pub const UNKNOWN: &str = "Outcome unknown: the process that ran this call ended before it did. \
     It may or may not have happened. Check before you try it again.";
/// Told for a call that may run again, when one process after the other ended in it.
pub const UNKNOWN_EACH_TIME: &str = "Outcome unknown: each process that ran this call ended before \
     it did. Don't try it again as it is.";
/// Told for a call in a log that holds no result for it.
pub const NO_RESULT: &str = "No result was recorded for this call.";
/// Told for a call that waited for a person when the person said something else.
pub const SUPERSEDED: &str =
    "Not run: a new prompt came before the question about it was answered.";
/// Told for a call that was open where a session was forked.
pub const FORKED: &str = "Outcome unknown: this session was forked while the call was open. It may \
     or may not have happened. Check before you try it again.";
/// Told when arguments can't be read at all.
pub const UNREADABLE: &str =
    "Not run: the arguments are not a JSON object. Write the call again with valid JSON.";
/// Told for the calls of a reply that broke off.
pub const BROKEN: &str = "Not run: this reply broke off before its end, so nothing of it ran.";
/// Told for the calls of a refusal.
pub const REFUSAL: &str = "Not run: the reply ended as a refusal.";
/// Why a turn ended at a limit without a closing answer; for people.
pub const NO_CLOSING: &str = "nothing is left for a closing answer";
/// Told when a tool's own code broke down in the check of its arguments.
pub const BROKE_DOWN: &str = "The tool itself broke down when it read them.";
/// What a person can answer, for a terminal.
pub const CHOICES: &str = "[y]es, once; yes for the [s]ession; [n]o, or n and why";
/// Why a question counts as answered with no.
pub const NOBODY: &str = "nobody is there to be asked";

/// Told for the calls of a reply that was cut at its token limit.
pub fn cut_call(output_tokens_max: u32) -> String {
    format!(
        "Not run: your reply was cut at its limit of {output_tokens_max} tokens, so nothing of it \
         ran. Write less in one reply."
    )
}

/// A note after a reply that was cut at its token limit.
pub fn cut_reply(output_tokens_max: u32) -> String {
    format!(
        "[Your reply was cut at its limit of {output_tokens_max} tokens. Go on from there, or \
         answer in fewer words.]"
    )
}

/// Told for a call that a gate or a person refused.
pub fn refused(why: &str) -> String {
    let why = if why.is_empty() { "no reason given" } else { why };
    format!("Refused: {why}. This is final; do not try the same call again.")
}

/// Told for a call that a limit kept from running.
pub fn limited_call(limit: Limit) -> String {
    format!("Not run: the limit on {} was reached before it.", limit.words())
}

/// Told for a call that ran past its time.
pub fn timed_out(timeout_ms: u64) -> String {
    format!("Failed: it ran past its limit of {} and was ended.", duration(timeout_ms))
}

/// Told for a call that was running when the turn's time was over.
pub fn out_of_time() -> String {
    "Failed: the time of this turn was over while it ran, and it was ended.".to_owned()
}

/// Follows what is shown of a result whose whole text is kept elsewhere.
pub fn spilled(call: &CallId, all: &BlobRef) -> String {
    let BlobRef { size_bytes, lines, .. } = all;
    format!(
        "[{size_bytes} bytes of this result in {lines} lines are kept. The beginning and the end \
         are shown. {OPEN_RESULT} reads the rest: {{\"call\": \"{call}\", \"from_line\": 1}}]"
    )
}

/// Follows what is shown of a result whose rest could not be kept.
pub fn not_spilled(why: &str) -> String {
    format!("[The rest of this result could not be kept: {why}]")
}

/// What a call that was ended had written until then.
pub fn written_until_then(why: &str, output: &str) -> String {
    format!("{why} What it had written until then:\n{output}")
}

/// Told when no tool has the name.
pub fn unknown_tool(name: &str, near: &[&str]) -> String {
    match near {
        [] => format!("Failed: there is no tool `{name}`."),
        near => format!("Failed: there is no tool `{name}`. Near names: {}.", near.join(", ")),
    }
}

/// Told when arguments do not fit the tool's schema.
pub fn bad_arguments(why: &str) -> String {
    format!("Not run: the arguments do not fit. {why}")
}

/// The note of [`LimitNeared`].
pub fn limit_neared(near: &LimitNeared) -> String {
    let LimitNeared { limit, spent, max } = near;
    match limit {
        Limit::Loop => format!(
            "[The last rounds repeat themselves: the same calls gave the same results {spent} \
             times. Do something else, or say what is missing. At {max} times this turn ends.]"
        ),
        Limit::Time => format!(
            "[{} of {} are used in this turn. Finish soon.]",
            duration(*spent),
            duration(*max)
        ),
        Limit::Cost => format!(
            "[{} of {} are spent in this turn. Finish soon.]",
            dollars(*spent),
            dollars(*max)
        ),
        limit => {
            format!("[{spent} of {max} {} are used in this turn. Finish soon.]", limit.words())
        }
    }
}

/// The note before the closing call.
pub fn closing(limit: Limit) -> String {
    let what = match limit {
        Limit::Loop => "The rounds of this turn repeat themselves".to_owned(),
        limit => format!("The limit on {} of this turn is reached", limit.words()),
    };
    format!(
        "[{what}. No tool will run any more. Answer now, in text, with what you have; say what is \
         unfinished.]"
    )
}

/// News of a call that was already answered.
pub fn late(call: &CallId, name: &str, result: &ToolResult) -> String {
    format!("[Late result of {name} ({call}), after it was answered: {}]", result.to_text())
}

/// Stands for a picture that providers do not take.
pub fn image_refused(media_type: &str) -> String {
    format!("[image of type {media_type}: can't be shown]")
}

/// Stands for the middle of a text in a request that was too large.
pub fn shrunk(bytes: usize) -> String {
    format!("\n[… {bytes} bytes left out here: the request was too large …]\n")
}

/// Stands for an old text in a request that was too large.
pub const LEFT_OUT: &str = "[left out]";

/// Stands for the arguments of an earlier call in a request that was too large: a JSON object.
pub fn arguments_left_out(bytes: usize) -> String {
    format!(r#"{{"_left_out":"{bytes} bytes: the request was too large"}}"#)
}

/// A call of an earlier round in text, where a provider does not take it as a call.
pub fn call_in_text(call: &ToolCall) -> String {
    format!("[called {} with {}]", call.name, call.arguments)
}

/// Its result in text.
pub fn result_in_text(result: &CallResult) -> String {
    format!("[result of {}: {}]", result.name, result.result.to_text())
}

/// That a server read less than was sent, for people.
pub fn prompt_cut(cut: &PromptCut) -> String {
    let PromptCut { sent_tokens, read_tokens } = cut;
    format!(
        "the server read {read_tokens} of about {sent_tokens} tokens and left out the rest without \
         a word: give the model a larger window (for Ollama, OLLAMA_CONTEXT_LENGTH), or set \
         window_tokens_max"
    )
}

/// Which tools are others from here on, for people.
pub fn catalogue_changed(change: &CatalogueChanged) -> String {
    let names = |what: &str, names: Vec<&str>| match names.is_empty() {
        true => String::new(),
        false => format!("; {what} {}", names.join(", ")),
    };
    let of = |tools: &[Arc<ToolSpec>], what: &str| {
        names(what, tools.iter().map(|tool| tool.name.as_str()).collect())
    };
    let went = names("gone:", change.went.iter().map(String::as_str).collect());
    let said = of(&change.came, "new:") + &of(&change.changed, "changed:") + &went;
    match said.strip_prefix("; ") {
        Some(said) => format!("the tools changed; {said}"),
        None => "the tools are the same".to_owned(),
    }
}

/// What a parked turn waits for, for people: a person's word.
pub fn waits_for_person(open: &OpenCall) -> String {
    format!("{} ({}) waits for a person", open.name, open.call.id)
}

/// What a parked turn waits for, for people: work that goes on elsewhere.
pub fn waits_for_job(open: &OpenCall, job: &str) -> String {
    format!("{} ({}) waits for its job {job}", open.name, open.call.id)
}

/// Why a picture can't be shown whose store is away.
pub const IMAGE_AWAY: &str = "it can't be reached now";

/// Stands for a picture that can't be sent.
pub fn image_unfit(why: &str) -> String {
    format!("[image can't be shown: {why}]")
}

/// Introduces a picture that belongs to a result before it.
pub fn image_of(call: &CallId) -> String {
    format!("[image from the result of {call}]")
}

/// Follows the content of a result that goes on as a job.
pub fn accepted(job: &str) -> String {
    format!("[accepted as job {job}: not finished yet]")
}

/// Follows the content of a result that has established something.
pub fn evidence(evidence: &Value) -> String {
    format!("[evidence: {evidence}]")
}

/// Milliseconds as people read them: `850ms`, `20s`, `10m`, `1h30m`.
pub fn duration(ms: u64) -> String {
    let (h, m, s) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
    match (h, m, s) {
        (0, 0, _) if ms < 1000 => format!("{ms}ms"),
        (0, 0, s) => format!("{s}s"),
        (0, m, 0) => format!("{m}m"),
        (0, m, s) => format!("{m}m{s}s"),
        (h, 0, _) => format!("{h}h"),
        (h, m, _) => format!("{h}h{m}m"),
    }
}

/// Thousand-millionths of a US dollar as people read them, to a hundredth of a cent.
pub fn dollars(nano_usd: u64) -> String {
    let tenths_of_mille = nano_usd.div_ceil(100_000);
    format!("${}.{:04}", tenths_of_mille / 10_000, tenths_of_mille % 10_000)
}
