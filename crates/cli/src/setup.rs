//! Picks the implementations for a run: agent, model, limits, store.

use std::{
    collections::BTreeMap,
    io::IsTerminal,
    path::{Path, PathBuf},
    sync::Arc,
};

use inspan_core::{
    State,
    budget::Limits,
    event::SessionConfigured,
    gate::{Asking, Gate},
    mask::Mask,
    provider::Provider,
    shared::Shared,
    store::Store,
    tool::{Tool, ToolSpec},
    turn::CallStatus,
    words::OPEN_RESULT,
};
use inspan_engine::{Catalogue, Setup, SystemClock};
use inspan_mcp::{Inquiry, Pictures, ServerConfig, serve::CALLER_URL};
use inspan_pictures::{Shrink, media_type};
use inspan_store::Told;
use tokio::sync::mpsc;

use crate::{
    agent::{Agent, Ask, LiveAsks, Surroundings},
    approved::Approved,
    args::DriveArgs,
    config::Config,
    exit::Failure,
    found::{self, Room},
    gates,
    home::{Home, is_folder},
    models,
    out::{NOTE, Out, styled},
    servers,
    toolbox::{Last, Source, Toolbox},
};

/// Everything that a session needs, and what a person should be told about it.
pub(crate) struct Prepared {
    pub setup: Setup,
    pub notices: Vec<String>,
    /// The servers of tools.
    pub servers: Vec<ServerConfig>,
    /// What they want to be told, where a person is there.
    pub inquiries: Option<mpsc::Receiver<Inquiry>>,
}

/// Prepares a run. `before` is the state of the session that goes on; a new one has none.
///
/// # Errors
/// What the person must set right first: nothing was started then.
pub(crate) async fn prepare(
    home: &Home,
    config: &Config,
    store: Arc<dyn Store>,
    args: &DriveArgs,
    before: Option<&State>,
) -> Result<Prepared, Failure> {
    let recorded = before.and_then(|state| state.config.as_deref());
    let mut notices = Vec::new();
    let workdir = workdir(home, args, before)?;
    let asking = asking(args, before)?;
    let folder = servers::of_folder(home, config, &workdir, asking)?;
    let has_servers = !config.mcp.is_empty() || !folder.servers.is_empty();
    let mut agent = load_agent(&workdir, config, args, (recorded, has_servers))?;
    let secrets = agent.secrets.iter().chain(&folder.secrets).cloned();
    let secrets = secrets.chain(home.mcp.login_secrets());
    let mask = config.mask_with(secrets.collect());
    notices.extend(folder.notices.iter().map(|notice| mask.text(notice).into_owned()));
    let blobs = home.blobs(config, &*store, tell_of_blobs(mask.clone()))?;
    let shown = Pictures { blobs: blobs.clone(), media_type: |bytes| media_type(bytes).ok() };
    let servers = servers::all(config, &agent, &folder, &workdir);
    let source = Source {
        servers: home.mcp.clone(),
        configs: servers.clone(),
        pictures: shown,
        approved: Approved::new(&home.folder),
    };
    let own = agent.tools.clone();
    let mut reviewed =
        servers::reviewed(&source, asking, (args, before), &mask, &mut notices).await?;
    notices.extend(reviewed.keep_clear_of(&own));
    agent.tools.extend(reviewed.offer.tools.iter().cloned());
    agent.tools.sort_by_key(|tool| tool.spec().name.clone());
    agent.asks.extend(reviewed.offer.asks.clone());
    let mut limits = Limits::session();
    config.limits.apply(&mut limits);
    agent.limits.apply(&mut limits);
    if let Some(recorded) = recorded {
        let has_moved = before.is_some_and(|before| Path::new(before.workdir()) != workdir);
        if has_moved {
            notices.push(format!("works in {} from now on", workdir.display()));
        }
        keep_or_tell(&mut agent, &mut limits, recorded, has_moved, &mut notices);
    }
    args.limits.patch().apply(&mut limits);

    let asks = match before {
        None => agent.asks.clone(),
        Some(before) => {
            let out = Out::new(config.mask.clone());
            gates::asks(&agent, before, asking, args.accept_changes, &out, &mut notices)?
        }
    };

    let url = args
        .model
        .clone()
        .or_else(|| recorded.map(|recorded| recorded.model.url.clone()))
        .or_else(|| agent.model.clone())
        .or_else(|| config.model.clone())
        .ok_or_else(|| no_model(home))?;
    let facts = models::facts(config, &agent);
    let provider = models::provider(&url, config, &facts, args)?;
    let model = models::reference(&url, &facts, &*provider);
    let room = Room {
        given: agent.tools_tokens_max.or(config.tools_tokens_max),
        window_tokens_max: model.window_tokens_max,
        tools_max: provider.tools_max(),
    };
    // Clients get the whole list.
    let is_found = url != CALLER_URL && found::is_needed(&agent.tools, room, recorded);
    let found = match is_found {
        true => found::set_up(&mut agent.tools, &reviewed.offer.sources),
        false => BTreeMap::new(),
    };
    set_aside(&mut agent.tools, &found, &*provider, &mut notices);
    let fallbacks = models::fallbacks(&url, config, &facts, args, &mut notices)?;
    let mut shared = Shared::default();
    let inquiries = (asking == Asking::Now).then(|| {
        let (person, inquiries) = inspan_mcp::inquiries();
        shared.insert(person);
        inquiries
    });
    let live = LiveAsks::new(asks.clone());
    let may_ask = !asks.is_empty() || servers.iter().any(|server| !server.ask.is_empty());
    let ask = may_ask.then(|| Arc::new(Ask(live.clone())) as Arc<dyn Gate>);
    let (seen, tools) = (reviewed.seen, agent.tools.clone());
    let said = reviewed.offer.notices.clone();
    let last = Last { seen, tools, notices: said, found: found.clone() };
    let toolbox = || Toolbox::new(source, own, live, provider.clone(), is_found, last);
    let has_any = !servers.is_empty();
    let catalogue = has_any.then(|| Arc::new(toolbox()) as Arc<dyn Catalogue>);
    let setup = Setup {
        store,
        blobs: Some(blobs),
        pictures: Some(Arc::new(Shrink)),
        keeps_results: true,
        provider,
        fallbacks,
        tools: agent.tools,
        catalogue,
        gates: ask.into_iter().collect(),
        shared,
        clock: Arc::new(SystemClock),
        mask,
        asking,
        workdir: workdir.display().to_string(),
        config: SessionConfigured {
            agent: Some(agent.reference),
            model,
            fallbacks: Vec::new(),
            system: agent.system,
            tools: Vec::new(),
            found,
            gates: Vec::new(),
            asks,
            limits,
            sandbox: "none".to_owned(),
            workdir: None,
        },
    };
    Ok(Prepared { setup, notices, servers, inquiries })
}

