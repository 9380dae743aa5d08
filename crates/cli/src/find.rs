//! `inspan search`: the entries in which words were said.

use inspan_core::{event::Event, stored::searchable};
use serde_json::json;

use crate::{
    args::at_least_one,
    exit::Failure,
    home::Home,
    json::line,
    out::{BOLD, DIM, Out, line_of, styled},
    sessions::minute,
};

/// Characters of a text around the words that are found.
const SNIPPET_CHARS_MAX: usize = 100;

/// Characters before the first word that is found.
const SNIPPET_BEFORE_MAX: usize = 30;

/// Prints what a search for `words` finds, at most `count_max` entries. Options may stand behind the
/// words.
pub(crate) async fn search(
    home: &Home,
    words: Vec<String>,
    count_max: usize,
    as_json: bool,
) -> Result<u8, Failure> {
    let out = Out::new(home.mask()?);
    let Asked { words, count_max, as_json } = options_of(words, count_max, as_json)?;
    let words = words.join(" ");
    let found = home.store().await?.search(&words, count_max).await?;
    if found.is_empty() && !as_json {
        out.progress("Nothing was found.\n");
    }
    for found in &found {
        let entry = &found.entry;
        let text = searchable(&entry.event).unwrap_or_default();
        // Masked before it is cut: half a secret is none that a mask knows.
        let shown = snippet(&out.shown(&text), &words);
        if as_json {
            out.json(&line(&json!({
                "session": found.session,
                "seq": entry.seq,
                "at_ms": entry.at_ms,
                "kind": entry.event.kind(),
                "snippet": shown,
            })))?;
            continue;
        }
        let place = format!("{} {:>5}", found.session, entry.seq);
        let at = styled(DIM, &minute(entry.at_ms));
        out.answer(&format!("{}  {at}  {:6}  {shown}\n", styled(BOLD, &place), who(&entry.event)))?;
    }
    Ok(0)
}

struct Asked {
    words: Vec<String>,
    count_max: usize,
    as_json: bool,
}

/// Takes the options out of words: `-WORD` is one of the words, so the command line is no help.
fn options_of(given: Vec<String>, count_max: usize, as_json: bool) -> Result<Asked, Failure> {
    let mut asked = Asked { words: Vec::new(), count_max, as_json };
    let mut given = given.into_iter();
    while let Some(word) = given.next() {
        let (name, value) = word.split_once('=').unzip();
        match name.unwrap_or(&word) {
            "--json" => asked.as_json = true,
            "--count-max" => {
                let value = value.map(str::to_owned).or_else(|| given.next());
                let count = at_least_one(&value.unwrap_or_default());
                let wrong = |why| Failure::Usage(format!("--count-max: {why}"));
                asked.count_max = count.map_err(wrong)?;
            }
            name if name.starts_with("--") => {
                return Err(Failure::Usage(format!(
                    "`{name}` is no option of a search: there are --count-max and --json"
                )));
            }
            _ => asked.words.push(word),
        }
    }
    Ok(asked)
}

fn who(event: &Event) -> &'static str {
    match event {
        Event::PromptSubmitted(_) => "prompt",
        Event::ModelReplied(_) => "model",
        Event::ToolFinished(_) => "tool",
        _ => "",
    }
}

/// A line of a text around the first of `words` in it.
fn snippet(text: &str, words: &str) -> String {
    let line: Vec<char> = text.split_whitespace().collect::<Vec<_>>().join(" ").chars().collect();
    let lower: Vec<char> = line.iter().map(|c| c.to_lowercase().next().unwrap_or(*c)).collect();
    let wanted = words.split_whitespace().filter(|word| !word.starts_with('-'));
    let wanted = wanted.flat_map(|word| word.split(|c: char| !c.is_alphanumeric()));
    let wanted = wanted.filter(|word| !word.is_empty());
    let at = wanted.filter_map(|word| {
        let word: Vec<char> = word.chars().flat_map(char::to_lowercase).collect();
        lower.windows(word.len()).position(|window| window == word)
    });
    let begin = at.min().unwrap_or(0).saturating_sub(SNIPPET_BEFORE_MAX);
    let rest: String = line.into_iter().skip(begin).collect();
    let dots = if begin > 0 { "…" } else { "" };
    format!("{dots}{}", line_of(&rest, SNIPPET_CHARS_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snippet_shows_what_was_found() {
        let long = format!("{} the NEEDLE is\nhere {}", "hay ".repeat(40), "hay ".repeat(40));
        let hay = "hay ".repeat(7);
        let rest = "hay ".repeat(40);
        let expected: String = format!("the NEEDLE is here {rest}").chars().take(73).collect();
        let shown = snippet(&long, "needle -hay");
        assert_eq!(shown, format!("…{}{expected}…", hay.split_at(2).1));
        assert_eq!(snippet("short", "nothing"), "short");
        assert_eq!(snippet("", "x"), "");
        assert_eq!(snippet("Ünder İt", "\"it under\""), "Ünder İt");
    }
}
