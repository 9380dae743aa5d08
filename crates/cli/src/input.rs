//! What a person gives on standard input.

use std::io::Read;

use crate::exit::Failure;

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
