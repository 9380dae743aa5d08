//! Tools that are served, and a client of them.

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use inspan_core::{
    Entry, Event,
    effects::{Effects, Repeat},
    gate::{BoxFuture, Gate, GateCall, Verdict},
    mask::Mask,
    message::{Content, ImageRef, ToolResult},
    store::{SessionFilter, Store},
    tool::{Invocation, Tool, ToolError, ToolSpec},
};
use inspan_engine::{
    Setup,
    session::log,
    tools::{Progress, builtin},
};
use inspan_evals::scripted::{Answer, ScriptedModel};
use inspan_mcp::{Inquiries, serve::Served};
use inspan_store::Memory;
use rmcp::{
    ClientHandler, RoleClient,
    model::{
        CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig,
        ElicitRequestParams, ElicitResult, ElicitationAction, Implementation,
        ProgressNotificationParam, ProtocolVersion,
    },
    service::{
        ClientLifecycleMode, ClientServiceExt, NotificationContext, RequestContext, RunningService,
    },
};
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};

/// A secret that tools say.
pub(crate) const SECRET: &str = "sesame-open-1234";

/// What happened in the tools.
#[derive(Default)]
pub(crate) struct Seen {
    /// Writing calls that run.
    pub(crate) writing: AtomicU32,
    /// Writing calls that ran, and how many at most at once.
    pub(crate) wrote: AtomicU32,
    pub(crate) at_once: AtomicU32,
    /// A call that never ends began.
    pub(crate) began: Notify,
    /// It was dropped.
    pub(crate) dropped: Notify,
}

/// A tool by what it does.
struct Made {
    spec: Arc<ToolSpec>,
    seen: Arc<Seen>,
    store: Memory,
}

impl Tool for Made {
    fn spec(&self) -> Arc<ToolSpec> {
        self.spec.clone()
    }

    fn check(&self, arguments: Value) -> Result<Value, String> {
        match arguments.get("wrong") {
            Some(_) => Err("/wrong: there is no such argument".to_owned()),
            None => Ok(arguments),
        }
    }

    fn run(&self, call: Invocation) -> BoxFuture<'static, Result<ToolResult, ToolError>> {
        let (name, seen, store) = (self.spec.name.clone(), self.seen.clone(), self.store.clone());
        Box::pin(async move {
            match name.as_str() {
                "fail" => Err(ToolError::new("not today")),
                "secret" => Ok(ToolResult::text(format!("it is {SECRET}"))),
                "picture" => {
                    use inspan_core::blobs::Blobs as _;
                    let hash = store.put(Arc::from(&b"PNG"[..])).await?;
                    let media_type = "image/png".to_owned();
                    let image = Content::Image(ImageRef { hash, media_type, size_bytes: 3 });
                    let evidence = Some(json!({ "pictures": 1 }));
                    Ok(ToolResult { content: vec![image], evidence, ..ToolResult::default() })
                }
                "inquire" => {
                    let person = call.shared.get::<Inquiries>();
                    let person = person.ok_or_else(|| ToolError::new("nobody is there"))?;
                    let schema = json!({
                        "type": "object",
                        "properties": { "project": { "type": "string" } },
                        "required": ["project"],
                    });
                    let params = json!({ "message": "Which one?", "requestedSchema": schema });
                    let said = person.ask("tracker", &params).await.map_err(ToolError::new)?;
                    Ok(ToolResult::text(said.to_string()))
                }
                "steps" => {
                    let progress = call.shared.get::<Progress>().cloned().unwrap_or_default();
                    for _ in 0..3 {
                        progress.made();
                        tokio::task::yield_now().await;
                        tokio::task::yield_now().await;
                    }
                    Ok(ToolResult::text("three steps"))
                }
                "write" => {
                    let now = seen.writing.fetch_add(1, Ordering::SeqCst) + 1;
                    seen.at_once.fetch_max(now, Ordering::SeqCst);
                    for _ in 0..5 {
                        tokio::task::yield_now().await;
                    }
                    seen.writing.fetch_sub(1, Ordering::SeqCst);
                    let count = seen.wrote.fetch_add(1, Ordering::SeqCst) + 1;
                    Ok(ToolResult::text(count.to_string()))
                }
                _ => {
                    let _told = Told(seen.clone());
                    seen.began.notify_one();
                    pending().await
                }
            }
        })
    }
}

