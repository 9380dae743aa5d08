//! What people are asked about in a session that goes on. An agent may be changed to ask about less:
//! that needs a person's word, without which the questions stay as they were.

use std::{collections::BTreeMap, sync::Arc};

use inspan_core::{State, event::SessionConfigured, gate::Asking, tool::Tool};

use crate::{
    agent::Agent,
    exit::Failure,
    input::is_yes,
    out::{NOTE, Out, styled},
};

/// Why a tool is asked about of which the log does not say so itself.
const MAY_HAVE_ASKED: &str = "it may have been asked about before the agent changed";

/// Why a person is asked before a call, by the name of the tool.
pub(crate) type Asks = BTreeMap<String, String>;

/// What is asked about from here on: as the agent says, and without a person's word what the session
/// asked about before, too. The word is the flag (`is_accepted`), or a yes at the terminal.
///
/// # Errors
/// The answer can't be read.
pub(crate) fn asks(
    agent: &Agent,
    before: &State,
    asking: Asking,
    is_accepted: bool,
    out: &Out,
    notices: &mut Vec<String>,
) -> Result<Asks, Failure> {
    let Some(recorded) = before.config.as_deref() else { return Ok(agent.asks.clone()) };
    let asked = asked_before(recorded, agent);
    let loosened = loosened(&asked, &agent.asks, &agent.tools);
    if loosened.is_empty() {
        return Ok(stricter(asked, &agent.asks));
    }
    let names = names(loosened.keys());
    let is_accepted = is_accepted
        || asking == Asking::Now && {
            let why: Vec<&str> = loosened.values().map(String::as_str).collect();
            let mark = styled(NOTE, "?");
            let question = out.shown(&format!(
                "{names} may not run without a question so far ({}), and the agent asks no more. \
                 May it from now on?",
                why.join("; ")
            ));
            is_yes(&format!("{mark} {question}"), out)?
        };
    if is_accepted {
        notices.push(format!("{names} runs without a question from now on"));
        return Ok(agent.asks.clone());
    }
    let id = before.started.as_ref().map_or("ID", |started| started.session.as_str());
    notices.push(format!(
        "the agent asks about {names} no more, which nobody has accepted: it is asked about as \
         before; to accept it: inspan resume {id} --accept-changes"
    ));
    Ok(stricter(asked, &agent.asks))
}

/// What the log says that it was driven with last. Logs from before it was written down only say that
/// there were questions: where the agent has changed since, any tool may have been meant.
fn asked_before(recorded: &SessionConfigured, agent: &Agent) -> Asks {
    let is_same = recorded.agent.as_ref().is_some_and(|was| was.hash == agent.reference.hash);
    let is_untold = recorded.asks.is_empty() && !recorded.gates.is_empty();
    if !is_untold || is_same {
        return recorded.asks.clone();
    }
    recorded.tools.iter().map(|tool| (tool.name.clone(), MAY_HAVE_ASKED.to_owned())).collect()
}

/// The tools that are here, were asked about, and are no more.
fn loosened(asked: &Asks, now: &Asks, tools: &[Arc<dyn Tool>]) -> Asks {
    let is_here = |name: &str| tools.iter().any(|tool| tool.spec().name == name);
    let loosened = asked.iter().filter(|(name, _)| is_here(name) && !now.contains_key(*name));
    loosened.map(|(name, why)| (name.clone(), why.clone())).collect()
}

/// All that was asked about, also where its tool is gone: it may come back.
fn stricter(asked: Asks, now: &Asks) -> Asks {
    let mut asks = asked;
    asks.extend(now.clone());
    asks
}

fn names<'a>(names: impl Iterator<Item = &'a String>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use inspan_core::{
        budget::Limits,
        event::{AgentRef, ModelRef},
        hash::Hash,
        mask::Mask,
        tool::ToolSpec,
    };
    use inspan_engine::tools::builtin;

    use super::*;

    /// A session that was driven with these questions, by an agent that was `hash` then, and whose
    /// log says that there were `gates`.
    fn before(asks: &[(&str, &str)], gates: &[&str], hash: Hash) -> State {
        let config = SessionConfigured {
            agent: Some(AgentRef { name: "a".to_owned(), path: "/a".to_owned(), hash }),
            model: ModelRef {
                url: "scripted://model".to_owned(),
                window_tokens_max: None,
                output_tokens_max: None,
                price: None,
                cuts_silently: false,
            },
            fallbacks: Vec::new(),
            system: String::new(),
            tools: vec![Arc::new(ToolSpec::new("echo", "Gives back."))],
            found: Default::default(),
            gates: gates.iter().map(|gate| (*gate).to_owned()).collect(),
            asks: table(asks),
            limits: Limits::session(),
            sandbox: "none".to_owned(),
            workdir: None,
        };
        State { config: Some(Arc::new(config)), ..State::default() }
    }

    fn table(asks: &[(&str, &str)]) -> Asks {
        asks.iter().map(|(name, why)| ((*name).to_owned(), (*why).to_owned())).collect()
    }

    /// What is asked about from here on, and how many notices say so.
    fn kept(before: &State, now: &[(&str, &str)], is_accepted: bool) -> (Asks, usize) {
        let tools = builtin("echo").into_iter().collect();
        let agent = Agent { asks: table(now), tools, ..Agent::built_in(false) };
        let (out, mut notices) = (Out::new(Mask::default()), Vec::new());
        let asks = asks(&agent, before, Asking::Later, is_accepted, &out, &mut notices).unwrap();
        (asks, notices.len())
    }

    #[test]
    fn questions_stay_until_somebody_accepts_that_they_go() {
        let (same, other) = (Agent::built_in(false).reference.hash, Hash::default());
        let (echo, gone) = (("echo", "it echoes"), ("gone", "it is gone"));
        let unsaid = ("echo", MAY_HAVE_ASKED);
        let both = before(&[echo, gone], &["ask"], other);
        let untold = |hash| before(&[], &["ask"], hash);
        let table_of = [
            // More questions, or other words, need nobody.
            (kept(&before(&[], &[], other), &[echo], false), (table(&[echo]), 0)),
            (kept(&both, &[("echo", "why not")], false), (table(&[("echo", "why not"), gone]), 0)),
            // A question that goes stays; that of a tool that is gone waits for it without a word.
            (kept(&both, &[], false), (table(&[echo, gone]), 1)),
            (kept(&before(&[gone], &["ask"], other), &[], false), (table(&[gone]), 0)),
            (kept(&both, &[], true), (table(&[]), 1)),
            // A log from before they were written down.
            (kept(&untold(same), &[], false), (table(&[]), 0)),
            (kept(&untold(other), &[], false), (table(&[unsaid]), 1)),
            (kept(&untold(other), &[echo], false), (table(&[echo]), 0)),
        ];
        for (number, (found, expected)) in table_of.into_iter().enumerate() {
            assert_eq!(found, expected, "{number}");
        }
    }
}
