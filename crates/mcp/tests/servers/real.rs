//! Servers that people use, from npm and from PyPI. `./test tests` installs them.

use std::{
    net::TcpListener,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::Arc,
};

use inspan_core::{blobs::Blobs, message::Content};
use inspan_engine::tools::Progress;
use inspan_mcp::{Grade, HttpLink, Link, Protocol, ServerConfig, Timeouts};
use serde_json::{Value, json};

use crate::world::{Tools, World, call, pictures};

/// Where the servers are installed.
fn peers() -> PathBuf {
    let folder = std::env::var("INSPAN_TEST_MCP").expect(
        "INSPAN_TEST_MCP is not set: run `./test tests`, which installs MCP servers, or set it to \
         the folder target/tools/mcp that it makes",
    );
    folder.into()
}

fn npm(world: &World, name: &str, argument: Option<&str>) -> ServerConfig {
    let package = peers().join("node_modules/@modelcontextprotocol").join(format!("server-{name}"));
    let script = package.join("dist/index.js").display().to_string();
    let words: Vec<&str> = ["node", &script].into_iter().chain(argument).collect();
    world.program(name, &words)
}

fn python(name: &str) -> (String, String) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/").to_owned() + name;
    (peers().join("python").display().to_string(), script)
}

#[tokio::test]
async fn everything() {
    let world = World::new();
    let config = npm(&world, "everything", None);
    let report = world.servers.examine(&config).await;
    assert_eq!((report.grade, report.faults), (Grade::Good, Vec::new()));
    assert_eq!(report.revision, "2025-11-25");

    let blobs: Arc<dyn Blobs> = Arc::new(inspan_store::Memory::default());
    let offer = world.servers.offer(&[config], Some(&pictures(blobs))).await.unwrap();
    let tools = Tools(offer.tools);
    let echoed = tools.text("everything_echo", json!({ "message": "hi" })).await;
    assert_eq!(echoed, "Echo: hi");
    let sum = tools.text("everything_get-sum", json!({ "a": 2, "b": "3" })).await;
    assert_eq!(sum, "The sum of 2 and 3 is 5.");
    assert!(tools.get("everything_echo").check(json!({ "message": [] })).is_err());
    let picture = tools.run("everything_get-tiny-image", json!({})).await.unwrap();
    let is_image = |content: &&Content| matches!(content, Content::Image(_));
    assert_eq!(picture.content.iter().filter(is_image).count(), 1);

    let long = tools.get("everything_trigger-long-running-operation");
    let mut invocation = call(json!({ "duration": 1, "steps": 4 }));
    let progress = Progress::default();
    invocation.shared.insert(progress.clone());
    let began = progress.made_at();
    long.run(invocation).await.unwrap();
    assert!(progress.made_at() > began);
    world.servers.close().await;
}

#[tokio::test]
async fn filesystem() {
    let world = World::new();
    std::fs::write(world.folder.path().join("a.txt"), "grüße\n").unwrap();
    let mut config = npm(&world, "filesystem", Some("."));
    config.include = Some(vec!["read_text_file".to_owned(), "list_directory".to_owned()]);
    let tools = world.tools(&config).await;
    assert_eq!(tools.names(), ["filesystem_list_directory", "filesystem_read_text_file"]);
    let read = tools.text("filesystem_read_text_file", json!({ "path": "a.txt" })).await;
    assert_eq!(read, "grüße\n");
    let outside = tools.run("filesystem_read_text_file", json!({ "path": "/etc/hosts" })).await;
    assert!(outside.unwrap_err().message.contains("Access denied"));
    world.servers.close().await;
}

#[tokio::test]
async fn memory() {
    let world = World::new();
    let tools = world.tools(&npm(&world, "memory", None)).await;
    // Its structured content says the same as its text.
    let graph = tools.run("memory_read_graph", json!({})).await.unwrap();
    let text: Value = serde_json::from_str(&graph.to_text()).unwrap();
    assert_eq!((&text["relations"], graph.evidence), (&json!([]), None));
    world.servers.close().await;
}

/// A world in which a server may take long to read its own code.
fn patient() -> World {
    World::with(Timeouts { discover_ms_max: 50_000, ..Timeouts::default() })
}

#[tokio::test]
async fn python_over_its_input_speaks_the_newest_revision() {
    let world = patient();
    let (folder, script) = python("peer.py");
    let mut config = world.program("py", &["python3", &script, "stdio"]);
    if let Link::Program(program) = &mut config.link {
        program.env.insert("PYTHONPATH".to_owned(), folder.into());
    }
    let report = world.servers.examine(&config).await;
    // On a busy machine it takes its time to end.
    assert_ne!(report.grade, Grade::Bad, "{:?}", report.faults);
    assert_eq!(report.revision, "2026-07-28");
    let tools = world.tools(&config).await;
    assert_eq!(tools.text("py_add", json!({ "a": 2, "b": 3 })).await, "5");
    world.servers.close().await;
}

/// A server that is killed with its test.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn python_over_http_in_both_ways() {
    let (folder, script) = python("peer.py");
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let served = Command::new("python3")
        .args([&script, "http", &port.to_string()])
        .env("PYTHONPATH", folder)
        .stderr(Stdio::null())
        .spawn();
    let mut served = Served(served.unwrap());
    while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
        assert!(served.0.try_wait().unwrap().is_none(), "the server ended");
        tokio::task::yield_now().await;
    }
    let ways = [(Protocol::Auto, "2026-07-28"), (Protocol::Legacy, "2025-11-25")];
    for (protocol, revision) in ways {
        let world = patient();
        let link = HttpLink::new(&format!("http://127.0.0.1:{port}/mcp/"), Default::default());
        let config = ServerConfig { protocol, ..world.config("web", Link::Http(link.unwrap())) };
        let report = world.servers.examine(&config).await;
        let found = (report.grade, report.revision.as_str(), report.faults);
        assert_eq!(found, (Grade::Good, revision, Vec::new()));
        let tools = world.tools(&config).await;
        assert_eq!(tools.text("web_add", json!({ "a": 2, "b": 3 })).await, "5");
        let failed = tools.run("web_fail", Value::Object(Default::default())).await.unwrap_err();
        assert!(failed.message.contains("not today"), "{failed:?}");
        world.servers.close().await;
    }
}
