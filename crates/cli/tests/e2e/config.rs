//! Configuration, agents and command lines that make no sense: told before anything is sent.

use std::{fs, os::unix::fs::PermissionsExt};

use inspan_testkit::server::Server;
use serde_json::json;

use crate::{
    model::fine,
    world::{CANARY, ECHO, World},
};

fn refused(world: &World, flags: &[&str], told: &str) {
    let ran = world.run("Hello", flags);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{flags:?}: {}", ran.err);
    assert_eq!(world.plain(&ran.err), format!("error: {told}\n"), "{flags:?}");
}

#[test]
fn models_and_keys() {
    let world = World::new();
    let table = [
        (
            "claude",
            "`claude` is no model: write SERVER://MODEL, such as anthropic://claude-sonnet-5-5",
        ),
        (
            "antropic://claude",
            "no server is called `antropic`. Did you mean `anthropic`? Known are \
             anthropic, dashscope, deepseek, llamacpp, lmstudio, mistral, moonshot, ollama, openai, \
             openai-responses, openrouter, vllm",
        ),
        ("anthropic://claude", "anthropic: no key: set ANTHROPIC_API_KEY"),
        ("openai://gpt", "openai: no key: set OPENAI_API_KEY"),
    ];
    for (model, told) in table {
        refused(&world, &["--model", model], told);
    }
    // Nothing was begun.
    let listed = world.inspan(&["sessions"]);
    assert_eq!((listed.code, listed.out.as_str()), (0, ""));
    assert_eq!(listed.err, "There are no sessions yet. Begin one: inspan run PROMPT\n");
}

#[test]
fn a_cost_limit_needs_a_price() {
    let server = Server::start([fine()]);
    let world = World::at(&server);
    refused(
        &world,
        &["--cost-max-usd", "1"],
        "a cost limit needs the price of anthropic://claude-scripted: set it (`models` in \
         config.yaml, `.price(…)` in a program), or leave out the limit",
    );
    assert_eq!(server.received().len(), 0);
}

#[test]
fn files_of_the_configuration() {
    let table = [
        (
            "modle: anthropic://m\n",
            "WORLD/home/config.yaml:1:1: unknown key `modle`; did you mean `model`?",
        ),
        (
            "limits:\n  round_max: 3\n",
            "WORLD/home/config.yaml:2:3: unknown key `round_max`; did you mean `rounds_max`?",
        ),
        (
            "providers:\n  own: { wire: openai, base_url: \"http://x\", key: \"${OWN_KEY}\" }\n",
            "WORLD/home/config.yaml:2:51: the variable OWN_KEY is not set; set it in the \
             environment or in WORLD/home/.env, or write ${OWN_KEY:-DEFAULT}",
        ),
    ];
    for (yaml, told) in table {
        refused(&World::new().with_config(yaml), &[], told);
    }
}

#[test]
fn a_key_in_the_wrong_place_is_not_shown() {
    const KEY: &str = "abcdef0123";
    let bad_url = "relative URL without a base";
    let table = [
        (
            "model: ${BOX_KEY}",
            "WORLD/home/config.yaml:1:8: model: `${BOX_KEY}` is no model: write SERVER://MODEL",
        ),
        (
            "model: box://m\nproviders: { box: { wire: openai, base_url: '${BOX_KEY}', key: k } }",
            &format!("the base URL of box can't be used: `[masked]`: {bad_url}"),
        ),
        (
            "model: ollama://${BOX_KEY}\nlimits: { rounds_max: '${BOX_KEY}' }",
            "WORLD/home/config.yaml:2:23: rounds_max: `${BOX_KEY}` is not a whole number",
        ),
    ];
    for (yaml, told) in table {
        for in_file in [true, false] {
            let mut world = World::new().with_agent("name: a\n").with_config(yaml);
            if in_file {
                let path = world.path("home/.env");
                world.write("home/.env", &format!("BOX_KEY={KEY}\n"));
                fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("a file");
            } else {
                world = world.with("BOX_KEY", KEY);
            }
            refused(&world, &[], told);
            let ran = world.run("Hello", &["--json"]);
            assert!(!format!("{}{}", ran.out, ran.err).contains(KEY), "{}", ran.out);
        }
    }
    // A flag may hold one as well.
    let world = World::new().with("ANTHROPIC_API_KEY", KEY);
    refused(
        &world,
        &["--model", KEY],
        "`[masked]` is no model: write SERVER://MODEL, such as anthropic://claude-sonnet-5-5",
    );
}

#[test]
fn a_file_of_keys_is_for_its_owner_alone() {
    let world = World::new();
    fs::create_dir(world.home()).expect("a folder");
    let path = world.path("home/.env");
    world.write("home/.env", &format!("ANTHROPIC_API_KEY={CANARY}\n"));
    let ran = world.run("Hello", &[]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{}", ran.err);
    let shown = path.display();
    let told = format!(
        "error: {shown} holds keys and other users can get at it; run: chmod 600 {shown}\n"
    );
    assert_eq!(ran.err, told);

    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("a file");
    let server = Server::start([fine()]);
    let world = world.with("ANTHROPIC_BASE_URL", &server.url());
    let ran = world.run("Hello", &[]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "Fine.\n"), "{}", ran.err);
    assert_eq!(server.received()[0].header("x-api-key"), Some(CANARY));
}

