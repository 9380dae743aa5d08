//! `inspan mcp`: the servers of tools, what they offer and how they are.

use std::{collections::BTreeMap, io::IsTerminal, path::PathBuf, sync::Arc};

use futures_util::future::join_all;
use inspan_core::{
    mask::printable,
    tool::{Tool, ToolSpec},
};
use inspan_mcp::{
    Grade, Link, Offer, PromptListed, Readable, Report, ResourceListed, ServerConfig,
};
use inspan_providers::Server;
use serde_json::json;

use crate::{
    approved::Approved,
    args::{McpArgs, McpCommand},
    config::{Config, near},
    exit::Failure,
    folder::FolderFile,
    home::Home,
    json::line,
    out::{BAD, BOLD, DIM, GOOD, NOTE, Out, grouped, styled},
    serve::serve,
    servers,
    setup::{Mcp, mcp_servers},
};

/// Characters of what is said of a resource or a prompt in a line.
const ABOUT_CHARS_MAX: usize = 60;

/// Carries the command out.
pub(crate) async fn mcp(home: &Home, command: McpCommand) -> Result<u8, Failure> {
    match command {
        McpCommand::List(args) => list(home, &args).await,
        McpCommand::Login { name, agent, scope } => {
            let (server, out) = named(home, &name, agent)?;
            let shown = |address: &str| {
                // It holds no secret, and must be whole.
                out.progress(&format!("Open this page and log in:\n  {}\n", printable(address)));
            };
            home.mcp.login(&server, &scope, shown).await?;
            out.progress(&format!("{}\n", styled(DIM, "logged in")));
            Ok(0)
        }
        McpCommand::Logout { name, agent } => {
            let (server, out) = named(home, &name, agent)?;
            let said = match home.mcp.logout(&server)? {
                true => "logged out: the login is forgotten here; the server may still know it",
                false => "there was no login",
            };
            out.progress(&format!("{}\n", styled(DIM, said)));
            Ok(0)
        }
        McpCommand::Trust { yes, no } => trust(home, yes, no),
        McpCommand::Doctor { name, args } => doctor(home, name.as_deref(), &args).await,
        McpCommand::Serve(args) => serve(home, args).await,
    }
}

/// The servers of the configuration and of the agent, as a session in this directory has them.
fn servers(home: &Home, args: &McpArgs) -> Result<(Vec<ServerConfig>, Out), Failure> {
    let config = Config::load(&home.folder, home.environment.clone())?;
    let agent = args.agent.as_deref();
    let Mcp { servers, mask, notices } = mcp_servers(home, &config, agent, &home.workdir)?;
    let out = Out::new(mask);
    for notice in notices {
        out.progress(&format!("{} {}\n", styled(NOTE, "!"), out.shown(&notice)));
    }
    Ok((servers, out))
}

/// The server of this name.
fn named(home: &Home, name: &str, agent: Option<PathBuf>) -> Result<(ServerConfig, Out), Failure> {
    let (servers, out) = servers(home, &McpArgs { agent, json: false })?;
    Ok((by_name(servers, name)?, out))
}

fn by_name(servers: Vec<ServerConfig>, name: &str) -> Result<ServerConfig, Failure> {
    let names: Vec<String> = servers.iter().map(|server| server.name.clone()).collect();
    servers.into_iter().find(|server| server.name == name).ok_or_else(|| {
        let hint = near(name, &names);
        Failure::Usage(format!("no MCP server is called `{name}`{hint}"))
    })
}

