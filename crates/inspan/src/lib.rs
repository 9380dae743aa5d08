//! Agents as a library: a language model that answers with the help of tools, in your program.
//!
//! A tool is a function, an agent is a value, and running it is one call. Nothing is global: no
//! file, no environment (but for the key, see [`Agent::new`]), no runtime of its own; nothing is
//! printed. It runs in [tokio](https://docs.rs/tokio).
//!
//! ```
//! use inspan::{Agent, ToolError, tool};
//!
//! /// The current weather in a city, in °C.
//! #[tool(effects(reads_untrusted), repeat = pure)]
//! async fn weather(
//!     /// The city's name, as people write it.
//!     city: String,
//! ) -> Result<String, ToolError> {
//!     match city.as_str() {
//!         "Lisbon" => Ok("21 °C".to_owned()),
//!         "Porto" => Ok("18 °C".to_owned()),
//!         _ => Err(ToolError::new(format!("no station in {city}"))),
//!     }
//! }
//!
//! # use inspan::testing::{Answer, ScriptedModel};
//! # use serde_json::json;
//! # fn live() -> Result<Agent, inspan::Error> {
//! let agent = Agent::new("anthropic://claude-sonnet-5-5")?.tool(weather).rounds_max(8);
//! # Ok(agent) }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let calls = [("weather", json!({"city": "Lisbon"})), ("weather", json!({"city": "Porto"}))];
//! # let model = ScriptedModel::new([Answer::calls(&calls), Answer::text("In Lisbon.")]);
//! # let agent = Agent::with_provider(model).tool(weather);
//! let done = agent.act("Is it warmer in Lisbon or Porto?").await?;
//! for step in done.tools() {
//!     println!("{step}"); // weather({"city":"Lisbon"}) ok: 21 °C
//! }
//! assert_eq!(done.answer()?, "In Lisbon.");
//! # Ok(()) }
//! ```
//!
//! A turn that ends at a limit, is cancelled, or whose provider fails, is a [`Done`] too, with
//! another [`Done::stop`]; [`Done::answer`] makes an error of it. [`Error`] is for what kept it from
//! running.
//!
//! Beside `inspan`, a program needs tokio, and for types of its own in tools and answers serde and
//! schemars:
//!
//! ```toml
//! [dependencies]
//! inspan = "0.1"
//! tokio = { version = "1", features = ["macros", "rt-multi-thread"] }
//! serde = { version = "1", features = ["derive"] }
//! schemars = "1"
//! ```
//!
//! # Tools
//!
//! [`#[tool]`](macro@tool) makes a tool of a function. Its name, its description and the schema of
//! its arguments come from the signature, the types and the doc comments. Wrong arguments never
//! reach the function: the model is told what is wrong, and where. The function can still be
//! called, as `weather::call("Lisbon".to_owned())`.
//!
//! A `&`[`Context`] parameter is not an argument. It gives what the program lends, the idempotency
//! key, and whether the call was cancelled:
//!
//! ```
//! use std::{collections::BTreeMap, sync::Mutex};
//!
//! use inspan::{Agent, Context, ToolError, tool};
//!
//! #[derive(Default)]
//! struct Orders(Mutex<BTreeMap<u32, &'static str>>);
//!
//! /// Ships an order.
//! #[tool(effects(writes), repeat = idempotent)]
//! async fn ship(context: &Context, order: u32) -> Result<String, ToolError> {
//!     let Orders(orders) = context.shared()?;
//!     let mut orders = orders.lock().map_err(|_| ToolError::new("the orders are damaged"))?;
//!     match orders.insert(order, "shipped") {
//!         Some("shipped") => Err(ToolError::new("it was shipped before")),
//!         _ => Ok(format!("order {order} is shipped")),
//!     }
//! }
//! # fn with(agent: Agent) -> Agent {
//! agent.tool(ship).shared(Orders::default())
//! # }
//! ```
//!
//! What a tool may do, and whether it may be done again, is declared once; from it follow what runs
//! side by side, what a gate can ask about, and what happens to a call whose process died.
//!
//! # Gates
//!
//! A gate judges every call before it runs: a closure, a function, an `async` one, or a type that
//! implements [`Gate`]. All must agree, and one that errors refuses.
//!
//! ```
//! use inspan::{Agent, GateCall, Verdict};
//!
//! fn only_small(call: &GateCall) -> Verdict {
//!     match call.arguments["amount"].as_f64() {
//!         Some(amount) if amount >= 100.0 => Verdict::Deny("100 or more is for people".into()),
//!         _ => Verdict::Allow,
//!     }
//! }
//! # fn with(agent: Agent) -> Agent {
//! agent.gate(only_small).gate(|call: &GateCall| match call.tool.effects.destroys {
//!     true => Verdict::Ask("it destroys something".into()),
//!     false => Verdict::Allow,
//! })
//! # }
//! ```
//!
//! [`Agent::ask_with`] answers what a gate asks; without it, asking means no.
//!
//! # Sessions
//!
//! A session is an append-only log, and everything else is a function of that log. [`Agent::act`]
//! has one for itself; [`Agent::session`] gives one to say more than one thing, to cancel and to
//! watch. [`Agent::resume`] goes on with any session of the store, also when the process that drove
//! it died in the middle. Logs are in memory unless [`Agent::store`] says otherwise.
//!
//! ```
//! # use inspan::{Agent, testing::{Answer, ScriptedModel}};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let agent = Agent::with_provider(ScriptedModel::new([
//! #     Answer::text("Hello, Ana."), Answer::text("You are Ana."), Answer::text("Bye, Ana.")]));
//! let session = agent.session().await?;
//! session.say("I am Ana.").await?;
//! assert_eq!(session.say("Who am I?").await?.text, "You are Ana.");
//! let id = session.id().clone();
//! session.close().await?;
//!
//! let session = agent.resume(&id).await?;
//! assert_eq!(session.say("Bye.").await?.text, "Bye, Ana.");
//! # Ok(()) }
//! ```
//!
//! # Answers in a form
//!
//! ```
//! # use inspan::{Agent, schemars, serde, testing::{Answer, ScriptedModel}};
//! #[derive(Debug, PartialEq, serde::Deserialize, schemars::JsonSchema)]
//! # #[serde(crate = "inspan::serde")]
//! # #[schemars(crate = "inspan::schemars")]
//! struct City {
//!     name: String,
//!     inhabitants: u32,
//! }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let agent = Agent::with_provider(ScriptedModel::new([
//! #     Answer::text(r#"{"name":"Lisbon","inhabitants":567131}"#)]));
//! let city: City = agent.ask("The largest city of Portugal?").await?;
//! assert_eq!(city, City { name: "Lisbon".to_owned(), inhabitants: 567_131 });
//! # Ok(()) }
//! ```
//!
//! # By hand
//!
//! Those who write the loop themselves take the parts: [`Conversation`] is what a model is asked,
//! [`chat`] asks once, [`Tools`] run a call. No log, no gates, no limits, no further attempts.
//!
//! ```
//! # use inspan::{testing::{Answer, ScriptedModel}, tool};
//! use inspan::{Conversation, Tools, chat};
//! # /// Gives back its text.
//! # #[tool(effects(), repeat = pure)]
//! # fn echo(text: String) -> String { text }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let calls = [("echo", serde_json::json!({"text": "hi"}))];
//! # let model = ScriptedModel::new([Answer::calls(&calls), Answer::text("It said hi.")]);
//! let tools = Tools::new(echo);
//! let mut conversation = Conversation::new("Let the echo say hi.").tools(&tools);
//! let answer = loop {
//!     let reply = chat(&model, &conversation).await?;
//!     let (calls, text) = (reply.calls().cloned().collect::<Vec<_>>(), reply.text());
//!     conversation.push_reply(reply);
//!     if calls.is_empty() {
//!         break text;
//!     }
//!     for call in &calls {
//!         conversation.push_results([tools.run(call).await]);
//!     }
//! };
//! assert_eq!(answer, "It said hi.");
//! # Ok(()) }
//! ```
//!
//! # Tests
//!
#![cfg_attr(feature = "testing", doc = "With the feature `testing`, [`testing::ScriptedModel`]")]
#![cfg_attr(not(feature = "testing"), doc = "With the feature `testing`, a scripted model")]
//! plays answers in the model's place, and a recorded session is a test in one line. Tools, gates,
//! limits and the log are the real ones.
//!
//! # Features
//!
//! - `providers` (on by default): model APIs over HTTP, for [`Agent::with_provider`] and
//!   `Agent::new`.
//! - `sqlite`: logs in SQLite, which outlive their process: `Agent::store(Sqlite::open(path).await?)`.
//! - `postgres`: logs in Postgres, for several machines: `Agent::store(Postgres::open(url).await?)`.
//! - `s3`: pictures and long results in a bucket: `Agent::blobs(S3::new(&place)?)`.
//! - `mcp`: tools, and whole agents, for programs that speak MCP: `Agent::serve_tools`.
//! - `testing`: see above.

