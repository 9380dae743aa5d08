//! What a search looks through and for: words in lower case, the same on every store.

use std::collections::HashSet;

/// Bytes of an entry's text that a search looks through; the rest is not found.
pub(crate) const SEARCHED_BYTES_MAX: usize = 128 << 10;

/// Bytes of a word; a longer one is not found.
const WORD_BYTES_MAX: usize = 256;

/// Words of a query; further ones are not looked for.
const QUERY_WORDS_MAX: usize = 64;

/// The words of a text in their order: runs of letters and digits.
pub(crate) fn words(text: &str) -> impl Iterator<Item = String> {
    let text = text.get(..text.floor_char_boundary(SEARCHED_BYTES_MAX)).unwrap_or_default();
    let words = text.split(|c: char| !c.is_alphanumeric());
    let words = words.filter(|word| (1..=WORD_BYTES_MAX).contains(&word.len()));
    words
        .map(|word| word.chars().flat_map(char::to_lowercase).filter(|c| c.is_alphanumeric()))
        .map(Iterator::collect)
        .filter(|word: &String| !word.is_empty())
}

/// What is looked for: each phrase a sequence of words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Query {
    wanted: Vec<Vec<String>>,
    unwanted: Vec<Vec<String>>,
}

impl Query {
    /// Reads what a person wrote; `None` when there is nothing to look for. There are no errors: a
    /// quote that is not closed ends with the text, and signs between words stand for spaces.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut query = Self::default();
        let mut rest = text.trim_start();
        let mut left = QUERY_WORDS_MAX;
        while !rest.is_empty() {
            let (is_unwanted, after) = match rest.strip_prefix('-') {
                Some(after) => (true, after),
                None => (false, rest),
            };
            let (phrase, after) = match after.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
                None => after.split_once(char::is_whitespace).unwrap_or((after, "")),
            };
            let phrase: Vec<String> = words(phrase).take(left).collect();
            left -= phrase.len();
            if !phrase.is_empty() {
                let phrases = if is_unwanted { &mut query.unwanted } else { &mut query.wanted };
                phrases.push(phrase);
            }
            rest = after.trim_start();
        }
        (!query.wanted.is_empty()).then_some(query)
    }

    /// Whether a text of these words is found.
    pub(crate) fn finds(&self, words: &[String]) -> bool {
        let there: HashSet<&String> = words.iter().collect();
        let has = |phrase: &Vec<String>| match phrase.as_slice() {
            [word] => there.contains(word),
            phrase => words.windows(phrase.len()).any(|window| window == phrase),
        };
        self.wanted.iter().all(has) && !self.unwanted.iter().any(has)
    }
}

#[cfg(feature = "sqlite")]
impl Query {
    /// In the language of SQLite's full-text search.
    pub(crate) fn to_fts5(&self) -> String {
        let all = |phrases: &[Vec<String>], between: &str| {
            let quoted = phrases.iter().map(|phrase| format!("\"{}\"", phrase.join(" ")));
            quoted.collect::<Vec<_>>().join(between)
        };
        let wanted = all(&self.wanted, " AND ");
        match self.unwanted.as_slice() {
            [] => wanted,
            unwanted => format!("({wanted}) NOT ({})", all(unwanted, " OR ")),
        }
    }
}

#[cfg(feature = "postgres")]
impl Query {
    /// As Postgres writes a `tsquery`.
    pub(crate) fn to_tsquery(&self) -> String {
        let one = |phrase: &Vec<String>| {
            let quoted: Vec<String> = phrase.iter().map(|word| format!("'{word}'")).collect();
            format!("({})", quoted.join(" <-> "))
        };
        let wanted = self.wanted.iter().map(one);
        let unwanted = self.unwanted.iter().map(|phrase| format!("!{}", one(phrase)));
        wanted.chain(unwanted).collect::<Vec<_>>().join(" & ")
    }
}

/// The words of a text as Postgres writes a `tsvector`, each with the places where it stands.
#[cfg(feature = "postgres")]
pub(crate) fn to_tsvector(text: &str) -> String {
    use std::fmt::Write;
    let mut vector = String::with_capacity(text.len() * 2);
    for (word, place) in words(text).zip(1..) {
        // A `String` takes whatever is written to it.
        let _ = write!(vector, "'{word}':{} ", PLACE_MAX.min(place));
    }
    vector
}

/// The last place in a text that Postgres tells from others.
#[cfg(feature = "postgres")]
const PLACE_MAX: usize = 16_383;
