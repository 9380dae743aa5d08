//! An agent: a model, tools, gates and limits, as one value.

use std::{any::Any, fmt, future::Future, sync::Arc, time::Duration};

use futures_util::stream;
use inspan_core::{
    Entry,
    blobs::Blobs,
    budget::{Limits, Price},
    event::{AgentRef, ModelRef, PermissionAsked, SessionConfigured},
    gate::{Asking, Choice, Gate},
    hash::Hash,
    mask::Mask,
    provider::{BoxStream, Provider},
    shared::Shared,
    store::{ENTRIES_READ_MAX, SessionId, Store, StoreError},
    tool::Tool,
};
use inspan_engine::{Fallback, Setup, SystemClock, session::fold};
use inspan_store::Memory;
use uuid::Uuid;

use crate::{
    done::Done,
    error::Error,
    gates::IntoGate,
    session::Session,
    turn::{Asker, asker},
};

/// How often a session of another process is looked at.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(200);

/// Sessions whose logs an agent without a store of its own keeps when nobody writes them.
const SESSIONS_KEPT_MAX: usize = 64;

/// An agent. A value like any other: clones are cheap and share the store.
///
/// It needs a tokio runtime and brings none. Nothing is printed, and no file is touched that the
/// store does not own.
#[derive(Clone)]
pub struct Agent {
    provider: Arc<dyn Provider>,
    model: ModelRef,
    fallbacks: Vec<Fallback>,
    name: String,
    system: String,
    tools: Vec<Arc<dyn Tool>>,
    gates: Vec<Arc<dyn Gate>>,
    limits: Limits,
    store: Arc<dyn Store>,
    blobs: Option<Arc<dyn Blobs>>,
    /// Keeps pictures where neither the program nor the store has a place for them.
    pictures: Memory,
    shared: Shared,
    mask: Mask,
    asker: Option<Asker>,
}

/// How it is put together.
impl Agent {
    /// An agent with a model of Anthropic (`anthropic://claude-sonnet-5-5`), OpenAI (`openai://…`)
    /// or Ollama (`ollama://…`). The environment says where they are (`ANTHROPIC_BASE_URL`, …) and
    /// holds the key (`ANTHROPIC_API_KEY`, …), which is read when a request is sent.
    ///
    /// # Errors
    /// The model's URL is none, or there is no key: the error says what to set.
    #[cfg(feature = "providers")]
    pub fn new(model: &str) -> Result<Self, Error> {
        use inspan_providers::{Server, built_in, connect, environment};
        let servers = built_in(&environment());
        Server::find(model, &servers)?.0.check_key()?;
        Ok(Self::with_provider(connect(model, &servers, None)?))
    }

    /// An agent with a model of your own, or one from `inspan::providers::connect`. Nothing is read
    /// from anywhere. Prices and windows of well-known models are known by their URL.
    pub fn with_provider(provider: impl Provider + 'static) -> Self {
        Self {
            model: model_of(&provider),
            provider: Arc::new(provider),
            fallbacks: Vec::new(),
            name: String::new(),
            system: String::new(),
            tools: Vec::new(),
            gates: Vec::new(),
            limits: Limits::call(),
            store: Arc::new(Memory::keeping(SESSIONS_KEPT_MAX)),
            blobs: None,
            pictures: Memory::keeping(0),
            shared: Shared::default(),
            mask: Mask::default(),
            asker: None,
        }
    }

    /// A model that answers when the server of those before it fails for good, for the rest of the
    /// turn: `openai://…`, as in [`Agent::new`]. May be given more than once; they are asked in that
    /// order. The log says when one takes over.
    ///
    /// ```
    /// # fn live() -> Result<inspan::Agent, inspan::Error> {
    /// let agent = inspan::Agent::new("anthropic://claude-sonnet-5-5")?.fallback("openai://gpt-5")?;
    /// # Ok(agent) }
    /// ```
    ///
    /// # Errors
    /// The model's URL is none, or there is no key: the error says what to set.
    #[cfg(feature = "providers")]
    pub fn fallback(self, model: &str) -> Result<Self, Error> {
        use inspan_providers::{Server, built_in, connect, environment};
        let servers = built_in(&environment());
        Server::find(model, &servers)?.0.check_key()?;
        Ok(self.fallback_with_provider(connect(model, &servers, None)?, None))
    }

    /// The same with a model of your own, or one from `inspan::providers::connect`. A limit on cost
    /// needs its price, too; `None` for that of a well-known model, which is known.
    ///
    /// ```
    /// use inspan::{Agent, ErrorClass, testing::{Answer, ScriptedModel}};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), inspan::Error> {
    /// let first = ScriptedModel::new([Answer::failure(ErrorClass::Auth)]);
    /// let second = ScriptedModel::new([Answer::text("The second one answers.")]);
    /// let agent = Agent::with_provider(first).fallback_with_provider(second, None);
    /// assert_eq!(agent.act("Hello").await?.answer()?, "The second one answers.");
    /// # Ok(()) }
    /// ```
    pub fn fallback_with_provider(
        mut self,
        provider: impl Provider + 'static,
        price: Option<Price>,
    ) -> Self {
        let known = model_of(&provider);
        let model = ModelRef { price: price.or(known.price), ..known };
        self.fallbacks.push(Fallback { model, provider: Arc::new(provider) });
        self
    }

