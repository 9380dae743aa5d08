//! The client as the conformance suite of MCP drives it: `conformance-client URL`, with the scenario
//! and its revision in the environment. It does what a session does: it looks at the tools, logs in
//! where that is wanted, and calls each tool.

use std::{collections::BTreeMap, error::Error, io::Write, path::Path, sync::Arc};

use inspan_core::{
    message::CallId,
    store::SessionId,
    tool::{Invocation, Tool},
};
use inspan_mcp::{
    HttpLink, Inquiries, Link, OAuthClient, Offer, Options, Protocol, Reply, ServerConfig, Servers,
    Wants, inquiries,
};
use secrecy::SecretString;
use serde_json::{Map, Value, json};

/// How often it logs in before it gives up.
const LOGINS_MAX: usize = 3;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().next_back().ok_or("the address of the server is missing")?;
    let context = std::env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_default();
    let context: Value = serde_json::from_str(&context).unwrap_or_default();
    let folder = std::env::temp_dir().join(format!("inspan-conformance-{}", std::process::id()));
    let done = session(&config(&url, &context)?, &context, &folder).await;
    std::fs::remove_dir_all(&folder).ok();
    done
}

fn config(url: &str, context: &Value) -> Result<ServerConfig, Box<dyn Error>> {
    let revision = std::env::var("MCP_CONFORMANCE_PROTOCOL_VERSION").unwrap_or_default();
    let mut link = HttpLink::new(url, BTreeMap::new())?;
    if let Some(id) = context["client_id"].as_str() {
        let secret = context["client_secret"].as_str().map(SecretString::from);
        link = link.with_client(OAuthClient { id: id.to_owned(), secret });
    }
    Ok(ServerConfig {
        name: "server".to_owned(),
        link: Link::Http(link),
        protocol: match revision.as_str() {
            "2026-07-28" | "" => Protocol::Modern,
            _ => Protocol::Legacy,
        },
        include: None,
        exclude: Vec::new(),
        timeout_ms_max: 20_000,
        effects: BTreeMap::new(),
        ask: BTreeMap::new(),
    })
}

async fn session(
    config: &ServerConfig,
    context: &Value,
    folder: &Path,
) -> Result<(), Box<dyn Error>> {
    let logins = Some(folder.join("logins"));
    let servers = Servers::new(Options { logins, ..Options::default() });
    let mut logged_in = 0;
    let offer = loop {
        let offer = servers.offer(std::slice::from_ref(config), None).await?;
        let wanted = offer.notices.iter().find_map(|notice| login_wanted(notice));
        match wanted {
            Some(scopes) if logged_in < LOGINS_MAX => {
                logged_in += 1;
                servers.login(config, &scopes, agree).await?;
            }
            _ => break offer,
        }
    };
    let Offer { tools, notices, .. } = offer;
    notices.iter().for_each(|notice| tell(notice));
    for tool in &tools {
        for arguments in arguments(tool, &tools, context) {
            loop {
                let said = call(tool, arguments.clone()).await;
                tell(&format!("{}: {said:?}", tool.spec().name));
                match said.as_ref().err().and_then(|why| login_wanted(why)) {
                    Some(scopes) if logged_in < LOGINS_MAX => {
                        logged_in += 1;
                        servers.login(config, &scopes, agree).await?;
                    }
                    _ => break,
                }
            }
        }
    }
    servers.close().await;
    match tools.is_empty() && !notices.is_empty() {
        true => Err(notices.join("; ").into()),
        false => Ok(()),
    }
}

/// What happened, for whoever looks into a scenario that fails.
fn tell(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// The rights of the login that a message asks for.
fn login_wanted(message: &str) -> Option<Vec<String>> {
    let (_, after) = message.split_once("inspan mcp login server")?;
    let mut words = after.split_whitespace();
    let mut scopes = Vec::new();
    while words.next() == Some("--scope") {
        scopes.extend(words.next().map(str::to_owned));
    }
    Some(scopes)
}

/// Goes to the page and agrees.
fn agree(address: &str) {
    let address = address.to_owned();
    tokio::spawn(async move { reqwest::get(address).await });
}

/// What a tool is called with: what the scenario says, or something of each kind that it needs.
fn arguments(tool: &Arc<dyn Tool>, all: &[Arc<dyn Tool>], context: &Value) -> Vec<Value> {
    let spec = tool.spec();
    let own = spec.name.strip_prefix("server_").unwrap_or(&spec.name);
    if own == "json_schema_echo" {
        // It wants to see what was read of another tool.
        let other = all.iter().find(|tool| tool.spec().name == "server_json_schema_2020_12_tool");
        return other.map(|other| json!({ "schema": other.spec().input })).into_iter().collect();
    }
    let calls = context["toolCalls"].as_array().into_iter().flatten();
    let said: Vec<Value> =
        calls.filter(|call| call["name"] == own).map(|call| said(&call["arguments"])).collect();
    if !said.is_empty() {
        return said;
    }
    let value = |schema: &Value| match schema["type"].as_str() {
        Some("number" | "integer") => json!(5),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => json!({}),
        _ => json!("something"),
    };
    let properties = spec.input["properties"].as_object().cloned().unwrap_or_default();
    let given: Map<String, Value> =
        properties.iter().map(|(name, schema)| (name.clone(), value(schema))).collect();
    vec![given.into()]
}

/// Arguments as the scenario says them. A `null` where the schema has none is left out, as a model
/// does when it is told so.
fn said(arguments: &Value) -> Value {
    let given = arguments.as_object().cloned().unwrap_or_default().into_iter();
    given.filter(|(_, value)| !value.is_null()).collect::<Map<_, _>>().into()
}

/// Calls a tool, with a person who agrees to everything and fills in nothing but defaults.
async fn call(tool: &Arc<dyn Tool>, arguments: Value) -> Result<String, String> {
    let (person, mut asked) = inquiries();
    let mut call = Invocation {
        session: SessionId::try_from("conformance".to_owned())?,
        call: CallId::new(1, 0),
        key: "conformance/call_1_0".to_owned(),
        attempt: 1,
        arguments: tool.check(arguments)?,
        shared: Default::default(),
    };
    call.shared.insert::<Inquiries>(person);
    let answering = async {
        while let Some(inquiry) = asked.recv().await {
            let reply = match &inquiry.wants {
                Wants::Form(fields) => {
                    let read = |field: &inspan_mcp::Field| field.read("").ok().flatten();
                    let given = fields.iter().filter_map(|f| Some((f.name.clone(), read(f)?)));
                    Reply::Given(given.collect())
                }
                Wants::Visit(_) => Reply::Given(Map::new()),
            };
            inquiry.reply(reply);
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        result = tool.run(call) => {
            result.map(|result| result.to_text()).map_err(|error| error.message)
        }
        () = answering => Err("nobody asks any more".to_owned()),
    }
}
