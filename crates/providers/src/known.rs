//! What is known of well-known models, so that a budget works without configuration.
//!
//! Figures are those of the vendors' own model pages, read in November 2026; a person's
//! `config.yaml` overrides them. A model that is not here has an unknown price, never a guess.

use inspan_core::budget::Price;

/// What is known of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownModel {
    /// Its window in tokens.
    pub window_tokens_max: u64,
    /// The most tokens that one reply of it can have.
    pub output_tokens_max: u32,
    /// Its price. Writing to the cache is that of the five-minute cache, which Inspan uses.
    pub price: Price,
}

/// The model of this URL, if it is known.
pub fn known(model: &str) -> Option<KnownModel> {
    let sonnet = KnownModel {
        window_tokens_max: 1_000_000,
        output_tokens_max: 128_000,
        price: Price { input: 2_000, output: 10_000, cache_read: 200, cache_write: 2_500 },
    };
    match model {
        "anthropic://claude-sonnet-5-5" | "anthropic://claude-sonnet-5" => Some(sonnet),
        _ => None,
    }
}
