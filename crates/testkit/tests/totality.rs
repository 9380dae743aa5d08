//! The fold takes every log, and the model never sees what a provider would refuse.

use std::sync::Arc;

use inspan_core::{
    Action, Event, Policy, State,
    budget::{Limit, Limits, Price},
    decide,
    decide::not_run,
    effects::{Effects, Repeat},
    event::{
        CancelRequested, GateJudged, LimitNeared, ModelFailed, ModelRef, ModelReplied,
        ModelSwitched, Parked, PermissionAnswered, PermissionAsked, ProjectionRepaired, PromptCut,
        PromptSubmitted, RoundStarted, SessionConfigured, SessionForked, SessionStarted, Stop,
        ToolDeferred, ToolFinished, ToolStarted, TurnEnded, Woken, WokenWhy,
    },
    gate::{AnsweredBy, Asking, Choice, Verdict},
    hash::Hash,
    message::{
        CallId, Content, How, ImageRef, Labels, Reasoning, Reply, ReplyPart, ReplyStop,
        ResultState, ToolCall, ToolResult, Usage,
    },
    prompt::{Segment, project, project_after},
    provider::{ErrorClass, ModelError, NoImages, Provider, Refused},
    recover::{recover, retry_at_ms},
    repair::Repair,
    store::SessionId,
    tool::ToolSpec,
};
use inspan_providers::{Lookup, built_in, connect};
use inspan_testkit::{
    rules::Rules,
    snapshots::Snapshots,
    wire::{Api, Wire},
};
use proptest::{collection::vec, option, prelude::*, sample::select};
use serde_json::json;

type Log = Vec<(i64, Event)>;

fn providers() -> [(Arc<dyn Provider>, Api); 3] {
    let nothing: Lookup = Arc::new(|_| None);
    let servers = built_in(&nothing);
    let connected = |model| connect(model, &servers, None).unwrap();
    [
        (connected("anthropic://one"), Api::Anthropic),
        (connected("openai://two"), Api::OpenAi),
        (connected("openai-responses://three"), Api::Responses),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_log_is_a_request_that_only_grows(log in log()) {
        let providers = providers();
        let mut state = State::default();
        let mut sealed = Vec::new();
        let mut snapshots = Snapshots::default();
        for (at_ms, event) in log {
            state.apply(&state.entry(at_ms, event));
            prop_assert_eq!(snapshots.keep(&state), Ok(()));
            prop_assert!(state.messages.starts_with(&sealed), "a sealed message changed");
            sealed.clone_from(&state.messages);
            for (provider, api) in &providers {
                let issuer = provider.issuer();
                let projection = project(&state, issuer);
                let known = state.messages.len() / 2;
                let rest = project_after(&state, issuer, known);
                prop_assert_eq!(&rest.messages, &projection.messages[known..]);
                let messages = projection.messages.iter().map(|message| &***message);
                prop_assert_eq!(Rules::check_all(messages, issuer), Ok(()));
                let mut wire = Wire::new(*api);
                for message in &projection.messages {
                    let bytes = provider.render(Segment::Message(message), &NoImages);
                    prop_assert_eq!(wire.take(&bytes), Ok(()));
                }
                prop_assert_eq!(wire.finish(), Ok(()));
            }
        }
    }

    #[test]
    fn every_turn_of_every_log_can_be_cancelled(log in log(), asking in asking()) {
        let mut state = State::default();
        let configured = Event::from(config(Limits::session()));
        for (at_ms, event) in [(0, configured)].into_iter().chain(log) {
            state.apply(&state.entry(at_ms, event));
            let policy = Policy { now_ms: at_ms, asking };
            let _ = decide(&state, &policy);
            let error = ModelError {
                class: ErrorClass::RateLimited,
                message: String::new(),
                retry_after_ms: Some(u64::MAX),
                refused: None,
            };
            let _ = (recover(&state, at_ms), retry_at_ms(&state, &error, at_ms, 1.0));
        }
        if state.turn.is_none() && state.parked.is_some() {
            state.apply(&state.entry(0, Woken { why: WokenWhy::Unparked }.into()));
        }
        state.apply(&state.entry(0, CancelRequested {}.into()));
        // Every step answers a call or ends the turn, and a late prompt opens one more.
        for _ in 0..200 {
            match decide(&state, &Policy { now_ms: 0, asking }) {
                Action::AppendEvent(event) => state.apply(&state.entry(0, event)),
                Action::AbortEffects(_) => ends(&state)
                    .into_iter()
                    .for_each(|event| state.apply(&state.entry(0, event))),
                Action::Idle { .. } => return Ok(()),
                action => prop_assert!(false, "cancelled, and yet: {action:?}"),
            }
        }
        prop_assert!(false, "the turn does not end");
    }
}

/// What a driver appends when it aborts everything.
fn ends(state: &State) -> Vec<Event> {
    let asking = ModelFailed {
        class: ErrorClass::Cancelled,
        message: String::new(),
        retry_at_ms: None,
        refused: None,
        usage: Usage::default(),
        cost_nano_usd: None,
        ms: 0,
        partial: None,
    };
    let open = state.calls.iter().filter(|open| !open.is_answered());
    open.map(|open| not_run(open, How::Cancelled, "cancelled").into())
        .chain([asking.into()])
        .collect()
}

fn log() -> impl Strategy<Value = Log> {
    vec((time(), event()), 0..40)
}

/// Mostly small, sometimes the worst.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0..5000_u64, 1 => Just(u64::MAX), 1 => any::<u64>()]
}

