//! The tools that the conformance suite of the Model Context Protocol wants to find, served as
//! those of an agent are. `conformance-server PORT` listens at 127.0.0.1 (0 for any port), says
//! where, and ends with its standard input. `./test conformance` runs the suite against it.

use std::{error::Error, io::Write, sync::Arc, time::Duration};

use inspan_core::{
    blobs::Blobs,
    effects::{Effects, Repeat},
    gate::{BoxFuture, Gate, GateCall, Verdict},
    message::{Content, ImageRef, ToolResult},
    tool::{Invocation, Tool, ToolError, ToolSpec},
};
use inspan_engine::{Setup, tools::Progress};
use inspan_mcp::{
    Inquiries,
    serve::{Http, PATH, Served},
};
use inspan_store::Memory;
use serde_json::{Value, json};
use tokio::{io::AsyncReadExt, net::TcpListener};

/// One red dot.
const PNG: &[u8] = &[
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44, 0x52,
    0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x01, 0x08, 0x02, 0x00, 0x00, 0x00, 0x90, 0x77, 0x53,
    0xde, 0x00, 0x00, 0x00, 0x0c, 0x49, 0x44, 0x41, 0x54, 0x08, 0xd7, 0x63, 0xf8, 0xcf, 0xc0, 0x00,
    0x00, 0x03, 0x01, 0x01, 0x00, 0x18, 0xdd, 0x8d, 0xb0, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e,
    0x44, 0xae, 0x42, 0x60, 0x82,
];

/// Wait between two pieces of progress, as the suite says.
const STEP: Duration = Duration::from_millis(50);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let port: u16 = std::env::args().nth(1).unwrap_or_default().parse()?;
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    let address = listener.local_addr()?;
    writeln!(std::io::stdout(), "http://{address}{PATH}")?;
    let store = Memory::keeping(64);
    let served = Served::tools("conformance", setup(&store))?;
    let input_ends = async {
        let mut rest = Vec::new();
        // One that can't be read has ended, too.
        let _ = tokio::io::stdin().read_to_end(&mut rest).await;
    };
    served.listen(listener, &Http::default(), input_ends).await?;
    Ok(())
}

/// The tools by their names, with the properties of their arguments.
fn tools() -> Vec<(&'static str, Value)> {
    let none = || json!({ "type": "object", "properties": {} });
    let message = json!({
        "type": "object",
        "properties": { "message": { "type": "string" } },
        "required": ["message"],
    });
    let region = json!({
        "type": "object",
        "properties": { "region": { "type": "string", "x-mcp-header": "Region" } },
        "required": ["region"],
    });
    vec![
        ("json_schema_2020_12_tool", schema_2020_12()),
        ("test_elicitation", message),
        ("test_elicitation_sep1034_defaults", none()),
        ("test_elicitation_sep1330_enums", none()),
        ("test_error_handling", none()),
        ("test_headers", region),
        ("test_image_content", none()),
        ("test_input_required_result_elicitation", none()),
        ("test_input_required_result_multi_round", none()),
        ("test_input_required_result_request_state", none()),
        ("test_input_required_result_tampered_state", none()),
        ("test_logging_tool", none()),
        ("test_simple_text", none()),
        ("test_streaming_elicitation", none()),
        ("test_tool_with_progress", none()),
    ]
}

/// The schema that the suite wants to get back as it is.
fn schema_2020_12() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
            },
        },
        "properties": {
            "name": { "type": "string" },
            "address": { "$ref": "#/$defs/address" },
            "contactMethod": { "type": "string", "enum": ["phone", "email"] },
            "phone": { "type": "string" },
            "email": { "type": "string" },
        },
        "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
        "if": {
            "properties": { "contactMethod": { "const": "phone" } },
            "required": ["contactMethod"],
        },
        "then": { "required": ["phone"] },
        "else": { "required": ["email"] },
        "additionalProperties": false,
    })
}

/// What a tool wants to be told by a person, one thing after the other: who asks, and the fields.
fn asks(tool: &str) -> Vec<(&'static str, Value)> {
    let text = |name: &str| json!({ name: { "type": "string" } });
    let confirm = ("confirm", json!({ "ok": { "type": "boolean" } }));
    match tool {
        "test_elicitation" => {
            let fields = json!({ "username": { "type": "string" }, "email": { "type": "string" } });
            vec![("test", fields)]
        }
        "test_elicitation_sep1034_defaults" => vec![("test", defaults())],
        "test_elicitation_sep1330_enums" => vec![("test", enums())],
        "test_input_required_result_elicitation" => vec![("user_name", text("name"))],
        "test_input_required_result_multi_round" => {
            vec![("step1", text("name")), ("step2", text("color"))]
        }
        "test_input_required_result_request_state"
        | "test_input_required_result_tampered_state" => vec![confirm],
        _ => Vec::new(),
    }
}

