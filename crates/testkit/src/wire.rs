//! What three model APIs accept as messages, stricter than they are: unknown fields and odd orders
//! are faults here, because a server that forgives them today need not do so tomorrow.

mod anthropic;
mod openai;
mod responses;

use std::collections::HashSet;

/// A model API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Chat Completions.
    OpenAi,
    /// OpenAI Responses.
    Responses,
}

/// Checks the rendered messages of one request as they come. Sealed segments are taken with
/// [`Wire::take`]; the open one at the end is looked at with [`Wire::check`] and forgotten.
#[derive(Clone, Debug)]
pub struct Wire {
    api: Api,
    segments: usize,
    ids: HashSet<String>,
    unanswered: Vec<String>,
}

/// What a segment asks for: the identifiers of its calls, in order.
type Asked = Vec<String>;

impl Wire {
    /// Nothing taken yet.
    pub fn new(api: Api) -> Self {
        Self { api, segments: 0, ids: HashSet::new(), unanswered: Vec::new() }
    }

    /// Checks the next segment, whose bytes will never change.
    ///
    /// # Errors
    /// What is wrong, with the segment's bytes.
    pub fn take(&mut self, segment: &[u8]) -> Result<(), String> {
        self.unanswered = self.read(segment)?;
        self.segments += 1;
        for id in &self.unanswered {
            if !self.ids.insert(id.clone()) {
                return Err(format!("the identifier {id} comes twice"));
            }
        }
        Ok(())
    }

    /// Checks a segment at the next place, and forgets it.
    ///
    /// # Errors
    /// What is wrong, with the segment's bytes.
    pub fn check(&self, segment: &[u8]) -> Result<(), String> {
        match self.read(segment)?.as_slice() {
            [] => Ok(()),
            [id, ..] => Err(format!("the call {id} is not answered")),
        }
    }

    /// Checks that the segments taken are a whole request.
    ///
    /// # Errors
    /// What is missing.
    pub fn finish(&self) -> Result<(), String> {
        match (self.segments, self.unanswered.first()) {
            (0, _) => Err("there is no message".to_owned()),
            (_, Some(id)) => Err(format!("the call {id} is not answered")),
            (_, None) => Ok(()),
        }
    }

    fn read(&self, segment: &[u8]) -> Result<Asked, String> {
        let read = match self.api {
            Api::Anthropic => anthropic::read(segment, &self.unanswered, self.segments == 0),
            Api::OpenAi => openai::read(segment, &self.unanswered, self.segments == 0),
            Api::Responses => responses::read(segment, &self.unanswered, self.segments == 0),
        };
        read.map_err(|why| {
            let (number, bytes) = (self.segments, String::from_utf8_lossy(segment));
            format!("{:?} segment {number}: {why}\n{bytes}", self.api)
        })
    }
}

fn check_text(text: &str) -> Result<(), String> {
    if text.trim().is_empty() { Err("a blank text".to_owned()) } else { Ok(()) }
}

fn check_name(what: &str, name: &str) -> Result<(), String> {
    let fits = (1..=64).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if fits { Ok(()) } else { Err(format!("the {what} {name:?} is not [A-Za-z0-9_-]{{1,64}}")) }
}

fn check_answers(answers: &[&str], unanswered: &[String]) -> Result<(), String> {
    if answers.iter().copied().eq(unanswered) {
        Ok(())
    } else {
        Err(format!("answers {answers:?}, asked were {unanswered:?}"))
    }
}
