//! An agent in one call.

use inspan::{ToolError, tool};

/// The current weather in a city, in °C.
#[tool(effects(reads_untrusted), repeat = pure)]
async fn weather(
    /// The city's name, as people write it.
    city: String,
) -> Result<&'static str, ToolError> {
    match city.as_str() {
        "Lisbon" => Ok("17 °C, sunny"),
        "Porto" => Ok("14 °C, light rain"),
        _ => Err(ToolError::new(format!("no station in {city}"))),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), inspan::Error> {
    let agent = programs::agent("weather")?.tool(weather).rounds_max(8);
    let done = agent.act("Is it warmer in Lisbon or Porto?").await?;
    for step in done.tools() {
        println!("{step}");
    }
    println!("{}", done.answer()?);
    Ok(())
}
