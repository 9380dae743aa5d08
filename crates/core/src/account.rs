//! Where a turn stands against its limits.

use crate::{
    budget::{
        CLOSING_OUTPUT_TOKENS_MAX, CUT_RAISE_FACTOR, LIMIT_NEARED_PERCENT, Limit, Price,
        REPEATS_MAX, REPEATS_NOTED,
    },
    event::{LimitNeared, SessionConfigured},
    message::{How, Usage},
    state::State,
    turn::{CallStatus, OpenCall, Turn},
};

/// What notes and the answers of calls that did not run may add before the closing call.
const NOTES_TOKENS: u64 = 256;

/// An open turn, its limits and the time.
#[derive(Clone, Copy)]
pub(crate) struct Account<'a> {
    pub(crate) state: &'a State,
    pub(crate) turn: &'a Turn,
    pub(crate) config: &'a SessionConfigured,
    pub(crate) now_ms: i64,
}

impl Account<'_> {
    /// The limit on the next reply's tokens after `cuts` cut replies in a row: never more than the
    /// model can write, than its window has room for, or than tokens and cost leave.
    pub(crate) fn output_tokens_max(&self, cuts: u32) -> u32 {
        let limit = self.config.limits.output_tokens_max;
        let wanted = if cuts == 0 { limit } else { limit.saturating_mul(CUT_RAISE_FACTOR) };
        let model = self.state.model().unwrap_or(&self.config.model);
        let window = self.state.window_tokens_max().unwrap_or(u64::MAX);
        // An estimate that is larger than the window says nothing of the room in it.
        let room = window.saturating_sub(self.state.context.tokens_estimate());
        let room = room.max(self.closing_output_tokens().into());
        let room = u32::try_from(room).unwrap_or(u32::MAX);
        let wanted = wanted.min(model.output_tokens_max.unwrap_or(u32::MAX)).min(room);
        let left = u32::try_from(self.left_to_write()).unwrap_or(u32::MAX);
        wanted.min(left.max(self.closing_output_tokens()))
    }

    /// The tokens that a reply may have. The first of a turn may take what is left, which is what
    /// the turn is for; later ones leave room for the closing call, which reads them.
    fn left_to_write(&self) -> u64 {
        let (spent, limits) = (&self.turn.spent, &self.config.limits);
        let input = self.state.context.tokens_estimate();
        // Of tokens that are written, how often each counts.
        let (taken, times) = if spent.rounds == 0 {
            (usage(input, 0), 1)
        } else {
            let closing = input.saturating_add(NOTES_TOKENS);
            (usage(input.saturating_add(closing), self.closing_output_tokens().into()), 2)
        };
        let left =
            |max: u64, spent: u64, taken: u64| max.saturating_sub(spent).saturating_sub(taken);
        let of_tokens = limits.tokens_max.map(|max| left(max, spent.tokens, taken.total()) / times);
        let of_cost = limits.cost_max_nano_usd.and_then(|max| {
            let price = self.price()?;
            let left = left(max, spent.cost_nano_usd, price.of(&taken));
            let read_again = if times == 1 { 0 } else { price.input };
            left.checked_div(price.output.saturating_add(read_again))
        });
        of_tokens.into_iter().chain(of_cost).min().unwrap_or(u64::MAX)
    }

    fn time_ms(&self) -> u64 {
        self.turn.time_ms(self.now_ms)
    }

    pub(crate) fn deadline_ms(&self) -> Option<i64> {
        self.config.limits.time_ms_max.map(|max| self.turn.deadline_ms(max))
    }

    pub(crate) fn is_out_of_time(&self) -> bool {
        self.config.limits.time_ms_max.is_some_and(|max| self.time_ms() >= max)
    }

    /// The limit that keeps a call from starting.
    pub(crate) fn spent_before_call(&self) -> Option<Limit> {
        let (spent, limits) = (&self.turn.spent, &self.config.limits);
        let reached = |limit: Limit| match limit {
            Limit::Tokens => limits.tokens_max.is_some_and(|max| spent.tokens >= max),
            Limit::Cost => limits.cost_max_nano_usd.is_some_and(|max| spent.cost_nano_usd >= max),
            Limit::Time => self.is_out_of_time(),
            Limit::Calls => spent.calls >= limits.calls_max,
            Limit::Rounds | Limit::Loop => false,
        };
        Limit::ALL.into_iter().find(|limit| reached(*limit))
    }

    /// Whether `limit` keeps the next ordinary round from starting.
    pub(crate) fn is_reached(&self, limit: Limit) -> bool {
        let (spent, limits) = (&self.turn.spent, &self.config.limits);
        match limit {
            Limit::Rounds => spent.rounds >= limits.rounds_max,
            Limit::Tokens => limits.tokens_max.is_some_and(|max| {
                spent.tokens.saturating_add(self.round_tokens()) > max || max == 0
            }),
            Limit::Cost => limits.cost_max_nano_usd.is_some_and(|max| {
                max == 0
                    || self
                        .price_of(self.round_usage())
                        .is_some_and(|cost| spent.cost_nano_usd.saturating_add(cost) > max)
            }),
            Limit::Time => self.is_out_of_time(),
            Limit::Calls => {
                let was_not_run = |open: &OpenCall| match &open.status {
                    CallStatus::Answered(result) => result.how == How::NotRun,
                    _ => false,
                };
                spent.calls >= limits.calls_max && self.state.calls.iter().any(was_not_run)
            }
            Limit::Loop => self.turn.repeats() >= REPEATS_MAX,
        }
    }

    /// The note that `limit` is near, if it is.
    pub(crate) fn is_near(&self, limit: Limit) -> Option<LimitNeared> {
        let (spent, limits) = (&self.turn.spent, &self.config.limits);
        let (spent, max) = match limit {
            Limit::Rounds => (spent.rounds.into(), limits.rounds_max.into()),
            Limit::Tokens => (spent.tokens, limits.tokens_max?),
            Limit::Cost => (spent.cost_nano_usd, limits.cost_max_nano_usd?),
            Limit::Time => (self.time_ms(), limits.time_ms_max?),
            Limit::Calls => (spent.calls.into(), limits.calls_max.into()),
            Limit::Loop => {
                let repeats = self.turn.repeats();
                let (spent, max) = (repeats.into(), REPEATS_MAX.into());
                return (repeats >= REPEATS_NOTED).then_some(LimitNeared { limit, spent, max });
            }
        };
        let is_near = u128::from(spent) * 100 >= u128::from(max) * u128::from(LIMIT_NEARED_PERCENT);
        (max > 0 && is_near).then_some(LimitNeared { limit, spent, max })
    }

    /// What an ordinary round and the closing call after it are taken to use. The first round of a
    /// turn keeps no reserve: it is what the turn is for.
    fn round_usage(&self) -> Usage {
        let input = self.state.context.tokens_estimate();
        if self.turn.spent.rounds == 0 {
            return usage(input, 0);
        }
        usage(input.saturating_mul(2), u64::from(self.closing_output_tokens()) * 2)
    }

    fn round_tokens(&self) -> u64 {
        self.round_usage().total()
    }

    /// Whether tokens and cost leave room for the closing call.
    pub(crate) fn closing_fits(&self) -> bool {
        let (spent, limits) = (&self.turn.spent, &self.config.limits);
        let closing =
            usage(self.state.context.tokens_estimate(), self.closing_output_tokens().into());
        let tokens_fit =
            limits.tokens_max.is_none_or(|max| spent.tokens.saturating_add(closing.total()) <= max);
        let cost_fits = limits.cost_max_nano_usd.is_none_or(|max| {
            self.price_of(closing)
                .is_none_or(|cost| spent.cost_nano_usd.saturating_add(cost) <= max)
        });
        tokens_fit && cost_fits
    }

    /// Small limits keep a small reserve: a tenth of the tokens or of the cost, if that is less.
    pub(crate) fn closing_output_tokens(&self) -> u32 {
        let limits = &self.config.limits;
        let of_tokens = limits.tokens_max.map(|max| max / 10);
        let price = self.price().map_or(0, |price| price.output);
        let of_cost = limits.cost_max_nano_usd.and_then(|max| (max / 10).checked_div(price));
        let tenth = of_tokens.into_iter().chain(of_cost).min().unwrap_or(u64::MAX);
        let reserve = u32::try_from(tenth).unwrap_or(u32::MAX).max(1);
        reserve.min(CLOSING_OUTPUT_TOKENS_MAX).min(limits.output_tokens_max)
    }

    fn price(&self) -> Option<Price> {
        self.state.model()?.price
    }

    fn price_of(&self, usage: Usage) -> Option<u64> {
        self.price().map(|price| price.of(&usage))
    }
}

fn usage(input: u64, output: u64) -> Usage {
    Usage { input: Some(input), output: Some(output), estimated: true, ..Usage::default() }
}
