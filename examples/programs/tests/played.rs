//! Each program, played from its recordings: all that it writes.

use std::{
    io::Write,
    process::{Command, Stdio},
};

/// What a program writes to standard output and, from its second line on, to standard error.
fn play(program: &str, input: &str) -> (String, String) {
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
    let told = told.strip_prefix("No ANTHROPIC_API_KEY is set: the answers are recorded.\n");
    let told = told.unwrap().to_owned();
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
