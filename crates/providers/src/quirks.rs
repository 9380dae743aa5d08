//! In what a server differs from others of its wire. All of it is data: what the servers are like
//! stands in [`crate::servers`], and the wires read it where they write a request.

use inspan_core::{hash::Hash, message::CallId, pictures::PictureLimits};

use crate::server::Wire;

/// In what a server differs from others of its wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quirks {
    /// Anthropic: whether the server takes marks for its prompt cache.
    pub cache_marks: bool,
    /// Anthropic: whether the key is sent as `authorization: Bearer` in place of `x-api-key`.
    pub bearer: bool,
    /// OpenAI: the field that limits the reply.
    pub output_limit_field: &'static str,
    /// OpenAI: whether the server takes `stream_options`, without which some tell no usage.
    pub stream_options: bool,
    /// OpenAI: the field in which the server wants its reasoning back. Most refuse or ignore it.
    pub reasoning_echo: Option<ReasoningField>,
    /// OpenAI: whether that field must be in every message with calls, if need be empty: after
    /// another model wrote it, there is no reasoning to send.
    pub reasoning_needed: bool,
    /// OpenAI: what stands for the content of a message that has only calls.
    pub no_content: NoContent,
    /// OpenAI: how calls are named.
    pub call_ids: CallIds,
    /// OpenAI: where the user's text goes that comes with the results of calls.
    pub after_results: AfterResults,
    /// OpenAI: whether the server refuses two messages of the user in a row, also after results.
    /// A short reply is then put between them.
    pub alternate: bool,
    /// Responses: whether reasoning is asked for in its encrypted form, which alone can be sent
    /// back. Models without reasoning refuse that.
    pub encrypted_reasoning: bool,
    /// Whether schemas are sent without references and with plain words only.
    pub plain_schemas: bool,
    /// Tools that are found are declared with `defer_loading`, and a search refers to them.
    pub deferred_tools: bool,
    /// Whether a temperature may stand beside an effort.
    pub sampling_with_effort: bool,
    /// OpenAI: the field for where chance begins.
    pub seed_field: &'static str,
    /// The most tools in one request; those beyond are set aside.
    pub tools_max: u32,
    /// What the server takes of pictures; none where `count_max` is 0.
    pub pictures: PictureLimits,
    /// Whether a prompt that is longer than the model's window is cut without a word. Whoever
    /// sends it can compare the count of tokens with its own.
    pub cuts_silently: bool,
}

/// A field in which a server that is like OpenAI writes the reasoning of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReasoningField {
    /// `reasoning_content`.
    ReasoningContent,
    /// `reasoning`.
    Reasoning,
    /// `reasoning_details`, blocks that may be signed; the text as `reasoning` where there are none.
    ReasoningDetails,
}

/// What stands for the content of a message that has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoContent {
    /// `"content":null`, as OpenAI writes it.
    Null,
    /// `"content":""`, for templates that join it with other text.
    Empty,
    /// No such field.
    Missing,
}

/// How calls are named in a request. Their pairing is the same in every form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallIds {
    /// As in the log: `call_12_0`.
    Ours,
    /// Nine letters and digits, made from ours.
    Nine,
}

/// Where the user's text goes that comes with the results of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterResults {
    /// Into a message of the user after them.
    Separate,
    /// Into the last result: the server takes no message of the user there.
    Joined,
}

impl Quirks {
    /// What most servers of either wire understand.
    pub const COMPATIBLE: Self = Self {
        cache_marks: false,
        bearer: false,
        output_limit_field: "max_tokens",
        stream_options: true,
        reasoning_echo: None,
        reasoning_needed: false,
        no_content: NoContent::Null,
        call_ids: CallIds::Ours,
        after_results: AfterResults::Separate,
        alternate: false,
        encrypted_reasoning: false,
        plain_schemas: false,
        deferred_tools: false,
        sampling_with_effort: true,
        seed_field: "seed",
        tools_max: 128,
        pictures: PICTURES,
        cuts_silently: false,
    };