fn time() -> impl Strategy<Value = i64> {
    prop_oneof![8 => 0..5000_i64, 1 => Just(i64::MAX), 1 => Just(i64::MIN), 1 => any::<i64>()]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        1 => Just(started()),
        2 => limits().prop_map(|limits| config(limits).into()),
        4 => (vec(content(), 0..3)).prop_map(|content| {
            PromptSubmitted { content, labels: Labels::default() }.into()
        }),
        6 => (number(), number(), option::of(select(&Limit::ALL[..]))).prop_map(round),
        8 => (reply(), option::of(number())).prop_map(|(reply, cost_nano_usd)| {
            ModelReplied { reply, cost_nano_usd, first_ms: 0, ms: 0 }.into()
        }),
        3 => (failed(), option::of(time()), option::of(reply()), (number(), refused()))
            .prop_map(failure),
        2 => repair().prop_map(|repair| ProjectionRepaired { repair, why: String::new() }.into()),
        1 => (number(), number()).prop_map(|(sent_tokens, read_tokens)| {
            PromptCut { sent_tokens, read_tokens }.into()
        }),
        1 => Just(ModelSwitched { model: String::new(), why: String::new() }.into()),
        3 => (call_id(), verdict()).prop_map(|(call, verdict)| {
            let arguments = Some(json!(["checked"]));
            GateJudged { call, gate: String::new(), verdict, arguments }.into()
        }),
        2 => call_id().prop_map(asked),
        2 => (call_id(), select(vec![Choice::Once, Choice::Session, Choice::No])).prop_map(
            |(call, choice)| {
                let by = AnsweredBy::Nobody;
                PermissionAnswered { call, choice, by, why: String::new() }.into()
            }
        ),
        4 => (call_id(), repeat(), number()).prop_map(tool_started),
        6 => (call_id(), vec(content(), 0..3), select(&How::ALL[..])).prop_map(tool_finished),
        1 => (select(&Limit::ALL[..]), number(), number()).prop_map(|(limit, spent, max)| {
            LimitNeared { limit, spent, max }.into()
        }),
        1 => (option::of(time()), vec(call_id(), 0..2)).prop_map(|(until_ms, calls)| {
            Parked { why: String::new(), until_ms, calls }.into()
        }),
        2 => (call_id(), option::of(time())).prop_map(|(call, probe_at_ms)| {
            let (name, job) = (String::new(), String::new());
            ToolDeferred { call, name, job, probe_at_ms }.into()
        }),
        1 => Just(forked()),
        2 => select(vec![WokenWhy::Interrupted, WokenWhy::Unparked])
            .prop_map(|why| Woken { why }.into()),
        1 => Just(CancelRequested {}.into()),
        3 => select(&Stop::ALL[..])
            .prop_map(|stop| TurnEnded { stop, detail: String::new(), unread: false }.into()),
    ]
}

