//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use inspan_core::{
    event::Stop,
    gate::{Asking, Choice},
    stored::Standing,
};

use crate::config::{Ceiling, Figure, LimitsPatch, Millis, Positive, Usd};

/// An agent harness: runs a language model with tools, and keeps every step in a durable log.
#[derive(Parser)]
#[command(name = "inspan", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run a prompt in a new session, or in one that exists
    Run(RunArgs),
    /// Go on with a session whose process ended in the middle, or that is parked
    Resume(ResumeArgs),
    /// Answer a question that a turn waits for, from any process
    Answer(AnswerArgs),
    /// Deliver the result of a call whose work went on elsewhere
    Deliver(DeliverArgs),
    /// Drive the sessions of the database that are due: interrupted, or parked until now
    Worker(WorkerArgs),
    /// List the sessions, those changed last first
    Sessions(SessionsArgs),
    /// Find prompts, answers and results of tools by their words
    Search {
        /// The words; "several words" for their sequence, -WORD for what must not be there
        #[arg(required = true, value_name = "WORDS", allow_hyphen_values = true)]
        #[arg(trailing_var_arg = true)]
        words: Vec<String>,
        /// How many at most
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = at_least_one)]
        count_max: usize,
        /// Print one JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// Show what happened in a session, step by step
    Show {
        /// The session, or the beginning of its identifier
        id: String,
        /// Print its log, one entry of JSON a line
        #[arg(long)]
        json: bool,
        /// Go on with what happens, until no turn is open
        #[arg(long)]
        follow: bool,
        /// Show all that is known of this call
        #[arg(long, value_name = "CALL", conflicts_with = "follow")]
        call: Option<String>,
    },
    /// Check that the log of a session is the one that was written
    Verify {
        /// The session, or the beginning of its identifier
        id: String,
    },
    /// Begin a session whose past is another one's, up to an entry
    Fork {
        /// The session, or the beginning of its identifier
        id: String,
        /// The last entry that they share; left out: all of them
        #[arg(long, value_name = "SEQ")]
        at: Option<u64>,
    },
    /// Write the whole log of a session as JSON lines
    Export(ExportArgs),
    /// Take a session from an export into this database
    Import {
        /// The file; `-` reads standard input
        file: PathBuf,
    },
    /// Remove sessions; one that others were forked from goes with the last of them
    Remove {
        /// The sessions, or the beginnings of their identifiers
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
        /// Don't ask
        #[arg(long)]
        yes: bool,
    },
    /// The servers of tools: what they offer, and how they are
    #[command(subcommand)]
    Mcp(McpCommand),
    /// Make the home folder with a commented config.yaml and an empty .env
    Init,
}

/// `inspan mcp`.
#[derive(Subcommand)]
pub(crate) enum McpCommand {
    /// List the servers and their tools with the effects that are assumed
    List(McpArgs),
    /// Start each server, look at it from all sides and close it
    Doctor {
        /// This server only
        name: Option<String>,
        #[command(flatten)]
        args: McpArgs,
    },
    /// Log in at a server on the network: shows a page to open, and waits for the browser to come back
    Login {
        /// The server
        name: String,
        /// With the servers of the agent in this folder
        #[arg(long, value_name = "DIR")]
        agent: Option<PathBuf>,
        /// A right to ask for, beside those that the server names; may be given more than once
        #[arg(long, value_name = "SCOPE")]
        scope: Vec<String>,
    },
    /// Forget the login at a server
    Logout {
        /// The server
        name: String,
        /// With the servers of the agent in this folder
        #[arg(long, value_name = "DIR")]
        agent: Option<PathBuf>,
    },
    /// Agree to the servers that .mcp.json of the working directory names, as it is now
    Trust {
        /// Don't ask
        #[arg(long, conflicts_with = "no")]
        yes: bool,
        /// Take it back: they are left out, without a question
        #[arg(long)]
        no: bool,
    },
    /// Offer an agent's tools, or the whole agent, to programs that speak MCP
    #[command(after_help = SERVE_HELP)]
    Serve(ServeArgs),
}

/// What a person should know before they serve.
const SERVE_HELP: &str = "\
Every call is a turn of a session: the agent's gates, limits and log are in force, and `inspan show`
tells what happened. A tool that asks before it runs asks the person at the client, if it can; else
the answer is no.

Clients of --http send `Authorization: Bearer TOKEN` with what INSPAN_MCP_TOKEN holds, in the
environment or .env, or the file of --token-file. Without a token only 127.0.0.1 and ::1 may listen.";