struct Told(Arc<Seen>);

impl Drop for Told {
    fn drop(&mut self) {
        self.0.dropped.notify_one();
    }
}

/// Asks and refuses where the arguments say so, or asks always.
struct Asks {
    always: bool,
}

impl Gate for Asks {
    fn name(&self) -> &str {
        "asks"
    }

    fn judge<'a>(&'a self, call: &'a GateCall) -> BoxFuture<'a, Result<Verdict, String>> {
        let verdict = match call.arguments.get("gate").and_then(Value::as_str) {
            _ if self.always => Verdict::Ask("it costs".to_owned()),
            Some("ask") => Verdict::Ask("it costs".to_owned()),
            Some("no") => Verdict::Deny("never on Sundays".to_owned()),
            _ => Verdict::Allow,
        };
        Box::pin(std::future::ready(Ok(verdict)))
    }
}

/// Tools that are served from memory.
pub(crate) struct World {
    pub(crate) store: Memory,
    pub(crate) seen: Arc<Seen>,
    pub(crate) served: Arc<Served>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(false)
    }

    /// One in which a person is asked before each call.
    pub(crate) fn asking() -> Self {
        Self::with(true)
    }

    fn with(always: bool) -> Self {
        let (store, seen) = (Memory::default(), Arc::new(Seen::default()));
        let mut setup = setup(&store, &seen);
        setup.gates = vec![Arc::new(Asks { always })];
        Self { store, seen, served: Served::tools("shop", setup).unwrap() }
    }

    /// An agent that is served whole, whose model gives these answers. A person is asked before
    /// each of its calls, or where the arguments say so.
    pub(crate) fn agent(answers: Vec<Answer>, always: bool) -> Self {
        let (store, seen) = (Memory::default(), Arc::new(Seen::default()));
        let mut setup = setup(&store, &seen);
        setup.provider = Arc::new(ScriptedModel::new(answers));
        setup.gates = vec![Arc::new(Asks { always })];
        setup.config.limits.retries_max = 0;
        Self { store, seen, served: Served::agent("helper", "Helps.", setup) }
    }

    /// A client of these tools that talks over a pipe.
    pub(crate) async fn client(&self, person: Person, mode: Mode) -> Client {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (input, output) = tokio::io::split(theirs);
        let served = self.served.clone();
        tokio::spawn(async move { served.pipes(input, output, pending()).await });
        let (told, progress) = mpsc::unbounded_channel();
        let ear = Ear { person, told };
        let service = ear.serve_with_lifecycle(ours, mode.lifecycle()).await.unwrap();
        Client { service, progress }
    }

    /// The kinds of all entries of all sessions, session by session.
    pub(crate) async fn logs(&self) -> Vec<Vec<Entry>> {
        let rows = self.store.sessions(&SessionFilter::all(1000)).await.unwrap();
        let mut logs = Vec::new();
        for row in rows {
            logs.push(log(&self.store, &row.id).await.unwrap());
        }
        logs
    }

    /// The kinds of the entries of the one session.
    pub(crate) async fn kinds(&self) -> Vec<String> {
        let logs = self.logs().await;
        assert_eq!(logs.len(), 1);
        logs[0].iter().map(|entry| kind(&entry.event)).collect()
    }
}

fn kind(event: &Event) -> String {
    event.kind().to_owned()
}

