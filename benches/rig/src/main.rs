//! The same agent on rig: a model of Anthropic, one tool, a streamed run of up to 2,000 rounds. It
//! keeps no log.

use futures::StreamExt;
use rig::{
    Agent,
    agent::tool::{Tool, ToolContext},
    prelude::AgentBuilder,
    providers::anthropic::Anthropic,
    tool::ToolExecutionError,
};
use serde_json::{Value, json};

#[derive(serde::Deserialize)]
struct Args {
    text: String,
}

struct Note;

impl Tool for Note {
    const NAME: &'static str = "note";
    type Args = Args;
    type Output = String;
    type Error = ToolExecutionError;

    fn description(&self) -> String {
        "Notes a text.".to_owned()
    }

    fn parameters(&self) -> Value {
        json!({ "type": "object", "properties": { "text": { "type": "string" } },
            "required": ["text"] })
    }

    async fn call(&self, _: &mut ToolContext, args: Args) -> Result<String, ToolExecutionError> {
        Ok(format!("noted: {}", args.text))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let agent: Agent = AgentBuilder::new(Anthropic::from_env()?.completion("bench"))
        .preamble("Note everything with your tool.")
        .max_tokens(8192)
        .tool(Note)
        .build();
    let mut run = agent.prompt("Go on.").max_turns(2_000).stream();
    while let Some(item) = run.next().await {
        item?;
    }
    Ok(())
}