/// `inspan mcp serve`.
#[derive(Args)]
pub(crate) struct ServeArgs {
    /// The agent's folder; left out: the servers of config.yaml
    #[arg(long, value_name = "DIR")]
    pub agent: Option<PathBuf>,
    /// Offer the whole agent as one tool, which takes a prompt and gives its answer
    #[arg(long)]
    pub as_agent: bool,
    /// The model of the agent
    #[arg(long, value_name = "URL", requires = "as_agent")]
    pub model: Option<String>,
    /// Serve at this address, as in 127.0.0.1:8080, in place of standard input and output
    #[arg(long, value_name = "ADDRESS")]
    pub http: Option<String>,
    /// The file with what clients must show
    #[arg(long, value_name = "FILE", requires = "http")]
    pub token_file: Option<PathBuf>,
    /// A name of this server beside localhost, as clients write it; may be given more than once
    #[arg(long, value_name = "NAME", requires = "http")]
    pub allow_host: Vec<String>,
    /// A page that may ask, as in https://app.example:443; may be given more than once
    #[arg(long, value_name = "ORIGIN", requires = "http")]
    pub allow_origin: Vec<String>,
    #[command(flatten)]
    pub limits: LimitArgs,
}

#[derive(Args)]
pub(crate) struct McpArgs {
    /// With the servers of the agent in this folder
    #[arg(long, value_name = "DIR")]
    pub agent: Option<PathBuf>,
    /// Print one JSON object a line
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub(crate) struct RunArgs {
    /// What to say; `-` reads standard input
    pub prompt: String,
    /// Show this picture with it: PNG, JPEG, GIF or WebP; may be given more than once
    #[arg(long, value_name = "FILE")]
    pub image: Vec<PathBuf>,
    /// Say it in this session, or the one whose identifier begins so
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    #[command(flatten)]
    pub drive: DriveArgs,
}

#[derive(Args)]
pub(crate) struct ResumeArgs {
    /// The session, or the beginning of its identifier; left out: the one that was interrupted
    /// last
    pub id: Option<String>,
    #[command(flatten)]
    pub drive: DriveArgs,
}

#[derive(Args)]
pub(crate) struct ExportArgs {
    /// The session, or the beginning of its identifier
    pub id: String,
    /// The file; left out: standard output
    pub file: Option<PathBuf>,
    /// With the pictures and long results that the log names, as base64
    #[arg(long, conflicts_with = "masked")]
    pub blobs: bool,
    /// Mask secrets; such an export is for reading and can't be imported
    #[arg(long)]
    pub masked: bool,
}

#[derive(Args)]
pub(crate) struct AnswerArgs {
    /// The session, or the beginning of its identifier
    pub id: String,
    /// The call, such as call_5_0: `inspan show ID` tells it
    pub call: String,
    /// The answer
    pub choice: ChoiceArg,
    /// Why, for the model
    #[arg(long, value_name = "TEXT")]
    pub why: Option<String>,
}

/// What can be answered.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum ChoiceArg {
    /// This call may run
    Allow,
    /// This call and all later ones of its tool in this session may run
    Session,
    /// It must not run
    Deny,
}

impl From<ChoiceArg> for Choice {
    fn from(choice: ChoiceArg) -> Self {
        match choice {
            ChoiceArg::Allow => Self::Once,
            ChoiceArg::Session => Self::Session,
            ChoiceArg::Deny => Self::No,
        }
    }
}

#[derive(Args)]
pub(crate) struct DeliverArgs {
    /// The session, or the beginning of its identifier
    pub id: String,
    /// The call, such as call_5_0
    pub call: String,
    /// What the model is told; `-` reads standard input
    pub result: String,
    /// The work failed
    #[arg(long)]
    pub failed: bool,
}

/// When a person answers.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum AskArg {
    /// At this terminal
    Now,
    /// Later, by `inspan answer`: the turn parks meanwhile
    Later,
    /// Never, which means no
    Never,
}

impl From<AskArg> for Asking {
    fn from(ask: AskArg) -> Self {
        match ask {
            AskArg::Now => Self::Now,
            AskArg::Later => Self::Later,
            AskArg::Never => Self::Never,
        }
    }
}

#[derive(Args)]
pub(crate) struct WorkerArgs {
    /// End when nothing is due any more
    #[arg(long)]
    pub once: bool,
    /// Sessions that are driven at once
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub concurrency: usize,
}

#[derive(Args)]
pub(crate) struct SessionsArgs {
    /// Those of the agent of this name
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// Those that work in this directory
    #[arg(long, value_name = "DIR")]
    pub workdir: Option<PathBuf>,
    /// Those that stand so: idle, open, parked (for its model's server) or waiting (for a person, or
    /// for work that goes on elsewhere)
    #[arg(long, value_name = "HOW", value_parser = standing)]
    pub standing: Option<Standing>,
    /// Those whose last turn ended so: end, failed, cost …
    #[arg(long, value_name = "STOP", value_parser = stop)]
    pub stop: Option<Stop>,
    /// Those changed since: 2026-11-30, 2026-11-30T09:15, or a time ago such as 2h, 3d or 1w
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Those changed before
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
    /// Those in which these words are found
    #[arg(long, value_name = "WORDS", allow_hyphen_values = true)]
    pub text: Option<String>,
    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = at_least_one)]
    pub count_max: usize,
    /// Print one JSON object a line
    #[arg(long)]
    pub json: bool,
}

