use inspan_core::{
    effects::{Effects, Repeat},
    message::{CallId, ToolResult},
    store::SessionId,
    tool::{Invocation, Probed, ToolSpec},
};
use inspan_providers::{Effort, Lookup, Settings, built_in};
use serde_json::json;

use super::*;
use crate::config::{Ceiling, Millis, Usd};

/// A folder with these files.
fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn given() -> Surroundings {
    Surroundings {
        workdir: "/work".into(),
        environment: vec![("PATH".into(), std::env::var_os("PATH").unwrap())],
        servers: built_in(&(Arc::new(|_: &str| None) as Lookup)),
        mask: Mask::default(),
        date: || "2026-11-30".to_owned(),
    }
}

fn call(arguments: serde_json::Value) -> Invocation {
    Invocation {
        session: SessionId::try_from("s-1".to_owned()).unwrap(),
        call: CallId::new(3, 0),
        key: "s-1/3/0".to_owned(),
        attempt: 1,
        arguments,
        shared: Default::default(),
    }
}

/// What the error says, with the folder as `~`.
fn error(files: &[(&str, &str)]) -> String {
    let folder = folder(files);
    let Err(error) = Agent::load(folder.path(), &given()) else { panic!("{files:?} is no error") };
    error.to_string().replace(&folder.path().display().to_string(), "~")
}

#[tokio::test]
async fn the_weather_example_is_an_agent() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/weather");
    let agent = Agent::load(&folder, &given()).unwrap();
    assert_eq!(agent.reference.name, "weather");
    assert_eq!(agent.reference.path, folder.canonicalize().unwrap().display().to_string());
    assert_eq!(agent.model.as_deref(), Some("anthropic://claude-sonnet-5-5"));
    assert!(agent.system.starts_with("You are weather, an assistant"), "{}", agent.system);
    let limits = LimitsPatch {
        rounds_max: Some(8),
        tokens_max: Some(Ceiling::At(500_000)),
        cost_max_usd: Some(Ceiling::At(Usd(2_000_000_000))),
        time_max: Some(Ceiling::At(Millis(600_000))),
        ..LimitsPatch::default()
    };
    assert_eq!(agent.limits, limits);

    let [weather] = &agent.tools[..] else { panic!("{} tools", agent.tools.len()) };
    let spec = ToolSpec {
        input: json!({
            "type": "object",
            "properties": { "city": { "type": "string" } },
            "required": ["city"],
        }),
        effects: Effects { reads_untrusted: true, ..Effects::NONE },
        repeat: Repeat::Pure,
        timeout_ms_max: 20_000,
        ..ToolSpec::new("weather", "The current weather in a city, in °C.")
    };
    assert_eq!(*weather.spec(), spec);
    let arguments = weather.check(json!({ "city": "Lisbon" })).unwrap();
    let result = weather.run(call(arguments)).await;
    assert_eq!(result, Ok(ToolResult::text("Lisbon: 17 °C, sunny\n")));
    let failed = weather.run(call(json!({ "city": "Faro" }))).await.unwrap_err();
    let why = "exit status 1:\nno weather is known for Faro; known are Berlin, Lisbon, London, \
               Madrid, Oslo, Paris and Porto";
    assert_eq!(
        (failed.message.as_str(), failed.evidence),
        (why, Some(json!({ "exit_status": 1 })))
    );
    assert!(weather.check(json!({})).is_err());
}

