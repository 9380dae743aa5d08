//! Seeded worlds with a crash in each, over every wire's projections.
//!
//! `INSPAN_SIM_SEEDS` and `INSPAN_SIM_SEEDS_WHOLE` set how many seeds have one crash, and how many
//! have one after every entry; without them it is the numbers of a release build, or a few in a
//! debug build.

use std::{env, sync::Arc, thread};

use inspan_providers::{Lookup, ReasoningField, Server, built_in, connect};
use inspan_testkit::{
    sim::{Crash, Failure, Reached, Shown, run},
    wire::Api,
};

#[test]
fn every_world_ends_well() {
    let (seeds, seeds_whole) = if cfg!(debug_assertions) { (500, 5) } else { (20_000, 200) };
    let seeds = number("INSPAN_SIM_SEEDS", seeds);
    let seeds_whole = number("INSPAN_SIM_SEEDS_WHOLE", seeds_whole);
    let nothing: Lookup = Arc::new(|_| None);
    let servers: Vec<Server> = built_in(&nothing).into_iter().map(echoing).collect();
    let connected = |model| connect(model, &servers, None).map_err(|e| e.to_string());
    let anthropic = connected("anthropic://claude").unwrap();
    let openai = connected("openai://gpt").unwrap();
    let responses = connected("openai-responses://gpt").unwrap();
    let shown = [
        Shown { provider: &*anthropic, api: Api::Anthropic },
        Shown { provider: &*openai, api: Api::OpenAi },
        Shown { provider: &*responses, api: Api::Responses },
    ];
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let mut reached = Reached::default();
    thread::scope(|scope| {
        let share = |first: usize| {
            let mut reached = Reached::default();
            for seed in (0..seeds).skip(first).step_by(threads) {
                reached.extend(run(seed, Crash::After(1 + seed as usize % 61), &shown)?.reached);
            }
            for seed in (0..seeds_whole).skip(first).step_by(threads) {
                let whole = run(seed, Crash::Never, &shown)?;
                for entries in 1..=whole.entries {
                    reached.extend(run(seed, Crash::After(entries), &shown)?.reached);
                }
            }
            Ok(reached)
        };
        let shares: Vec<_> = (0..threads).map(|first| scope.spawn(move || share(first))).collect();
        for one in shares {
            let share: Result<Reached, Failure> = one.join().unwrap();
            reached.extend(share.unwrap_or_else(|failure| panic!("{failure}")));
        }
    });
    assert_eq!(reached.missing(), Vec::<String>::new(), "no world has reached these");
}

/// Reasoning is sent back wherever it can be.
fn echoing(mut server: Server) -> Server {
    server.quirks.reasoning_echo = Some(ReasoningField::ReasoningContent);
    server
}

fn number(variable: &str, default: u64) -> u64 {
    env::var(variable).map_or(default, |text| text.parse().expect(variable))
}
