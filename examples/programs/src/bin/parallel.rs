//! Parallel: the same text goes to several readers at once, and plain code counts.

use futures_util::future::try_join_all;
use inspan::Error;
use schemars::JsonSchema;
use serde::Deserialize;

const LETTER: &str = "Pay the open 40 € by Friday, or we will tell your employer.";

#[derive(Deserialize, JsonSchema)]
struct Vote {
    /// Whether the letter may go out.
    send: bool,
    /// Why, in one sentence.
    why: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let agent = programs::agent("parallel")?;
    let readers = ["a lawyer", "the customer", "the one who waits for the money"];
    let votes = readers.map(async |reader| {
        let agent = agent.clone().system(format!("You read letters as {reader}."));
        agent.ask::<Vote>(format!("May this letter go out? {LETTER}")).await
    });
    let votes = try_join_all(votes).await?;
    for (reader, Vote { send, why }) in readers.iter().zip(&votes) {
        println!("{reader}: {}. {why}", if *send { "yes" } else { "no" });
    }
    let yes = votes.iter().filter(|vote| vote.send).count();
    println!("{yes} of {}: {}", votes.len(), if yes == votes.len() { "sent" } else { "kept" });
    Ok(())
}