fn started() -> Event {
    let session = SessionId::try_from("s".to_owned()).unwrap();
    let (inspan, workdir) = (String::new(), String::new());
    SessionStarted { session, inspan, format: 1, workdir }.into()
}

fn forked() -> Event {
    let session = |name: &str| SessionId::try_from(name.to_owned()).unwrap();
    SessionForked {
        session: session("child"),
        parent: session("s"),
        seq: 1,
        hash: Hash::default(),
        inspan: String::new(),
    }
    .into()
}

fn asking() -> impl Strategy<Value = Asking> {
    select(vec![Asking::Now, Asking::Later, Asking::Never])
}

fn limits() -> impl Strategy<Value = Limits> {
    (0..4_u32, option::of(number()), option::of(number()), option::of(number()), 0..4_u32).prop_map(
        |(small, tokens_max, cost_max_nano_usd, time_ms_max, calls_max)| Limits {
            rounds_max: small,
            tokens_max,
            cost_max_nano_usd,
            time_ms_max,
            calls_max,
            calls_at_once_max: small,
            retries_max: u32::MAX,
            output_tokens_max: u32::MAX,
        },
    )
}

fn config(limits: Limits) -> SessionConfigured {
    let tools = ["look", "pay"].map(|name| Arc::new(ToolSpec::new(name, "")));
    let price = Price { input: u64::MAX, output: 1, cache_read: 1, cache_write: 1 };
    SessionConfigured {
        agent: None,
        model: ModelRef {
            url: String::new(),
            window_tokens_max: None,
            output_tokens_max: None,
            price: Some(price),
            cuts_silently: false,
        },
        fallbacks: Vec::new(),
        system: String::new(),
        tools: tools.to_vec(),
        found: Default::default(),
        gates: Vec::new(),
        asks: Default::default(),
        limits,
        sandbox: String::new(),
        workdir: None,
    }
}

fn text() -> impl Strategy<Value = String> {
    select(vec!["", " \n", "words", "\u{0}é"]).prop_map(str::to_owned)
}

fn content() -> impl Strategy<Value = Content> {
    let image = ImageRef { hash: Hash::default(), media_type: String::new(), size_bytes: 1 };
    prop_oneof![
        4 => text().prop_map(|text| Content::Text { text }),
        1 => Just(Content::Image(image)),
    ]
}

/// Identifiers that the fold gives, early in a log, and one that it never gives.
fn call_id() -> impl Strategy<Value = CallId> {
    prop_oneof![
        9 => (1..30_u64, 0..2_usize).prop_map(|(seq, index)| CallId::new(seq, index)),
        1 => Just(CallId("nonsense \u{0}".to_owned())),
    ]
}

fn round((round, attempt, closing): (u64, u64, Option<Limit>)) -> Event {
    let clamp = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    RoundStarted {
        round: clamp(round),
        attempt: clamp(attempt % 3),
        closing,
        output_tokens_max: clamp(attempt),
        input_tokens_estimate: round,
    }
    .into()
}

fn reply() -> impl Strategy<Value = Reply> {
    let stops = [
        ReplyStop::End,
        ReplyStop::Length,
        ReplyStop::Broken,
        ReplyStop::Cancelled,
        ReplyStop::Paused,
        ReplyStop::Refusal,
    ];
    (vec(part(), 0..4), select(stops.to_vec()), usage(), issuer()).prop_map(
        |(parts, stop, usage, issuer)| Reply {
            parts: parts.into_iter().map(|part| as_of(&issuer, part)).collect(),
            stop,
            usage,
            issuer,
            model: String::new(),
            provider_id: String::new(),
        },
    )
}

/// Signed reasoning in the form of its issuer.
fn as_of(issuer: &str, part: ReplyPart) -> ReplyPart {
    match part {
        ReplyPart::Reasoning(Reasoning { text, signed: true, .. })
            if issuer.starts_with("openai-responses") =>
        {
            let raw = r#"{"type":"reasoning","summary":[],"encrypted_content":"c2ln"}"#.to_owned();
            ReplyPart::Reasoning(Reasoning { text, raw, signed: true })
        }
        part => part,
    }
}

