use std::fs;

use inspan_core::{message::CallId, store::SessionId};
use rustix::process::{Pid, test_kill_process};

use super::*;

/// A tool that runs `script` with `sh` in an empty folder.
fn shell(folder: &tempfile::TempDir, script: &str) -> Command {
    Command {
        spec: Arc::new(ToolSpec::new("tool", "A tool.")),
        check: Arc::new(Ok),
        argv: sh(script),
        probe: None,
        output: Output::Text,
        folder: folder.path().to_owned(),
        workdir: "/work".into(),
        environment: vec![("PATH".into(), std::env::var_os("PATH").unwrap_or_default())],
        mask: Mask::new(["hunter2hunter2".to_owned()]),
    }
}

fn sh(script: &str) -> Vec<String> {
    ["sh", "-c", script].map(str::to_owned).to_vec()
}

fn call(arguments: Value) -> Invocation {
    Invocation {
        session: SessionId::try_from("s-1".to_owned()).unwrap(),
        call: CallId::new(3, 0),
        key: "s-1/3/0".to_owned(),
        attempt: 1,
        arguments,
        shared: Default::default(),
    }
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

async fn run(command: Command) -> Result<ToolResult, ToolError> {
    CommandTool::new(command).run(call(json!({ "city": "Évora" }))).await
}

async fn run_text(script: &str) -> Result<ToolResult, ToolError> {
    let folder = folder();
    run(shell(&folder, script)).await
}

fn failed(message: &str, evidence: Value) -> Result<ToolResult, ToolError> {
    Err(ToolError { message: message.to_owned(), evidence: Some(evidence) })
}

#[tokio::test]
async fn output_is_the_result_and_a_failure_says_why() {
    let table = [
        ("cat", Ok(ToolResult::text(r#"{"city":"Évora"}"#))),
        ("echo out; echo err >&2", Ok(ToolResult::text("out\n"))),
        ("true", Ok(ToolResult::text(""))),
        ("echo the key is hunter2hunter2", Ok(ToolResult::text("the key is [masked]\n"))),
        (
            "echo out; echo no such city: hunter2hunter2 >&2; exit 3",
            failed("exit status 3:\nno such city: [masked]", json!({ "exit_status": 3 })),
        ),
        ("echo only out; exit 1", failed("exit status 1:\nonly out", json!({ "exit_status": 1 }))),
        (
            "exit 1",
            failed("exit status 1, and the program said nothing", json!({ "exit_status": 1 })),
        ),
        (
            "echo dying >&2; kill -TERM $$",
            failed("ended by signal 15:\ndying", json!({ "signal": 15 })),
        ),
    ];
    for (script, expected) in table {
        assert_eq!(run_text(script).await, expected, "{script}");
    }
}

#[tokio::test]
async fn a_program_that_is_not_there_is_a_failure() {
    let command = Command {
        argv: vec!["no-such-program".into()],
        folder: "/".into(),
        ..shell(&folder(), "")
    };
    let why = "`no-such-program` can't be run in /: No such file or directory (os error 2)";
    assert_eq!(run(command).await, Err(ToolError::new(why)));
}

#[tokio::test]
async fn the_environment_is_an_allow_list() {
    let folder = folder();
    let environment = [
        ("PATH", &*std::env::var("PATH").unwrap()),
        ("HOME", "/home/me"),
        ("LC_TIME", "pt_PT"),
        ("ANTHROPIC_API_KEY", "secret"),
        ("INSPAN_HOME", "/elsewhere"),
        ("LD_PRELOAD", "x.so"),
    ];
    let once = Command {
        environment: environment.map(|(name, value)| (name.into(), value.into())).to_vec(),
        ..shell(&folder, "pwd; env | grep -v -e ^PATH= -e ^PWD= -e ^SHLVL= -e ^_= | sort")
    };
    let spec = ToolSpec { repeat: Repeat::Keyed, ..ToolSpec::new("tool", "A tool.") };
    let keyed = Command { spec: Arc::new(spec), ..once.clone() };

    let folder = folder.path().canonicalize().unwrap();
    let common = |key: &str| {
        let folder = folder.display();
        ToolResult::text(format!(
            "{folder}\nHOME=/home/me\nINSPAN_CALL=call_3_0\n{key}INSPAN_SESSION=s-1\n\
             INSPAN_WORKDIR=/work\nLC_TIME=pt_PT\n"
        ))
    };
    assert_eq!(run(once).await, Ok(common("")));
    assert_eq!(run(keyed).await, Ok(common("INSPAN_KEY=s-1/3/0\n")));
}

#[tokio::test]
async fn input_that_is_not_read_does_no_harm() {
    let folder = folder();
    for script in ["echo done", "exec 0<&-; echo done"] {
        let large = call(json!({ "text": "x".repeat(10_000_000) }));
        let result = CommandTool::new(shell(&folder, script)).run(large).await;
        assert_eq!(result, Ok(ToolResult::text("done\n")));
    }
}

#[tokio::test]
async fn large_input_and_output_pass_at_once() {
    let folder = folder();
    let tool = CommandTool::new(shell(&folder, "cat"));
    let text = "x".repeat(60_000);
    let result = tool.run(call(json!({ "text": text }))).await;
    assert_eq!(result, Ok(ToolResult::text(format!(r#"{{"text":"{text}"}}"#))));
}

#[tokio::test]
async fn long_output_is_cut_in_the_middle() {
    let script = "echo first; head -c 100000000 /dev/zero | tr '\\0' x; echo; echo last";
    let text = run_text(script).await.unwrap().to_text();
    assert!(text.len() <= SPILLED_BYTES_MAX);
    assert!(text.starts_with("first\nxxx") && text.ends_with("xxx\nlast\n"));
    assert!(text.contains("x\n[83222860 bytes left out here]\nx"), "{}", text.len());
}

#[tokio::test]
async fn a_process_left_behind_does_not_hold_up_the_call() {
    // It holds all three pipes, and would write more if it could.
    let folder = folder();
    let command = shell(&folder, "(sleep 60; echo late) & echo $! >left; echo done");
    assert_eq!(run(command).await, Ok(ToolResult::text("done\n")));
    let left = fs::read_to_string(folder.path().join("left")).unwrap().trim().parse().unwrap();
    rustix::process::kill_process(Pid::from_raw(left).unwrap(), rustix::process::Signal::KILL)
        .unwrap();
}

#[tokio::test]
async fn a_process_left_behind_that_writes_on_does_not_either() {
    let folder = folder();
    let command = shell(&folder, "yes & echo $! >left");
    let text = run(command).await.unwrap().to_text();
    assert!(text.is_empty() || text.starts_with("y\n"));
    let left = fs::read_to_string(folder.path().join("left")).unwrap().trim().parse().unwrap();
    // It may have ended by itself, as its pipe is closed.
    let _ =
        rustix::process::kill_process(Pid::from_raw(left).unwrap(), rustix::process::Signal::KILL);
}

#[tokio::test]
async fn dropping_a_run_kills_the_whole_group_and_reaps_the_child() {
    let folder = folder();
    let fifo = folder.path().join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    let script = "exec 3>fifo; (sleep 60; echo late >&3) & echo $$ >&3; wait";
    let tool = CommandTool::new(shell(&folder, script));

    let run = tokio::spawn(tool.run(call(json!({}))));
    let (said, pid) = tokio::task::spawn_blocking(move || {
        let mut lines = io::BufReader::new(fs::File::open(fifo).unwrap());
        let mut line = String::new();
        io::BufRead::read_line(&mut lines, &mut line).unwrap();
        (lines, Pid::from_raw(line.trim().parse().unwrap()).unwrap())
    })
    .await
    .unwrap();
    run.abort();
    assert!(run.await.unwrap_err().is_cancelled());

    // The pipe ends when nobody is left who could write to it.
    let rest = tokio::task::spawn_blocking(move || io::read_to_string(said).unwrap());
    assert_eq!(rest.await.unwrap(), "");
    while test_kill_process(pid).is_ok() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn json_output_gives_content_evidence_and_state() {
    let texts = |texts: &[&str]| texts.iter().map(|text| Content::text(*text)).collect::<Vec<_>>();
    let wrong = |why: &str| {
        Err(ToolError::new(format!(
            "the program's output is not the JSON object that was agreed on: {why}"
        )))
    };
    let content = "`content` must be a text or a list of texts";
    let table = [
        (r#"{"content": "18 °C"}"#, Ok(ToolResult::text("18 °C"))),
        (
            r#"{"content": ["a", {"type": "text", "text": "hunter2hunter2"}],
                "evidence": {"k": ["hunter2hunter2", 1]}, "state": {"accepted": "job-7"}}"#,
            Ok(ToolResult {
                content: texts(&["a", "[masked]"]),
                evidence: Some(json!({ "k": ["[masked]", 1] })),
                state: ResultState::Accepted("job-7".to_owned()),
                spilled: None,
            }),
        ),
        (
            r#"{"content": [], "evidence": null, "state": "finished"}"#,
            Ok(ToolResult { content: vec![], ..ToolResult::default() }),
        ),
        ("18 °C", wrong("trailing characters at line 1 column 4")),
        ("", wrong("EOF while parsing a value at line 1 column 0")),
        ("[]", wrong("it is not an object")),
        ("{}", wrong("`content` is missing")),
        (r#"{"content": 18}"#, wrong(content)),
        (r#"{"content": [{"type": "image"}]}"#, wrong(content)),
        (
            r#"{"content": "", "state": "done"}"#,
            wrong(r#"`state` must be "finished", {"accepted": "JOB"} or {"later": {"id": "JOB"}}"#),
        ),
        (
            r#"{"content": "", "contents": ""}"#,
            wrong("`contents` is not known; there are `content`, `evidence` and `state`"),
        ),
    ];
    let folder = folder();
    for (output, expected) in table {
        fs::write(folder.path().join("output"), output).unwrap();
        let command = Command { output: Output::Json, ..shell(&folder, "cat output") };
        assert_eq!(run(command).await, expected, "{output}");
    }
    let script = "head -c 17000000 /dev/zero";
    let command = Command { output: Output::Json, ..shell(&folder, script) };
    assert_eq!(run(command).await, wrong("it is longer than 16777216 bytes"));
}

#[tokio::test]
async fn a_probe_tells_whether_it_happened() {
    let table = [
        ("echo done", Probed::Done(ToolResult::text("done"))),
        ("echo done sent as no. 7", Probed::Done(ToolResult::text("sent as no. 7"))),
        ("read input; echo done; echo $input", {
            Probed::Done(ToolResult::text(r#"{"city":"Évora"}"#))
        }),
        ("echo absent", Probed::Absent),
        ("echo unknown", Probed::Unknown),
        ("echo perhaps", Probed::Unknown),
        ("echo done; exit 1", Probed::Unknown),
        ("", Probed::Unknown),
    ];
    let folder = folder();
    for (script, expected) in table {
        let command = Command { probe: Some(sh(script)), ..shell(&folder, "exit 9") };
        let probed = CommandTool::new(command).probe(call(json!({ "city": "Évora" }))).await;
        assert_eq!(probed, expected, "{script}");
    }
    let without = CommandTool::new(shell(&folder, "echo done"));
    assert_eq!(without.probe(call(json!({}))).await, Probed::Unknown);
}