/// Agrees to the working directory's file of servers as it is, or takes that back.
fn trust(home: &Home, yes: bool, no: bool) -> Result<u8, Failure> {
    let out = Out::new(home.mask()?);
    let file = FolderFile::read(&home.workdir).map_err(Failure::Usage)?;
    let file = file.ok_or_else(|| {
        let folder = home.workdir.display();
        Failure::Usage(format!("{folder} has no .mcp.json that names servers"))
    })?;
    let is_terminal = std::io::stdin().is_terminal();
    let agreed = match (yes, no) {
        (_, true) => false,
        (true, false) => {
            servers::tell(&file, &out);
            true
        }
        (false, false) if is_terminal => servers::agrees(&file, &out)? == Some(true),
        (false, false) => {
            servers::tell(&file, &out);
            let why = "nobody can be asked: standard input is no terminal; agree with --yes";
            return Err(Failure::Usage(why.to_owned()));
        }
    };
    Approved::new(&home.folder).say_of(&file, agreed)?;
    let said = match agreed {
        true => "agreed; a changed file asks again",
        false => "not agreed: they are left out",
    };
    out.progress(&format!("{}\n", styled(DIM, said)));
    Ok(0)
}

async fn list(home: &Home, args: &McpArgs) -> Result<u8, Failure> {
    let (servers, out) = servers(home, args)?;
    if servers.is_empty() && !args.json {
        out.progress("No MCP server is configured: see `mcpServers` in docs/mcp.md.\n");
        return Ok(0);
    }
    for server in &servers {
        let Offer { tools, asks, notices, .. } =
            home.mcp.offer(std::slice::from_ref(server), None).await?;
        // That it can't be used is among the notices.
        let readable = home.mcp.readable(server).await.unwrap_or_default();
        if args.json {
            out.json(&line(&json!({
                "server": server.name,
                "at": place(server),
                "tools": tools.iter().map(in_json).collect::<Vec<_>>(),
                "resources": readable.resources.iter().map(resource_in_json).collect::<Vec<_>>(),
                "prompts": readable.prompts.iter().map(prompt_in_json).collect::<Vec<_>>(),
                "notices": notices,
            })))?;
            continue;
        }
        let head = styled(BOLD, &out.shown(&server.name));
        out.answer(&format!("{head}  {}\n", styled(DIM, &out.line(&place(server), 80))))?;
        for tool in &tools {
            let spec = tool.spec();
            let effects: Vec<&str> = spec.effects.names().collect();
            let effects = if effects.is_empty() { "none".to_owned() } else { effects.join(", ") };
            let asks = if asks.contains_key(&spec.name) { "; asks" } else { "" };
            let about = format!("{effects}; {}{asks}", spec.repeat.as_str());
            out.answer(&format!("  {:40}  {}\n", out.shown(&spec.name), styled(DIM, &about)))?;
        }
        show_readable(&server.name, &readable, &out)?;
        for notice in &notices {
            out.answer(&format!("  {} {}\n", styled(NOTE, "!"), out.shown(notice)))?;
        }
    }
    // Two servers may be right each by itself.
    home.mcp.offer(&servers, None).await?;
    Ok(0)
}

/// What can be read, as it is written in a prompt.
fn show_readable(server: &str, readable: &Readable, out: &Out) -> Result<(), Failure> {
    let show = |written: &str, about: &str| {
        let about = styled(DIM, &out.line(about, ABOUT_CHARS_MAX));
        out.answer(&format!("  {:40}  {about}\n", out.shown(written)))
    };
    for ResourceListed { uri, name, about } in &readable.resources {
        let about = if about.is_empty() { name } else { about };
        show(&format!("@{server}:{uri}"), about)?;
    }
    for PromptListed { name, about, arguments } in &readable.prompts {
        let argument = |(name, is_required): &(String, bool)| match is_required {
            true => format!(" {name}=…"),
            false => format!(" [{name}=…]"),
        };
        let arguments: String = arguments.iter().map(argument).collect();
        show(&format!("/{server}:{name}{arguments}"), about)?;
    }
    Ok(())
}

fn resource_in_json(listed: &ResourceListed) -> serde_json::Value {
    json!({ "uri": listed.uri, "name": listed.name, "description": listed.about })
}

fn prompt_in_json(listed: &PromptListed) -> serde_json::Value {
    let argument =
        |(name, required): &(String, bool)| json!({ "name": name, "required": required });
    json!({
        "name": listed.name,
        "description": listed.about,
        "arguments": listed.arguments.iter().map(argument).collect::<Vec<_>>(),
    })
}

