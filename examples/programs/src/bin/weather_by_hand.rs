//! The same as `weather`, with the loop written by hand: no log, no gates, no limits but its own.

use std::error::Error;

use inspan::{Conversation, ToolCall, ToolError, Tools, chat, tool};

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
async fn main() -> Result<(), Box<dyn Error>> {
    let model = programs::model("weather")?;
    let tools = Tools::new(weather);
    let mut conversation = Conversation::new("Is it warmer in Lisbon or Porto?").tools(&tools);
    for _round in 0..8 {
        let reply = chat(&*model, &conversation).await?;
        let calls: Vec<ToolCall> = reply.calls().cloned().collect();
        let text = reply.text();
        conversation.push_reply(reply);
        if calls.is_empty() {
            println!("{text}");
            return Ok(());
        }
        for call in &calls {
            let result = tools.run(call).await;
            println!("{}({}): {}", call.name, call.arguments, result.result.to_text());
            conversation.push_results([result]);
        }
    }
    Err("no answer in 8 rounds".into())
}
