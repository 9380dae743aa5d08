//! Each program, played from its recordings: all that it writes.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

/// What a program writes to standard output and, from its second line on, to standard error.
fn play(program: &str, input: &str) -> (String, String) {
    let (answers, told) = run(program, input);
    let told = told.strip_prefix("No ANTHROPIC_API_KEY is set: the answers are recorded.\n");
    (answers, told.unwrap().to_owned())
}

/// What a program writes to standard output and to standard error.
fn run(program: &str, input: &str) -> (String, String) {
    let mut child = Command::new(program)
        .env_remove("ANTHROPIC_API_KEY")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let [answers, told] = [output.stdout, output.stderr].map(|b| String::from_utf8(b).unwrap());
    assert!(output.status.success(), "{answers}{told}");
    (answers, told)
}

macro_rules! played {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            let (answers, told) = play(env!(concat!("CARGO_BIN_EXE_", stringify!($name))), "");
            insta::assert_snapshot!(stringify!($name), answers);
            assert_eq!(told, "");
        }
    )*};
}

played! {
    weather weather_by_hand weather_gate weather_failing
    subagent orders
    chain route parallel orchestrate evaluate
}

#[test]
fn chat() {
    let typed = "Say hello with your tool.\nAnd now without it.\n";
    let (answers, told) = play(env!("CARGO_BIN_EXE_chat"), typed);
    assert_eq!(answers, "> It says hello.\n> Hello.\n> ");
    insta::assert_snapshot!("chat_traffic", told);
}

/// What a client says, a message a line, and the answers to its calls.
#[test]
fn served() {
    let call = |id: u32, city: &str| {
        let params = json!({ "name": "weather", "arguments": { "city": city } });
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
    };
    let client = json!({
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": { "name": "test", "version": "1" },
    });
    let said = [
        json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": client }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        call(1, "Lisbon"),
        call(2, "Porto"),
    ];
    let said: String = said.iter().map(|message| format!("{message}\n")).collect();
    let (answers, told) = run(env!("CARGO_BIN_EXE_served"), &said);
    let mut texts: Vec<_> = answers
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter_map(|answer| answer["result"]["content"][0]["text"].as_str().map(str::to_owned))
        .collect();
    texts.sort();
    assert_eq!(texts[0], "17 °C and sunny in Lisbon");
    assert!(texts[1].contains("this account is for Lisbon only"), "{}", texts[1]);
    assert_eq!((texts.len(), told.as_str()), (2, ""));
}