extern crate self as inspan;

/// The example in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

mod agent;
mod answer;
mod by_hand;
mod context;
mod done;
mod error;
mod gates;
#[cfg(feature = "mcp")]
pub mod mcp;
mod private;
mod schema;
mod session;
#[cfg(feature = "testing")]
pub mod testing;
mod turn;

/// What the code that `#[tool]` writes stands on: no part of the interface.
#[doc(hidden)]
pub mod __private {
    pub use crate::private::*;
}

pub use agent::Agent;
pub use by_hand::{Conversation, Tools, chat, result_of};
pub use context::{Cancellation, Context};
pub use done::{Done, Step, StepKind};
pub use error::Error;
pub use gates::{IntoGate, IntoVerdict};
pub use inspan_core as core;
pub use inspan_core::{
    blobs::Blobs,
    budget::{Limits, Price},
    effects::{Effects, Repeat},
    event::{Entry, Event, PermissionAsked, Stop},
    gate::{Choice, Gate, GateCall, Verdict},
    mask::Mask,
    message::{CallId, Content, How, Reply, ReplyPart, ReplyStop, ToolCall, ToolResult, Usage},
    prompt::{CallResult, Message},
    provider::{Delta, ErrorClass, ModelError, Provider},
    shared::Shared,
    store::{SessionId, Store, StoreError},
    tool::{Invocation, Tool, ToolError, ToolSpec},
};
pub use inspan_engine::{SessionError, Update};
#[cfg(feature = "providers")]
pub use inspan_providers as providers;
pub use inspan_store::Memory;
#[cfg(feature = "postgres")]
pub use inspan_store::Postgres;
#[cfg(feature = "sqlite")]
pub use inspan_store::{Files, Sqlite};
#[cfg(feature = "s3")]
pub use inspan_store::{S3, S3Place};
pub use schemars;
pub use serde;
pub use session::Session;

