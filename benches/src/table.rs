//! Figures in rows.

use std::{fmt::Write, time::Duration};

/// A table that grows row by row.
#[derive(Default)]
pub(crate) struct Table(String);

impl Table {
    /// A heading over the rows that follow.
    pub(crate) fn heading(&mut self, text: &str) {
        let columns = ["least", "median", "limit", "median/limit"];
        let [least, median, limit, ratio] = columns;
        self.line(&format!("\n{text:<58}{least:>10}{median:>10}{limit:>10}{ratio:>14}"));
    }

    /// Times in milliseconds: the least and the median of `times`, and the median's part of the
    /// limit.
    pub(crate) fn times(&mut self, what: &str, times: &[Duration], limit_ms: Option<f64>) {
        self.row(what, ms(least(times)), ms(median(times)), limit_ms);
    }

    /// Figures of any unit.
    pub(crate) fn row(&mut self, what: &str, least: f64, median: f64, limit: Option<f64>) {
        let limits = match limit {
            Some(limit) => format!("{limit:>10.2}{:>14.2}", median / limit),
            None => String::new(),
        };
        self.line(&format!("  {what:<56}{least:>10.2}{median:>10.2}{limits}"));
    }

    /// A single figure.
    pub(crate) fn figure(&mut self, what: &str, figure: f64, limit: Option<f64>) {
        let limits = match limit {
            Some(limit) => format!("{limit:>10.2}{:>14.2}", figure / limit),
            None => String::new(),
        };
        self.line(&format!("  {what:<66}{figure:>10.2}{limits}"));
    }

    /// A heading over pairs: what is compared.
    pub(crate) fn versus(&mut self, text: &str, names: [&str; 2]) {
        let [ours, theirs] = names;
        let columns = ["limit", "ours/limit"];
        let [limit, ratio] = columns;
        let compared = format!("{theirs}/{ours}");
        self.line(&format!(
            "\n{text:<58}{ours:>10}{theirs:>10}{compared:>14}{limit:>10}{ratio:>12}"
        ));
    }

    /// The medians of two, their ratio, and ours beside its limit.
    pub(crate) fn pair(&mut self, what: &str, figures: [Vec<f64>; 2], limit: Option<f64>) {
        let [ours, theirs] = figures.map(|mut figures| {
            figures.sort_unstable_by(f64::total_cmp);
            figures.get(figures.len() / 2).copied().unwrap_or_default()
        });
        let limits = match limit {
            Some(limit) => format!("{limit:>10.2}{:>12.2}", ours / limit),
            None => String::new(),
        };
        let ratio = theirs / ours;
        self.line(&format!("  {what:<56}{ours:>10.2}{theirs:>10.2}{ratio:>14.2}{limits}"));
    }

    /// The table as text.
    pub(crate) fn into_text(self) -> String {
        self.0
    }

    fn line(&mut self, line: &str) {
        // Writing to a string can't fail.
        let _ = writeln!(self.0, "{}", line.trim_end());
    }
}

/// Milliseconds.
pub(crate) fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The least; zero of none.
pub(crate) fn least(times: &[Duration]) -> Duration {
    times.iter().min().copied().unwrap_or_default()
}

/// The median; zero of none.
pub(crate) fn median(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
