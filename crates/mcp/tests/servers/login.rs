//! A server that wants a login, and a person who gets one.

use std::{
    fs,
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    process::{Child, Command},
};

use inspan_mcp::{HttpLink, Link, Options, ServerConfig, Servers};
use serde_json::json;

use crate::world::{Tools, World};

/// A server in the folder of a world; it ends with the value.
struct LoginServer {
    process: Child,
    config: ServerConfig,
}

impl LoginServer {
    fn start(world: &World) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/login.py");
        let process = Command::new("python3")
            .args([script, &port.to_string()])
            .current_dir(world.folder.path())
            .spawn()
            .unwrap();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            std::thread::yield_now();
        }
        let link = HttpLink::new(&format!("http://127.0.0.1:{port}/mcp"), Default::default());
        Self { process, config: world.config("web", Link::Http(link.unwrap())) }
    }
}

impl Drop for LoginServer {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// Servers of a process of their own, which keep logins in the folder of the world.
fn servers(world: &World) -> Servers {
    let folder = |name: &str| Some(world.folder.path().join(name));
    Servers::new(Options { cache: folder("cache"), logins: folder("logins"), ..Options::default() })
}

/// Goes to the page and agrees, as a person does with a browser.
fn agree(address: &str) {
    let address = address.to_owned();
    tokio::spawn(async move { reqwest::get(address).await.unwrap() });
}

const WANTED: &str = "it wants to know who asks: inspan mcp login web, or set `headers`, as in \
                      `headers: { Authorization: \"Bearer ${TOKEN}\" }`";

#[tokio::test]
async fn a_person_logs_in_and_the_login_is_renewed_once() {
    let world = World::new();
    let server = LoginServer::start(&world);
    let config = [server.config.clone()];
    let before = servers(&world).offer(&config, None).await.unwrap();
    assert_eq!(before.notices, [format!("the MCP server `web` is left out: {WANTED}")]);

    let here = servers(&world);
    let scopes = ["write".to_owned()];
    here.login(&config[0], &scopes, agree).await.unwrap();
    let tools = Tools(here.offer(&config, None).await.unwrap().tools);
    assert_eq!(tools.text("web_who", json!({})).await, "you");
    assert_eq!(here.login_secrets(), ["token-secret-1", "refresh-secret-1"]);
    let folder = world.folder.path().join("logins");
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let file = fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    assert_eq!((mode(&folder), mode(&file)), (0o700, 0o600));

    // Another process has it, too. A token that is taken no more is renewed once for all calls.
    let later = servers(&world);
    let tools = Tools(later.offer(&config, None).await.unwrap().tools);
    assert_eq!(tools.text("web_who", json!({})).await, "you");
    fs::write(world.folder.path().join("spoil"), "").unwrap();
    let both = tokio::join!(tools.text("web_who", json!({})), tools.text("web_who", json!({})));
    assert_eq!(both, ("you".to_owned(), "you".to_owned()));
    let journal = world.journal();
    assert_eq!(journal[0], "authorize write");
    assert_eq!(journal[1..], ["token authorization_code", "token refresh_token"]);

    assert_eq!(later.logout(&config[0]), Ok(true));
    assert_eq!(later.logout(&config[0]), Ok(false));
    fs::write(world.folder.path().join("spoil"), "").unwrap();
    let refused = format!("the MCP server `web` refused the call: {WANTED}");
    assert_eq!(tools.error("web_who").await, refused);
}

#[tokio::test]
async fn a_login_that_is_refused_says_so() {
    let world = World::new();
    let server = LoginServer::start(&world);
    fs::write(world.folder.path().join("refuse"), "").unwrap();
    let refused = servers(&world).login(&server.config, &[], agree).await;
    let why = "no login at the MCP server `web`: the login was refused: access_denied";
    assert_eq!(refused.unwrap_err().to_string(), why);
    let program = world.bad(&[]);
    let none = servers(&world).login(&program, &[], agree).await;
    let why = "no login at the MCP server `bad`: it is a program of this machine, which needs none";
    assert_eq!(none.unwrap_err().to_string(), why);
}