/// Makes a tool of a function.
///
/// It becomes a unit value of the function's name that implements [`Tool`]; the function itself
/// stays, as `NAME::call`. It may be `async` or not (then it must not block for long), and has no
/// generics and no `self`.
///
/// - **Description**: its doc comment. The doc comments of the parameters are theirs.
/// - **Arguments**: every parameter, of a type with `serde::Deserialize` and
///   `schemars::JsonSchema`. An `Option` may be left out; so may a parameter with
///   `#[default(10)]`. Others that the model writes are refused. A mistake is told with its path:
///   ``/city: invalid type: integer `3`, expected a string``.
/// - **Context**: a `&`[`Context`] parameter is no argument.
/// - **Result**: a `String` is told to the model as it is, a [`ToolResult`] too, everything else
///   that has `serde::Serialize` as JSON. In a `Result`, the error has `Display`, or is a
///   [`ToolError`]: `?` makes one of whatever implements `std::error::Error`, and
///   `.map_err(ToolError::new)` of a text.
///
/// The tool is a value of the function's name, so no variable near it can have the same name:
/// `let report = weather::call(…)`, not `let weather`.
///
/// The options, all of which may be left out:
///
/// | option | meaning | left out |
/// |---|---|---|
/// | `effects(reads_private, reads_untrusted, writes, sends, destroys, spends)` | what it may do; `effects()`: nothing | all of them |
/// | `repeat = pure` | `pure`, `idempotent`, `keyed`, `once`: whether it may run again | `once` |
/// | `name = "search-orders"` | the tool's name | the function's |
/// | `timeout = "20s"` | the limit on the time of one call | two minutes |
/// | `resource = "path"` | the argument that says what a call works on; calls on others need not wait | none |
/// | `polls` | it is meant to be asked the same again and again | it is not |
///
/// ```
/// use inspan::{Tool, tool};
///
/// /// Adds two numbers.
/// #[tool(effects(), repeat = pure)]
/// fn add(a: i64, #[default(1)] b: i64) -> i64 {
///     a + b
/// }
///
/// assert_eq!(add::call(1, 2), 3);
/// assert_eq!(add.spec().input["required"], serde_json::json!(["a"]));
/// ```
pub use inspan_macros::tool;
