//! Route: a first call says what kind of question it is; each kind has its own agent.

use inspan::{Error, ToolError, tool};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Kind {
    /// Money: invoices, prices, refunds.
    Billing,
    /// Something does not work.
    Fault,
    /// All else.
    Other,
}

#[derive(Deserialize, JsonSchema)]
struct Route {
    kind: Kind,
}

/// The last invoice of the customer who asks.
#[tool(effects(reads_private), repeat = pure)]
async fn last_invoice() -> Result<&'static str, ToolError> {
    Ok("November: 12.00 € for the plan, 3.00 € for a second line")
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let model = programs::agent("route")?;
    for question in ["Why was my last invoice higher?", "My phone has no signal since noon."] {
        let Route { kind } = model.ask(format!("What kind is this question? {question}")).await?;
        let agent = match kind {
            Kind::Billing => model.clone().system("You explain invoices.").tool(last_invoice),
            Kind::Fault => model.clone().system("You find faults. Ask for one check at a time."),
            Kind::Other => model.clone().system("You answer briefly."),
        };
        println!("{question}\n  [{kind:?}] {}", agent.act(question).await?.answer()?);
    }
    Ok(())
}
