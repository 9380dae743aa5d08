//! An order is looked up: with success, in vain, not at all, and with one round as the limit.

use inspan::{Stop, ToolError, tool};

/// The state of an order.
#[tool(effects(reads_private), repeat = pure)]
async fn order_status(
    /// The order's number.
    order: u32,
) -> Result<&'static str, ToolError> {
    match order {
        7 => Ok("shipped on Monday"),
        8 => Ok("waiting for the payment"),
        _ => Err(ToolError::new(format!("there is no order {order}"))),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), inspan::Error> {
    let agent = programs::agent("orders")?.system("Be brief.").tool(order_status);
    let cases = [
        ("Where is order 7?", 8),
        ("Where is order 70?", 8),
        ("Until when are you there today?", 8),
        ("Where are the orders 7 and 8?", 1),
    ];
    for (prompt, rounds_max) in cases {
        let done = agent.clone().rounds_max(rounds_max).act(prompt).await?;
        println!("> {prompt}");
        for step in done.tools() {
            println!("  {step}");
        }
        match done.stop {
            Stop::End => println!("  {}", done.text),
            // At a limit the model is asked for what it has.
            Stop::Rounds => println!("  {} [rounds]", done.text),
            _ => println!("  {}", done.answer()?),
        }
    }
    Ok(())
}
