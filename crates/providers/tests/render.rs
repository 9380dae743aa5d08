//! The bytes of each segment on every wire.

use std::sync::Arc;

use inspan_core::{
    hash::Hash,
    message::{
        CallId, Content, How, ImageRef, Reasoning, Reply, ReplyPart, ReplyStop, ResultState,
        ToolCall, ToolResult, Usage,
    },
    pictures::PictureLimits,
    prompt::{CallResult, Message, Segment, UserMessage},
    provider::{Images, Provider},
    state::sendable,
    tool::ToolSpec,
};
use inspan_providers::{
    AfterResults, CallIds, KeySource, NoContent, Quirks, ReasoningField, Server, Timeouts, Wire,
    connect,
};
use serde_json::{Map, Value, json};

/// One picture: the three bytes `abc`, under the hash of zeros.
struct OneImage;

impl Images for OneImage {
    fn image(&self, hash: &Hash) -> Option<Arc<[u8]>> {
        (*hash == Hash::default()).then(|| Arc::from(*b"abc"))
    }
}

fn provider(wire: Wire, quirks: Quirks) -> Arc<dyn Provider> {
    let server = Server {
        name: "here".into(),
        wire,
        base_url: "http://127.0.0.1:1".into(),
        key: KeySource::None,
        quirks,
        timeouts: Timeouts::LOCAL,
        extra: Map::new(),
    };
    connect("here://m", &[server], None).expect("a provider")
}

fn rendered(wire: Wire, segment: Segment<'_>) -> String {
    let bytes = provider(wire, Quirks::COMPATIBLE).render(segment, &OneImage);
    String::from_utf8(bytes).expect("text")
}

/// Compares a message on the first two wires. Each expected text is a list of wire messages.
fn check(message: &Message, anthropic: &Value, openai: &Value) {
    let segment = Segment::Message(message);
    let list = |text: String| format!("[{text}]");
    assert_eq!(list(rendered(Wire::AnthropicMessages, segment)), anthropic.to_string());
    assert_eq!(list(rendered(Wire::OpenAiChat, segment)), openai.to_string());
}

fn image(hash: Hash, media_type: &str) -> Content {
    Content::Image(ImageRef { hash, media_type: media_type.into(), size_bytes: 3 })
}

fn answer(index: usize, how: How, result: ToolResult) -> CallResult {
    CallResult { call: CallId::new(1, index), name: "look".into(), how, result }
}

fn user(results: Vec<CallResult>, content: Vec<Content>) -> Message {
    Message::User(UserMessage { results, content })
}

/// The reply as a state holds it: it can be sent.
fn reply(stop: ReplyStop, parts: Vec<ReplyPart>) -> Message {
    Message::Assistant(sendable(Reply {
        parts,
        stop,
        usage: Usage::default(),
        issuer: String::new(),
        model: String::new(),
        provider_id: String::new(),
    }))
}

fn text(text: &str) -> ReplyPart {
    ReplyPart::Text { text: text.into() }
}

fn reasoning(raw: &str) -> ReplyPart {
    ReplyPart::Reasoning(Reasoning { text: "Hm.".into(), raw: raw.into(), signed: true })
}

fn call(index: usize, arguments: &str, complete: bool) -> ReplyPart {
    ReplyPart::Call(ToolCall {
        id: CallId::new(1, index),
        provider_id: Some("theirs".into()),
        name: "look".into(),
        arguments: arguments.into(),
        complete,
    })
}