    /// A name for the log.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// The system prompt.
    pub fn system(mut self, prompt: impl Into<String>) -> Self {
        self.system = prompt.into();
        self
    }

    /// One more tool: a function with [`#[tool]`](crate::tool), or whatever implements [`Tool`].
    pub fn tool(mut self, tool: impl Tool + 'static) -> Self {
        self.tools.push(Arc::new(tool));
        self
    }

    /// More tools, such as those of a list made at run time.
    pub fn tools(mut self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        self.tools.extend(tools);
        self
    }

    /// One more gate, which judges every call before it runs. All must agree: one
    /// [`Deny`](crate::Verdict::Deny) refuses. A gate that errors, or is not done after a minute,
    /// refuses.
    ///
    /// Takes a closure or function `Fn(&GateCall) -> Verdict`, an `async` one
    /// `Fn(GateCall) -> Verdict` (which owns the call: it may wait), either with a `Result` of a
    /// verdict, or what implements [`Gate`]. An `async` closure that captures something clones it:
    /// `move |call: GateCall| { let pool = pool.clone(); async move { … } }`.
    pub fn gate<Form>(mut self, gate: impl IntoGate<Form>) -> Self {
        self.gates.push(gate.into_gate());
        self
    }

    /// What each turn may spend; [`Limits::call`] if not set. A limit on cost needs the model's
    /// price.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The most rounds of a turn: model calls with the answering of their tool calls. 8 if not set.
    pub fn rounds_max(mut self, rounds_max: u32) -> Self {
        self.limits.rounds_max = rounds_max;
        self
    }

    /// The model's price. That of well-known models is known.
    pub fn price(mut self, price: Price) -> Self {
        self.model.price = Some(price);
        self
    }

    /// The size of the model's window in tokens. That of well-known models is known.
    pub fn window_tokens_max(mut self, window_tokens_max: u64) -> Self {
        self.model.window_tokens_max = Some(window_tokens_max);
        self
    }

    /// Where logs are kept. If not set, in memory: those of the sessions that are open, and the
    /// last 64 of the others ([`Memory::keeping`](crate::Memory::keeping)). An `Arc` of a store can
    /// be shared.
    pub fn store(mut self, store: impl Store + 'static) -> Self {
        self.store = Arc::new(store);
        self
    }

    /// Where pictures, and results that are too long for the log, are kept. The model can then read
    /// such a result in pages: its tools get one more, `open_result`. If not set, pictures are kept where the store
    /// says ([`Store::blobs`]), which is a folder beside the file for SQLite, else
    /// in memory; and of long results only the beginning and the end.
    pub fn blobs(mut self, blobs: impl Blobs + 'static) -> Self {
        self.blobs = Some(Arc::new(blobs));
        self
    }

    /// Lends a value to tools ([`Context::shared`](crate::Context::shared)) and gates
    /// ([`GateCall::shared`](crate::GateCall::shared)), which find it by its type.
    pub fn shared<T: Any + Send + Sync>(mut self, value: T) -> Self {
        self.shared.insert(value);
        self
    }

    /// Masks what tools and providers say, before it is written down or sent. Common forms of keys
    /// are masked always.
    pub fn mask(mut self, mask: Mask) -> Self {
        self.mask = mask;
        self
    }

    /// Answers the questions that a gate's [`Ask`](crate::Verdict::Ask) raises, while a turn is
    /// waited for. Without it, asking means no.
    pub fn ask_with<F, Fut>(mut self, answer: F) -> Self
    where
        F: Fn(PermissionAsked) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Choice> + Send + 'static,
    {
        self.asker = Some(asker(answer));
        self
    }
}

/// How it is run.
impl Agent {
    /// The tools that the model's server would refuse, each with the reason, in words that follow
    /// its name: too many, or a schema that it can't take. Sessions are without them, since one of
    /// them would cost every request; a program that needs all its tools looks here first.
    pub fn unfit_tools(&self) -> Vec<(String, String)> {
        let specs: Vec<_> = self.tools.iter().map(|tool| tool.spec()).collect();
        self.provider.unfit_tools(&specs)
    }

    /// Runs one turn in a session of its own. Dropping the future cancels the turn.
    ///
    /// # Errors
    /// What kept it from running. A turn that ends in another way than with an answer is no error:
    /// see [`Done::stop`].
    pub async fn act(&self, prompt: impl Into<String>) -> Result<Done, Error> {
        let session = self.session().await?;
        let done = session.say(prompt).await?;
        session.close().await?;
        Ok(done)
    }

