//! Text on its way to people: one place masks it, strips escapes and colours it.

use std::{
    borrow::Cow,
    io::{ErrorKind, IsTerminal, Write},
};

use anstyle::{AnsiColor, Style};
use inspan_core::mask::{Mask, printable};

use crate::exit::Failure;

/// Faint, for what is beside the point.
pub(crate) const DIM: Style = Style::new().dimmed();
/// For what went well.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
/// For what did not.
pub(crate) const BAD: Style = AnsiColor::Red.on_default();
/// For what a person should notice.
pub(crate) const NOTE: Style = AnsiColor::Yellow.on_default();
/// For headings.
pub(crate) const BOLD: Style = Style::new().bold();

/// Characters of a text that are looked at for each one that a line shows.
const LINE_SEEN_FACTOR: usize = 32;

/// The two outputs. A reader that has gone away is no error: the log has everything. What was asked
/// for and can't be written is one; progress that can't be is none.
pub(crate) struct Out {
    mask: Mask,
    /// Whether standard error is a terminal.
    pub is_terminal: bool,
    /// Whether standard output is a terminal.
    pub answer_is_terminal: bool,
}

impl Out {
    pub(crate) fn new(mask: Mask) -> Self {
        let (is_terminal, answer_is_terminal) =
            (std::io::stderr().is_terminal(), std::io::stdout().is_terminal());
        Self { mask, is_terminal, answer_is_terminal }
    }

    /// Text that can be shown: masked, and without escapes.
    pub(crate) fn shown(&self, text: &str) -> String {
        printable(&self.mask.text(text)).into_owned()
    }

    /// Text as one line that can be shown, of at most `chars_max` characters. Of a long text only
    /// the beginning is looked at; a word that its end cuts is left out, since it may be half a
    /// secret.
    pub(crate) fn line(&self, text: &str, chars_max: usize) -> String {
        let seen = chars_max * LINE_SEEN_FACTOR;
        match text.char_indices().nth(seen) {
            None => line_of(&self.shown(text), chars_max),
            Some((end, _)) => {
                let head = text.get(..end).unwrap_or_default();
                let whole = head.rsplit_once(char::is_whitespace).map_or("", |(whole, _)| whole);
                let head = if whole.is_empty() { head } else { whole };
                line_of(&format!("{} …", self.shown(head)), chars_max)
            }
        }
    }

    /// [`Mask::cut`].
    pub(crate) fn cut(&self, text: &str, at: usize) -> usize {
        self.mask.cut(text, at)
    }

    /// Text in which only secrets are masked: JSON escapes the rest itself, but see [`Out::json`].
    pub(crate) fn masked<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.mask.text(text)
    }

    /// Writes to standard error, as it is. Colours are taken out where they mean nothing.
    pub(crate) fn progress(&self, text: &str) {
        let mut to = anstream::stderr().lock();
        let _ = to.write_all(text.as_bytes()).and_then(|()| to.flush());
    }

    /// Writes to standard output, as it is. Colours are taken out where they mean nothing.
    ///
    /// # Errors
    /// It can't be written: a full disk.
    pub(crate) fn answer(&self, text: &str) -> Result<(), Failure> {
        let mut to = anstream::stdout().lock();
        written(to.write_all(text.as_bytes()).and_then(|()| to.flush()))
    }

    /// Writes lines of JSON to standard output, masked. Nothing in them steers a terminal: JSON
    /// itself leaves DEL and the second set of controls as they are.
    ///
    /// # Errors
    /// See [`Out::answer`].
    pub(crate) fn json(&self, lines: &str) -> Result<(), Failure> {
        let lines = self.mask.text(lines);
        match self.answer_is_terminal {
            true => self.bytes(escaped(&lines).as_bytes()),
            false => self.bytes(lines.as_bytes()),
        }
    }

    /// Writes to standard output, byte for byte.
    ///
    /// # Errors
    /// See [`Out::answer`].
    pub(crate) fn bytes(&self, bytes: &[u8]) -> Result<(), Failure> {
        let mut to = std::io::stdout().lock();
        written(to.write_all(bytes).and_then(|()| to.flush()))
    }
}

/// A reader that has gone away is no error.
fn written(written: std::io::Result<()>) -> Result<(), Failure> {
    match written {
        Err(why) if why.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::File { what: "standard output".to_owned(), why })
        }
        _ => Ok(()),
    }
}

/// JSON in which every control is written as JSON can write it, but for the ends of lines. There is
/// none outside of its strings.
fn escaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '\n' => text.push(c),
            c if c.is_control() => text += &format!("\\u{:04x}", u32::from(c)),
            c => text.push(c),
        }
    }
    text
}

/// `text` in `style`.
pub(crate) fn styled(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// `text` in one line of at most `chars_max` characters.
pub(crate) fn line_of(text: &str, chars_max: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= chars_max {
        return line;
    }
    line.chars().take(chars_max.saturating_sub(1)).chain(['…']).collect()
}

/// `1234567` as `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 call`, `2 calls`.
pub(crate) fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(number), if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_and_lines_are_short() {
        let numbers = [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")];
        for (number, text) in numbers {
            assert_eq!(grouped(number), text);
        }
        assert_eq!(line_of(" one\n two\tthree ", 20), "one two three");
        assert_eq!(line_of("one two three", 8), "one two…");
    }

    #[test]
    fn json_steers_no_terminal() {
        let json = "{\"text\":\"ä\u{7f}\u{9b}31m\"}\n";
        assert_eq!(escaped(json), "{\"text\":\"ä\\u007f\\u009b31m\"}\n");
    }
}
