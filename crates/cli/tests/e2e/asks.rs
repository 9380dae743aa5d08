//! Questions to a person, answered at the terminal, by another process, or by nobody; and results
//! that come later.

use inspan_testkit::server::{Answer, Said, Server};
use serde_json::json;

use crate::{
    model::{calls, messages, says},
    workers::Database,
    world::{World, typing},
};

const SHOP: &str = "\
name: shop
model: anthropic://claude-scripted
tools:
  pay:
    description: Pays.
    input: { type: object, properties: { euros: { type: integer } } }
    command: [sh, pay.sh]
    repeat: keyed
    ask: it spends money
  order:
    description: Orders.
    command: [sh, order.sh]
    output: json
";

const PAY: &str = "echo \"$INSPAN_KEY\" >>paid; echo paid";
const ORDER: &str = r#"echo '{"content": "", "state": {"later": {"id": "J7"}}}'"#;

fn shop(server: &Server) -> World {
    World::at(server).with_agent(SHOP).with_file("pay.sh", PAY).with_file("order.sh", ORDER)
}

fn last_result(server: &Server) -> String {
    let last = server.received().pop().map(|request| messages(&request)).unwrap_or_default();
    last.last()
        .map(|message| message["content"][0]["content"][0]["text"].to_string())
        .unwrap_or_default()
}

