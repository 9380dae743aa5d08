//! A gate judges each call before it runs; what it refuses, the model has to live with.

use inspan::{GateCall, Verdict, tool};

/// The current weather in a city, in °C.
#[tool(effects(reads_untrusted), repeat = pure)]
async fn weather(
    /// The city's name, as people write it.
    city: String,
) -> String {
    format!("17 °C and sunny in {city}")
}

fn only_lisbon(call: &GateCall) -> Verdict {
    match call.arguments["city"].as_str() {
        Some("Lisbon") => Verdict::Allow,
        _ => Verdict::Deny("this account is for Lisbon only".to_owned()),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), inspan::Error> {
    let agent = programs::agent("weather_gate")?.tool(weather).gate(only_lisbon);
    let done = agent.act("Is it warmer in Lisbon or Porto?").await?;
    for step in done.tools() {
        println!("{step}");
    }
    println!("{}", done.answer()?);
    Ok(())
}
