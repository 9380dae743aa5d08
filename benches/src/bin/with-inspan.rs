//! An agent on the library, its log in memory: a model of Anthropic, one tool, up to 2,000 rounds.
//!
//! `with-inspan sessions N` has N sessions at once. Each calls a tool that ends when all are in it.
//! Prints the process's resident bytes: before them, while all are in the tool, after all turns.

use std::{
    error::Error,
    fs,
    io::{Write, stdout},
    sync::Arc,
};

use inspan::{Agent, Context, Limits, ToolError, tool};
use tokio::{sync::Barrier, task::JoinSet};

/// Notes a text.
#[tool(effects(), repeat = pure)]
async fn note(text: String) -> String {
    format!("noted: {text}")
}

/// Where all sessions meet, before they are looked at and after.
struct Meeting {
    before: Barrier,
    after: Barrier,
}

/// Waits for the others.
#[tool(effects(), repeat = pure)]
async fn meet(context: &Context, text: String) -> Result<String, ToolError> {
    let meeting: &Arc<Meeting> = context.shared()?;
    meeting.before.wait().await;
    meeting.after.wait().await;
    Ok(format!("met: {text}"))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let limits = Limits { rounds_max: 2_000, calls_max: 2_000, tokens_max: None, ..Limits::call() };
    let agent = Agent::new("anthropic://bench")?.limits(limits);
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        None => {
            agent.system("Note everything with your tool.").tool(note).act("Go on.").await?;
            Ok(())
        }
        Some("sessions") => sessions(agent, arguments.next().unwrap_or_default().parse()?).await,
        Some(other) => Err(format!("`{other}` is not `sessions N`").into()),
    }
}

async fn sessions(agent: Agent, count: usize) -> Result<(), Box<dyn Error>> {
    let all = count + 1;
    let meeting = Arc::new(Meeting { before: Barrier::new(all), after: Barrier::new(all) });
    let agent = agent.system("Meet.").tool(meet).shared(meeting.clone());
    // What is made once is made now.
    agent.act("Hello.").await?;
    let before = resident()?;

    let mut turns = JoinSet::new();
    for _ in 0..count {
        let agent = agent.clone();
        turns.spawn(async move {
            let session = agent.session().await?;
            session.say("Go on.").await?;
            Ok::<_, inspan::Error>(session)
        });
    }
    meeting.before.wait().await;
    let within = resident()?;
    meeting.after.wait().await;
    let sessions: Vec<_> = turns.join_all().await.into_iter().collect::<Result<_, _>>()?;
    let after = resident()?;
    drop(sessions);
    Ok(writeln!(stdout(), "{before} {within} {after}")?)
}

fn resident() -> Result<u64, Box<dyn Error>> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib * 1024)
}