#[test]
fn folders_of_agents() {
    let world = World::new();
    let ran = world.inspan(&["run", "Hello", "--agent", "../nowhere"]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert_eq!(
        ran.err,
        "error: ../nowhere/agent.yaml can't be read: there is no such file, so this is no agent's \
         folder\n"
    );
    let table = [
        ("model: a://b\n", "../agent/agent.yaml:1:1: `name` is missing"),
        (
            "name: a\ntools:\n  t: { description: d, comand: [sh] }\n",
            "../agent/agent.yaml:3:24: unknown key `comand`; did you mean `command`?",
        ),
        (
            "name: a\ntools:\n  t: { description: d, command: [no-such-program] }\n",
            "../agent/agent.yaml:3:34: command: the program `no-such-program` is neither on PATH \
             nor in WORLD/agent",
        ),
        (
            "name: a\ntools:\n  t: {}\n",
            "../agent/agent.yaml:3:6: the tool `t` has no `command`, and none of that name is \
             built in (echo)",
        ),
    ];
    for (yaml, told) in table {
        refused(&World::new().with_agent(yaml), &[], told);
    }
}

#[test]
fn prompts_and_sessions() {
    let server = Server::start([fine(), fine()]);
    let world = World::at(&server);
    for prompt in ["", " \n"] {
        let ran = world.inspan(&["run", prompt]);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""));
        assert_eq!(ran.err, "error: the prompt is empty: say something\n");
    }
    let piped = world.inspan(&["run", "-"]);
    assert_eq!(
        (piped.code, piped.err.as_str()),
        (2, "error: the prompt is empty: say something\n")
    );

    let unknown = "no session is called `0123` or begins so; `inspan sessions` lists them";
    refused(&world, &["--session", "0123"], unknown);
    let [one, two] = ["One", "Two"].map(|prompt| world.run(prompt, &[]));
    assert_eq!((one.code, two.code), (0, 0), "{}{}", one.err, two.err);
    let same = one.id().bytes().zip(two.id().bytes()).take_while(|(a, b)| a == b).count();
    let ambiguous = one.id().split_at(same).0;
    let told =
        format!("more than one session begins with `{ambiguous}`; write more of its identifier");
    refused(&world, &["--session", ambiguous], &told);
    for (command, told) in [("show", &unknown), ("verify", &unknown), ("resume", &unknown)] {
        let ran = world.inspan(&[command, "0123"]);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""));
        assert_eq!(ran.err, format!("error: {told}\n"));
    }
    assert_eq!(server.received().len(), 2);
}

#[test]
fn limits_on_the_command_line() {
    let world = World::new();
    let table = [
        ("--rounds-max", "many", "`many` is not a whole number"),
        ("--time-max", "soon", "`soon` is not a duration like 90s, 10m or 1h30m, nor `none`"),
        ("--output-tokens-max", "0", "`0` must be more than zero"),
        ("--cost-max-usd", "2,50", "`2,50` is not an amount in US dollars like 2.50, nor `none`"),
    ];
    for (flag, value, told) in table {
        let ran = world.run("Hello", &[flag, value]);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{}", ran.err);
        assert!(ran.err.contains(told), "{}", ran.err);
    }
    let ran = world.run("Hello", &["--strict"]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{}", ran.err);
    assert!(ran.err.contains("--replay <FILE>"), "{}", ran.err);
}

#[test]
fn programs_are_told_on_standard_output_too() {
    let world = World::new();
    let ran = world.run("Hello", &["--json"]);
    let told = "anthropic: no key: set ANTHROPIC_API_KEY";
    let line = json!({ "update": "error", "message": told, "exit_code": 2 });
    assert_eq!((ran.code, ran.lines()), (2, vec![line]));
    assert_eq!(ran.err, format!("error: {told}\n"));
}

/// What an agent says of its model counts before `config.yaml`, each setting by itself.
#[test]
fn an_agent_says_how_its_model_is_asked() {
    let server = Server::start([fine(), fine()]);
    let config = "models: { 'anthropic://claude-scripted': { temperature: 1, stop: [END] } }\n";
    let agent =
        format!("{ECHO}models: {{ 'anthropic://claude-scripted': {{ temperature: 0.5 }} }}\n");
    let world = World::at(&server).with_config(config).with_agent(&agent);
    let id = world.run("Hello", &[]).id().to_owned();
    world.goes_on(&id);
    for request in server.received() {
        let body = request.json();
        assert_eq!((&body["temperature"], &body["stop_sequences"]), (&json!(0.5), &json!(["END"])));
    }
}
