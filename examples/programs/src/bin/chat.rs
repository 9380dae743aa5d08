//! A chat in the terminal. All that goes to the model and comes from it is shown on standard error.

use std::{
    error::Error,
    io::{Write, stdin, stdout},
    sync::Arc,
};

use futures_util::StreamExt;
use inspan::{
    Agent, Provider,
    core::{
        prompt::Segment,
        provider::{BoxStream, Images, ModelEvent, Request},
    },
    tool,
};

/// Gives back its text.
#[tool(effects(), repeat = pure)]
fn echo(text: String) -> String {
    text
}

/// A model whose traffic is shown.
struct Shown(Arc<dyn Provider>);

impl Provider for Shown {
    fn issuer(&self) -> &str {
        self.0.issuer()
    }

    fn render(&self, segment: Segment<'_>, images: &dyn Images) -> Vec<u8> {
        self.0.render(segment, images)
    }

    fn stream(&self, request: Request) -> BoxStream<ModelEvent> {
        let head = [&request.tools, &request.system];
        let parts = head.into_iter().chain(request.messages.iter());
        for part in parts.filter(|part| !part.is_empty()) {
            eprintln!("-> {}", String::from_utf8_lossy(part).trim_end());
        }
        self.0.stream(request).inspect(|event| eprintln!("<- {event:?}")).boxed()
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let agent = Agent::with_provider(Shown(programs::model("chat")?)).tool(echo);
    let session = programs::recorded("chat", agent).session().await?;
    loop {
        write!(stdout(), "> ").and_then(|()| stdout().flush())?;
        let mut line = String::new();
        if stdin().read_line(&mut line)? == 0 {
            break;
        }
        match session.say(line.trim_end()).await?.answer() {
            Ok(answer) => println!("{answer}"),
            Err(why) => println!("{why}"),
        }
    }
    Ok(session.close().await?)
}