    /// The rules of a server of this wire at this address: those of a known server that is there,
    /// else [`Quirks::COMPATIBLE`].
    pub fn at(wire: Wire, base_url: &str) -> Self {
        let known = crate::servers::at(wire, base_url);
        known.map_or(Self::COMPATIBLE, |known| known.quirks.clone())
    }
}

/// What is known to go everywhere; the same as the default.
pub(crate) const PICTURES: PictureLimits =
    PictureLimits { count_max: 20, bytes_max: 3_750_000, side_px_max: 2_000 };

/// For servers that take no pictures.
pub(crate) const NO_PICTURES: PictureLimits =
    PictureLimits { count_max: 0, bytes_max: 0, side_px_max: 0 };

impl ReasoningField {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::ReasoningContent, Self::Reasoning, Self::ReasoningDetails];

    /// Its name in a message.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReasoningContent => "reasoning_content",
            Self::Reasoning => "reasoning",
            Self::ReasoningDetails => "reasoning_details",
        }
    }

    /// The name of the field for reasoning that is mere text.
    pub(crate) fn text_name(self) -> &'static str {
        match self {
            Self::ReasoningContent => "reasoning_content",
            Self::Reasoning | Self::ReasoningDetails => "reasoning",
        }
    }
}

impl CallIds {
    /// The identifier as it is sent.
    pub(crate) fn sent(self, id: &CallId) -> String {
        match self {
            Self::Ours => id.0.clone(),
            Self::Nine => nine(id),
        }
    }
}

/// Seven digits of base 62 for the entry, two for the place in its reply: no two calls of a
/// session have the same. An identifier that is none of ours is hashed.
fn nine(id: &CallId) -> String {
    let parts = id.0.strip_prefix("call_").and_then(|rest| rest.split_once('_'));
    let numbers = parts.and_then(|(seq, index)| Some((seq.parse().ok()?, index.parse().ok()?)));
    match numbers.filter(|(seq, index)| *seq < 62_u64.pow(7) && *index < 62_u64.pow(2)) {
        Some((seq, index)) => base_62(seq, 7) + &base_62(index, 2),
        None => {
            let bytes = Hash::of(&[id.0.as_bytes()]).0;
            let number =
                bytes.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte));
            base_62(number, 9)
        }
    }
}

/// The last digits of a number.
fn base_62(mut number: u64, digits: usize) -> String {
    let mut text = vec!['0'; digits];
    for place in text.iter_mut().rev() {
        let digit = (number % 62) as u8;
        *place = char::from(match digit {
            0..10 => b'0' + digit,
            10..36 => b'a' + digit - 10,
            _ => b'A' + digit - 36,
        });
        number /= 62;
    }
    text.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn nine_characters_name_one_call() {
        let table = [
            ("call_0_0", "000000000"),
            ("call_12_0", "000000c00"),
            ("call_12_63", "000000c11"),
            ("call_3521614606207_3843", "ZZZZZZZZZ"),
        ];
        for (ours, theirs) in table {
            assert_eq!(CallIds::Nine.sent(&CallId(ours.into())), theirs, "{ours}");
        }
        let ids = (0..100).flat_map(|seq| (0..70).map(move |index| CallId::new(seq, index)));
        let sent: HashSet<String> = ids.map(|id| CallIds::Nine.sent(&id)).collect();
        assert_eq!(sent.len(), 7_000);
        for strange in ["call_3521614606208_0", "call_1_3844", "call_x_1", "toolu_01", ""] {
            let sent = CallIds::Nine.sent(&CallId(strange.into()));
            assert!(sent.len() == 9 && sent.bytes().all(|b| b.is_ascii_alphanumeric()), "{sent}");
        }
        assert_eq!(CallIds::Ours.sent(&CallId::new(1, 2)), "call_1_2");
    }
}
