//! Limits as `config.yaml`, `agent.yaml` and flags set them: the names of
//! [`Limits`], with durations and dollars in place of milliseconds and nano-dollars.

use inspan_core::budget::Limits;
use serde::{Deserialize, Deserializer};

use super::{Ceiling, ConfigError, Millis, Positive, Scalar, Source, Usd};

/// Changes to limits; what is `None` stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LimitsPatch {
    /// See [`Limits::rounds_max`].
    pub rounds_max: Option<u32>,
    /// See [`Limits::tokens_max`].
    pub tokens_max: Option<Ceiling<u64>>,
    /// See [`Limits::cost_max_nano_usd`].
    pub cost_max_usd: Option<Ceiling<Usd>>,
    /// See [`Limits::time_ms_max`].
    pub time_max: Option<Ceiling<Millis>>,
    /// See [`Limits::calls_max`].
    pub calls_max: Option<u32>,
    /// See [`Limits::calls_at_once_max`].
    pub calls_at_once_max: Option<u32>,
    /// See [`Limits::retries_max`].
    pub retries_max: Option<u32>,
    /// See [`Limits::output_tokens_max`].
    pub output_tokens_max: Option<u32>,
}

impl LimitsPatch {
    /// Makes the changes.
    pub(crate) fn apply(&self, limits: &mut Limits) {
        let set = |limit: &mut u32, value: Option<u32>| *limit = value.unwrap_or(*limit);
        set(&mut limits.rounds_max, self.rounds_max);
        set(&mut limits.calls_max, self.calls_max);
        set(&mut limits.calls_at_once_max, self.calls_at_once_max);
        set(&mut limits.retries_max, self.retries_max);
        set(&mut limits.output_tokens_max, self.output_tokens_max);
        if let Some(tokens) = self.tokens_max {
            limits.tokens_max = tokens.map(|tokens| tokens);
        }
        if let Some(cost) = self.cost_max_usd {
            limits.cost_max_nano_usd = cost.map(|cost| cost.0);
        }
        if let Some(time) = self.time_max {
            limits.time_ms_max = time.map(|time| time.0);
        }
    }
}

/// Limits as they stand in a file.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawLimits {
    rounds_max: Option<Scalar>,
    #[serde(deserialize_with = "given")]
    tokens_max: Option<Scalar>,
    #[serde(deserialize_with = "given")]
    cost_max_usd: Option<Scalar>,
    #[serde(deserialize_with = "given")]
    time_max: Option<Scalar>,
    calls_max: Option<Scalar>,
    calls_at_once_max: Option<Scalar>,
    retries_max: Option<Scalar>,
    output_tokens_max: Option<Scalar>,
}

/// Keeps `null` apart from a key that is not there: it lifts the limit.
fn given<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Scalar>, D::Error> {
    Scalar::deserialize(from).map(Some)
}

impl RawLimits {
    /// The limits in their units.
    pub(crate) fn lower(&self, source: &Source<'_>) -> Result<LimitsPatch, ConfigError> {
        Ok(LimitsPatch {
            rounds_max: source.figure("rounds_max", self.rounds_max.as_ref())?,
            tokens_max: source.ceiling("tokens_max", self.tokens_max.as_ref())?,
            cost_max_usd: source.ceiling("cost_max_usd", self.cost_max_usd.as_ref())?,
            time_max: source.ceiling("time_max", self.time_max.as_ref())?,
            calls_max: source.figure("calls_max", self.calls_max.as_ref())?,
            calls_at_once_max: source
                .figure("calls_at_once_max", self.calls_at_once_max.as_ref())?
                .map(|Positive(calls)| calls),
            retries_max: source.figure("retries_max", self.retries_max.as_ref())?,
            output_tokens_max: source
                .figure("output_tokens_max", self.output_tokens_max.as_ref())?
                .map(|Positive(tokens)| tokens),
        })
    }
}
