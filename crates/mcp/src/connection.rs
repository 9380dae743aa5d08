//! One connection to a server: how it is made, in which revision, and how it ends.

use std::{error::Error, io, time::Duration};

use rmcp::{
    RoleClient,
    model::{
        ClientCapabilities, ClientConfig, ElicitationCapability, FormElicitationCapability,
        Implementation, ProtocolVersion, ServerNotification, SubscriptionFilter,
        UrlElicitationCapability,
    },
    service::{ClientInitializeError, ClientLifecycleMode, ClientServiceExt, Peer, RunningService},
    transport::streamable_http_client::StreamableHttpError,
};
use tokio::{
    sync::Mutex,
    task::AbortHandle,
    time::{Instant, timeout, timeout_at},
};

use crate::{
    child::{Child, Closed, Junk},
    config::{Link, Protocol, ServerConfig},
    ear::Ear,
    http,
    kept::Era,
    servers::Place,
};

/// Time for telling a server that the connection ends.
const GOODBYE_MS_MAX: u64 = 2_000;

/// A server that is there and was agreed with.
pub(crate) struct Connection {
    pub(crate) peer: Peer<RoleClient>,
    pub(crate) ear: Ear,
    /// What is known of it now: see [`Era`].
    pub(crate) era: Era,
    /// The revision that was agreed on.
    pub(crate) revision: String,
    /// What the server calls itself, with its version; may be empty.
    pub(crate) title: String,
    /// Whether it says that it has tools.
    pub(crate) has_tools: bool,
    /// Whether it says that it has resources.
    pub(crate) has_resources: bool,
    /// Whether it says that it has prompts.
    pub(crate) has_prompts: bool,
    service: Mutex<Option<RunningService<RoleClient, Ear>>>,
    child: Option<Child>,
    /// Hears of changes, in the newest revision.
    _subscribed: Option<Subscribed>,
}

/// A subscription, which ends with the value.
struct Subscribed(AbortHandle);

impl Drop for Subscribed {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Connection {
    /// Connects to the server in the revision that it knows. What was `known` of it is tried first.
    pub(crate) async fn open(
        config: &ServerConfig,
        place: &Place,
        known: Option<Era>,
    ) -> Result<Self, String> {
        let from_now = |ms: u64| Instant::now() + Duration::from_millis(ms);
        let until = from_now(place.timeouts.start_ms_max);
        let ways: &[Way] = match (config.protocol, known) {
            (Protocol::Legacy, _) => &[Way::Handshake],
            (Protocol::Modern, _) => &[Way::Newest],
            (Protocol::Auto, Some(Era::Legacy)) => &[Way::Handshake, Way::Probe],
            (Protocol::Auto, Some(Era::Modern) | None) => &[Way::Probe, Way::Handshake],
        };
        let mut why = String::new();
        for (at, way) in ways.iter().enumerate() {
            let is_last = at + 1 == ways.len();
            let soon = from_now(place.timeouts.discover_ms_max);
            let limit = if is_last || *way == Way::Handshake { until } else { soon.min(until) };
            match Self::try_way(config, place, *way, limit).await {
                Ok(connection) => return Ok(connection),
                Err(Refused { why: this, is_final }) => {
                    why = this;
                    if is_final || Instant::now() >= until {
                        break;
                    }
                }
            }
        }
        Err(why)
    }

