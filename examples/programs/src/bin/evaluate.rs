//! Evaluate and improve: one agent writes, another judges, until it is good or the rounds are over.

use std::error::Error;

use schemars::JsonSchema;
use serde::Deserialize;

/// Drafts that are written at most.
const DRAFTS_MAX: usize = 3;

#[derive(Deserialize, JsonSchema)]
struct Judgement {
    /// Whether it can stay as it is.
    good: bool,
    /// What to change; empty when it is good.
    advice: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let model = programs::agent("evaluate")?;
    let judge = model.clone().system("You judge texts for people who can't see colours.");
    let writer = model.session().await?;
    let mut draft =
        writer.say("Tell in one sentence how to read a traffic light.").await?.answer()?;
    for number in 1..=DRAFTS_MAX {
        let Judgement { good, advice } = judge.ask(format!("Judge: {draft}")).await?;
        println!("{number}. {draft}\n   {}", if good { "good" } else { &advice });
        if good {
            return Ok(writer.close().await?);
        }
        draft = writer.say(format!("Write it again. {advice}")).await?.answer()?;
    }
    Err(format!("not good after {DRAFTS_MAX} drafts: {draft}").into())
}