/// The servers of tools that a session has, and what masks their secrets.
pub(crate) struct Mcp {
    pub servers: Vec<ServerConfig>,
    pub mask: Mask,
    pub notices: Vec<String>,
}

/// The servers that a new session in `workdir` has with the agent in this folder.
///
/// # Errors
/// The agent's folder makes no sense.
pub(crate) fn mcp_servers(
    home: &Home,
    config: &Config,
    agent: Option<&Path>,
    workdir: &Path,
) -> Result<Mcp, Failure> {
    let agent = match agent {
        Some(folder) => Agent::load(folder, &surroundings(workdir, config))?,
        None => Agent::built_in(false),
    };
    let folder = servers::of_folder(home, config, workdir, Asking::Never)?;
    let servers = servers::all(config, &agent, &folder, workdir);
    let secrets = agent.secrets.into_iter().chain(folder.secrets).chain(home.mcp.login_secrets());
    let mask = config.mask_with(secrets.collect());
    Ok(Mcp { servers, mask, notices: folder.notices })
}

/// When a person is asked: as the flag says; else at the terminal, if there is one. A session that
/// was parked for a person's answer is not answered with no because it was opened.
fn asking(args: &DriveArgs, before: Option<&State>) -> Result<Asking, Failure> {
    let is_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    let waits = before.is_some_and(|state| {
        state.calls.iter().any(|open| matches!(open.status, CallStatus::Asked(_)))
    });
    match args.ask.map(Asking::from) {
        Some(Asking::Now) if !std::io::stdin().is_terminal() => Err(Failure::Usage(
            "nobody can be asked: standard input is no terminal; --ask later parks the turn instead"
                .to_owned(),
        )),
        Some(asking) => Ok(asking),
        None if is_terminal => Ok(Asking::Now),
        None if waits => Ok(Asking::Later),
        None => Ok(Asking::Never),
    }
}

/// Tells a person what is wrong with a place for blobs.
pub(crate) fn tell_of_blobs(mask: Mask) -> Told {
    let out = Out::new(mask);
    Arc::new(move |trouble| {
        out.progress(&format!("  {} {}\n", styled(NOTE, "!"), out.shown(trouble)));
    })
}