    async fn try_way(
        config: &ServerConfig,
        place: &Place,
        way: Way,
        until: Instant,
    ) -> Result<Self, Refused> {
        let ear = Ear::new(client());
        let no_answer = || format!("it did not answer in time{}", way.words());
        match &config.link {
            Link::Program(program) => {
                let started = Child::start(program, &place.owner, &place.launcher);
                let (child, pipes) = started.map_err(|error| {
                    let name = program.argv.first().map_or("", String::as_str);
                    Refused { why: format!("`{name}` can't be started: {error}"), is_final: true }
                })?;
                let serve = ear.clone().serve_with_lifecycle(pipes, way.mode());
                match timeout_at(until, serve).await {
                    Ok(Ok(service)) => Ok(Self::of(service, ear, Some(child))),
                    Ok(Err(error)) => {
                        // One that was understood ends now because we go, which tells nothing.
                        let words = match is_loss(&error) {
                            true => child.last_words().await,
                            false => child.said(),
                        };
                        Err(Refused { why: format!("{}{words}", said(&error)), is_final: false })
                    }
                    Err(_) => Err(Refused { why: no_answer() + &child.said(), is_final: false }),
                }
            }
            Link::Http(link) => {
                let transport = http::transport(link, place.logins.as_deref()).await;
                let transport = transport.map_err(|why| Refused { why, is_final: true })?;
                let serve = ear.clone().serve_with_lifecycle(transport, way.mode());
                match timeout_at(until, serve).await {
                    Ok(Ok(service)) => Ok(Self::of(service, ear, None)),
                    Ok(Err(error)) => Err(match no_login(&error, &config.name) {
                        Some(why) => Refused { why, is_final: true },
                        None => Refused { why: said(&error), is_final: false },
                    }),
                    Err(_) => Err(Refused { why: no_answer(), is_final: false }),
                }
            }
        }
    }

    fn of(service: RunningService<RoleClient, Ear>, ear: Ear, child: Option<Child>) -> Self {
        let info = service.peer().peer_info();
        let version = info.as_ref().map(|info| info.protocol_version.clone());
        let is_modern = version.as_ref().is_some_and(|version| !version.has_initialize());
        let title = info.as_ref().and_then(|info| info.server_info.as_ref());
        let tools = info.as_ref().and_then(|info| info.capabilities.tools.as_ref());
        let tells = tools.is_some_and(|tools| tools.list_changed == Some(true));
        // In the older revisions it tells everybody.
        let subscribed = (is_modern && tells).then(|| subscribe(&service, &ear));
        Self {
            _subscribed: subscribed,
            peer: service.peer().clone(),
            ear,
            era: if is_modern { Era::Modern } else { Era::Legacy },
            revision: version.map_or(String::new(), |version| version.as_str().to_owned()),
            title: title.map_or(String::new(), |info| format!("{} {}", info.name, info.version)),
            has_tools: info.as_ref().is_some_and(|info| info.capabilities.tools.is_some()),
            has_resources: info.as_ref().is_some_and(|info| info.capabilities.resources.is_some()),
            has_prompts: info.as_ref().is_some_and(|info| info.capabilities.prompts.is_some()),
            service: Mutex::new(Some(service)),
            child,
        }
    }

    /// Whether nothing more can be said over it.
    pub(crate) fn has_ended(&self) -> bool {
        self.peer.is_transport_closed() || self.child.as_ref().is_some_and(Child::has_ended)
    }

    /// Lines on the output of a program that are no messages.
    pub(crate) fn junk(&self) -> Junk {
        self.child.as_ref().map(Child::junk).unwrap_or_default()
    }

    /// Processes that a program left when it ended.
    pub(crate) fn left(&self) -> usize {
        self.child.as_ref().map_or(0, Child::left)
    }

    /// How the server ended, as far as it is known, in words that follow a sentence.
    pub(crate) async fn last_words(&self) -> String {
        match &self.child {
            Some(child) => child.last_words().await,
            None => String::new(),
        }
    }