#[tokio::test]
async fn every_setting_of_a_tool_is_taken() {
    let yaml = "\
name: all
tools:
  echo:
  send:
    description: Sends.
    input: { type: object, properties: { to: { type: string } } }
    command: [./shell, send.sh, now]
    effects: [sends, spends]
    repeat: probe
    probe: [sh, asked.sh]
    timeout: 1m
    polls: true
    output: json
    resource: to
  worst: { description: Unknown., command: ['true'], effects: [] }
";
    let folder = folder(&[
        ("agent.yaml", yaml),
        ("send.sh", "echo '{\"content\": \"'$1'\", \"state\": {\"accepted\": \"7\"}}'"),
        ("asked.sh", "echo done before"),
    ]);
    // A link: a program that was just written may be held open by a fork of another test.
    std::os::unix::fs::symlink("/bin/sh", folder.path().join("shell")).unwrap();
    let agent = Agent::load(folder.path(), &given()).unwrap();

    let names: Vec<String> = agent.tools.iter().map(|tool| tool.spec().name.clone()).collect();
    assert_eq!(names, ["echo", "send", "worst"]);
    let send = &agent.tools[1];
    let spec = ToolSpec {
        input: json!({ "type": "object", "properties": { "to": { "type": "string" } } }),
        effects: Effects { sends: true, spends: true, ..Effects::NONE },
        repeat: Repeat::Probe,
        timeout_ms_max: 60_000,
        polls: true,
        resource: Some("to".to_owned()),
        ..ToolSpec::new("send", "Sends.")
    };
    assert_eq!(*send.spec(), spec);
    assert_eq!(send.probe(call(json!({}))).await, Probed::Done(ToolResult::text("before")));
    let result = send.run(call(json!({}))).await.unwrap();
    assert_eq!(
        serde_json::to_value(result).unwrap(),
        json!({
            "content": [{ "type": "text", "text": "now" }],
            "state": { "accepted": "7" },
        })
    );
    let spec = ToolSpec { effects: Effects::NONE, ..ToolSpec::new("worst", "Unknown.") };
    assert_eq!(*agent.tools[2].spec(), spec);
}