/// How a session is driven.
#[derive(Args, Default)]
pub(crate) struct DriveArgs {
    /// The agent's folder
    #[arg(long, value_name = "DIR")]
    pub agent: Option<PathBuf>,
    /// The working directory [default: the one the session has; for a new one, the current]
    #[arg(long, value_name = "DIR")]
    pub workdir: Option<PathBuf>,
    /// The model: anthropic://MODEL, openai://MODEL, ollama://MODEL, or NAME://MODEL for a
    /// provider of config.yaml
    #[arg(long, value_name = "URL")]
    pub model: Option<String>,
    /// When a person is asked whether a call may run [default: now at a terminal, else never]
    #[arg(long, value_name = "WHEN")]
    pub ask: Option<AskArg>,
    /// Let the agent ask about less than this session did so far, and approve tools of servers that
    /// are not as they were approved
    #[arg(long)]
    pub accept_changes: bool,
    /// Print one update a line as JSON on standard output, in place of the answer
    #[arg(long)]
    pub json: bool,
    /// Show the bytes of each request and reply on standard error, keys masked
    #[arg(long)]
    pub raw: bool,
    /// Write the session's log to this file, as JSON lines, when the run ends
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Answer in the model's place from a recorded log
    #[arg(long, value_name = "FILE")]
    pub replay: Option<PathBuf>,
    /// Fail when a request differs from the recorded one, and show the difference
    #[arg(long, requires = "replay")]
    pub strict: bool,
    #[command(flatten)]
    pub limits: LimitArgs,
}

/// The limits, by the names that they have in files.
#[derive(Args, Default)]
#[command(next_help_heading = "Limits of a turn")]
pub(crate) struct LimitArgs {
    /// Rounds: model calls with the answering of their tool calls [default: 100]
    #[arg(long, value_name = "N", value_parser = figure::<u32>)]
    rounds_max: Option<u32>,
    /// Tokens over all tiers, or `none` [default: 5000000]
    #[arg(long, value_name = "N", value_parser = figure::<Ceiling<u64>>)]
    tokens_max: Option<Ceiling<u64>>,
    /// US dollars, or `none`; needs a model of known price [default: none]
    #[arg(long, value_name = "USD", value_parser = figure::<Ceiling<Usd>>)]
    cost_max_usd: Option<Ceiling<Usd>>,
    /// Time, such as 90s or 10m, or `none` [default: 1h]
    #[arg(long, value_name = "TIME", value_parser = figure::<Ceiling<Millis>>)]
    time_max: Option<Ceiling<Millis>>,
    /// Tool calls [default: 256]
    #[arg(long, value_name = "N", value_parser = figure::<u32>)]
    calls_max: Option<u32>,
    /// Tool calls side by side [default: 8]
    #[arg(long, value_name = "N", value_parser = figure::<Positive<u32>>)]
    calls_at_once_max: Option<Positive<u32>>,
    /// Further attempts after a model call that failed in passing [default: 4]
    #[arg(long, value_name = "N", value_parser = figure::<u32>)]
    retries_max: Option<u32>,
    /// Tokens of one reply [default: 8192]
    #[arg(long, value_name = "N", value_parser = figure::<Positive<u32>>)]
    output_tokens_max: Option<Positive<u32>>,
}

fn standing(text: &str) -> Result<Standing, String> {
    Standing::parse(text)
        .ok_or_else(|| format!("there are: {}", Standing::ALL.map(Standing::as_str).join(", ")))
}

fn stop(text: &str) -> Result<Stop, String> {
    let known = Stop::ALL.into_iter().find(|stop| stop.as_str() == text);
    known.ok_or_else(|| format!("there are: {}", Stop::ALL.map(Stop::as_str).join(", ")))
}

/// How many at most, for a list.
pub(crate) fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("a list has one at least".to_owned()),
        Ok(count) => Ok(count),
        Err(_) => Err("it must be a whole number".to_owned()),
    }
}

fn figure<T: Figure>(text: &str) -> Result<T, String> {
    T::read(text).map_err(|why| format!("`{text}` {why}"))
}

impl LimitArgs {
    /// The limits that were given.
    pub(crate) fn patch(&self) -> LimitsPatch {
        LimitsPatch {
            rounds_max: self.rounds_max,
            tokens_max: self.tokens_max,
            cost_max_usd: self.cost_max_usd,
            time_max: self.time_max,
            calls_max: self.calls_max,
            calls_at_once_max: self.calls_at_once_max.map(|Positive(calls)| calls),
            retries_max: self.retries_max,
            output_tokens_max: self.output_tokens_max.map(|Positive(tokens)| tokens),
        }
    }
}