pub(crate) fn setup(store: &Memory, seen: &Arc<Seen>) -> Setup {
    let reads = ["fail", "secret", "picture", "steps"];
    let made = ["fail", "secret", "picture", "steps", "inquire", "write", "hang"].map(|name| {
        let mut spec = ToolSpec::new(name, format!("Does what `{name}` says."));
        if reads.contains(&name) {
            (spec.effects, spec.repeat) = (Effects::NONE, Repeat::Pure);
        }
        let (seen, store) = (seen.clone(), store.clone());
        Arc::new(Made { spec: Arc::new(spec), seen, store }) as Arc<dyn Tool>
    });
    let tools = made.into_iter().chain(builtin("echo")).collect();
    let plain = inspan_mcp::serve::setup(tools, Arc::new(store.clone()));
    Setup { blobs: Some(Arc::new(store.clone())), mask: Mask::new([SECRET.to_owned()]), ..plain }
}

/// In which revision a client talks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mode {
    Legacy,
    Modern,
}

impl Mode {
    pub(crate) const BOTH: [Self; 2] = [Self::Legacy, Self::Modern];

    pub(crate) fn lifecycle(self) -> ClientLifecycleMode {
        let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
        match self {
            Self::Legacy => ClientLifecycleMode::Initialize,
            Self::Modern => ClientLifecycleMode::Discover { preferred_versions },
        }
    }
}

/// Who sits at the client.
#[derive(Clone, Debug)]
pub(crate) enum Person {
    /// The client can't ask.
    Nobody,
    /// They fill the form in so.
    Says(Value),
    Declines,
}

pub(crate) struct Ear {
    pub(crate) person: Person,
    pub(crate) told: mpsc::UnboundedSender<Option<String>>,
}

impl ClientHandler for Ear {
    fn get_info(&self) -> ClientConfig {
        let capabilities = match self.person {
            Person::Nobody => ClientCapabilities::default(),
            Person::Says(_) | Person::Declines => {
                ClientCapabilities::builder().enable_elicitation().build()
            }
        };
        ClientConfig::new(capabilities, Implementation::new("tester", "1"))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, rmcp::ErrorData> {
        let ElicitRequestParams::FormElicitationParams { message, .. } = request else {
            panic!("no form: {request:?}");
        };
        let is_permission = message.starts_with("May `echo` run? it costs\nArguments: {");
        assert!(is_permission || message == "`tracker` asks: Which one?", "{message}");
        Ok(match &self.person {
            Person::Says(value) => {
                let mut said = ElicitResult::new(ElicitationAction::Accept);
                said.content = Some(value.clone());
                said
            }
            Person::Nobody | Person::Declines => ElicitResult::new(ElicitationAction::Decline),
        })
    }

    async fn on_progress(
        &self,
        progress: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let _ = self.told.send(progress.message);
    }
}

/// A client of the world's tools.
pub(crate) struct Client {
    pub(crate) service: RunningService<RoleClient, Ear>,
    pub(crate) progress: mpsc::UnboundedReceiver<Option<String>>,
}

impl Client {
    pub(crate) async fn call(&self, name: &str, arguments: Value) -> CallToolResult {
        self.service.call_tool(params(name, arguments)).await.unwrap()
    }
}

pub(crate) fn params(name: &str, arguments: Value) -> CallToolRequestParams {
    let params = CallToolRequestParams::new(name.to_owned());
    match arguments {
        Value::Object(arguments) => params.with_arguments(arguments),
        _ => params,
    }
}

/// A result in short: whether it is an error, how it was answered, and its text.
pub(crate) fn short(result: &CallToolResult) -> (bool, String, String) {
    let json = serde_json::to_value(result).unwrap();
    let texts: Vec<&str> =
        json["content"].as_array().unwrap().iter().filter_map(|c| c["text"].as_str()).collect();
    let how = json["_meta"]["inspan/how"].as_str().unwrap_or_default().to_owned();
    (json["isError"] == true, how, texts.join("\n"))
}

pub(crate) fn answered(how: &str, text: &str) -> (bool, String, String) {
    (how != "ok", how.to_owned(), text.to_owned())
}
