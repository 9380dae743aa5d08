use std::fs;

use inspan_core::mask::Mask;
use inspan_mcp::McpError;

use super::*;
use crate::config::Config;

/// The configuration that says this, with a token in the environment.
fn load(yaml: &str) -> Result<Config, String> {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("config.yaml"), yaml).unwrap();
    let environment = vec![("TOKEN".into(), "tok-1234567890".into())];
    let config = Config::load(home.path(), environment);
    config.map_err(|error| error.to_string().replace(&home.path().display().to_string(), "~"))
}

#[test]
fn every_setting_of_a_server_is_taken() {
    let yaml = "\
mcpServers:
  files:
    type: stdio
    command: npx
    args: [-y, server, .]
    env: { LOG_LEVEL: debugging, API_KEY: plain-in-the-file, OTHER: '${TOKEN}' }
    cwd: sub
    protocol: legacy
    include: [read, write]
    exclude: [drop]
    timeout: 1m30s
    effects:
      read: [reads_private]
      write: { effects: [writes], repeat: idempotent }
      '*': []
      key: { repeat: keyed }
    ask: { write: it changes files }
  web:
    url: https://me:secret-pass@host/mcp
    headers: { X-Trace: '1', X-Api-Key: '${TOKEN}' }
    protocol: '2026-07-28'
  off: { command: x, disabled: true }
";
    let config = load(yaml).unwrap();
    let [files, web] = &config.mcp[..] else { panic!("{:?}", config.mcp) };
    let Link::Program(program) = &files.link else { panic!("{files:?}") };
    assert_eq!(program.argv, ["npx", "-y", "server", "."]);
    assert_eq!(program.folder, Path::new("sub"));
    let env: Vec<_> =
        program.env.iter().map(|(name, value)| (name.as_str(), value.expose_secret())).collect();
    let expected =
        [("API_KEY", "plain-in-the-file"), ("LOG_LEVEL", "debugging"), ("OTHER", "tok-1234567890")];
    assert_eq!(env, expected);
    assert_eq!((files.protocol, files.timeout_ms_max), (Protocol::Legacy, 90_000));
    assert_eq!(files.include.as_deref(), Some(&["read".to_owned(), "write".to_owned()][..]));
    assert_eq!(files.exclude, ["drop"]);
    let reads = Effects { reads_private: true, ..Effects::NONE };
    let writes = Effects { writes: true, ..Effects::NONE };
    let effects = [
        ("*", Effects::NONE, Repeat::Pure),
        ("key", Effects::default(), Repeat::Keyed),
        ("read", reads, Repeat::Pure),
        ("write", writes, Repeat::Idempotent),
    ];
    let effects =
        effects.map(|(tool, effects, repeat)| (tool.to_owned(), Declared { effects, repeat }));
    assert_eq!(files.effects, BTreeMap::from(effects));
    let asks = [("write".to_owned(), "it changes files".to_owned())];
    assert_eq!((&files.ask, web.ask.len()), (&asks.into(), 0));
    let Link::Http(http) = &web.link else { panic!("{web:?}") };
    assert_eq!(http.url(), "https://host/mcp");
    let headers: Vec<&str> = http.headers().keys().map(String::as_str).collect();
    assert_eq!(headers, ["X-Api-Key", "X-Trace", "authorization"]);
    assert_eq!((web.protocol, web.timeout_ms_max), (Protocol::Modern, TIMEOUT_MS_DEFAULT));

    let login = http.headers()["authorization"].expose_secret().to_owned();
    let shown = |text: &str| config.mask.text(text) != text;
    for secret in ["plain-in-the-file", "tok-1234567890", &login] {
        assert!(shown(secret), "{secret}");
    }
    assert!(!shown("debugging"));
    assert_ne!(
        config.mask_with(vec!["another-secret".to_owned()]).text("another-secret"),
        "another-secret"
    );
    assert_eq!(Mask::default().text("another-secret"), "another-secret");
}

#[test]
fn what_makes_no_sense_is_told_with_its_place() {
    let server = |rest: &str| format!("mcpServers:\n  files: {{ {rest} }}\n");
    let variables = "variables are replaced in `env`, `headers` and `clientSecret` only; this would \
                     show them";
    let table = [
        (
            server(""),
            "2:10: the MCP server `files` needs `command`, a program, or `url`, an address",
        ),
        (
            server("command: a, url: 'https://b'"),
            "2:29: there are both `command` and `url`: keep one of them",
        ),
        (
            server("command: a, headers: {}"),
            "2:10: `headers` of the MCP server `files` goes with `url` only",
        ),
        (
            server("url: 'https://b', cwd: x"),
            "2:10: `cwd` of the MCP server `files` goes with `command` only",
        ),
        (server("command: a, args: ['${TOKEN}']"), &format!("2:31: {variables}")),
        (server("url: 'https://b/${TOKEN}'"), &format!("2:17: {variables}")),
        (
            server("url: ftp://b"),
            "2:17: url: an address of a server begins with https:// or http://",
        ),
        (
            server("command: a, env: { A: '${NONE}' }"),
            "2:34: the variable NONE is not set; set it in the environment or in ~/.env, or write \
             ${NONE:-DEFAULT}",
        ),
        (
            server("command: a, protocol: '2024'"),
            "2:34: protocol: `2024` is not known; there are: auto, legacy, 2026-07-28",
        ),
        (
            server("command: a, type: sse"),
            "2:30: type: `sse` is not known; there are: stdio, http, \
            streamable-http",
        ),
        (
            server("command: a, timeout: soon"),
            "2:33: timeout: `soon` is not a duration like 90s, \
            10m or 1h30m",
        ),
        (
            server("command: a, effects: { read: [reads] }"),
            "2:41: effects of `read`: no effect is called `reads`; there are: reads_private, \
             reads_untrusted, writes, sends, destroys, spends",
        ),
        (
            server("command: a, effects: { read: { repeat: probe } }"),
            "2:41: effects of `read`: repeat: `probe` is not known; there are: pure, idempotent, \
             keyed, once",
        ),
        (
            server("command: a, effects: { read: { effect: [] } }"),
            "2:41: effects of `read`: `effect` is not known here; did you mean `effects`?",
        ),
        (
            server("command: a, effects: { read: none }"),
            "2:41: effects of `read`: write a list of effects, as in [reads_private]",
        ),
        (server("comand: a"), "2:12: unknown key `comand`; did you mean `command`?"),
        (
            "mcpServers: { my files: { command: a } }".to_owned(),
            "1:25: `my files` can't name an MCP server: 1 to 32 of A-Z, a-z, 0-9, _ and -",
        ),
    ];
    for (yaml, expected) in table {
        let error = load(&yaml).err();
        assert_eq!(error, Some(format!("~/config.yaml:{expected}")), "{yaml}");
    }
}

#[test]
fn a_name_that_two_tools_would_have_says_what_to_do() {
    let twice = McpError::NameTwice {
        name: "a_b_c".to_owned(),
        first: "a/b_c".to_owned(),
        second: "a_b/c".to_owned(),
    };
    let expected = "the tools `a/b_c` and `a_b/c` of MCP servers would both be called `a_b_c`: \
                    exclude one of them, or call one of the servers otherwise";
    assert_eq!(twice.to_string(), expected);
}