fn issuer() -> impl Strategy<Value = String> {
    select(providers().map(|(provider, _)| provider.issuer().to_owned()).to_vec())
}

fn usage() -> impl Strategy<Value = Usage> {
    (option::of(number()), option::of(number()), any::<bool>()).prop_map(
        |(input, output, estimated)| Usage {
            input,
            output,
            cache_read: input,
            estimated,
            ..Usage::default()
        },
    )
}

fn part() -> impl Strategy<Value = ReplyPart> {
    prop_oneof![
        text().prop_map(|text| ReplyPart::Text { text }),
        any::<bool>().prop_map(|signed| {
            let block = r#"{"type":"thinking","thinking":"","signature":"c2ln"}"#;
            let raw = if signed { block } else { "" }.to_owned();
            ReplyPart::Reasoning(Reasoning { text: "why".to_owned(), raw, signed })
        }),
        (call_id(), select(vec!["look", "web.search", ""]), any::<bool>()).prop_map(
            |(id, name, complete)| {
                let (name, arguments) = (name.to_owned(), "{\"half".to_owned());
                ReplyPart::Call(ToolCall { id, provider_id: None, name, arguments, complete })
            }
        ),
    ]
}

fn failed() -> impl Strategy<Value = ErrorClass> {
    select(ErrorClass::ALL.to_vec())
}

fn failure(
    (class, retry_at_ms, partial, (tokens, refused)): (
        ErrorClass,
        Option<i64>,
        Option<Reply>,
        (u64, Option<Refused>),
    ),
) -> Event {
    ModelFailed {
        class,
        message: String::new(),
        retry_at_ms,
        refused,
        usage: Usage { input: Some(tokens), ..Usage::default() },
        cost_nano_usd: Some(tokens),
        ms: tokens,
        partial,
    }
    .into()
}

fn repair() -> impl Strategy<Value = Repair> {
    let images = [Hash::default()].into();
    let name = "look".to_owned();
    prop_oneof![
        Just(Repair::DropImages { images }),
        Just(Repair::DropReasoning),
        Just(Repair::SetToolAside { name }),
        (0..9_usize).prop_map(|text_bytes_max| Repair::Shrink { text_bytes_max }),
        Just(Repair::WriteOutCalls),
        (0..9_usize).prop_map(|messages| Repair::LeaveOutOld { messages }),
    ]
}

fn refused() -> impl Strategy<Value = Option<Refused>> {
    let name = "pay".to_owned();
    option::of(select(vec![
        Refused::Images { count_max: Some(1) },
        Refused::Reasoning,
        Refused::Tool { name },
        Refused::Calls,
        Refused::Unsaid,
        Refused::Size { tokens_max: Some(1) },
    ]))
}

fn verdict() -> impl Strategy<Value = Verdict> {
    select(vec![Verdict::Allow, Verdict::Ask(String::new()), Verdict::Deny(String::new())])
}

fn asked(call: CallId) -> Event {
    PermissionAsked {
        call,
        name: String::new(),
        why: String::new(),
        arguments: json!(null),
        arguments_hash: Hash::default(),
        choices: Vec::new(),
    }
    .into()
}

fn repeat() -> impl Strategy<Value = Repeat> {
    select(vec![Repeat::Pure, Repeat::Idempotent, Repeat::Keyed, Repeat::Probe, Repeat::Once])
}

fn tool_started((call, repeat, attempt): (CallId, Repeat, u64)) -> Event {
    ToolStarted {
        call,
        name: String::new(),
        effects: Effects::default(),
        repeat,
        key: String::new(),
        arguments_hash: Hash::default(),
        attempt: u32::try_from(attempt).unwrap_or(u32::MAX),
    }
    .into()
}

fn tool_finished((call, content, how): (CallId, Vec<Content>, How)) -> Event {
    let state = ResultState::Accepted(String::new());
    ToolFinished {
        call,
        name: String::new(),
        how,
        result: ToolResult { content, state, ..ToolResult::default() },
        labels: Labels::default(),
        ms: u64::MAX,
    }
    .into()
}
