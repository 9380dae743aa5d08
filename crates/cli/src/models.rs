//! The model that answers, and those that answer in its place.

use std::{collections::BTreeMap, fs, path::Path, sync::Arc};

use inspan_core::{event::ModelRef, mask::Mask, provider::Provider};
use inspan_engine::Fallback;
use inspan_evals::{Drift, Recording, Replay};
use inspan_mcp::serve::{CALLER_URL, caller, caller_ref};
use inspan_providers::{Raw, RawPiece, Server, connect, known};

use crate::{
    agent::Agent,
    args::DriveArgs,
    config::{Config, ModelFacts},
    exit::Failure,
    out::{DIM, NOTE, Out, styled},
};

/// What is said of models, by their URL.
pub(crate) type Facts = BTreeMap<String, ModelFacts>;

/// What is said of models: what the agent says counts before `config.yaml`, each fact by itself.
pub(crate) fn facts(config: &Config, agent: &Agent) -> Facts {
    let mut facts = config.models.clone();
    for (url, own) in &agent.models {
        let others = facts.remove(url).unwrap_or_default();
        facts.insert(url.clone(), own.clone().or(others));
    }
    facts
}

/// The model of this URL, asked as the person configured it; or the recording in its place.
///
/// # Errors
/// It can't be asked: what the person must set right first.
pub(crate) fn provider(
    url: &str,
    config: &Config,
    facts: &Facts,
    args: &DriveArgs,
) -> Result<Arc<dyn Provider>, Failure> {
    if let Some(path) = &args.replay {
        return replay(path, args.strict, config.mask.clone());
    }
    if url == CALLER_URL {
        return Ok(caller());
    }
    let (server, _) = Server::find(url, &config.servers)?;
    server.check_key()?;
    let server = match facts.get(url) {
        Some(facts) => {
            server.with(&facts.settings).map_err(|why| Failure::Usage(format!("{url}: {why}")))?
        }
        None => server.clone(),
    };
    let raw = args.raw.then(|| show_raw(config.mask.clone()));
    Ok(connect(url, &[server], raw)?)
}

/// What the log says of a model. What the person configured counts before what is known of it.
pub(crate) fn reference(url: &str, facts: &Facts, provider: &dyn Provider) -> ModelRef {
    if url == CALLER_URL {
        return caller_ref();
    }
    let configured = facts.get(url).cloned().unwrap_or_default();
    let known = known(url);
    ModelRef {
        url: url.to_owned(),
        window_tokens_max: configured
            .window_tokens_max
            .or(known.map(|model| model.window_tokens_max)),
        output_tokens_max: configured
            .output_tokens_max
            .or(known.map(|model| model.output_tokens_max)),
        price: configured.price.or(known.map(|model| model.price)),
        cuts_silently: provider.cuts_silently(),
    }
}

/// The models that answer in this one's place. One without its key is left out and told: the model
/// itself can be asked all the same. A recording needs none.
///
/// # Errors
/// One can't be asked for another reason.
pub(crate) fn fallbacks(
    url: &str,
    config: &Config,
    facts: &Facts,
    args: &DriveArgs,
    notices: &mut Vec<String>,
) -> Result<Vec<Fallback>, Failure> {
    let configured = facts.get(url).map(|facts| facts.fallback.as_slice());
    let mut fallbacks = Vec::new();
    for url in configured.unwrap_or_default().iter().filter(|_| args.replay.is_none()) {
        let (server, _) = Server::find(url, &config.servers)?;
        match server.check_key() {
            Ok(()) => {
                let provider = provider(url, config, facts, args)?;
                let model = reference(url, facts, &*provider);
                fallbacks.push(Fallback { model, provider });
            }
            Err(why) => notices.push(format!("the fallback {url} is left out: {why}")),
        }
    }
    Ok(fallbacks)
}

fn replay(path: &Path, strict: bool, mask: Mask) -> Result<Arc<dyn Provider>, Failure> {
    let shown = path.display().to_string();
    let text = fs::read_to_string(path)
        .map_err(|why| Failure::Usage(format!("the recording {shown} can't be read: {why}")))?;
    let recording =
        Recording::read(&text).map_err(|why| Failure::Recording { path: shown, why })?;
    let out = Out::new(mask);
    let on_drift = move |drift: Drift| {
        let Drift { prompt, round, diff } = drift;
        let prompt = out.line(&prompt, 60);
        let note = format!("reply {round} to `{prompt}` was recorded for another request:");
        let diff = out.shown(&diff);
        out.progress(&format!(
            "  {} {note}\n{}\n",
            styled(NOTE, "!"),
            styled(DIM, diff.trim_end())
        ));
    };
    Ok(Arc::new(Replay::new(recording, strict, Arc::new(on_drift))))
}

/// Everything was masked before it comes here.
fn show_raw(mask: Mask) -> Raw {
    let out = Out::new(mask);
    Arc::new(move |piece| {
        let text = match piece {
            RawPiece::Request { method, url, headers, body } => {
                format!("> {method} {url}\n{}>\n> {body}\n", header_lines('>', headers))
            }
            RawPiece::Answer { status, headers } => {
                format!("< {status}\n{}<\n", header_lines('<', headers))
            }
            RawPiece::Body(lines) => lines.lines().map(|line| format!("< {line}\n")).collect(),
        };
        out.progress(&styled(DIM, &out.shown(&text)));
    })
}

fn header_lines(sign: char, headers: &[(String, String)]) -> String {
    headers.iter().map(|(name, value)| format!("{sign} {name}: {value}\n")).collect()
}
