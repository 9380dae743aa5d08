//! The model of the programs in `src/bin`, each of which fits on one screen.
//!
//! With `ANTHROPIC_API_KEY` they ask Anthropic's; without it they play their recordings. With
//! `PROGRAMS_RECORD=1` as well, what the model answers becomes their recordings.

use std::{env, path::PathBuf, sync::Arc};

use inspan::{
    Agent, Error, Memory, Provider,
    providers::{built_in, connect, environment},
    testing::{Recorder, replay},
};

const MODEL: &str = "anthropic://claude-sonnet-5-5";

/// The model of a program.
pub fn model(program: &str) -> Result<Arc<dyn Provider>, Error> {
    if has_key() {
        return Ok(connect(MODEL, &built_in(&environment()), None)?);
    }
    eprintln!("No ANTHROPIC_API_KEY is set: the answers are recorded.");
    Ok(Arc::new(replay(recordings(program))?))
}

/// An agent with the model of a program.
pub fn agent(program: &str) -> Result<Agent, Error> {
    Ok(recorded(program, Agent::with_provider(model(program)?)))
}

/// The agent; its sessions become recordings where that is asked for.
pub fn recorded(program: &str, agent: Agent) -> Agent {
    if has_key() && env::var_os("PROGRAMS_RECORD").is_some() {
        agent.store(Recorder::new(recordings(program), Memory::new()))
    } else {
        agent
    }
}

fn has_key() -> bool {
    env::var_os("ANTHROPIC_API_KEY").is_some()
}

fn recordings(program: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "recordings", program].iter().collect()
}