    /// Begins a session, to say more than one thing.
    ///
    /// # Errors
    /// Two tools have one name, a limit on cost has no price, or the store says no.
    pub async fn session(&self) -> Result<Session, Error> {
        let id = SessionId::from_u128(Uuid::now_v7().as_u128());
        // In a box, so that whoever holds a session's future holds little of its beginning.
        let driven = Box::pin(inspan_engine::Session::start(self.setup(), id)).await?;
        Ok(Session::new(driven, self.asker.clone(), self.model.url.clone(), None))
    }

    /// Goes on with a session of the store. What a dead process left open is closed or run again,
    /// as its tools have declared; [`Session::go_on`] waits for it.
    ///
    /// # Errors
    /// There is no such session, another process drives it, or the store says no.
    pub async fn resume(&self, id: &SessionId) -> Result<Session, Error> {
        let before = fold(&*self.store, id).await?;
        let driven = Box::pin(inspan_engine::Session::resume(self.setup(), id.clone())).await?;
        Ok(Session::new(driven, self.asker.clone(), self.model.url.clone(), Some(&before)))
    }

    /// The entries of a session, whoever drives it: first those that are there, then those that
    /// come, until the stream is dropped. Looks at the store a few times a second; changes nothing.
    pub fn follow(&self, id: &SessionId) -> BoxStream<Result<Entry, StoreError>> {
        let start = (self.store.clone(), id.clone(), 0_u64, Vec::new().into_iter());
        Box::pin(stream::try_unfold(start, async |(store, id, mut after, mut read)| {
            loop {
                if let Some(entry) = read.next() {
                    let entry: Entry = entry;
                    after = entry.seq;
                    return Ok(Some((entry, (store, id, after, read))));
                }
                let more = store.read(&id, after, ENTRIES_READ_MAX).await?;
                if more.is_empty() {
                    tokio::time::sleep(FOLLOW_INTERVAL).await;
                }
                read = more.into_iter();
            }
        }))
    }

    /// The whole log of a session. Its lines ([`Entry::to_line`]) are a recording.
    ///
    /// # Errors
    /// There is no such session, or the store says no.
    pub async fn log(&self, id: &SessionId) -> Result<Vec<Entry>, Error> {
        Ok(inspan_engine::session::log(&*self.store, id).await?)
    }

    /// Its name, or this one.
    #[cfg(feature = "mcp")]
    pub(crate) fn name_or(&self, other: &str) -> String {
        if self.name.is_empty() { other.to_owned() } else { self.name.clone() }
    }

    pub(crate) fn setup(&self) -> Setup {
        let agent = AgentRef {
            name: self.name.clone(),
            path: String::new(),
            hash: Hash::of(&[self.name.as_bytes(), self.system.as_bytes()]),
        };
        let unfit = self.unfit_tools();
        let is_fit =
            |tool: &&Arc<dyn Tool>| unfit.iter().all(|(name, _)| *name != tool.spec().name);
        let kept = self.blobs.clone().or_else(|| self.store.blobs());
        Setup {
            store: self.store.clone(),
            pictures: None,
            keeps_results: self.blobs.is_some(),
            blobs: Some(kept.unwrap_or_else(|| Arc::new(self.pictures.clone()))),
            provider: self.provider.clone(),
            fallbacks: self.fallbacks.clone(),
            tools: self.tools.iter().filter(is_fit).cloned().collect(),
            catalogue: None,
            gates: self.gates.clone(),
            shared: self.shared.clone(),
            clock: Arc::new(SystemClock),
            mask: self.mask.clone(),
            asking: if self.asker.is_some() { Asking::Now } else { Asking::Never },
            workdir: String::new(),
            config: SessionConfigured {
                agent: (!self.name.is_empty()).then_some(agent),
                model: self.model.clone(),
                fallbacks: Vec::new(),
                system: self.system.clone(),
                tools: Vec::new(),
                found: Default::default(),
                gates: Vec::new(),
                asks: Default::default(),
                limits: self.limits.clone(),
                sandbox: "none".to_owned(),
                workdir: None,
            },
        }
    }
}

/// What is known of a provider's model.
fn model_of(provider: &dyn Provider) -> ModelRef {
    // An issuer is the model's URL and where its server is.
    let issuer = provider.issuer();
    let url = issuer.split_once(" at ").map_or(issuer, |(url, _)| url).to_owned();
    let unknown = ModelRef {
        url,
        window_tokens_max: None,
        output_tokens_max: None,
        price: None,
        cuts_silently: provider.cuts_silently(),
    };
    #[cfg(feature = "providers")]
    if let Some(known) = inspan_providers::known(&unknown.url) {
        return ModelRef {
            window_tokens_max: Some(known.window_tokens_max),
            output_tokens_max: Some(known.output_tokens_max),
            price: Some(known.price),
            ..unknown
        };
    }
    unknown
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tools: Vec<String> = self.tools.iter().map(|tool| tool.spec().name.clone()).collect();
        f.debug_struct("Agent")
            .field("name", &self.name)
            .field("model", &self.model.url)
            .field("tools", &tools)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