#[test]
fn mistakes_are_told_with_place_and_remedy() {
    let tool = |lines: &str| {
        format!("name: x\ntools:\n  t:\n    description: D.\n    command: [sh]\n    {lines}\n")
    };
    let table = [
        ("model: a".to_owned(), "~/agent.yaml:1:1: `name` is missing"),
        (
            "name: a b".to_owned(),
            "~/agent.yaml:1:7: `a b` can't be a name: 1 to 64 of A-Z, a-z, 0-9, _ and -",
        ),
        (
            "name: x\npromt: p.md".to_owned(),
            "~/agent.yaml:2:1: unknown key `promt`; did you mean `prompt`?",
        ),
        (
            "name: x\nprompt: p.md".to_owned(),
            "~/agent.yaml:2:9: prompt: ~/p.md: No such file or directory (os error 2)",
        ),
        (
            "name: x\nlimits: { round_max: 3 }".to_owned(),
            "~/agent.yaml:2:11: unknown key `round_max`; did you mean `rounds_max`?",
        ),
        (
            "name: x\nlimits: { time_max: soon }".to_owned(),
            "~/agent.yaml:2:21: time_max: `soon` is not a duration like 90s, 10m or 1h30m, nor \
             `none`",
        ),
        (
            "name: x\ntools:\n  weather: {}".to_owned(),
            "~/agent.yaml:3:12: the tool `weather` has no `command`, and none of that name is \
             built in (echo)",
        ),
        (
            "name: x\ntools:\n  echo: { timeout: 1s }".to_owned(),
            "~/agent.yaml:3:9: the tool `echo` is built in and takes no setting but `ask`: write {}",
        ),
        (
            "name: x\ntools:\n  a.b: { command: [sh] }".to_owned(),
            "~/agent.yaml:3:8: `a.b` can't be a name: 1 to 64 of A-Z, a-z, 0-9, _ and -",
        ),
        (
            "name: x\ntools:\n  t: { command: [sh] }".to_owned(),
            "~/agent.yaml:3:6: the tool `t` needs a `description`, by which the model knows it",
        ),
        (
            "name: x\ntools:\n  t: { description: D., command: [] }".to_owned(),
            "~/agent.yaml:3:34: command: the list is empty",
        ),
        (
            "name: x\ntools:\n  t: { description: D., command: sh t.sh }".to_owned(),
            "~/agent.yaml:3:34: a list is expected here: [one, two]",
        ),
        (
            "name: x\ntools:\n  t:\n    description: D.\n    command: [no-such-program]".to_owned(),
            "~/agent.yaml:5:15: command: the program `no-such-program` is neither on PATH nor in ~",
        ),
        (
            "name: x\ntools:\n  t:\n    description: D.\n    command: [bin/t]".to_owned(),
            "~/agent.yaml:5:15: command: ~/bin/t: No such file or directory (os error 2)",
        ),
        (
            "name: x\ntools:\n  t:\n    description: D.\n    command: [./agent.yaml]".to_owned(),
            "~/agent.yaml:5:15: command: ~/./agent.yaml is not executable; run: chmod +x \
             ~/./agent.yaml",
        ),
        (
            tool("effects: [read_untrusted]"),
            "~/agent.yaml:6:15: no effect is called `read_untrusted`; did you mean \
             `reads_untrusted`?",
        ),
        (
            tool("repeat: often"),
            "~/agent.yaml:6:13: `often` is not known here; there are: pure, idempotent, keyed, \
             probe, once",
        ),
        (
            tool("repeat: probe"),
            "~/agent.yaml:4:5: `repeat: probe` needs `probe`, a command that asks",
        ),
        (tool("probe: [sh]"), "~/agent.yaml:6:12: `probe` is used with `repeat: probe` only"),
        (tool("input: { type: string }"), "~/agent.yaml:6:12: input: its `type` must be object"),
        (tool("output: xml"), "~/agent.yaml:6:13: `xml` is not known here; there are: text, json"),
        (
            tool("timeout: 20"),
            "~/agent.yaml:6:14: timeout: `20` is not a duration like 90s, 10m or 1h30m",
        ),
        (tool("timeout: 0s"), "~/agent.yaml:6:14: timeout: `0s` must be more than zero"),
        (
            "name: x\nlimits: { output_tokens_max: 0 }".to_owned(),
            "~/agent.yaml:2:30: output_tokens_max: `0` must be more than zero",
        ),
        (
            tool("input: { type: object, oneOf: [{ required: [a] }, { required: [b] }] }"),
            "~/agent.yaml:6:12: input: `oneOf` can't stand at its top, where providers refuse it: \
             put it into a property",
        ),
        (
            tool("input: { type: object, anyOf: [{}] }"),
            "~/agent.yaml:6:12: input: `anyOf` can't stand at its top, where providers refuse it: \
             put it into a property",
        ),
        (
            tool("input: { allOf: [{}], type: object }"),
            "~/agent.yaml:6:12: input: `allOf` can't stand at its top, where providers refuse it: \
             put it into a property",
        ),
        (
            tool("input: { type: object, properties: { path: {} } }\n    resource: pth"),
            "~/agent.yaml:7:15: resource: `pth` is no argument in `input`; did you mean `path`?",
        ),
        (tool("polls: 7"), "~/agent.yaml:6:12: invalid boolean"),
    ];
    for (yaml, message) in table {
        assert_eq!(error(&[("agent.yaml", &yaml)]), message, "{yaml}");
    }
    let bad_schema = error(&[("agent.yaml", &tool("input: { type: object, required: city }"))]);
    assert!(bad_schema.starts_with("~/agent.yaml:6:12: input: "), "{bad_schema}");
    assert_eq!(
        error(&[]),
        "~/agent.yaml can't be read: there is no such file, so this is no agent's folder"
    );
}

/// `models` is the section of `config.yaml`, with the same words and the same checks.
#[test]
fn an_agent_sets_how_its_model_is_asked() {
    let yaml = "\
name: a
models:
  openai://small: { effort: low, window_tokens_max: 9000, stop: ['${WORD}'] }
";
    let folder = folder(&[("agent.yaml", yaml)]);
    let agent = Agent::load(folder.path(), &given()).unwrap();
    let settings = Settings {
        effort: Some(Effort::Low),
        // The variables of a person's machine are no part of an agent.
        stop: vec!["${WORD}".to_owned()],
        ..Settings::default()
    };
    let small = ModelFacts { settings, window_tokens_max: Some(9_000), ..ModelFacts::default() };
    assert_eq!(agent.models, BTreeMap::from([("openai://small".to_owned(), small.clone())]));
    let person = ModelFacts {
        settings: Settings { effort: Some(Effort::High), seed: Some(7), ..Settings::default() },
        output_tokens_max: Some(100),
        ..ModelFacts::default()
    };
    let settings = Settings { seed: Some(7), ..small.settings.clone() };
    let both = ModelFacts { settings, output_tokens_max: Some(100), ..small.clone() };
    assert_eq!(small.or(person), both);
    let table = [
        (
            "name: a\nmodels: { 'openai://a': { temprature: 0 } }\n",
            "~/agent.yaml:2:27: unknown key `temprature`; did you mean `temperature`?",
        ),
        (
            "name: a\nmodels: { 'anthropic://a': { seed: 1 } }\n",
            "~/agent.yaml:2:36: seed: anthropic has none; leave it out",
        ),
        (
            "name: a\nmodels: { 'opnai://a': {} }\n",
            "~/agent.yaml:2:24: `opnai://a` is a model of no known server; did you mean `openai`?",
        ),
    ];
    for (yaml, message) in table {
        assert_eq!(error(&[("agent.yaml", yaml)]), message, "{yaml}");
    }
}

