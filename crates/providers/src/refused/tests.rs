//! What servers say when they refuse a request: the words that count of real answers, each with
//! the report that it was seen in.

use std::time::SystemTime;

use inspan_core::provider::{ErrorClass, Refused};
use reqwest::header::HeaderMap;
use serde_json::{Value, json};

use crate::failure::Failure;

/// What comes of an answer, with three tools in the request.
fn refused(status: u16, body: &Value) -> (ErrorClass, Option<Refused>) {
    let body = body.to_string();
    let now = SystemTime::UNIX_EPOCH;
    let failure = Failure::of_answer(status, &HeaderMap::new(), body.as_bytes(), now);
    let tools = json!([{"name": "look"}, {"type": "function", "function": {"name": "see"}},
        {"name": "read_files"}]);
    (failure.class, failure.part.and_then(|part| part.named(tools.to_string().as_bytes())))
}

fn message(text: &str) -> Value {
    json!({"error": {"message": text, "type": "invalid_request_error"}})
}

fn check(class: ErrorClass, table: &[(u16, &str, Option<Refused>)]) {
    for (status, text, expected) in table {
        assert_eq!(refused(*status, &message(text)), (class, expected.clone()), "{text}");
    }
}

fn size(tokens_max: u64) -> Option<Refused> {
    Some(Refused::Size { tokens_max: Some(tokens_max) })
}

const SIZE: Option<Refused> = Some(Refused::Size { tokens_max: None });
const REASONING: Option<Refused> = Some(Refused::Reasoning);
const CALLS: Option<Refused> = Some(Refused::Calls);

fn images(count_max: Option<u32>) -> Option<Refused> {
    Some(Refused::Images { count_max })
}

fn tool(name: &str) -> Option<Refused> {
    Some(Refused::Tool { name: name.to_owned() })
}

#[test]
fn the_window_is_learnt_from_every_wording() {
    check(
        ErrorClass::TooLong,
        &[
            // Anthropic
            (400, "prompt is too long: 210000 tokens > 200000 maximum", size(200_000)),
            (
                400,
                "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000, \
                 decrease input length",
                size(200_000),
            ),
            (413, "Request exceeds the maximum size", SIZE),
            // OpenAI, and https://github.com/vllm-project/vllm/issues/20409
            (
                400,
                "This model's maximum context length is 16384 tokens. However, you requested \
                 122946 tokens (112946 in the messages, 10000 in the completion).",
                size(16_384),
            ),
            (400, "Your input exceeds the context window of this model.", SIZE),
            // OpenAI: https://github.com/semanser/codel/issues/72 is the one that may wait.
            (
                429,
                "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested \
                 42000. The input or output tokens must be reduced.",
                SIZE,
            ),
            // Groq: https://github.com/elizaOS/eliza/issues/4040
            (
                413,
                "Request too large for model `x` on tokens per minute (TPM): Limit 6000, \
                 Requested 6294, please reduce your message size",
                SIZE,
            ),
            // LM Studio: https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/546
            (
                400,
                "Trying to keep the first 111490 tokens when context the overflows. However, the \
                 model is loaded with context length of only 32768 tokens, which is not enough.",
                size(32_768),
            ),
            // llama.cpp, its later wording
            (
                400,
                "request (14429 tokens) exceeds the available context size (8192 tokens), try \
                 increasing it",
                size(8_192),
            ),
            // Mistral
            (
                400,
                "Prompt contains 43251 tokens and 0 draft tokens, too large for model with 32768 \
                 maximum context length",
                size(32_768),
            ),
            // Kimi
            (
                400,
                "Invalid request: Your request exceeded model token limit: 262144 (requested: \
                 280000)",
                size(262_144),
            ),
            // Qwen: https://www.alibabacloud.com/help/en/model-studio/coding-plan-faq
            (400, "Range of input length should be [1, 30720]", size(30_720)),
            // xAI
            (
                400,
                "This model's maximum prompt length is 131072 but the request contains 537812 \
                 tokens.",
                size(131_072),
            ),
            // Gemini
            (
                400,
                "The input token count (1200000) exceeds the maximum number of tokens allowed \
                 (1,048,576).",
                size(1_048_576),
            ),
            // Cerebras
            (
                400,
                "Please reduce the length of the messages or completion. Current length is 10059 \
                 while limit is 8192",
                size(8_192),
            ),
            // Ollama
            (400, "prompt too long; exceeded max context length by 12 tokens", SIZE),
            // GLM and MiniMax
            (400, "Prompt exceeds max length", SIZE),
            (400, "invalid params, context window exceeds limit (2013)", SIZE),
        ],
    );
    // https://github.com/ggml-org/llama.cpp/pull/15780: the status is wrong, the fields are right.
    let llama_cpp = json!({"error": {"code": 500, "type": "exceed_context_size_error",
        "message": "the request exceeds the available context size. try increasing it",
        "n_prompt_tokens": 1407, "n_ctx": 256}});
    assert_eq!(refused(500, &llama_cpp), (ErrorClass::TooLong, size(256)));
    assert_eq!(refused(413, &Value::Null), (ErrorClass::TooLong, SIZE));
}