#[test]
fn nobody_to_ask_means_no() {
    let server = Server::start([calls("pay", r#"{"euros":3}"#), says("I could not pay.")]);
    let world = shop(&server);
    let ran = world.run("Pay 3 euros.", &[]);
    assert_eq!((ran.code, ran.out.as_str()), (3, "I could not pay.\n"), "{}", ran.err);
    assert_eq!(world.read("agent/paid"), "");
}

#[test]
fn another_process_answers_and_a_third_goes_on() {
    let server = Server::start([calls("pay", r#"{"euros":3}"#), says("Paid.")]);
    let world = shop(&server);
    let ran = world.run("Pay 3 euros.", &["--ask", "later"]);
    let id = ran.id().to_owned();
    assert_eq!((ran.code, ran.out.as_str()), (6, ""), "{}", ran.err);
    let hint = format!("inspan answer {id} call_5_0 allow|session|deny, then inspan resume {id}");
    assert!(ran.err.contains(&hint), "{}", ran.err);

    let wrong = world.inspan(&["answer", &id, "call_6_0", "allow"]);
    let error =
        "error: no question about call_6_0 waits for an answer; these do: call_5_0\n".to_owned();
    assert_eq!((wrong.code, wrong.err), (2, error));
    // To open it is no answer.
    assert_eq!(world.inspan(&["resume", &id]).code, 6);
    assert_eq!(world.inspan(&["answer", &id, "call_5_0", "allow", "--why", "it is mine"]).code, 0);
    let ran = world.inspan(&["resume", &id]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "Paid.\n"), "{}", ran.err);
    assert_eq!(world.read("agent/paid"), format!("{id}/call_5_0\n"));

    let record = world.inspan(&["show", &id, "--call", "call_5_0"]);
    assert_eq!(record.code, 0, "{}", record.err);
    let rows: Vec<&str> = record.out.lines().map(|line| line.get(27..).unwrap_or(line)).collect();
    let text = world.plain(&rows.join("\n"));
    let hashes_out: Vec<&str> = text.lines().filter(|line| !line.contains("hash ")).collect();
    let expected = "\
request   pay {\"euros\":3}
          the provider's identifier: toolu_1
judged    to be asked: it spends money by ask
asked     it spends money
          arguments {\"euros\":3}
parked    pay (call_5_0) waits for a person
parked    pay (call_5_0) waits for a person
answered  Once by Person it is mine
started   attempt 1, keyed
          effects: reads_private, reads_untrusted, writes, sends, destroys, spends
          key: ID/call_5_0
          arguments: HASH
finished  ok after TIME
          paid";
    let found: Vec<String> = hashes_out
        .iter()
        .skip(1)
        .map(|line| match line.split_once("arguments: ") {
            Some((head, _)) => format!("{head}arguments: HASH"),
            None => (*line).trim_end().to_owned(),
        })
        .collect();
    assert_eq!(found, expected.lines().collect::<Vec<_>>(), "{}", record.out);
    let none = world.inspan(&["show", &id, "--call", "call_9_0"]);
    let error = format!("error: session {id} has no call call_9_0: inspan show {id}\n");
    assert_eq!((none.code, none.err), (2, error));
}

const BUSY: &str = "\
name: busy
model: anthropic://claude-scripted
tools:
  wait: { description: Waits., command: [cat, gate], effects: [], repeat: pure }
  look: { description: Looks., command: [echo, seen], effects: [], repeat: pure, ask: it is private }
";

/// A question is answered while another process holds the session, on both databases: it takes the
/// answer at once, and nobody else writes its log.
#[test]
fn another_process_answers_while_the_session_is_driven() {
    for is_postgres in [false, true] {
        let both = [Said::call("toolu_1", "wait", "{}"), Said::call("toolu_2", "look", "{}")];
        let server = Server::start([Answer::anthropic(&both), says("Seen.")]);
        let world = World::at(&server).with_agent(BUSY);
        let database = is_postgres.then(|| Database::new(&world));
        let world = match &database {
            Some(database) => world.with_config(&database.yaml()),
            None => world,
        };
        let gate = world.pipe("gate");
        let mut run = world.start("Look.", &["--ask", "later"]);
        run.read_entry("PermissionAsked");
        let id = run.id();
        let answered = world.inspan(&["answer", &id, "call_5_1", "allow", "--why", "it is mine"]);
        let told = "recorded; whoever drives the session goes on with it\n";
        assert_eq!((answered.code, answered.err.as_str()), (0, told));
        let again = world.inspan(&["answer", &id, "call_5_1", "deny"]);
        assert_eq!(again.code, 1, "{}", again.err);
        assert!(again.err.contains("is in use, and its turn is at work"), "{}", again.err);
        run.read_entry("ToolFinished");
        std::fs::write(gate, "open").expect("a pipe");
        let ran = run.finish();
        assert_eq!((ran.code, ran.done()["answer"].as_str()), (0, Some("Seen.")), "{}", ran.err);
        let log = world.log(&id);
        let answers: Vec<_> = log.iter().filter(|e| e["kind"] == "PermissionAnswered").collect();
        assert_eq!((answers.len(), &answers[0]["body"]["why"]), (1, &"it is mine".into()));
        assert_eq!(world.inspan(&["verify", &id]).code, 0);
    }
}

#[test]
fn a_denial_has_its_reason_and_a_worker_goes_on_with_it() {
    let server = Server::start([calls("pay", r#"{"euros":3}"#), says("Then not.")]);
    let world = shop(&server);
    let id = world.run("Pay 3 euros.", &["--ask", "later"]).id().to_owned();
    assert_eq!(world.inspan(&["worker", "--once"]).code, 0);
    assert_eq!(server.received().len(), 1);
    // What has not begun can have no result.
    let delivered = world.inspan(&["deliver", &id, "call_5_0", "Paid."]);
    let error = "error: the call call_5_0 has not begun, so there is no work whose result could be \
                 delivered\n";
    assert_eq!((delivered.code, delivered.err.as_str()), (2, error));
    let why = "too dear for sk-ant-0123456789abcdefghij";
    assert_eq!(world.inspan(&["answer", &id, "call_5_0", "deny", "--why", why]).code, 0);
    let ran = world.inspan(&["worker", "--once"]);
    assert_eq!((ran.code, ran.err), (0, format!("session {id}: end\n")));
    let told = "\"Refused: too dear for [masked]. This is final; do not try the same call again.\"";
    assert_eq!(last_result(&server), told);
    assert_eq!(world.read("agent/paid"), "");
}

#[test]
fn a_result_comes_later_from_another_process() {
    let server = Server::start([calls("order", "{}"), says("It is here.")]);
    let world = shop(&server);
    let ran = world.run("Order tea.", &[]);
    let id = ran.id().to_owned();
    assert_eq!((ran.code, ran.out.as_str()), (6, ""), "{}", ran.err);
    assert!(ran.err.contains("order (call_5_0) waits for its job J7"), "{}", ran.err);
    assert_eq!(world.inspan(&["deliver", &id, "call_5_0", "Tea, 100 g."]).code, 0);
    let ran = world.inspan(&["resume", &id]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "It is here.\n"), "{}", ran.err);
    assert_eq!(last_result(&server), "\"Tea, 100 g.\"");
    // Once more is news, and a third time nothing.
    assert_eq!(world.inspan(&["deliver", &id, "call_5_0", "Tea again."]).code, 0);
    let again = world.inspan(&["deliver", &id, "call_5_0", "And again."]);
    let error = "error: the result of call_5_0 is in the log already\n".to_owned();
    assert_eq!((again.code, again.err), (2, error));
}

/// What is too long for the log is kept whole, as the result of any tool is.
#[test]
fn a_long_result_comes_later_and_is_read_in_pages() {
    let page = r#"{"call":"call_5_0","from_line":5000,"lines":1}"#;
    let server =
        Server::start([calls("order", "{}"), calls("open_result", page), says("It is tea.")]);
    let world = shop(&server);
    let id = world.run("Order tea.", &[]).id().to_owned();
    let long: String = (1..=9_000).map(|number| format!("{number} bags of tea\n")).collect();
    world.write("result", &long);
    let result = std::fs::File::open(world.path("result")).expect("a file");
    let delivered = world.command(&["deliver", &id, "call_5_0", "-"]).stdin(result).output();
    assert!(delivered.expect("the command").status.success());
    let ran = world.inspan(&["resume", &id]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "It is tea.\n"), "{}", ran.err);
    let told = "\"[lines 5000 to 5000 of 9000]\\n5000 bags of tea\\n[goes on at from_line 5001]\"";
    assert_eq!(last_result(&server), told);
    assert_eq!(world.inspan(&["verify", &id]).code, 0);
}

#[test]
fn a_person_answers_at_the_terminal() {
    for (typed, code, paid) in [("perhaps\ny\n", 0, 1), ("n too dear\n", 0, 0)] {
        let server = Server::start([calls("pay", r#"{"euros":3}"#), says("Done.")]);
        let world = shop(&server);
        let command = world.command(&["run", "--agent", "../agent", "Pay."]);
        let (ended, drawn) = typing(command, typed);
        assert_eq!(ended, code, "{drawn}");
        assert!(
            drawn.contains(r#"pay {"euros":3}"#) && drawn.contains("it spends money"),
            "{drawn}"
        );
        assert_eq!(world.read("agent/paid").lines().count(), paid, "{drawn}");
    }
}

/// An agent that asks about less than it did needs a person's word; until it is given, the questions
/// stay, and a worker says so once.
#[test]
fn a_question_goes_only_with_a_persons_word() {
    let pays = || calls("pay", r#"{"euros":3}"#);
    let script = [pays(), pays(), says("No."), pays(), says("Paid."), pays(), says("Again.")];
    let server = Server::start(script);
    let world = shop(&server);
    let id = world.run("Pay 3 euros.", &["--ask", "later"]).id().to_owned();
    let world = world.with_agent(&SHOP.replace("    ask: it spends money\n", ""));
    assert_eq!(world.inspan(&["answer", &id, "call_5_0", "deny"]).code, 0);
    let kept = format!(
        "! session ID: the agent asks about `pay` no more, which nobody has accepted: it is asked \
         about as before; to accept it: inspan resume {id} --accept-changes\n"
    );
    let worked = world.inspan(&["worker", "--once"]);
    assert_eq!(worked.code, 0, "{}", worked.err);
    let told = world.plain(&worked.err).replace("ID --accept", &format!("{id} --accept"));
    assert_eq!(told.matches(&kept).count(), 1, "{told}");
    assert_eq!(server.received().len(), 2, "the second call waits for a person");
    // Nobody to ask means no, still.
    let ran = world.inspan(&["resume", &id, "--ask", "never"]);
    assert_eq!((ran.code, ran.out.as_str()), (3, "No.\n"), "{}", ran.err);
    assert_eq!(world.read("agent/paid"), "");
    // A person's word, and it needs no other one.
    let again = ["run", "Pay.", "--session", &id];
    let ran = world.inspan(&[&again[..], &["--accept-changes"]].concat());
    assert_eq!((ran.code, ran.out.as_str()), (0, "Paid.\n"), "{}", ran.err);
    assert!(ran.err.contains("! `pay` runs without a question from now on\n"), "{}", ran.err);
    let ran = world.inspan(&again);
    assert_eq!((ran.code, ran.out.as_str()), (0, "Again.\n"), "{}", ran.err);
    assert_eq!(world.read("agent/paid").lines().count(), 2);
    assert_eq!(world.inspan(&["verify", &id]).code, 0);
}

#[test]
fn a_person_at_the_terminal_says_whether_a_question_goes() {
    // With a no, the call is asked about as before; it is the second thing that is typed.
    for (typed, questions) in [("y\n", 0), ("n\ny\n", 1)] {
        let server = Server::start([says("Hello."), calls("pay", r#"{"euros":3}"#), says("Paid.")]);
        let world = shop(&server);
        let id = world.run("Hello.", &[]).id().to_owned();
        let world = world.with_agent(&SHOP.replace("    ask: it spends money\n", ""));
        let command = world.command(&["run", "Pay.", "--session", &id]);
        let (ended, drawn) = typing(command, typed);
        assert_eq!(ended, 0, "{drawn}");
        let asked = "`pay` may not run without a question so far (it spends money), and the agent \
                     asks no more. May it from now on? [y/N]";
        assert!(drawn.contains(asked), "{drawn}");
        assert_eq!(drawn.matches("hash of the arguments").count(), questions, "{drawn}");
        assert_eq!(world.read("agent/paid").lines().count(), 1, "{drawn}");
    }
}

#[test]
fn now_needs_a_terminal() {
    let server = Server::start([]);
    let ran = shop(&server).run("Pay.", &["--ask", "now"]);
    let error = "error: nobody can be asked: standard input is no terminal; --ask later parks the \
                 turn instead\n";
    assert_eq!((ran.code, ran.err.as_str()), (2, error));
}

/// What was asked, allowed and not yet done elsewhere is not done here, too.
#[test]
fn an_import_does_nothing_that_was_begun_elsewhere() {
    let server = Server::start([calls("pay", r#"{"euros":3}"#), says("Check it first.")]);
    let (world, other) = (shop(&server), shop(&server));
    let id = world.run("Pay the bill.", &["--ask", "later"]).id().to_owned();
    assert_eq!(world.inspan(&["answer", &id, "call_5_0", "allow"]).code, 0);
    let file = other.path("log.jsonl").display().to_string();
    assert_eq!(world.inspan(&["export", &id, &file]).code, 0);
    assert_eq!(other.inspan(&["import", &file]).code, 0);
    let agent = other.agent().display().to_string();
    let went_on = other.inspan(&["resume", &id, "--agent", &agent]);
    assert_eq!((went_on.code, went_on.out.as_str()), (0, "Check it first.\n"), "{}", went_on.err);
    let finished: Vec<_> =
        other.log(&id).into_iter().filter(|entry| entry["kind"] == "ToolFinished").collect();
    assert_eq!((finished.len(), &finished[0]["body"]["how"]), (1, &json!("unknown")));
    assert_eq!(other.read("agent/paid"), "");
    assert_eq!(other.inspan(&["verify", &id]).code, 0);
}