#[test]
fn the_prompt_is_a_template() {
    let yaml = "name: x\nprompt: p.md\n";
    let load = |template: &str| {
        let folder = folder(&[("agent.yaml", yaml), ("p.md", template)]);
        Agent::load(folder.path(), &given()).map(|agent| agent.system)
    };
    let text = format!("x in /work on {}, 2026-11-30; <&>", std::env::consts::OS);
    let template = "{{ agent.name }} in {{ workdir }} on {{ os }}, {{ date }}; <&>\n";
    assert_eq!(load(template), Ok(text));
    assert_eq!(load(""), Ok(String::new()));

    let table = [
        (
            "a\n{{ weekday }}",
            "~/p.md:2: `weekday` is not known here; there are: agent.name, workdir, os, date",
        ),
        ("{{ agent.nme }}", "~/p.md:1: `agent.nme` is not known here; did you mean `agent.name`?"),
        ("a\nb\n{% if %}", "~/p.md:3: unexpected end of block"),
    ];
    for (template, message) in table {
        assert_eq!(error(&[("agent.yaml", yaml), ("p.md", template)]), message);
    }
}

#[test]
fn the_hash_follows_everything_that_defines_the_agent() {
    let yaml = "name: x\nprompt: p.md\ntools: { t: { description: D., command: [sh, t.sh] } }\n";
    let hash = |files: &[(&str, &str)]| {
        Agent::load(folder(files).path(), &given()).unwrap().reference.hash
    };
    let files = [("agent.yaml", yaml), ("p.md", "P"), ("t.sh", "true"), ("notes.txt", "N")];
    let first = hash(&files);
    assert_eq!(hash(&files), first);
    for at in 0..files.len() {
        let mut changed = files;
        let text = format!("{}\n", changed[at].1);
        changed[at].1 = &text;
        assert_eq!(hash(&changed) == first, changed[at].0 == "notes.txt", "{}", changed[at].0);
    }
}

#[test]
fn the_hash_reads_nothing_outside_the_folder() {
    let around = folder(&[("outside.txt", "first")]);
    let outside = around.path().join("outside.txt");
    let yaml = format!(
        "name: x\ntools:\n  t:\n    description: D.\n    \
         command: [sh, ../outside.txt, '{}', ./in.txt]",
        outside.display()
    );
    let agent = around.path().join("agent");
    fs::create_dir(&agent).unwrap();
    fs::write(agent.join("agent.yaml"), yaml).unwrap();
    let hash = |inside: &str, text: &str| {
        fs::write(agent.join("in.txt"), inside).unwrap();
        fs::write(&outside, text).unwrap();
        Agent::load(&agent, &given()).unwrap().reference.hash
    };
    // More than is read at once.
    let (long, other) = ("a".repeat(3 * PIECE_BYTES), "a".repeat(3 * PIECE_BYTES - 1) + "b");
    let first = hash(&long, "first");
    assert_eq!(hash(&long, "second"), first);
    assert_ne!(hash(&other, "first"), first);
    assert_eq!(hash(&long, "first"), first);
}

#[test]
fn the_built_in_agent_has_a_prompt_and_no_tools() {
    let agent = Agent::built_in();
    assert_eq!((agent.reference.name.as_str(), agent.reference.path.as_str()), ("default", ""));
    assert_eq!((agent.model, agent.limits), (None, LimitsPatch::default()));
    assert!(agent.tools.is_empty() && agent.system.starts_with("You answer questions"));
}