#[test]
fn refused_pictures_are_told_with_their_number() {
    check(
        ErrorClass::BadRequest,
        &[
            // https://github.com/anthropics/claude-code/issues/10612
            (
                400,
                "messages.0.content.2.image.source.base64: image exceeds 5 MB maximum: 15908784 \
                 bytes > 5242880 bytes",
                images(None),
            ),
            // https://github.com/anthropics/claude-code/issues/24630
            (
                400,
                "messages.19.content.27.image.source.base64.data: At least one of the image \
                 dimensions exceed max allowed size for many-image requests: 2000 pixels",
                images(None),
            ),
            // https://github.com/anthropics/claude-code/issues/46127
            (400, "Could not process image", images(None)),
            (
                400,
                "The image was specified using the image/png media type, but the image appears \
                 to be a image/jpeg image",
                images(None),
            ),
            (400, "Too much media: 0 document pages + 101 images > 100", images(Some(100))),
            // https://github.com/anomalyco/opencode/issues/48647
            (
                400,
                "request contains 52 images, exceeding the maximum of 50 allowed per request",
                images(Some(50)),
            ),
            // vLLM, and Groq
            (400, "At most 4 image(s) may be provided in one prompt.", images(Some(4))),
            (400, "Too many images provided. This model supports up to 5 images", images(Some(5))),
            // https://github.com/infiniflow/ragflow/issues/13063
            (
                400,
                "Image 0 failed: Image exceeds the maximum allowed total pixels. Maximum allowed: \
                 36000000 pixels.",
                images(None),
            ),
            (400, "Exceeded limit on max bytes per data-uri item : 10485760", images(None)),
            // llama.cpp, OpenRouter, LM Studio, DeepSeek
            (500, "image input is not supported - hint: provide the mmproj", images(Some(0))),
            (404, "No endpoints found that support image input", images(Some(0))),
            (400, "Model does not support images. Please use a model that does.", images(Some(0))),
            (
                400,
                "Failed to deserialize the JSON body: messages[0]: unknown variant `image_url`, \
                 expected `text`",
                images(Some(0)),
            ),
        ],
    );
    let code = json!({"error": {"message": "You uploaded it", "code": "image_parse_error"}});
    assert_eq!(refused(400, &code), (ErrorClass::BadRequest, images(None)));
}

#[test]
fn refused_reasoning_is_told_and_missing_reasoning_is_not() {
    check(
        ErrorClass::BadRequest,
        &[
            // https://github.com/anthropics/claude-code/issues/10627
            (400, "messages.1.content.0: Invalid `signature` in `thinking` block", REASONING),
            // https://github.com/anthropics/claude-code/issues/63284
            (
                400,
                "messages.3.content.8: `thinking` or `redacted_thinking` blocks in the latest \
                 assistant message cannot be modified.",
                REASONING,
            ),
            (
                400,
                "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found \
                 `text`",
                REASONING,
            ),
            // https://github.com/continuedev/continue/issues/8933
            (
                400,
                "Item 'rs_0c38' of type 'reasoning' was provided without its required following \
                 item.",
                REASONING,
            ),
            (400, "The encrypted content could not be verified.", REASONING),
            (400, "'messages.2' : property 'reasoning_content' is unsupported", REASONING),
            (400, "Unknown parameter: 'messages[1].reasoning_content'.", REASONING),
            // https://github.com/JohnnyZ93/oai-compatible-copilot/issues/215
            (
                400,
                "The `reasoning_content` in the thinking mode must be passed back to the API.",
                None,
            ),
            // https://github.com/continuedev/continue/issues/11711
            (
                400,
                "thinking is enabled but reasoning_content is missing in assistant tool call \
                 message at index 19",
                None,
            ),
        ],
    );
}

