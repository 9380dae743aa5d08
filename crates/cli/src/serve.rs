//! `inspan mcp serve`: an agent's tools, or the whole agent, for other programs.

use std::{fs::File, io::Read, os::unix::fs::PermissionsExt, path::Path, sync::Arc};

use inspan_mcp::serve::{CALLER_URL, Http, PATH, Served, Token, may_listen};
use tokio::net::{TcpListener, lookup_host};

use crate::{
    args::{AskArg, DriveArgs, ServeArgs},
    config::Config,
    exit::Failure,
    home::Home,
    interrupts::Interrupts,
    out::{DIM, NOTE, Out, styled},
    setup::{Prepared, prepare},
};

/// The variable that holds what clients must show.
const TOKEN_VARIABLE: &str = "INSPAN_MCP_TOKEN";

/// Bytes of a file that holds it.
const TOKEN_FILE_BYTES_MAX: u64 = 4_096;

/// The bits of a file's mode that let anybody but its owner at it.
const MODE_OTHERS: u32 = 0o077;

/// Carries the command out: serves until the client goes, or a signal comes.
pub(crate) async fn serve(home: &Home, args: ServeArgs) -> Result<u8, Failure> {
    let mut config = Config::load(&home.folder, home.environment.clone())?;
    let http = match &args.http {
        Some(_) => Some(http(&args, &mut config)?),
        None => None,
    };
    let listener = match (&args.http, &http) {
        (Some(address), Some(http)) => Some(listen(address, http).await?),
        _ => None,
    };
    // From here on a signal ends it in order.
    let mut interrupts = Interrupts::new()?;
    let store = home.store().await?;
    let drive = DriveArgs {
        agent: args.agent,
        model: if args.as_agent { args.model } else { Some(CALLER_URL.to_owned()) },
        ask: Some(AskArg::Never),
        limits: args.limits,
        ..DriveArgs::default()
    };
    let Prepared { setup, notices, .. } = prepare(home, &config, store, &drive, None).await?;
    let out = Out::new(setup.mask.clone());
    for notice in &notices {
        let notice = out.shown(notice);
        out.progress(&format!("  {} {notice}\n", styled(NOTE, "!")));
    }
    let name = setup.config.agent.as_ref().map_or_else(String::new, |agent| agent.name.clone());
    let (served, what) = if args.as_agent {
        let about = format!(
            "Asks the agent `{name}`, which works on it by itself with tools of its own, and gives \
             its answer."
        );
        (Served::agent(&name, about, setup), format!("the agent {name}"))
    } else {
        let count = setup.tools.len();
        if count == 0 {
            return Err(nothing(drive.agent.as_deref()));
        }
        let tools = if count == 1 { "tool" } else { "tools" };
        (Served::tools(&name, setup)?, format!("{count} {tools} of the agent {name}"))
    };
    let stop = async {
        interrupts.next().await;
    };
    match (listener, http) {
        (Some(listener), Some(http)) => {
            over_http(&served, listener, &http, &what, &out, stop).await?;
        }
        _ => {
            let line = format!("serves {what} over standard input and output");
            out.progress(&format!("{}\n", styled(DIM, &out.shown(&line))));
            served.stdio(stop).await?;
        }
    }
    Ok(0)
}

async fn over_http(
    served: &Arc<Served>,
    listener: TcpListener,
    http: &Http,
    what: &str,
    out: &Out,
    stop: impl Future<Output = ()>,
) -> Result<(), Failure> {
    let address = listener.local_addr().map_err(|why| system("the address of the server", why))?;
    let line = format!("serves {what} at http://{address}{PATH}");
    out.progress(&format!("{}\n", styled(DIM, &out.shown(&line))));
    if http.token.is_none() {
        let note = format!("everybody on this machine can call them: set {TOKEN_VARIABLE}");
        out.progress(&format!("  {} {note}\n", styled(NOTE, "!")));
    }
    Ok(served.listen(listener, http, stop).await?)
}

/// The address, which is not listened at where that would be open to everybody.
async fn listen(address: &str, http: &Http) -> Result<TcpListener, Failure> {
    let wrong = |why: &dyn std::fmt::Display| {
        Failure::Usage(format!("--http {address}: {why}; write ADDRESS:PORT, as in 127.0.0.1:8080"))
    };
    let found: Vec<_> = lookup_host(address).await.map_err(|why| wrong(&why))?.collect();
    for address in &found {
        may_listen(*address, http).map_err(|error| {
            Failure::Usage(format!(
                "{error}: {TOKEN_VARIABLE} in the environment or .env, or --token-file"
            ))
        })?;
    }
    TcpListener::bind(found.as_slice())
        .await
        .map_err(|why| system(&format!("listening at {address}"), why))
}

/// Who may ask. The token is masked from here on.
fn http(args: &ServeArgs, config: &mut Config) -> Result<Http, Failure> {
    let (secret, place) = match &args.token_file {
        Some(path) => (Some(token_in(path)?), format!("the token in {}", path.display())),
        None => (config.variables.get(TOKEN_VARIABLE), TOKEN_VARIABLE.to_owned()),
    };
    let secret = secret.map(|secret| secret.trim().to_owned()).filter(|secret| !secret.is_empty());
    let token = match secret {
        Some(secret) => {
            let token = Token::new(&secret)
                .map_err(|why| Failure::Usage(format!("{place} can't be used: {why}")))?;
            config.mask_too(secret);
            Some(token)
        }
        None => None,
    };
    Ok(Http { token, hosts: args.allow_host.clone(), origins: args.allow_origin.clone() })
}

/// What a file holds that only its owner can read.
fn token_in(path: &Path) -> Result<String, Failure> {
    let what = || format!("the token's file {}", path.display());
    let file = File::open(path).map_err(|why| system(&what(), why))?;
    let mode = file.metadata().map_err(|why| system(&what(), why))?.permissions().mode();
    if mode & MODE_OTHERS != 0 {
        let path = path.display();
        return Err(Failure::Usage(format!("others can read {path}: chmod 600 {path}")));
    }
    let mut text = String::new();
    file.take(TOKEN_FILE_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(|why| system(&what(), why))?;
    match text.trim().is_empty() {
        true => Err(Failure::Usage(format!("{} is empty", what()))),
        false => Ok(text),
    }
}

fn nothing(agent: Option<&Path>) -> Failure {
    Failure::Usage(match agent {
        Some(folder) => format!(
            "there is nothing to serve: the agent in {} has no tools; --as-agent offers the agent \
             itself",
            folder.display()
        ),
        None => "there is nothing to serve: name an agent with --agent DIR, or servers of tools \
                 with `mcpServers` in config.yaml"
            .to_owned(),
    })
}

fn system(what: &str, why: std::io::Error) -> Failure {
    Failure::File { what: what.to_owned(), why }
}
