//! Figures as people write them: whole numbers, durations, money, and limits that can be lifted.
//! The same in files and in flags.

use std::num::{IntErrorKind, ParseIntError};

/// A figure that a person writes.
pub(crate) trait Figure: Sized {
    /// Reads it. The error says why the text is none; the text itself, which may be a secret in the
    /// wrong place, is for the caller to name.
    fn read(text: &str) -> Result<Self, String>;
}

impl Figure for u32 {
    fn read(text: &str) -> Result<Self, String> {
        text.replace('_', "").parse().map_err(|error| not_whole(&error, Self::MAX.into()))
    }
}

impl Figure for u64 {
    fn read(text: &str) -> Result<Self, String> {
        text.replace('_', "").parse().map_err(|error| not_whole(&error, Self::MAX))
    }
}

fn not_whole(error: &ParseIntError, most: u64) -> String {
    match error.kind() {
        IntErrorKind::PosOverflow => format!("is too large; the most is {most}"),
        _ => "is not a whole number".to_owned(),
    }
}

/// A figure that would let nothing work if it were zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Positive<T>(pub T);

impl<T: Figure + Default + PartialEq> Figure for Positive<T> {
    fn read(text: &str) -> Result<Self, String> {
        match T::read(text)? {
            zero if zero == T::default() => Err("must be more than zero".to_owned()),
            value => Ok(Self(value)),
        }
    }
}

/// A limit that may be lifted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ceiling<T> {
    /// There is none: written `none`.
    Lifted,
    /// There is one; 0 is zero.
    At(T),
}

impl<T> Ceiling<T> {
    /// The limit as a value that may be missing.
    pub(crate) fn map<U>(self, figure: impl FnOnce(T) -> U) -> Option<U> {
        match self {
            Self::Lifted => None,
            Self::At(value) => Some(figure(value)),
        }
    }
}

impl<T: Figure> Figure for Ceiling<T> {
    fn read(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::Lifted),
            text => T::read(text).map(Self::At).map_err(|why| format!("{why}, nor `none`")),
        }
    }
}

/// A duration in milliseconds, written `90s`, `10m` or `1h30m`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Millis(pub u64);

impl Figure for Millis {
    fn read(text: &str) -> Result<Self, String> {
        let duration = text.parse::<jiff::SignedDuration>().ok();
        duration
            .and_then(|duration| u64::try_from(duration.as_millis()).ok())
            .map(Self)
            .ok_or_else(|| "is not a duration like 90s, 10m or 1h30m".to_owned())
    }
}

/// Money in thousand-millionths of a US dollar, written in dollars: `2.50`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Usd(pub u64);

impl Usd {
    const DECIMALS: usize = 9;

    /// A price for a million tokens as one for a token, rounded up to a whole thousand-millionth.
    pub(crate) fn nano_usd_per_token(self) -> u64 {
        self.0.div_ceil(1_000_000)
    }
}

impl Figure for Usd {
    /// Reads digit by digit: a binary fraction would not hold most amounts.
    fn read(text: &str) -> Result<Self, String> {
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        let fits = !whole.is_empty() && digits(whole) && digits(part);
        (fits && part.len() <= Self::DECIMALS)
            .then(|| format!("{whole}{part:0<width$}", width = Self::DECIMALS).parse().ok())
            .flatten()
            .map(Self)
            .ok_or_else(|| "is not an amount in US dollars like 2.50".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_without_loss() {
        let money = [
            ("2.00", Ok(2_000_000_000)),
            ("2", Ok(2_000_000_000)),
            ("0", Ok(0)),
            ("0.1", Ok(100_000_000)),
            ("0.000000001", Ok(1)),
            ("4503599.627370497", Ok(4_503_599_627_370_497)),
            ("0.0000000001", Err("is not an amount in US dollars like 2.50")),
            ("2,50", Err("is not an amount in US dollars like 2.50")),
            ("-1", Err("is not an amount in US dollars like 2.50")),
            (".5", Err("is not an amount in US dollars like 2.50")),
            ("99999999999", Err("is not an amount in US dollars like 2.50")),
        ];
        for (text, nano) in money {
            assert_eq!(Usd::read(text), nano.map(Usd).map_err(str::to_owned), "{text}");
        }
        let durations = [
            ("10m", Ok(600_000)),
            ("1h30m", Ok(5_400_000)),
            ("250ms", Ok(250)),
            ("0s", Ok(0)),
            ("10", Err("is not a duration like 90s, 10m or 1h30m")),
            ("-5s", Err("is not a duration like 90s, 10m or 1h30m")),
            ("soon", Err("is not a duration like 90s, 10m or 1h30m")),
        ];
        for (text, millis) in durations {
            assert_eq!(Millis::read(text), millis.map(Millis).map_err(str::to_owned), "{text}");
        }
        assert_eq!(u32::read("5_000"), Ok(5_000));
        assert_eq!(u32::read("4294967296").unwrap_err(), "is too large; the most is 4294967295");
        assert_eq!(Ceiling::<u64>::read("none"), Ok(Ceiling::Lifted));
        assert_eq!(Ceiling::<u64>::read("0"), Ok(Ceiling::At(0)));
        let zero = Err("must be more than zero".to_owned());
        assert_eq!(Positive::<u32>::read("1"), Ok(Positive(1)));
        assert_eq!(Positive::<u32>::read("0"), zero);
        assert_eq!(Positive::<Millis>::read("1ms"), Ok(Positive(Millis(1))));
        assert_eq!(Positive::<Millis>::read("0s").map(|_| ()), zero.map(|_: Positive<u32>| ()));
        assert_eq!(Ceiling::<u64>::read("no").unwrap_err(), "is not a whole number, nor `none`");
    }

    #[test]
    fn a_price_is_rounded_up() {
        let table = [("3", 3_000), ("0.075", 75), ("0.0375", 38), ("0", 0), ("18.75", 18_750)];
        for (per_million, per_token) in table {
            assert_eq!(Usd::read(per_million).unwrap().nano_usd_per_token(), per_token);
        }
    }
}
