//! ```text
//! cargo run --release -p shop -- "Please refund order 3."
//! ```
//!
//! With `ANTHROPIC_API_KEY` a model answers; without it, one of the recorded sessions. The orders
//! are made anew at each start, or kept in a file: `shop "Please refund order 3." orders.db`.

use std::{env, error::Error, process::ExitCode};

use inspan::{Agent, Memory, Stop, testing};
use shop::{Orders, support};

const RECORDINGS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/recordings");

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let Some(prompt) = arguments.next() else {
        eprintln!("usage: shop PROMPT [ORDERS.db]");
        return Ok(ExitCode::from(2));
    };
    let orders = Orders::open(arguments.next().as_deref().unwrap_or(":memory:")).await?;

    let done = support(agent()?, orders).act(prompt).await?;
    for step in done.tools() {
        eprintln!("  {step}");
    }
    if !done.text.is_empty() {
        println!("{}", done.text);
    }
    if done.stop == Stop::End {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("the turn ended with `{}`: {}", done.stop.as_str(), done.detail);
    Ok(ExitCode::FAILURE)
}

/// A model with a key for it, else the recordings. `SHOP_RECORD=FOLDER` makes new ones.
fn agent() -> Result<Agent, inspan::Error> {
    if env::var_os("ANTHROPIC_API_KEY").is_none() {
        eprintln!("No ANTHROPIC_API_KEY is set: a recorded session answers.");
        return Ok(Agent::with_provider(testing::replay(RECORDINGS)?));
    }
    let agent = Agent::new("anthropic://claude-sonnet-5-5")?;
    Ok(match env::var_os("SHOP_RECORD") {
        Some(folder) => agent.store(testing::Recorder::new(folder, Memory::new())),
        None => agent,
    })
}
