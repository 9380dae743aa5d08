//! Servers that fail and replies that make no sense: each a clear message, the right exit code, and
//! a session that goes on.

use inspan_testkit::server::{Answer, Said, Server, anthropic_sse, openai_sse, refusing_url};
use serde_json::{Value, json};

use crate::{
    model::{Wire, calls, fine, messages, says},
    world::{Ran, World},
};

/// Runs a prompt without a second attempt, and lets the session go on.
fn run(world: &World, flags: &[&str]) -> Ran {
    let ran = world.run("Hello", &[&["--retries-max", "0"], flags].concat());
    world.goes_on(ran.id());
    ran
}

fn error(kind: &str, message: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": message}})
}

#[test]
fn servers_that_say_no() {
    let table = [
        (
            Answer::json(401, &error("authentication_error", "invalid x-api-key")),
            "auth: anthropic (ADDRESS) answered 401: invalid x-api-key. Check the key in \
             ANTHROPIC_API_KEY.",
        ),
        (
            Answer::json(400, &error("invalid_request_error", "prompt is too long: 3 > 2")),
            "too_long: anthropic (ADDRESS) answered 400: prompt is too long: 3 > 2",
        ),
        (
            Answer::json(404, &error("not_found_error", "model: claude-scripted")),
            "bad_request: anthropic (ADDRESS) answered 404: model: claude-scripted. Is \
             `claude-scripted` a model of this server, and http://ADDRESS its address?",
        ),
        (
            Answer::json(529, &error("overloaded_error", "Overloaded")),
            "overloaded: anthropic (ADDRESS) answered 529: Overloaded",
        ),
        (
            Answer::new(502, "text/html", "<html>Bad Gateway</html>"),
            "overloaded: anthropic (ADDRESS) answered 502: <html>Bad Gateway</html>",
        ),
        (
            Answer::sse(format!("event: error\ndata: {}\n\n", error("overloaded_error", "Busy"))),
            "overloaded: anthropic (ADDRESS) sent an error in its answer: Busy",
        ),
        (
            Answer::json(200, &error("api_error", "Internal")),
            "overloaded: anthropic (ADDRESS) sent an error in its answer: Internal",
        ),
    ];
    for (answer, told) in table {
        let server = Server::start([answer, fine()]);
        let world = World::at(&server);
        let ran = run(&world, &[]);
        assert_eq!((ran.code, ran.out.as_str()), (5, ""), "{}", ran.err);
        let address = server.url().replace("http://", "");
        let err = world.plain(&ran.err.replace(&address, "ADDRESS"));
        let lines = format!(
            "session ID\n  ! {told}\nfailed · 1 round · tokens unknown · TIME\n\
             to go on: inspan run --session ID \"Go on.\"\n"
        );
        assert_eq!(err, lines);
    }
}

#[test]
fn a_server_that_is_not_there() {
    let world = World::new().at_url(&refusing_url());
    let ran = world.run("Hello", &["--retries-max", "0"]);
    assert_eq!((ran.code, ran.out.as_str()), (5, ""), "{}", ran.err);
    assert!(ran.err.contains("refused the connection; is the server running?"), "{}", ran.err);

    let server = Server::start([fine()]);
    world.at_url(&server.url()).goes_on(ran.id());
}

#[test]
fn a_storm_of_429() {
    let storm = || {
        Answer::json(429, &error("rate_limit_error", "Slow down.")).header("retry-after-ms", "1")
    };
    let server = Server::start([storm(), storm(), storm(), fine(), fine()]);
    let world = World::at(&server);
    let ran = world.run("Hello", &["--retries-max", "1"]);
    assert_eq!((ran.code, ran.out.as_str()), (5, ""), "{}", ran.err);
    assert_eq!(ran.err.matches("  ! rate_limited: ").count(), 2, "{}", ran.err);
    assert_eq!(server.received().len(), 2);
    // The next one is asked for again, and then there is an answer.
    let ran = world.run("go on", &["--session", ran.id(), "--retries-max", "1"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "Fine.\n"), "{}", ran.err);
    assert_eq!(ran.err.matches("; again in ").count(), 1, "{}", ran.err);
    world.goes_on(ran.id());
}

