//! What a person gives on standard input.

use std::io::{BufRead, Read};

use crate::{exit::Failure, out::Out};

/// The text, or standard input where it is `-`. `what` names it in errors.
pub(crate) fn text_or_input(given: &str, what: &str) -> Result<String, Failure> {
    let mut text = given.to_owned();
    if given == "-" {
        text.clear();
        let what = format!("{what} on standard input");
        std::io::stdin().read_to_string(&mut text).map_err(|why| Failure::File { what, why })?;
    }
    Ok(text)
}

/// Whether the person at standard input says yes to a question.
pub(crate) fn is_yes(question: &str, out: &Out) -> Result<bool, Failure> {
    Ok(yes_or_no(question, out)? == Some(true))
}

/// What the person at standard input says to a question: yes, no, or neither, which counts as no for
/// now.
pub(crate) fn yes_or_no(question: &str, out: &Out) -> Result<Option<bool>, Failure> {
    out.progress(&format!("{question} [y/N] "));
    let mut answer = String::new();
    let what = "the answer".to_owned();
    let read = std::io::stdin().lock().read_line(&mut answer);
    read.map_err(|why| Failure::File { what, why })?;
    Ok(match answer.trim().to_lowercase().as_str() {
        "y" | "yes" => Some(true),
        "n" | "no" => Some(false),
        _ => None,
    })
}
