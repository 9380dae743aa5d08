//! A function as a tool for other programs: a server of the Model Context Protocol, with a gate.

use inspan::{GateCall, Verdict, mcp::without_model, tool};

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
async fn main() -> Result<(), inspan::mcp::ServeError> {
    let served = without_model().name("weather").tool(weather).gate(only_lisbon).serve_tools()?;
    served.stdio(std::future::pending()).await
}