    /// Ends the connection in order. Gives how a program took it.
    pub(crate) async fn close(&self) -> Option<Closed> {
        if let Some(mut service) = self.service.lock().await.take() {
            let goodbye = service.close_with_timeout(Duration::from_millis(GOODBYE_MS_MAX));
            // What is left of it ends with its runtime; a program is ended below.
            let _ = timeout(Duration::from_millis(GOODBYE_MS_MAX), goodbye).await;
        }
        Some(self.child.as_ref()?.close().await)
    }
}

/// What is missing, where that is a login or a right of it.
fn no_login(error: &ClientInitializeError, server: &str) -> Option<String> {
    if error.is_authorization_required() {
        return Some(login_wanted(server));
    }
    match error {
        ClientInitializeError::TransportError { error, .. } => {
            Some(more_wanted(server, &http::rights_wanted(&*error.error)?))
        }
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => no_login(fallback, server),
        // The type of the library is open for more.
        _ => None,
    }
}

/// That a login has too few rights, and how to get one with more.
pub(crate) fn more_wanted(server: &str, rights: &str) -> String {
    let scopes: String = rights.split_whitespace().map(|s| format!(" --scope {s}")).collect();
    format!("the login has too few rights: inspan mcp login {server}{scopes}")
}

/// That a server wants a login, and how to get one.
pub(crate) fn login_wanted(server: &str) -> String {
    format!(
        "it wants to know who asks: inspan mcp login {server}, or set `headers`, as in `headers: {{ \
         Authorization: \"Bearer ${{TOKEN}}\" }}`"
    )
}

/// Asks the server to tell when its tools are others.
fn subscribe(service: &RunningService<RoleClient, Ear>, ear: &Ear) -> Subscribed {
    let (peer, ear) = (service.peer().clone(), ear.clone());
    let listening = async move {
        let filter = SubscriptionFilter::builder().tools_list_changed().build();
        // Without it, a change is seen when the server is started anew.
        let Ok(mut subscription) = peer.listen(filter).await else { return };
        while let Ok(Some(news)) = subscription.next().await {
            if matches!(news, ServerNotification::ToolListChangedNotification(_)) {
                ear.changed();
            }
        }
    };
    Subscribed(tokio::spawn(listening).abort_handle())
}

struct Refused {
    why: String,
    /// Whether another revision can't help.
    is_final: bool,
}

/// How a connection begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// With a question of the newest revision; a server that refuses it gets the handshake.
    Probe,
    /// With that question only.
    Newest,
    /// With the handshake of the older revisions.
    Handshake,
}

impl Way {
    fn mode(self) -> ClientLifecycleMode {
        let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
        match self {
            Self::Probe => ClientLifecycleMode::Auto { preferred_versions, legacy_version: None },
            Self::Newest => ClientLifecycleMode::Discover { preferred_versions },
            Self::Handshake => ClientLifecycleMode::Initialize,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Probe | Self::Newest => "",
            Self::Handshake => ", nor the older way",
        }
    }
}

fn client() -> ClientConfig {
    let name = Implementation::new("inspan", env!("CARGO_PKG_VERSION"));
    let mut capabilities = ClientCapabilities::default();
    // Said whether or not a person is here now: what a server offers must not hang on that.
    let elicitation = ElicitationCapability::new().with_form(FormElicitationCapability::new());
    capabilities.elicitation = Some(elicitation.with_url(UrlElicitationCapability::new()));
    ClientConfig::new(capabilities, name)
}

fn is_loss(error: &ClientInitializeError) -> bool {
    match error {
        ClientInitializeError::ConnectionClosed(_)
        | ClientInitializeError::TransportError { .. } => true,
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => is_loss(fallback),
        // The type of the library is open for more.
        _ => false,
    }
}

/// What went wrong, with its causes, in one sentence.
fn said(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::ConnectionClosed(_) => {
            "it ended the connection before it answered".to_owned()
        }
        ClientInitializeError::ConflictInitResponseId(..) => {
            "it answered another question than the one that it was asked".to_owned()
        }
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => said(fallback),
        ClientInitializeError::TransportError { error, .. } if error.error.is::<io::Error>() => {
            "it ended the connection before it answered".to_owned()
        }
        // The words around it name types of the library.
        ClientInitializeError::TransportError { error, .. } => with_causes(&*error.error),
        other => with_causes(other),
    }
}

/// An error with what led to it.
pub(crate) fn with_causes(error: &(dyn Error + 'static)) -> String {
    if let Some(StreamableHttpError::<reqwest::Error>::Client(error)) = error.downcast_ref() {
        // It is no source of the error around it.
        return with_causes(error);
    }
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !words.contains(&more) {
            words.push_str(": ");
            words.push_str(&more);
        }
        cause = error.source();
    }
    words
}
