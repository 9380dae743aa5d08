//! Every wire against the scripted server: what is sent, and what comes of what is answered.

use std::sync::{Arc, Mutex};

use futures_util::StreamExt;
use inspan_core::{
    message::{CallId, Content, How, ReplyPart, ReplyStop, ToolResult},
    prompt::{CallResult, Message, Segment, UserMessage},
    provider::{ErrorClass, ModelError, ModelEvent, NoImages, Provider, ReplyBuilder, Request},
    state::sendable,
    tool::ToolSpec,
};
use inspan_providers::{KeySource, Quirks, Raw, RawPiece, Server, Timeouts, Wire, connect};
use inspan_testkit::server::{Answer, Said, Server as Scripted, refusing_url};
use serde_json::{Map, json};

const KEY: &str = "sk-scripted-0123456789abcdef";

fn server(wire: Wire, base_url: String) -> Server {
    let quirks = match wire {
        Wire::AnthropicMessages => Quirks::at(wire, "https://api.anthropic.com"),
        Wire::OpenAiChat | Wire::OpenAiResponses => Quirks::at(wire, "https://api.openai.com/v1"),
    };
    Server {
        name: "here".into(),
        wire,
        base_url,
        key: KeySource::Fixed(KEY.into()),
        quirks,
        timeouts: Timeouts::LOCAL,
        extra: Map::new(),
    }
}

fn provider(wire: Wire, base_url: String) -> Arc<dyn Provider> {
    connect("here://m", &[server(wire, base_url)], None).expect("a provider")
}

fn answer(wire: Wire, said: &[Said]) -> Answer {
    match wire {
        Wire::AnthropicMessages => Answer::anthropic(said),
        Wire::OpenAiChat => Answer::openai(said),
        Wire::OpenAiResponses => Answer::responses(said),
    }
}

fn prompt(text: &str) -> Message {
    Message::User(UserMessage { results: vec![], content: vec![Content::text(text)] })
}

fn request(provider: &dyn Provider, messages: &[Message]) -> Request {
    let tool = Arc::new(ToolSpec::new("echo", "Says it again."));
    let render = |segment| Arc::from(provider.render(segment, &NoImages));
    Request {
        tools: render(Segment::Tools(&[tool])),
        system: render(Segment::System("Be brief.")),
        messages: Arc::new(messages.iter().map(|m| render(Segment::Message(m))).collect()),
        output_tokens_max: 1_000,
    }
}

async fn ask(provider: &dyn Provider, messages: &[Message]) -> Vec<ModelEvent> {
    provider.stream(request(provider, messages)).collect().await
}

async fn failure(provider: &dyn Provider) -> ModelError {
    match ask(provider, &[prompt("Hello")]).await.pop() {
        Some(ModelEvent::Failed(error)) => error,
        other => panic!("no failure but {other:?}"),
    }
}

/// Runs rounds until a reply asks for no tool; each call is answered with its own arguments.
async fn rounds(provider: &dyn Provider) -> Vec<Message> {
    let mut messages = vec![prompt("Say a and b.")];
    loop {
        let events = ask(provider, &messages).await;
        let mut builder = ReplyBuilder::default();
        events.iter().for_each(|event| builder.apply(event));
        let Some(ModelEvent::Finished(stop)) = events.last() else {
            panic!("not finished: {events:?}")
        };
        let reply = builder.finish(stop.clone(), provider.issuer(), messages.len() as u64);
        let results: Vec<CallResult> = reply
            .calls()
            .map(|call| CallResult {
                call: call.id.clone(),
                name: call.name.clone(),
                how: How::Ok,
                result: ToolResult::text(call.arguments.clone()),
            })
            .collect();
        messages.push(Message::Assistant(sendable(reply)));
        if results.is_empty() {
            return messages;
        }
        messages.push(Message::User(UserMessage { results, content: vec![] }));
    }
}

const WIRES: [Wire; 3] = Wire::ALL;

#[tokio::test]
async fn requests_only_grow() {
    for wire in WIRES {
        let call = |n: u32| Said::call(format!("id{n}"), "echo", format!("{{\"n\":{n}}}"));
        let scripted = Scripted::start([
            answer(wire, &[Said::reasoning("Two calls."), call(1), call(2)]),
            answer(wire, &[Said::text("One more."), call(3)]).in_pieces_of(7),
            answer(wire, &[call(4)]),
            answer(wire, &[Said::text("Said it all.")]),
        ]);
        let provider = provider(wire, scripted.url());
        let messages = rounds(&*provider).await;
        assert_eq!(messages.len(), 8);

        let received = scripted.received();
        assert_eq!(received.len(), 4);
        for pair in received.windows(2) {
            let (earlier, later) = (pair[0].text(), pair[1].text());
            let grows = earlier.strip_suffix("]}").expect("the end of messages and body");
            assert!(later.starts_with(grows), "{wire:?}\n{earlier}\n{later}");
            assert_eq!(later.strip_prefix(grows).and_then(|rest| rest.chars().next()), Some(','));
        }
        // A busy machine may be late with the rest of an answer, but not each time.
        assert!(received.windows(2).any(|pair| pair[0].peer == pair[1].peer), "{received:?}");
    }
}

