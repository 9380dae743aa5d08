//! Answers in a form: JSON by the schema of a type.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{agent::Agent, error::Error, schema, session::Session};

impl Agent {
    /// Asks for a value, in a session of its own: see [`Session::ask`].
    ///
    /// # Errors
    /// See [`Session::ask`].
    pub async fn ask<T: JsonSchema + DeserializeOwned>(
        &self,
        prompt: impl Into<String>,
    ) -> Result<T, Error> {
        let session = self.session().await?;
        let answer = session.ask(prompt).await?;
        session.close().await?;
        Ok(answer)
    }
}

impl Session {
    /// Asks for a value. The model is told the JSON Schema of `T`, may use its tools first, and has
    /// to answer with JSON: as the whole text, or in the one fenced block of it. An answer that
    /// does not fit is sent back once with what is wrong. Works with every model.
    ///
    /// # Errors
    /// [`Error::Answer`] when the second answer does not fit either, [`Error::Stopped`] when the
    /// turn ended without an answer, and what [`Session::say`] has.
    pub async fn ask<T: JsonSchema + DeserializeOwned>(
        &self,
        prompt: impl Into<String>,
    ) -> Result<T, Error> {
        let prompt = format!(
            "{}\n\nAnswer with JSON only, without any other text. It must fit this JSON Schema:\n{}",
            prompt.into(),
            schema::of::<T>()
        );
        let text = self.say(prompt).await?.answer()?;
        let why = match read(&text) {
            Ok(answer) => return Ok(answer),
            Err(why) => why,
        };
        let again = format!(
            "Your answer does not fit the schema: {why}\nAnswer again, with the whole JSON only."
        );
        let text = self.say(again).await?.answer()?;
        read(&text).map_err(|why| Error::Answer { text, why })
    }
}

/// Reads the value out of an answer: the whole text, or what its fences enclose.
fn read<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let whole = serde_json::from_str(text.trim());
    let value: Value = match (whole, fenced(text)) {
        (Ok(value), _) => value,
        (Err(_), Some(json)) => serde_json::from_str(json.trim()).map_err(not_json)?,
        (Err(why), None) => return Err(not_json(why)),
    };
    schema::read(value).map_err(|why| why.strip_prefix(": ").unwrap_or(&why).to_owned())
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn not_json(why: serde_json::Error) -> String {
    format!("it is not JSON: {why}")
}

/// What stands between the first line that begins a block and the last fence: there may be fences
/// in the values.
fn fenced(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("```")?;
    let (inside, _) = rest.rsplit_once("```")?;
    // The first line may name the language.
    Some(inside.split_once('\n')?.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fences_in_a_value_are_part_of_it() {
        let value = "[\"```sh\\nls\\n```\", \"```\"]";
        for text in [value.to_owned(), format!("Here:\n```json\n{value}\n```\nBye.")] {
            let read = read::<Vec<String>>(&text);
            assert_eq!(read, Ok(vec!["```sh\nls\n```".to_owned(), "```".to_owned()]), "{text}");
        }
    }

    #[test]
    fn json_is_the_whole_text_or_the_one_block() {
        let table = [
            ("[1, 2]", Ok(vec![1, 2])),
            ("\n [1]\n", Ok(vec![1])),
            ("```json\n[1]\n```", Ok(vec![1])),
            ("Here it is:\n```\n[1]\n```\nBye.", Ok(vec![1])),
            (
                "```\n[1]\n```\n```\n[2]\n```",
                Err("it is not JSON: trailing characters at line 2 column 1"),
            ),
            ("One", Err("it is not JSON: expected value at line 1 column 1")),
            ("[1, -1]", Err("/1: invalid value: integer `-1`, expected u32")),
            ("{}", Err("invalid type: map, expected a sequence")),
        ];
        for (text, expected) in table {
            assert_eq!(read::<Vec<u32>>(text), expected.map_err(str::to_owned), "{text}");
        }
    }
}
