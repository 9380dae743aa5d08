//! A subagent is a tool whose function runs an agent. It has its own log, tools and limits, and
//! nothing of its conversation but the answer comes back.

use inspan::{Agent, Context, ToolError, tool};

/// How many people live in a city.
#[tool(effects(reads_untrusted), repeat = pure)]
async fn inhabitants(city: String) -> Result<u32, ToolError> {
    match city.as_str() {
        "Lisbon" => Ok(567_131),
        "Porto" => Ok(252_687),
        _ => Err(ToolError::new(format!("nobody counted {city}"))),
    }
}

/// Lends the agent that does the research.
struct Researcher(Agent);

/// Asks a researcher, who can look up how many people live in a city.
#[tool(effects(reads_untrusted), repeat = pure)]
async fn research(context: &Context, question: String) -> Result<String, ToolError> {
    let Researcher(agent) = context.shared()?;
    Ok(agent.act(question).await?.answer()?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), inspan::Error> {
    let model = programs::agent("subagent")?;
    let researcher = model.clone().system("Answer in one line.").tool(inhabitants).rounds_max(4);
    let agent = model.tool(research).shared(Researcher(researcher));
    let done = agent.act("Is Lisbon more than twice as large as Porto?").await?;
    for step in done.tools() {
        println!("{step}");
    }
    println!("{}", done.answer()?);
    Ok(())
}