#[test]
fn tools_and_system() {
    let tools = [
        Arc::new(ToolSpec::new("look", "Looks.")),
        Arc::new(ToolSpec {
            input: json!({"type": "object", "properties": {"b": {}, "a": {}}, "required": ["b"]}),
            ..ToolSpec::new("see", " ")
        }),
    ];
    let see = &tools[1].input;
    let anthropic = json!([
        {"name": "look", "description": "Looks.", "input_schema": {"type": "object"}},
        {"name": "see", "input_schema": see}]);
    let look = json!({"type": "object", "properties": {}});
    let openai = json!([
        {"type": "function",
            "function": {"name": "look", "description": "Looks.", "parameters": look}},
        {"type": "function", "function": {"name": "see", "parameters": see}}]);
    let table = [
        (Wire::AnthropicMessages, Segment::Tools(&[]), String::new()),
        (Wire::OpenAiChat, Segment::Tools(&[]), String::new()),
        (Wire::AnthropicMessages, Segment::Tools(&tools), anthropic.to_string()),
        (Wire::OpenAiChat, Segment::Tools(&tools), openai.to_string()),
        (Wire::AnthropicMessages, Segment::System("\n"), String::new()),
        (Wire::OpenAiChat, Segment::System("\n"), String::new()),
        (
            Wire::AnthropicMessages,
            Segment::System("Be \"brief\"."),
            r#"{"type":"text","text":"Be \"brief\"."}"#.into(),
        ),
        (
            Wire::OpenAiChat,
            Segment::System("Be \"brief\"."),
            r#"{"role":"system","content":"Be \"brief\"."}"#.into(),
        ),
    ];
    for (wire, segment, expected) in table {
        assert_eq!(rendered(wire, segment), expected, "{wire:?}");
    }
}

#[test]
fn prompts() {
    check(
        &user(vec![], vec![Content::text("Hello"), Content::text("You")]),
        &json!([{"role": "user", "content": [
            {"type": "text", "text": "Hello"}, {"type": "text", "text": "You"}]}]),
        &json!([{"role": "user", "content": "Hello\n\nYou"}]),
    );
    let known = image(Hash::default(), "image/png");
    let lost = image(Hash([1; 32]), "image/png");
    let strange = image(Hash::default(), "image/tiff");
    check(
        &user(vec![], vec![Content::text("See"), known, lost, strange]),
        &json!([{"role": "user", "content": [
            {"type": "text", "text": "See"},
            {"type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": "YWJj"}},
            {"type": "text", "text": "[image lost]"},
            {"type": "text", "text": "[image of type image/tiff: can't be shown]"}]}]),
        &json!([{"role": "user", "content": [
            {"type": "text", "text": "See"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,YWJj"}},
            {"type": "text", "text": "[image lost]"},
            {"type": "text", "text": "[image of type image/tiff: can't be shown]"}]}]),
    );
}

#[test]
fn results() {
    let full = ToolResult {
        content: vec![Content::text("saved"), image(Hash::default(), "image/png")],
        evidence: Some(json!({"exit_status": 0, "a": 1})),
        state: ResultState::Accepted("job7".into()),
        spilled: None,
    };
    check(
        &user(
            vec![
                answer(0, How::Ok, full),
                answer(1, How::Failed, ToolResult::text("Failed: no such file")),
                answer(2, How::Refused, ToolResult::text("Refused: no.")),
            ],
            vec![Content::text("Go on.")],
        ),
        &json!([{"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "call_1_0", "content": [
                {"type": "text", "text": "saved"},
                {"type": "image",
                    "source": {"type": "base64", "media_type": "image/png", "data": "YWJj"}},
                {"type": "text", "text": "[accepted as job job7: not finished yet]"},
                {"type": "text", "text": "[evidence: {\"exit_status\":0,\"a\":1}]"}]},
            {"type": "tool_result", "tool_use_id": "call_1_1",
                "content": [{"type": "text", "text": "Failed: no such file"}], "is_error": true},
            {"type": "tool_result", "tool_use_id": "call_1_2",
                "content": [{"type": "text", "text": "Refused: no."}], "is_error": true},
            {"type": "text", "text": "Go on."}]}]),
        &json!([
            {"role": "tool", "tool_call_id": "call_1_0", "content": "saved\n\
                [image: in the next message]\n[accepted as job job7: not finished yet]\n\
                [evidence: {\"exit_status\":0,\"a\":1}]"},
            {"role": "tool", "tool_call_id": "call_1_1", "content": "Failed: no such file"},
            {"role": "tool", "tool_call_id": "call_1_2", "content": "Refused: no."},
            {"role": "user", "content": [
                {"type": "text", "text": "[image from the result of call_1_0]"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,YWJj"}},
                {"type": "text", "text": "Go on."}]}]),
    );
}