fn in_json(tool: &Arc<dyn Tool>) -> serde_json::Value {
    let spec = tool.spec();
    json!({
        "name": spec.name,
        "description": spec.description,
        "effects": spec.effects,
        "repeat": spec.repeat,
    })
}

/// How the server is reached, in a line.
fn place(server: &ServerConfig) -> String {
    match &server.link {
        Link::Program(program) => program.argv.join(" "),
        Link::Http(http) => http.url().to_owned(),
    }
}

async fn doctor(home: &Home, name: Option<&str>, args: &McpArgs) -> Result<u8, Failure> {
    let (mut servers, out) = servers(home, args)?;
    if let Some(name) = name {
        servers = vec![by_name(servers, name)?];
    }
    if servers.is_empty() && !args.json {
        out.progress("No MCP server is configured: see `mcpServers` in docs/mcp.md.\n");
        return Ok(0);
    }
    let mut reports = join_all(servers.iter().map(|server| home.mcp.examine(server))).await;
    let models = Config::load(&home.folder, home.environment.clone())?.servers;
    for report in reports.iter_mut().filter(|report| report.grade != Grade::Bad) {
        let refused = refused(&report.specs, &models);
        if !refused.is_empty() {
            report.grade = Grade::Fair;
        }
        report.faults.extend(refused);
    }
    let is_bad = reports.iter().any(|report| report.grade == Grade::Bad);
    for report in reports {
        match args.json {
            true => out.json(&line(&report_in_json(&report)))?,
            false => tell(&report, &out)?,
        }
    }
    Ok(u8::from(is_bad))
}

/// Which tools the servers of models can't be told of, in a sentence for each reason.
fn refused(specs: &[Arc<ToolSpec>], models: &[Server]) -> Vec<String> {
    let mut reasons: BTreeMap<(&str, String), Vec<&str>> = BTreeMap::new();
    for spec in specs {
        for server in models {
            // One by one: how many there are is no fault of theirs.
            for (_, why) in server.unfit_tools(std::slice::from_ref(spec)) {
                reasons.entry((&spec.name, why)).or_default().push(&server.name);
            }
        }
    }
    let sentence = |((tool, why), refusing): ((&str, String), Vec<&str>)| {
        let whom = match refusing.len() == models.len() {
            true => "any model".to_owned(),
            false => format!("models of {}", refusing.join(", ")),
        };
        format!("`{tool}` can't be told to {whom}: {why}")
    };
    reasons.into_iter().map(sentence).collect()
}

fn tell(report: &Report, out: &Out) -> Result<(), Failure> {
    let style = match report.grade {
        Grade::Good => GOOD,
        Grade::Fair => NOTE,
        Grade::Bad => BAD,
    };
    let grade = styled(style, report.grade.as_str());
    let name = styled(BOLD, &out.shown(&report.name));
    match report.grade {
        Grade::Bad => out.answer(&format!("{name}  {grade}\n"))?,
        Grade::Good | Grade::Fair => out.answer(&format!(
            "{name}  {grade}  {}, revision {}, ready in {} ms, {} tools, about {} tokens \
             a request\n",
            out.line(&report.title, 60),
            out.shown(&report.revision),
            grouped(report.start_ms),
            report.tools.len(),
            grouped(report.tokens),
        ))?,
    }
    for fault in &report.faults {
        out.answer(&format!("  {} {}\n", styled(style, "!"), out.shown(fault)))?;
    }
    Ok(())
}

fn report_in_json(report: &Report) -> serde_json::Value {
    let tool = |(name, effects): &(String, String)| json!({ "name": name, "effects": effects });
    json!({
        "server": report.name,
        "grade": report.grade.as_str(),
        "title": report.title,
        "revision": report.revision,
        "start_ms": report.start_ms,
        "tools": report.tools.iter().map(tool).collect::<Vec<_>>(),
        "tokens": report.tokens,
        "faults": report.faults,
    })
}
