//! Limits and what is spent. A limit has one name, one default and one place: here. The same
//! names stand in `config.yaml`, `agent.yaml`, the command's flags and docs/limits.md.

use serde::{Deserialize, Serialize};

use crate::{event::Stop, message::Usage};

/// What a turn may spend. `None` is no limit; 0 is zero.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Rounds: model calls with the answering of their tool calls.
    pub rounds_max: u32,
    /// Tokens over all tiers, input and output.
    pub tokens_max: Option<u64>,
    /// Cost in thousand-millionths of a US dollar.
    pub cost_max_nano_usd: Option<u64>,
    /// Time in milliseconds from the prompt on, without the time in which no process drove it.
    pub time_ms_max: Option<u64>,
    /// Tool calls that ran.
    pub calls_max: u32,
    /// Tool calls that run side by side.
    pub calls_at_once_max: u32,
    /// Further attempts after a model call that failed in passing, in a row.
    pub retries_max: u32,
    /// Output tokens of one reply; raised once when a reply is cut.
    pub output_tokens_max: u32,
}

impl Limits {
    /// Defaults of a library call: few rounds, because a program waits for it.
    pub fn call() -> Self {
        Self { rounds_max: 8, ..Self::session() }
    }

    /// Defaults of the command and of agent folders.
    pub fn session() -> Self {
        Self {
            rounds_max: 100,
            tokens_max: Some(5_000_000),
            cost_max_nano_usd: None,
            time_ms_max: Some(60 * 60 * 1000),
            calls_max: 256,
            calls_at_once_max: 8,
            retries_max: 4,
            output_tokens_max: 8_192,
        }
    }
}

/// Output tokens that the closing call may write, and that tokens and cost keep in reserve for it.
pub const CLOSING_OUTPUT_TOKENS_MAX: u32 = 2_048;

/// A part of a limit, in hundredths, from which on the model is told once that it is near.
pub const LIMIT_NEARED_PERCENT: u64 = 80;

/// Prices in thousand-millionths of a US dollar for each token; 1 USD for a million tokens is
/// 1,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Input that is not cached.
    pub input: u64,
    /// Output, reasoning included.
    pub output: u64,
    /// Input read from the cache.
    pub cache_read: u64,
    /// Input written to the cache.
    pub cache_write: u64,
}

impl Price {
    /// What `usage` costs in thousand-millionths of a US dollar; unknown tiers count as nothing.
    pub fn of(&self, usage: &Usage) -> u64 {
        let tiers = [
            (usage.input, self.input),
            (usage.output, self.output),
            (usage.cache_read, self.cache_read),
            (usage.cache_write, self.cache_write),
        ];
        tiers
            .into_iter()
            .map(|(tokens, price)| tokens.unwrap_or(0).saturating_mul(price))
            .fold(0, u64::saturating_add)
    }
}

/// A limit that can end a turn; each has a stop of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Rounds.
    Rounds,
    /// Tokens over all tiers.
    Tokens,
    /// Money.
    Cost,
    /// Time.
    Time,
    /// Tool calls.
    Calls,
    /// The same rounds over and over.
    Loop,
}

impl Limit {
    /// All limits, in the order in which they are looked at.
    pub const ALL: [Self; 6] =
        [Self::Rounds, Self::Tokens, Self::Cost, Self::Time, Self::Calls, Self::Loop];

    /// The stop of a turn that this limit ended.
    pub fn stop(self) -> Stop {
        match self {
            Self::Rounds => Stop::Rounds,
            Self::Tokens => Stop::Tokens,
            Self::Cost => Stop::Cost,
            Self::Time => Stop::Time,
            Self::Calls => Stop::Calls,
            Self::Loop => Stop::Loop,
        }
    }

    /// The limit in words, for notes to the model and for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Rounds => "rounds",
            Self::Tokens => "tokens",
            Self::Cost => "cost",
            Self::Time => "time",
            Self::Calls => "tool calls",
            Self::Loop => "repeated rounds",
        }
    }
}

/// What was spent, in a turn or in a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// Rounds that were started, the closing call and repeated attempts left out.
    pub rounds: u32,
    /// Tokens over all tiers.
    pub tokens: u64,
    /// Cost in thousand-millionths of a US dollar.
    pub cost_nano_usd: u64,
    /// Tool calls that were started.
    pub calls: u32,
    /// True when some tokens or cost were never told by the provider.
    pub incomplete: bool,
}

/// Tokens that `bytes` of text are taken for until a provider counts them: a rough mean over
/// English, code and JSON.
pub fn tokens_estimate(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(4)
}

/// The longest wait between two attempts in milliseconds; what must wait longer is parked.
pub const RETRY_WAIT_MS_MAX: u64 = 5 * 60 * 1000;

/// The wait before the second attempt in milliseconds, when the provider asks for none or for a
/// shorter one; doubled for each further one.
pub const RETRY_WAIT_MS_FIRST: u64 = 500;

/// The wait to which doubling grows, in milliseconds.
pub const RETRY_WAIT_MS_GROWN: u64 = 32_000;

/// Identical periods of rounds at which the model is told that it repeats itself.
pub const REPEATS_NOTED: u32 = 3;

/// Identical periods of rounds at which the turn ends.
pub const REPEATS_MAX: u32 = 5;

/// How much more a reply may write when the one before it was cut.
pub const CUT_RAISE_FACTOR: u32 = 4;

/// Time limit of one gate for one call in milliseconds; a gate that is not done then refuses.
pub const GATE_MS_MAX: u64 = 60_000;

/// Bytes of text of one tool result that the model reads; more is cut in the middle.
pub const RESULT_BYTES_MAX: usize = 64 * 1024;

/// Bytes of the whole text of one tool result that are kept beside the log when the model reads only
/// a part; more is cut in the middle.
pub const SPILLED_BYTES_MAX: usize = 16 << 20;

/// Pieces of content of one tool result; more are left out, and the model is told so.
pub const RESULT_PIECES_MAX: usize = 64;

/// Bytes of the evidence of one tool result as JSON; larger evidence is left out, and said to be.
pub const EVIDENCE_BYTES_MAX: usize = 16 * 1024;

/// How deep arguments and evidence may be nested, so that every log that is written can be read.
pub const JSON_DEPTH_MAX: usize = 64;

/// Repairs of the projection between two replies: after so many refusals the turn fails. Tools that
/// are set aside are not counted: each is set aside once.
pub const REPAIRS_MAX: u32 = 6;

/// How often a model call is made whose process ended in the middle of it, and a call that may run
/// again: whatever ends the process is not to end every one that comes after it.
pub const INTERRUPTED_ATTEMPTS_MAX: u32 = 5;

/// Tokens that a server may count beyond eight times the estimate of a request. What it says beyond
/// that is no count: the estimate is taken.
pub const COUNTED_OVER_TOKENS_MAX: u64 = 200_000;

/// Bytes that stay of each text, in the steps in which a request that is too large is made smaller.
pub const SHRINK_TEXT_BYTES: [usize; 4] = [16 * 1024, 4 * 1024, 1024, 256];