#[test]
fn one_refused_tool_is_told_by_its_name() {
    check(
        ErrorClass::BadRequest,
        &[
            // https://github.com/anthropics/claude-code/issues/7365
            (
                400,
                "tools.1.custom.input_schema: JSON schema is invalid. It must match JSON Schema \
                 draft 2020-12",
                tool("see"),
            ),
            (400, "tools.118.custom.input_schema: JSON schema is invalid.", None),
            // https://github.com/sigoden/aichat/pull/1049
            (
                400,
                "Invalid schema for function 'read_files': In context=('properties', 'paths'), \
                 array schema missing items.",
                tool("read_files"),
            ),
            (400, "Invalid schema for function 'somebody_elses': no.", None),
            // https://github.com/router-for-me/CLIProxyAPI/issues/97
            (
                400,
                "Invalid JSON payload received. Unknown name \"$schema\" at \
                 'tools[0].function_declarations[2].parameters': Cannot find field.",
                tool("read_files"),
            ),
            (
                400,
                "Unable to submit request because `look` functionDeclaration \
                 `parameters.properties` schema specified other fields alongside any_of.",
                tool("look"),
            ),
            (400, "Invalid 'tools': array too long. Expected maximum length 128.", None),
        ],
    );
    let by_place = json!({"error": {"message": "Invalid schema", "type": "invalid_request_error",
        "param": "tools[1].function.parameters", "code": "invalid_function_parameters"}});
    assert_eq!(refused(400, &by_place), (ErrorClass::BadRequest, tool("see")));
}

#[test]
fn calls_that_do_not_pair_are_told() {
    check(
        ErrorClass::BadRequest,
        &[
            // https://github.com/anthropics/claude-code/issues/2697
            (
                400,
                "messages.130: `tool_use` ids were found without `tool_result` blocks immediately \
                 after: toolu_01.",
                CALLS,
            ),
            // https://github.com/router-for-me/CLIProxyAPI/issues/497
            (
                400,
                "messages.12.content.0: unexpected `tool_use_id` found in `tool_result` blocks: \
                 toolu_01.",
                CALLS,
            ),
            (400, "messages.4.content.1: `tool_use` ids must be unique", CALLS),
            // https://github.com/QwenLM/qwen-code/issues/606
            (
                400,
                "<400> InternalError.Algo.InvalidParameter: An assistant message with \
                 \"tool_calls\" must be followed by tool messages responding to each \
                 \"tool_call_id\".",
                CALLS,
            ),
            // https://github.com/microsoft/promptflow/pull/3130
            (
                400,
                "Invalid parameter: messages with role 'tool' must be a response to a preceding \
                 message with 'tool_calls'.",
                CALLS,
            ),
            (400, "No tool output found for function call call_1.", CALLS),
            (400, "No tool call found for function call output with call_id call_1.", CALLS),
            (400, "Invalid request: tool_call_id is not found", CALLS),
            // https://github.com/karthink/gptel/issues/1203
            (
                400,
                "Tool call id was call_0fypS1hVX but must be a-z, A-Z, 0-9, with a length of 9",
                CALLS,
            ),
            // https://github.com/charmbracelet/crush/issues/279
            (400, "Unexpected role 'tool' after role 'user'", CALLS),
        ],
    );
}

#[test]
fn an_error_within_an_error_is_understood() {
    // https://github.com/OnesoftQwQ/opencode-go-copilot/issues/1
    let inner = json!({"type": "error", "error": {"type": "invalid_request_error",
        "message": "messages.1.content.0: Invalid `signature` in `thinking` block"}});
    let router = json!({"error": {"message": "Provider returned error", "code": 400,
        "metadata": {"raw": inner.to_string(), "provider_name": "Anthropic"}}});
    // https://github.com/lbjlaq/Antigravity-Manager/issues/498
    let proxy = json!({"error": {"code": 400, "message": inner.to_string()}});
    let twice = json!({"error": {"message": format!("upstream: {router}")}});
    for body in [&router, &proxy, &twice] {
        assert_eq!(refused(400, body), (ErrorClass::BadRequest, REASONING), "{body}");
        let what = Failure::of_answer(
            400,
            &HeaderMap::new(),
            body.to_string().as_bytes(),
            SystemTime::UNIX_EPOCH,
        );
        let text = "messages.1.content.0: Invalid `signature` in `thinking` block";
        assert_eq!(what.what, format!("answered 400: {text}"));
    }
    // llama.cpp quotes the schema.
    let quoting = message("JSON schema conversion failed: Unrecognized schema: {\"not\":{}}");
    let now = SystemTime::UNIX_EPOCH;
    let told = Failure::of_answer(400, &HeaderMap::new(), quoting.to_string().as_bytes(), now);
    let text = "JSON schema conversion failed: Unrecognized schema: {\"not\":{}}";
    assert_eq!(told.what, format!("answered 400: {text}"));
    let plain = json!({"error": {"message": "Provider returned error",
        "metadata": {"raw": "Could not process image"}}});
    assert_eq!(refused(400, &plain), (ErrorClass::BadRequest, images(None)));
}