#[tokio::test]
async fn a_reply_comes_whole() {
    for wire in WIRES {
        let said = [Said::text("It is warm."), Said::call("id1", "echo", r#"{"a":"é"}"#)];
        let scripted = Scripted::start([answer(wire, &said).in_pieces_of(1)]);
        let provider = provider(wire, scripted.url());
        let events = ask(&*provider, &[prompt("Hello")]).await;
        let mut builder = ReplyBuilder::default();
        events.iter().for_each(|event| builder.apply(event));
        let reply = builder.finish(ReplyStop::End, provider.issuer(), 3);
        assert_eq!(events.last(), Some(&ModelEvent::Finished(ReplyStop::End)));
        assert_eq!(reply.text(), "It is warm.");
        assert_eq!(reply.usage.total(), 15);
        assert_eq!(reply.issuer, format!("here://m at {}", scripted.url()));
        let ReplyPart::Call(call) = &reply.parts[1] else { panic!("{reply:?}") };
        assert_eq!(call.id, CallId("call_3_0".into()));
        assert_eq!(call.arguments, r#"{"a":"é"}"#);
        assert_eq!(call.provider_id.as_deref(), Some("id1"));
    }
}

#[tokio::test]
async fn a_cut_connection_is_a_failure() {
    for wire in WIRES {
        let whole = answer(wire, &[Said::text("Hello to you.")]);
        for after in [0, 1, whole.body_len() / 2] {
            for answer in [whole.clone().cut_after(after), whole.clone().end_after(after)] {
                let scripted = Scripted::start([answer]);
                let error = failure(&*provider(wire, scripted.url())).await;
                assert_eq!(error.class, ErrorClass::Network, "{wire:?} {after} {error:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_server_that_is_not_there() {
    let url = refusing_url();
    let error = failure(&*provider(Wire::OpenAiChat, url.clone())).await;
    let address = url.trim_start_matches("http://");
    assert_eq!(
        error,
        ModelError {
            class: ErrorClass::Network,
            message: format!("here ({address}) refused the connection; is the server running?"),
            retry_after_ms: None,
            refused: None,
        }
    );
}

#[tokio::test]
async fn answers_that_are_no_reply() {
    use ErrorClass::*;
    let overloaded = json!({"type": "error", "error": {"type": "overloaded_error",
        "message": "Overloaded"}});
    let table = [
        (
            Answer::json(401, &json!({"error": {"message": format!("wrong key {KEY}.")}})),
            Auth,
            "answered 401: wrong key [masked]. Check the key in the configuration.",
            None,
        ),
        (
            Answer::json(404, &json!({"error": "no model m"})),
            BadRequest,
            "answered 404: no model m. Is `m` a model of this server, and {url} its address?",
            None,
        ),
        (
            Answer::json(529, &overloaded).header("retry-after", "3"),
            Overloaded,
            "answered 529: Overloaded",
            Some(3_000),
        ),
        (
            Answer::json(200, &overloaded),
            Overloaded,
            "sent an error in its answer: Overloaded",
            None,
        ),
        (
            Answer::sse(format!("event: error\ndata: {overloaded}\n\n")),
            Overloaded,
            "sent an error in its answer: Overloaded",
            None,
        ),
        (
            Answer::new(200, "text/html", "<html>Log in</html>"),
            BadRequest,
            "answered with a web page; is {url} an API?",
            None,
        ),
        (
            Answer::new(307, "text/plain", "").header("location", "http://elsewhere/v1"),
            BadRequest,
            "answered 307 and sends on to http://elsewhere/v1, which is not followed because the \
             key would go there too; if that is right, set it as the base URL",
            None,
        ),
        (Answer::sse(""), Network, "ended the stream before the answer was whole", None),
    ];
    for wire in WIRES {
        for (answer, class, what, retry_after_ms) in table.clone() {
            let scripted = Scripted::start([answer]);
            let url = scripted.url();
            let host = url.trim_start_matches("http://");
            let message = format!("here ({host}) {}", what.replace("{url}", &url));
            let error = failure(&*provider(wire, url.clone())).await;
            assert_eq!(
                error,
                ModelError { class, message, retry_after_ms, refused: None },
                "{wire:?}"
            );
        }
    }
}

#[tokio::test]
async fn what_is_sent() {
    let extra: Map<_, _> = [("top_p".to_owned(), json!(0.5)), ("temperature".to_owned(), json!(1))]
        .into_iter()
        .collect();
    let anthropic = Scripted::start([answer(Wire::AnthropicMessages, &[Said::text("Hi.")])]);
    let server_a = Server {
        extra: extra.clone(),
        ..server(Wire::AnthropicMessages, format!("{}/v1/", anthropic.url()))
    };
    let openai = Scripted::start([answer(Wire::OpenAiChat, &[Said::text("Hi.")])]);
    let server_o =
        Server { extra: extra.clone(), ..server(Wire::OpenAiChat, format!("{}/v1", openai.url())) };
    let responses = Scripted::start([answer(Wire::OpenAiResponses, &[Said::text("Hi.")])]);
    let server_r =
        Server { extra, ..server(Wire::OpenAiResponses, format!("{}/v1", responses.url())) };
    for server in [server_a, server_o, server_r] {
        let provider = connect("here://m", &[server], None).expect("a provider");
        ask(&*provider, &[prompt("Hello")]).await;
    }

    let received = &anthropic.received()[0];
    assert_eq!((&*received.method, &*received.path), ("POST", "/v1/messages"));
    assert_eq!(received.header("x-api-key"), Some(KEY));
    assert_eq!(received.header("authorization"), None);
    assert_eq!(received.header("anthropic-version"), Some("2023-06-01"));
    assert_eq!(
        received.text(),
        json!({"model": "m", "stream": true, "cache_control": {"type": "ephemeral"},
            "tools": [{"name": "echo", "description": "Says it again.",
                "input_schema": {"type": "object"}}],
            "system": [{"type": "text", "text": "Be brief.",
                "cache_control": {"type": "ephemeral"}}],
            "temperature": 1, "top_p": 0.5, "max_tokens": 1000,
            "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}]})
        .to_string()
    );
    let received = &openai.received()[0];
    assert_eq!(received.path, "/v1/chat/completions");
    assert_eq!(received.header("authorization"), Some(&*format!("Bearer {KEY}")));
    assert_eq!(received.header("x-api-key"), None);
    assert_eq!(received.header("content-type"), Some("application/json"));
    assert_eq!(
        received.text(),
        json!({"model": "m", "stream": true, "stream_options": {"include_usage": true},
            "tools": [{"type": "function", "function": {"name": "echo",
                "description": "Says it again.",
                "parameters": {"type": "object", "properties": {}}}}],
            "temperature": 1, "top_p": 0.5, "max_completion_tokens": 1000,
            "messages": [{"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Hello"}]})
        .to_string()
    );
}

#[tokio::test]
async fn a_response_is_kept_nowhere() {
    let said = [Said::reasoning("Look."), Said::text("I look."), Said::call("c1", "echo", "{}")];
    let scripted = Scripted::start([
        answer(Wire::OpenAiResponses, &said),
        answer(Wire::OpenAiResponses, &[Said::text("Done.")]),
    ]);
    rounds(&*provider(Wire::OpenAiResponses, scripted.url())).await;
    let received = &scripted.received()[1];
    assert_eq!(received.path, "/responses");
    assert_eq!(received.header("authorization"), Some(&*format!("Bearer {KEY}")));
    let summary = json!([{"type": "summary_text", "text": "Look."}]);
    assert_eq!(
        received.text(),
        json!({"model": "m", "stream": true, "store": false,
            "include": ["reasoning.encrypted_content"],
            "tools": [{"type": "function", "name": "echo", "description": "Says it again.",
                "parameters": {"type": "object", "properties": {}}, "strict": false}],
            "instructions": "Be brief.", "max_output_tokens": 1000, "input": [
                {"type": "message", "role": "user",
                    "content": [{"type": "input_text", "text": "Say a and b."}]},
                {"type": "reasoning", "summary": summary, "encrypted_content": "c2lnbmVk"},
                {"type": "message", "role": "assistant",
                    "content": [{"type": "output_text", "text": "I look."}]},
                {"type": "function_call", "call_id": "call_1_0", "name": "echo", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "call_1_0", "output": "{}"}]})
        .to_string()
    );
}

/// The variables are set for another process: they hold for all tests of one.
#[test]
fn proxies_of_the_environment_are_not_used() {
    let this = std::env::current_exe().expect("the path of this test");
    let mut other = std::process::Command::new(this);
    other.args(["--exact", "what_is_sent"]);
    for proxy in
        ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]
    {
        other.env(proxy, refusing_url());
    }
    let output = other.env_remove("NO_PROXY").env_remove("no_proxy").output().expect("its output");
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && told.contains("1 passed"), "{told}");
}

#[tokio::test]
async fn no_key_is_an_answer_too() {
    let scripted = Scripted::start([]);
    let key =
        KeySource::Variable { name: "HERE_KEY".into(), lookup: Arc::new(|_| None), needed: true };
    let server = Server { key, ..server(Wire::OpenAiChat, scripted.url()) };
    let provider = connect("here://m", &[server], None).expect("a provider");
    let error = failure(&*provider).await;
    let host = scripted.url().replace("http://", "");
    assert_eq!(error.class, ErrorClass::Auth);
    assert_eq!(error.message, format!("here ({host}) can't be asked: no key: set HERE_KEY"));
    assert_eq!(scripted.received(), []);
}

#[tokio::test]
async fn silence_is_a_failure() {
    for answer in [Answer::silent(), Answer::sse("data: {\"type\":\"ping\"}\n\n").hang_after(999)] {
        let scripted = Scripted::start([answer]);
        let timeouts = Timeouts { first_ms_max: 0, ..Timeouts::LOCAL };
        let server = Server { timeouts, ..server(Wire::AnthropicMessages, scripted.url()) };
        let provider = connect("here://m", &[server], None).expect("a provider");
        assert_eq!(failure(&*provider).await.class, ErrorClass::Stalled);
    }
}

#[tokio::test]
async fn the_key_is_shown_to_nobody() {
    for wire in WIRES {
        // The server tells the key in a header, and in the text cut in two.
        let leaking = answer(wire, &[Said::text(format!("You sent{KEY}"))])
            .header("x-echo", KEY)
            .header("set-cookie", "session=c0ffee")
            .in_pieces_of(5);
        let scripted = Scripted::start([leaking]);
        let shown = Arc::new(Mutex::new(String::new()));
        let raw: Raw = {
            let shown = Arc::clone(&shown);
            Arc::new(move |piece: RawPiece<'_>| {
                let mut shown = shown.lock().expect("no panic before");
                *shown += &format!("{piece:?}\n");
            })
        };
        let server = server(wire, scripted.url());
        assert!(!format!("{server:?}").contains(KEY));
        let provider = connect("here://m", &[server], Some(raw)).expect("a provider");
        let events = ask(&*provider, &[prompt(&format!("My key is {KEY}."))]).await;
        assert_eq!(events.last(), Some(&ModelEvent::Finished(ReplyStop::End)));

        let shown = shown.lock().expect("no panic before");
        assert!(!shown.contains(KEY) && !shown.contains("c0ffee"), "{shown}");
        assert!(shown.contains(r#"("set-cookie", "[masked]")"#), "{shown}");
        for what in ["Request {", "POST", "My key is [masked].", "Answer { status: 200", "[DONE]"] {
            let is_openai = wire == Wire::OpenAiChat;
            assert!(shown.contains(what) || (what == "[DONE]" && !is_openai), "{what}: {shown}");
        }
    }
}

#[tokio::test]
async fn a_long_argument_in_one_piece() {
    let long = format!("{{\"text\":\"{}\"}}", "x".repeat(10 << 20));
    for wire in WIRES {
        let scripted = Scripted::start([answer(wire, &[Said::call("id1", "echo", &long)])]);
        let provider = provider(wire, scripted.url());
        let events = ask(&*provider, &[prompt("Hello")]).await;
        let whole = events.iter().any(|event| {
            matches!(event, ModelEvent::PartFinished { content: ReplyPart::Call(call), .. }
                if call.arguments == long)
        });
        assert!(whole, "{wire:?}");
        assert_eq!(events.last(), Some(&ModelEvent::Finished(ReplyStop::End)));
    }
}

#[tokio::test]
async fn replies_that_are_labelled_as_json() {
    let reply = json!({"id": "c1", "model": "m", "choices": [
        {"message": {"role": "assistant", "content": "Hi."}, "finish_reason": "stop"}]});
    let pretty = serde_json::to_string_pretty(&reply).expect("a value");
    let stream = inspan_testkit::server::openai_sse(&[Said::text("Hi.")]);
    for body in [pretty, stream] {
        let scripted = Scripted::start([Answer::new(200, "application/json", body)]);
        let events = ask(&*provider(Wire::OpenAiChat, scripted.url()), &[prompt("Hello")]).await;
        let text = ReplyPart::Text { text: "Hi.".into() };
        assert!(events.contains(&ModelEvent::PartFinished { part: 0, content: text }));
        assert_eq!(events.last(), Some(&ModelEvent::Finished(ReplyStop::End)));
    }
}
