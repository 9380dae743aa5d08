//! Orchestrate: one call plans the parts, workers write them side by side, one call joins them.

use futures_util::future::try_join_all;
use inspan::Error;
use schemars::JsonSchema;
use serde::Deserialize;

/// Parts of a plan that are worked on.
const PARTS_MAX: usize = 4;

#[derive(Deserialize, JsonSchema)]
struct Plan {
    /// The headings, in order; two to four.
    headings: Vec<String>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let agent = programs::agent("orchestrate")?.system("You write short and plain.");
    let subject = "how to keep a cast-iron pan";
    let Plan { mut headings } =
        agent.ask(format!("Plan a leaflet on {subject}: its headings.")).await?;
    headings.truncate(PARTS_MAX);

    let parts = try_join_all(headings.iter().map(async |heading| {
        let prompt = format!("One sentence for the part \"{heading}\" of a leaflet on {subject}.");
        let sentence = agent.act(prompt).await?.answer()?;
        Ok::<_, Error>(format!("{heading}: {sentence}"))
    }));
    let parts = parts.await?.join("\n");
    println!("{parts}\n");

    let title = agent.act(format!("A title for this leaflet, nothing else:\n{parts}")).await?;
    println!("{}", title.answer()?);
    Ok(())
}