/// The agent of the flag; else the one that the session began with; else the one built in.
fn load_agent(
    workdir: &Path,
    config: &Config,
    args: &DriveArgs,
    (recorded, has_servers): (Option<&SessionConfigured>, bool),
) -> Result<Agent, Failure> {
    let given = surroundings(workdir, config);
    let began_with = recorded
        .and_then(|recorded| recorded.agent.as_ref())
        .map(|agent| agent.path.as_str())
        .filter(|path| !path.is_empty());
    match (&args.agent, began_with) {
        (Some(folder), _) => Ok(Agent::load(folder, &given)?),
        (None, Some(path)) if !is_folder(Path::new(path)) => Err(Failure::Usage(format!(
            "the agent's folder {path} is gone; name another with --agent DIR"
        ))),
        (None, Some(path)) => Ok(Agent::load(Path::new(path), &given)?),
        (None, None) => Ok(Agent::built_in(has_servers)),
    }
}

fn surroundings(workdir: &Path, config: &Config) -> Surroundings {
    Surroundings {
        workdir: workdir.to_owned(),
        environment: config.variables.environment().to_vec(),
        servers: config.servers.clone(),
        variables: config.variables.clone(),
        mask: config.mask.clone(),
        date: || jiff::ZonedDateTime::now().date().to_string(),
    }
}

/// The working directory of the flag; else the one that the session has, wherever it is driven from.
fn workdir(home: &Home, args: &DriveArgs, before: Option<&State>) -> Result<PathBuf, Failure> {
    if let Some(given) = &args.workdir {
        let path = home.workdir.join(given);
        let found = path.canonicalize().ok().filter(|path| is_folder(path));
        return found.ok_or_else(|| {
            Failure::Usage(format!("--workdir {}: there is no such folder", given.display()))
        });
    }
    match before.map(State::workdir).filter(|path| !path.is_empty()) {
        Some(path) if !is_folder(Path::new(path)) => Err(Failure::Usage(format!(
            "the session's working directory {path} is gone: make it again, or name another with \
             --workdir DIR"
        ))),
        Some(path) => Ok(PathBuf::from(path)),
        None => Ok(home.workdir.clone()),
    }
}

/// An agent that did not change keeps the prompt and the limits that were resolved when the session
/// was last driven; one that did is told.
fn keep_or_tell(
    agent: &mut Agent,
    limits: &mut Limits,
    recorded: &SessionConfigured,
    has_moved: bool,
    notices: &mut Vec<String>,
) {
    match &recorded.agent {
        Some(before) if before.hash == agent.reference.hash => {
            // A prompt may name the directory.
            if !has_moved {
                agent.system.clone_from(&recorded.system);
            }
            limits.clone_from(&recorded.limits);
        }
        Some(before) if before.path == agent.reference.path => notices.push(format!(
            "the agent in {} changed since this session was last driven; it goes on as it is now",
            before.path
        )),
        _ => notices.push(format!("goes on as the agent `{}`", agent.reference.name)),
    }
}

/// Leaves out the tools that the model can't be told of: one of them would cost every request. Those
/// that are `found` are in none. What is left out is said.
pub(crate) fn set_aside(
    tools: &mut Vec<Arc<dyn Tool>>,
    found: &BTreeMap<String, String>,
    provider: &dyn Provider,
    notices: &mut Vec<String>,
) {
    let told = tools.iter().map(|tool| tool.spec());
    let told = told.filter(|spec| !found.contains_key(&spec.name));
    // The session adds it, and it takes the place of another.
    let open_result = Arc::new(ToolSpec::new(OPEN_RESULT, ""));
    let specs: Vec<_> = std::iter::once(open_result).chain(told).collect();
    for (name, why) in provider.unfit_tools(&specs) {
        tools.retain(|tool| tool.spec().name != name);
        notices.push(format!("the tool `{name}` is left out: {why}"));
    }
    if provider.defers_tools() {
        // They are in the request all the same, but not of its number.
        tools.retain(|tool| {
            let mut unfit = provider.unfit_tools(&[tool.spec()]).into_iter();
            let unfit = unfit.next().filter(|(name, _)| found.contains_key(name));
            let said = unfit.map(|(name, why)| format!("the tool `{name}` is left out: {why}"));
            let is_fit = said.is_none();
            notices.extend(said);
            is_fit
        });
    }
}

fn no_model(home: &Home) -> Failure {
    Failure::Usage(format!(
        "no model is named: pass --model, or write `model: anthropic://claude-sonnet-5-5` into {}",
        home.folder.join("config.yaml").display()
    ))
}