#[test]
fn what_is_no_refusal_of_a_part_names_none() {
    let table = [
        (400, "messages: at least one message is needed", ErrorClass::BadRequest),
        (401, "Invalid image of a key", ErrorClass::Auth),
        (429, "maximum context length of tokens per min", ErrorClass::RateLimited),
        (429, "at most 4 images a minute", ErrorClass::RateLimited),
        (503, "could not process image", ErrorClass::Overloaded),
        (500, "internal error", ErrorClass::Overloaded),
        // A template of a local model: not to be asked again.
        (500, "Conversation roles must alternate user/assistant", ErrorClass::BadRequest),
    ];
    for (status, text, class) in table {
        assert_eq!(refused(status, &message(text)), (class, None), "{text}");
    }
}

#[test]
fn a_spent_quota_is_told_from_a_rate() {
    use ErrorClass::{Quota, RateLimited};
    let error = |kind: &str, text: &str| json!({"error": {"type": kind, "message": text}});
    let table = [
        // OpenAI
        (429, error("insufficient_quota", "You exceeded your current quota"), Quota, None),
        // Kimi: https://github.com/anomalyco/opencode/issues/25458
        (
            429,
            error("exceeded_current_quota_error", "suspended due to insufficient balance"),
            Quota,
            None,
        ),
        // https://github.com/openclaw/openclaw/pull/142656
        (
            403,
            error("", "You've reached your weekly (7-day) usage limit. Resets in 3 hours."),
            Quota,
            Some(10_800_000),
        ),
        // https://github.com/MoonshotAI/kimi-cli/issues/901
        (
            429,
            error("rate_limit_reached_error", "We're receiving too many requests."),
            RateLimited,
            None,
        ),
        // DashScope counts by the minute: https://github.com/QwenLM/Qwen/issues/2254
        (
            429,
            error(
                "insufficient_quota",
                "Allocated quota exceeded, please increase your quota limit. For details, see: \
                 https://help.aliyun.com/zh/model-studio/error-code#token-limit",
            ),
            RateLimited,
            None,
        ),
        (429, error("limit_requests", "You exceeded your current requests"), RateLimited, None),
        (429, error("x", "hour allocated quota exceeded."), Quota, None),
        (400, error("Arrearage", "Access denied, good standing."), Quota, None),
        // DeepSeek
        (402, error("unknown_error", "Insufficient Balance"), Quota, None),
        // OpenRouter: https://github.com/cline/cline/issues/5301
        (429, error("", "Rate limit exceeded: free-models-per-day."), Quota, None),
        (402, error("", "This request requires more credits"), Quota, None),
        // https://github.com/router-for-me/CLIProxyAPI/issues/3942
        (
            429,
            json!({"error": {"type": "usage_limit_reached", "resets_in_seconds": 392_723}}),
            Quota,
            Some(392_723_000),
        ),
        // https://github.com/google-gemini/gemini-cli/issues/13004
        (
            429,
            json!([{"error": {"code": 429, "message": "Your quota will reset after 8h44m7s."}}]),
            Quota,
            Some(31_447_000),
        ),
        // https://github.com/continuedev/continue/issues/10920
        (
            429,
            error("tokens", "on tokens per day (TPD). Please try again in 9m38.016s."),
            RateLimited,
            Some(578_016),
        ),
        // https://github.com/anthropics/claude-code/issues/71670
        (
            429,
            error("rate_limit_error", "temporarily limiting (not your usage limit)"),
            RateLimited,
            None,
        ),
    ];
    for (status, body, class, retry_after_ms) in table {
        let failure = Failure::of_answer(
            status,
            &HeaderMap::new(),
            body.to_string().as_bytes(),
            SystemTime::UNIX_EPOCH,
        );
        assert_eq!((failure.class, failure.retry_after_ms), (class, retry_after_ms), "{body}");
    }
}