#[test]
fn replies() {
    // The block keeps its spaces, which no serialiser would write.
    let raw = r#"{ "type":"thinking", "thinking":"Hm.", "signature":"c2ln" }"#;
    let message = reply(
        ReplyStop::End,
        vec![
            reasoning(raw),
            text("I look."),
            text("\n"),
            call(0, r#"{"n": 1234567890123456789012}"#, true),
            call(1, "", true),
            call(2, "{\"a\": 1,}", true),
            call(3, "{\"a\":", true),
            call(4, "{\"a\":", false),
        ],
    );
    let anthropic = rendered(Wire::AnthropicMessages, Segment::Message(&message));
    let expected = [
        r#"{"role":"assistant","content":["#,
        raw,
        r#",{"type":"text","text":"I look."}"#,
        r#",{"type":"tool_use","id":"call_1_0","name":"look","#,
        r#""input":{"n": 1234567890123456789012}}"#,
        r#",{"type":"tool_use","id":"call_1_1","name":"look","input":{}}"#,
        r#",{"type":"tool_use","id":"call_1_2","name":"look","input":{"a":1}}"#,
        r#",{"type":"tool_use","id":"call_1_3","name":"look","input":{"_unparsed":"{\"a\":"}}]}"#,
    ];
    assert_eq!(anthropic, expected.concat());
    let openai = rendered(Wire::OpenAiChat, Segment::Message(&message));
    let calls: Vec<Value> =
        [r#"{"n": 1234567890123456789012}"#, "{}", r#"{"a":1}"#, r#"{"_unparsed":"{\"a\":"}"#]
            .iter()
            .enumerate()
            .map(|(index, arguments)| {
                json!({"id": format!("call_1_{index}"), "type": "function",
            "function": {"name": "look", "arguments": arguments}})
            })
            .collect();
    let expected = json!({"role": "assistant", "content": "I look.", "tool_calls": calls});
    assert_eq!(openai, expected.to_string());
}

#[test]
fn replies_without_text() {
    let one = |text: &str| {
        (
            json!([{"role": "assistant", "content": [{"type": "text", "text": text}]}]),
            json!([{"role": "assistant", "content": text}]),
        )
    };
    let (anthropic, openai) = one("[reply cut]");
    check(&reply(ReplyStop::Length, vec![text(" ")]), &anthropic, &openai);
    check(&reply(ReplyStop::Length, vec![call(0, "{", false)]), &anthropic, &openai);
    // A reply may not end in reasoning.
    check(
        &reply(ReplyStop::Cancelled, vec![reasoning(r#"{"type":"redacted_thinking"}"#)]),
        &json!([{"role": "assistant", "content": [
            {"type": "redacted_thinking"}, {"type": "text", "text": "[reply cut]"}]}]),
        &json!([{"role": "assistant", "content": "[reply cut]"}]),
    );
    check(
        &reply(ReplyStop::End, vec![call(0, "{}", true)]),
        &json!([{"role": "assistant", "content": [
            {"type": "tool_use", "id": "call_1_0", "name": "look", "input": {}}]}]),
        &json!([{"role": "assistant", "content": null, "tool_calls": [{"id": "call_1_0",
            "type": "function", "function": {"name": "look", "arguments": "{}"}}]}]),
    );
}

#[test]
fn reasoning_is_echoed_only_where_it_is_wanted() {
    let message = reply(ReplyStop::End, vec![reasoning(""), text("Yes.")]);
    let rendered = |echo: Option<ReasoningField>| {
        let quirks = Quirks { reasoning_echo: echo, ..Quirks::COMPATIBLE };
        let bytes =
            provider(Wire::OpenAiChat, quirks).render(Segment::Message(&message), &OneImage);
        String::from_utf8(bytes).expect("text")
    };
    assert_eq!(rendered(None), r#"{"role":"assistant","content":"Yes."}"#);
    for field in ReasoningField::ALL {
        // Where there are no blocks, the text goes back.
        let name = match field {
            ReasoningField::ReasoningContent => "reasoning_content",
            ReasoningField::Reasoning | ReasoningField::ReasoningDetails => "reasoning",
        };
        assert_eq!(
            rendered(Some(field)),
            format!(r#"{{"role":"assistant","content":"Yes.","{name}":"Hm."}}"#)
        );
    }
}

/// Blocks go back as they came, in place of their text, to who wants them so.
#[test]
fn blocks_of_reasoning_are_echoed_unchanged() {
    let raw = r#"[{"type":"reasoning.text","text":"Hm.","signature":"c2ln","index":0}]"#;
    let message = reply(ReplyStop::End, vec![reasoning(raw), text("Yes.")]);
    let rendered = |echo: ReasoningField| {
        let quirks = Quirks { reasoning_echo: Some(echo), ..Quirks::COMPATIBLE };
        let bytes =
            provider(Wire::OpenAiChat, quirks).render(Segment::Message(&message), &OneImage);
        String::from_utf8(bytes).expect("text")
    };
    let head = r#"{"role":"assistant","content":"Yes.""#;
    assert_eq!(
        rendered(ReasoningField::ReasoningDetails),
        format!(r#"{head},"reasoning_details":{raw}}}"#)
    );
    assert_eq!(rendered(ReasoningField::Reasoning), format!(r#"{head},"reasoning":"Hm."}}"#));
}

#[test]
fn items_of_a_response() {
    let full = ToolResult {
        content: vec![Content::text("saved"), image(Hash::default(), "image/png")],
        state: ResultState::Accepted("job7".into()),
        ..ToolResult::default()
    };
    let answered = user(vec![answer(0, How::Ok, full)], vec![Content::text("Go on.")]);
    let items = |message: &Message| rendered(Wire::OpenAiResponses, Segment::Message(message));
    let expected = [
        json!({"type": "function_call_output", "call_id": "call_1_0",
            "output": "saved\n[image: in the next message]\n\
                [accepted as job job7: not finished yet]"}),
        json!({"type": "message", "role": "user", "content": [
            {"type": "input_text", "text": "[image from the result of call_1_0]"},
            {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,YWJj"},
            {"type": "input_text", "text": "Go on."}]}),
    ];
    assert_eq!(items(&answered), expected.map(|item| item.to_string()).join(","));
    // The block keeps its spaces, which no serialiser would write.
    let raw = r#"{"type":"reasoning","summary":[ ],"encrypted_content":"g\u0041=="}"#;
    let message = reply(
        ReplyStop::End,
        vec![
            reasoning(raw),
            reasoning(""),
            text("I look."),
            call(0, r#"{"n": 1234567890123456789012}"#, true),
            call(1, "{\"a\":", true),
        ],
    );
    let expected = [
        raw,
        r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"I look."}]}"#,
        r#"{"type":"function_call","call_id":"call_1_0","name":"look","arguments":"{\"n\": 1234567890123456789012}"}"#,
        r#"{"type":"function_call","call_id":"call_1_1","name":"look","arguments":"{\"_unparsed\":\"{\\\"a\\\":\"}"}"#,
    ];
    assert_eq!(items(&message), expected.join(","));
    assert_eq!(
        rendered(Wire::OpenAiResponses, Segment::System("Be \"brief\".")),
        r#""Be \"brief\".""#
    );
    assert_eq!(rendered(Wire::OpenAiResponses, Segment::System(" ")), "");
    assert_eq!(rendered(Wire::OpenAiResponses, Segment::Tools(&[])), "");
    let tools = [Arc::new(ToolSpec::new("look", "Looks."))];
    assert_eq!(
        rendered(Wire::OpenAiResponses, Segment::Tools(&tools)),
        json!([{"type": "function", "name": "look", "description": "Looks.",
            "parameters": {"type": "object", "properties": {}}, "strict": false}])
        .to_string()
    );
}

/// A message on OpenAI's wire under these quirks.
fn openai(quirks: Quirks, message: &Message) -> String {
    let bytes = provider(Wire::OpenAiChat, quirks).render(Segment::Message(message), &OneImage);
    format!("[{}]", String::from_utf8(bytes).expect("text"))
}

#[test]
fn reasoning_that_is_needed_is_never_missing() {
    let quirks = Quirks {
        reasoning_echo: Some(ReasoningField::ReasoningContent),
        reasoning_needed: true,
        ..Quirks::COMPATIBLE
    };
    let called = |parts: Vec<ReplyPart>| {
        let calls = json!([{"id": "call_1_0", "type": "function",
            "function": {"name": "look", "arguments": "{}"}}]);
        (reply(ReplyStop::End, [parts, vec![call(0, "{}", true)]].concat()), calls)
    };
    let (thought, calls) = called(vec![reasoning("")]);
    assert_eq!(
        openai(quirks.clone(), &thought),
        json!([{"role": "assistant", "content": null, "reasoning_content": "Hm.",
            "tool_calls": calls}])
        .to_string()
    );
    // Another model called.
    let (foreign, calls) = called(vec![]);
    assert_eq!(
        openai(quirks.clone(), &foreign),
        json!([{"role": "assistant", "content": null, "reasoning_content": "",
            "tool_calls": calls}])
        .to_string()
    );
    let answered = reply(ReplyStop::End, vec![text("Yes.")]);
    assert_eq!(openai(quirks, &answered), r#"[{"role":"assistant","content":"Yes."}]"#);
}

#[test]
fn calls_and_results_take_the_form_of_their_server() {
    let quirks = Quirks {
        no_content: NoContent::Empty,
        call_ids: CallIds::Nine,
        after_results: AfterResults::Joined,
        ..Quirks::COMPATIBLE
    };
    let called = reply(ReplyStop::End, vec![call(0, "{}", true), call(1, "{}", true)]);
    let calls: Vec<Value> = ["000000100", "000000101"]
        .iter()
        .map(|id| {
            json!({"id": id, "type": "function",
            "function": {"name": "look", "arguments": "{}"}})
        })
        .collect();
    assert_eq!(
        openai(quirks.clone(), &called),
        json!([{"role": "assistant", "content": "", "tool_calls": calls}]).to_string()
    );
    let picture =
        ToolResult { content: vec![image(Hash::default(), "image/png")], ..ToolResult::default() };
    let results = vec![
        answer(0, How::Ok, ToolResult::text("one")),
        answer(1, How::Ok, ToolResult::text("two")),
    ];
    let told = |results: Vec<CallResult>| user(results, vec![Content::text("Go on.")]);
    assert_eq!(
        openai(quirks.clone(), &told(results)),
        json!([{"role": "tool", "tool_call_id": "000000100", "content": "one"},
            {"role": "tool", "tool_call_id": "000000101", "content": "two\n\nGo on."}])
        .to_string()
    );
    assert_eq!(
        openai(quirks, &told(vec![answer(0, How::Ok, picture)])),
        json!([{"role": "tool", "tool_call_id": "000000100", "content": [
            {"type": "text", "text": "[image: in the next message]"},
            {"type": "text", "text": "[image from the result of call_1_0]"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,YWJj"}},
            {"type": "text", "text": "Go on."}]}])
        .to_string()
    );
    let missing = Quirks { no_content: NoContent::Missing, ..Quirks::COMPATIBLE };
    let one = reply(ReplyStop::End, vec![call(0, "{}", true)]);
    assert!(openai(missing, &one).starts_with(r#"[{"role":"assistant","tool_calls":["#));
}

#[test]
fn a_server_without_pictures_is_told_of_them() {
    let quirks = Quirks {
        pictures: PictureLimits { count_max: 0, ..PictureLimits::default() },
        ..Quirks::COMPATIBLE
    };
    let message = user(vec![], vec![Content::text("See"), image(Hash::default(), "image/png")]);
    for wire in [Wire::AnthropicMessages, Wire::OpenAiChat] {
        let bytes = provider(wire, quirks.clone()).render(Segment::Message(&message), &OneImage);
        let sent = String::from_utf8(bytes).expect("text");
        assert!(sent.contains("[image: this model can't be shown any]"), "{sent}");
        assert!(!sent.contains("YWJj"), "{sent}");
    }
}

#[test]
fn tools_that_cant_be_declared_are_told() {
    let tool = |name: &str, input: Value| Arc::new(ToolSpec { input, ..ToolSpec::new(name, "") });
    let tools = [
        tool("a", json!({"type": "object"})),
        tool("b", json!({"type": "string"})),
        tool("c", json!({"type": "object"})),
        tool("d", json!({"type": "object"})),
    ];
    let quirks = Quirks { tools_max: 2, ..Quirks::COMPATIBLE };
    for wire in [Wire::AnthropicMessages, Wire::OpenAiChat] {
        let unfit = provider(wire, quirks.clone()).unfit_tools(&tools);
        let expected = [
            ("b", "its arguments are no object but \"string\""),
            ("d", "the server takes 2 tools at most"),
        ];
        assert_eq!(unfit, expected.map(|(name, why)| (name.to_owned(), why.to_owned())));
    }
}

#[test]
fn found_tools_are_declared_where_a_server_defers_them() {
    let told = [Arc::new(ToolSpec::new("find_tools", "Finds."))];
    let found = [Arc::new(ToolSpec::new("see", "Sees."))];
    let names = json!({ "tools": ["see", "look"] });
    let result = ToolResult { evidence: Some(names), ..ToolResult::text("see, look") };
    let searched = CallResult { name: "find_tools".into(), ..answer(0, How::Ok, result) };
    let searched = user(vec![searched], Vec::new());
    let schema = json!({ "type": "object" });
    let plain = json!({ "name": "find_tools", "description": "Finds.", "input_schema": schema });
    let deferred = json!({
        "name": "see", "description": "Sees.", "input_schema": schema, "defer_loading": true
    });
    let in_words = json!([{"type": "text", "text": "see, look"}]);
    let references = json!([
        {"type": "tool_reference", "tool_name": "see"},
        {"type": "tool_reference", "tool_name": "look"},
    ]);
    for (deferred_tools, tools, content) in
        [(false, json!([plain]), in_words), (true, json!([plain, deferred]), references)]
    {
        let quirks = Quirks { deferred_tools, ..Quirks::COMPATIBLE };
        let provider = provider(Wire::AnthropicMessages, quirks);
        assert_eq!(provider.defers_tools(), deferred_tools);
        let shown = |bytes: Vec<u8>| serde_json::from_slice::<Value>(&bytes).expect("JSON");
        assert_eq!(shown(provider.render_tools(&told, &found)), tools);
        let message = shown(provider.render(Segment::Message(&searched), &OneImage));
        assert_eq!(message["content"][0]["content"], content);
    }
    // No other wire has them.
    let quirks = Quirks { deferred_tools: true, ..Quirks::COMPATIBLE };
    for wire in [Wire::OpenAiChat, Wire::OpenAiResponses] {
        let provider = provider(wire, quirks.clone());
        let tools = String::from_utf8(provider.render_tools(&told, &found)).expect("text");
        assert!(!provider.defers_tools() && !tools.contains("see"), "{tools}");
    }
}