fn defaults() -> Value {
    json!({
        "name": { "type": "string", "default": "John Doe" },
        "age": { "type": "integer", "default": 30 },
        "score": { "type": "number", "default": 95.5 },
        "status": {
            "type": "string",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": { "type": "boolean", "default": true },
    })
}

fn enums() -> Value {
    let bare = json!(["option1", "option2", "option3"]);
    let titled = json!([
        { "const": "value1", "title": "First" },
        { "const": "value2", "title": "Second" },
        { "const": "value3", "title": "Third" },
    ]);
    json!({
        "untitledSingle": { "type": "string", "enum": bare },
        "titledSingle": { "type": "string", "oneOf": titled },
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": { "type": "array", "items": { "type": "string", "enum": bare } },
        "titledMulti": { "type": "array", "items": { "anyOf": titled } },
    })
}

struct Fixture {
    spec: Arc<ToolSpec>,
    blobs: Memory,
}

impl Tool for Fixture {
    fn spec(&self) -> Arc<ToolSpec> {
        self.spec.clone()
    }

    fn check(&self, arguments: Value) -> Result<Value, String> {
        Ok(arguments)
    }

    fn run(&self, call: Invocation) -> BoxFuture<'static, Result<ToolResult, ToolError>> {
        let (name, blobs) = (self.spec.name.clone(), self.blobs.clone());
        Box::pin(async move {
            for (who, fields) in asks(&name) {
                let person = call.shared.get::<Inquiries>();
                let person = person.ok_or_else(|| ToolError::new("nobody can be asked"))?;
                let names: Vec<_> = fields.as_object().into_iter().flatten().collect();
                let names: Vec<_> = names.into_iter().map(|(name, _)| name).collect();
                let schema = json!({ "type": "object", "properties": fields, "required": names });
                let params = json!({ "message": "Please tell", "requestedSchema": schema });
                person.ask(who, &params).await.map_err(ToolError::new)?;
            }
            match name.as_str() {
                "test_error_handling" => {
                    Err(ToolError::new("This tool intentionally returns an error for testing"))
                }
                "test_image_content" => {
                    let hash = blobs.put(PNG.into()).await?;
                    let (media_type, size_bytes) = ("image/png".to_owned(), PNG.len() as u64);
                    let image = Content::Image(ImageRef { hash, media_type, size_bytes });
                    Ok(ToolResult { content: vec![image], ..ToolResult::default() })
                }
                "test_tool_with_progress" => {
                    let progress = call.shared.get::<Progress>().cloned().unwrap_or_default();
                    for _ in 0..3 {
                        progress.made();
                        tokio::time::sleep(STEP).await;
                    }
                    Ok(ToolResult::text("done in three steps"))
                }
                _ => Ok(ToolResult::text("This is a simple text response for testing.")),
            }
        })
    }
}

/// Asks a person before the tool with which the suite looks for questions that come from nowhere.
struct Asks;

impl Gate for Asks {
    fn name(&self) -> &str {
        "asks"
    }

    fn judge<'a>(&'a self, call: &'a GateCall) -> BoxFuture<'a, Result<Verdict, String>> {
        let asks = call.tool.name == "test_streaming_elicitation";
        let verdict =
            if asks { Verdict::Ask("the suite wants it".to_owned()) } else { Verdict::Allow };
        Box::pin(std::future::ready(Ok(verdict)))
    }
}

fn setup(store: &Memory) -> Setup {
    let tool = |(name, input)| {
        let spec = ToolSpec {
            input,
            effects: Effects::NONE,
            repeat: Repeat::Pure,
            ..ToolSpec::new(name, format!("The fixture `{name}` of the conformance suite."))
        };
        Arc::new(Fixture { spec: Arc::new(spec), blobs: store.clone() }) as Arc<dyn Tool>
    };
    let tools = tools().into_iter().map(tool).collect();
    let blobs: Arc<dyn Blobs> = Arc::new(store.clone());
    let plain = inspan_mcp::serve::setup(tools, Arc::new(store.clone()));
    Setup { blobs: Some(blobs), gates: vec![Arc::new(Asks)], ..plain }
}