#[test]
fn streams_that_are_cut() {
    let said = [
        Said::text("The text so far stays."),
        Said::call("toolu_1", "echo", r#"{"text":"never run"}"#),
    ];
    for wire in Wire::BOTH {
        let whole = match wire {
            Wire::Anthropic => anthropic_sse(&said),
            Wire::OpenAi => openai_sse(&said),
        };
        // The end of the last event that counts: what follows it may be missing.
        let end = match wire {
            Wire::Anthropic => whole.rfind("event: message_stop"),
            Wire::OpenAi => whole.rfind(r#"data: {"id""#),
        };
        let end = end.expect("an end");
        for (n, at) in (0..end).step_by(end / 9).enumerate() {
            let whole = Answer::sse(whole.clone());
            let cut = if n % 2 == 0 { whole.cut_after(at) } else { whole.end_after(at) };
            let server = Server::start([cut, wire.says(&[Said::text("Fine.")])]);
            let world = World::at(&server);
            let ran = world.run("Hello", &["--retries-max", "0", "--model", wire.model()]);
            let what = format!("{wire:?} cut after {at}: {}{}", ran.out, ran.err);
            assert_eq!(ran.code, 5, "{what}");
            assert!(ran.err.contains("  ! network: ") && !ran.err.contains("✓"), "{what}");
            assert!("The text so far stays.\n".starts_with(ran.out.trim_end()), "{what}");
            world.goes_on(ran.id());
        }
    }
}

#[test]
fn replies_that_say_nothing() {
    let table = [
        (Wire::Anthropic, Answer::anthropic(&[])),
        (Wire::Anthropic, Answer::anthropic(&[Said::text("")])),
        (Wire::OpenAi, Answer::openai(&[])),
        (Wire::Anthropic, Answer::sse("")),
        (Wire::OpenAi, Answer::new(200, "application/json", "")),
    ];
    for (wire, empty) in table {
        let server = Server::start([empty, wire.says(&[Said::text("Fine.")])]);
        let ran = run(&World::at(&server), &["--model", wire.model()]);
        assert_eq!((ran.code, ran.out.as_str()), (5, ""), "{wire:?}: {}", ran.err);
        assert!(ran.err.contains("  ! network: "), "{wire:?}: {}", ran.err);
    }
}

/// What the request after this reply says of its calls.
fn results_after(said: &[Said], wire: Wire, flags: &[&str]) -> (Ran, Vec<Value>) {
    let server = Server::start([
        wire.says(said),
        wire.says(&[Said::text("Fine.")]),
        wire.says(&[Said::text("Fine.")]),
    ]);
    let world = World::at(&server);
    let ran = world.run("Hello", &[&["--model", wire.model()], flags].concat());
    let sent = messages(&server.received()[1]);
    world.goes_on(ran.id());
    (ran, sent)
}

#[test]
fn arguments_that_cant_be_read() {
    let table = [
        ("not json at all", "the arguments are not a JSON object"),
        ("[1]", "the arguments are not a JSON object"),
        (r#"{"txet":"hi"}"#, "the arguments do not fit."),
        (r#"{"text":["hi"]}"#, "the arguments do not fit."),
    ];
    for wire in Wire::BOTH {
        for (arguments, told) in table {
            let call = Said::call("toolu_1", "echo", arguments);
            let (ran, sent) = results_after(&[call], wire, &[]);
            assert_eq!((ran.code, ran.out.as_str()), (0, "Fine.\n"), "{}", ran.err);
            assert!(ran.err.contains("bad_arguments"), "{}", ran.err);
            let result = sent.last().map(Value::to_string).unwrap_or_default();
            assert!(result.contains(told), "{wire:?} {arguments}: {result}");
        }
        let (ran, sent) = results_after(&[Said::call("toolu_1", "ecko", "{}")], wire, &[]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        let result = sent.last().map(Value::to_string).unwrap_or_default();
        assert!(result.contains("there is no tool `ecko`. Near names: echo."), "{result}");
    }
}

#[test]
fn half_a_call() {
    for wire in Wire::BOTH {
        let half = Said::call("toolu_1", "echo", r#"{"text":"never run"#);
        let (ran, sent) = results_after(&[Said::text("I will."), half], wire, &[]);
        assert_eq!((ran.code, ran.out.as_str()), (0, "Fine.\n"), "{}", ran.err);
        assert!(!ran.err.contains("✓"), "{}", ran.err);
        let sent = Value::from(sent).to_string();
        assert!(sent.contains("I will."), "{sent}");
    }
}

#[test]
fn five_hundred_calls_in_one_reply() {
    let call = |n: usize| Said::call(format!("toolu_{n}"), "echo", format!("{{\"text\":\"{n}\"}}"));
    let said: Vec<Said> = (0..500).map(call).collect();
    for wire in Wire::BOTH {
        let (ran, sent) = results_after(&said, wire, &[]);
        assert_eq!((ran.code, ran.out.as_str()), (4, "Fine.\n"), "{}", ran.err);
        assert_eq!(ran.err.matches("  ok ").count(), 256);
        assert_eq!(ran.err.matches("  not_run ").count(), 244);
        assert!(ran.err.contains("\ncalls · 1 round · 256 calls"), "{}", ran.err);
        let answered = match wire {
            Wire::Anthropic => sent.last().map_or(0, |last| {
                let blocks = last["content"].as_array().cloned().unwrap_or_default();
                blocks.iter().filter(|block| block["type"] == "tool_result").count()
            }),
            Wire::OpenAi => sent.iter().filter(|message| message["role"] == "tool").count(),
        };
        assert_eq!(answered, 500);
    }
}

#[test]
fn an_argument_of_ten_megabytes() {
    let text = "0123456789".repeat(1_000_000);
    let server =
        Server::start([calls("echo", &format!("{{\"text\":\"{text}\"}}")), says("Long."), fine()]);
    let world = World::at(&server);
    // Its own request is larger than the ordinary limit on tokens allows.
    let ran = world.run("Hello", &["--tokens-max", "none"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "Long.\n"), "{}", ran.err);
    assert!(ran.err.len() < 2_000, "{} bytes of progress", ran.err.len());
    let sent = server.received()[1].body.len();
    assert!((10_000_000..10_200_000).contains(&sent), "{sent} bytes: the result is capped");
    assert_eq!(world.inspan(&["verify", ran.id()]).code, 0);
}

#[test]
fn another_model_answers_when_a_server_fails_for_good() {
    let away = Server::start(std::iter::repeat_n(
        Answer::json(529, &error("overloaded_error", "Overloaded")),
        2,
    ));
    let there = Server::start([Answer::openai(&[Said::text("Here.")])]);
    let config = format!(
        "providers:\n  there: {{ wire: openai, base_url: '{}' }}\n  keyed: {{ wire: openai, \
         base_url: 'https://keyed.example', key_env: NOT_SET }}\nmodels:\n  \
         anthropic://claude-scripted: {{ fallback: [keyed://x, there://small] }}\n",
        there.url()
    );
    let world = World::at(&away).with_config(&config);
    let ran = world.run("Hello", &["--retries-max", "1"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "Here.\n"), "{}", ran.err);
    assert!(ran.err.contains("the fallback keyed://x is left out: keyed: no key: set NOT_SET"));
    assert_eq!((away.received().len(), there.received().len()), (2, 1));
    assert_eq!(there.received()[0].json()["model"], "small");
}
