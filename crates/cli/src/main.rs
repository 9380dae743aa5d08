//! The command `inspan`: words and pixels. It picks the implementations, reads the environment,
//! draws, and gives the exit code.

mod agent;
mod answer;
mod approved;
mod args;
mod before;
mod config;
mod exit;
mod export;
mod find;
mod folder;
mod fork;
mod form;
mod found;
mod gates;
mod home;
mod init;
mod input;
mod interrupts;
mod json;
mod launch;
mod mcp;
mod mentions;
mod models;
mod out;
mod person;
mod progress;
mod record;
mod remove;
mod run;
mod serve;
mod servers;
mod sessions;
mod setup;
mod show;
mod sweep;
mod toolbox;
mod verify;
mod whole;
mod worker;

use std::{backtrace::Backtrace, panic::PanicHookInfo, process::ExitCode};

use clap::Parser;
use inspan_core::mask::Mask;

use args::{Cli, Command, McpCommand};
use exit::{Failure, exit};
use home::Home;
use out::{BAD, Out, styled};

fn main() -> ExitCode {
    std::panic::set_hook(Box::new(broke_down));
    if let Some(failed) = launch::if_asked() {
        return failed;
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return not_understood(&error),
    };
    let as_json = cli.command.as_json();
    let home = match Home::find() {
        Ok(home) => home,
        Err(failure) => return fail(&failure, as_json, Mask::default()),
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(why) => {
            let what = "the runtime can't be started".to_owned();
            return fail(&Failure::File { what, why }, as_json, Mask::default());
        }
    };
    let done = runtime.block_on(async {
        let done = carry_out(&home, cli.command).await;
        home.close().await;
        done
    });
    runtime.shutdown_background();
    done.map_or_else(|failure| fail(&failure, as_json, home.mask_at_hand()), exit)
}

async fn carry_out(home: &Home, command: Command) -> Result<u8, Failure> {
    match command {
        Command::Run(args) => run::run(home, args).await,
        Command::Resume(args) => run::resume(home, args).await,
        Command::Answer(args) => answer::answer(home, args).await,
        Command::Deliver(args) => answer::deliver(home, args).await,
        Command::Worker(args) => worker::work(home, &args).await,
        Command::Sessions(args) => sessions::list(home, &args).await,
        Command::Search { words, count_max, json } => {
            find::search(home, words, count_max, json).await
        }
        Command::Show { id, json, call: Some(call), .. } => {
            show::show_call(home, &id, &call, json).await
        }
        Command::Show { id, json, follow, call: None } => show::show(home, &id, json, follow).await,
        Command::Verify { id } => verify::verify(home, &id).await,
        Command::Fork { id, at } => fork::fork(home, &id, at).await,
        Command::Export(args) => export::export(home, args).await,
        Command::Import { file } => export::import(home, &file).await,
        Command::Remove { ids, yes } => remove::remove(home, &ids, yes).await,
        Command::Mcp(command) => mcp::mcp(home, command).await,
        Command::Init => init::init(home),
    }
}

fn fail(failure: &Failure, as_json: bool, mask: Mask) -> ExitCode {
    let out = Out::new(mask);
    let text = out.shown(&failure.to_string());
    if as_json {
        // The failure may be that nothing can be written there.
        let _ = out.json(&json::error(&text, failure.code()));
    }
    out.progress(&format!("{} {text}\n", styled(BAD, "error:")));
    exit(failure.code())
}

/// Help, the version, or what is wrong with the command line, which may quote a secret of it.
fn not_understood(error: &clap::Error) -> ExitCode {
    let out = Out::new(mask_at_hand());
    if error.use_stderr() {
        out.progress(&out.shown(&error.render().to_string()));
        return exit(u8::try_from(error.exit_code()).unwrap_or(2));
    }
    let written = out.answer(&error.render().ansi().to_string());
    written.map_or_else(|failure| fail(&failure, false, Mask::default()), |()| exit(0))
}

/// Tells of a fault of Inspan itself. What it says may hold anything, so it is masked, too.
fn broke_down(info: &PanicHookInfo<'_>) {
    let trace = Backtrace::capture();
    let out = Out::new(mask_at_hand());
    let text = out.shown(&format!("{info}\n{trace}"));
    out.progress(&format!("{} Inspan itself broke down: {text}\n", styled(BAD, "error:")));
}

fn mask_at_hand() -> Mask {
    Home::find().map(|home| home.mask_at_hand()).unwrap_or_default()
}

impl Command {
    fn as_json(&self) -> bool {
        match self {
            Self::Run(args) => args.drive.json,
            Self::Resume(args) => args.drive.json,
            Self::Sessions(args) => args.json,
            Self::Search { json, .. } | Self::Show { json, .. } => *json,
            Self::Mcp(McpCommand::List(args) | McpCommand::Doctor { args, .. }) => args.json,
            Self::Mcp(
                McpCommand::Trust { .. } | McpCommand::Login { .. } | McpCommand::Logout { .. },
            )
            | Self::Worker(_)
            | Self::Answer(_)
            | Self::Deliver(_)
            | Self::Verify { .. }
            | Self::Fork { .. }
            | Self::Export(_)
            | Self::Import { .. }
            | Self::Remove { .. }
            | Self::Mcp(McpCommand::Serve(_))
            | Self::Init => false,
        }
    }
}
