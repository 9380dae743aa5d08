//! A tool that fails is no end: the model reads why, and goes on.

use std::sync::atomic::{AtomicBool, Ordering};

use inspan::{Context, ToolError, tool};

/// Whether the weather station was asked before; it needs a moment to wake up.
struct Awake(AtomicBool);

/// The current weather in a city, in °C.
#[tool(effects(reads_untrusted), repeat = pure)]
async fn weather(context: &Context, city: String) -> Result<String, ToolError> {
    let Awake(awake) = context.shared()?;
    if !awake.swap(true, Ordering::Relaxed) {
        return Err(ToolError::new("the station did not answer; it may do so the next time"));
    }
    Ok(format!("17 °C and sunny in {city}"))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), inspan::Error> {
    let agent = programs::agent("weather_failing")?.tool(weather).shared(Awake(false.into()));
    let done = agent.act("How warm is it in Lisbon?").await?;
    for step in done.tools() {
        println!("{step}");
    }
    println!("{}", done.answer()?);
    Ok(())
}
