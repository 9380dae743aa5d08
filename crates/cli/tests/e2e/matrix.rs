//! `kill -9` after each entry of a whole run, on both databases: calls side by side and in order, of
//! every repeat class, a permission that waits, programs, streams. A witness outside of the process
//! counts what was done. The table of what was seen is printed, and kept in docs/kills.md.
//!
//! `INSPAN_KILLS` sets how many kills at random places are made on each database.

#![expect(clippy::print_stdout, reason = "the table is what this test is for")]

use std::collections::{BTreeMap, BTreeSet};

use inspan_testkit::server::{Answer, Received, Said, Server};
use serde_json::Value;

use crate::{
    model::{replies_in, says},
    workers::Database,
    world::{Ran, Running, World, text},
};

/// A tool of each repeat class, and one that is asked about. `look` and `list` run side by side.
const WORKER: &str = "\
name: worker
model: anthropic://claude-scripted
tools:
  look:
    description: Looks.
    command: [sh, work.sh, look]
    effects: []
    repeat: pure
  list:
    description: Lists.
    command: [sh, work.sh, list]
    effects: [reads_private]
    repeat: idempotent
  pay:
    description: Pays.
    command: [sh, work.sh, pay]
    effects: [spends]
    repeat: keyed
    ask: it spends money
  post:
    description: Posts.
    command: [sh, work.sh, post]
    effects: [sends]
    repeat: probe
    probe: [sh, probe.sh]
  remove:
    description: Removes.
    command: [sh, work.sh, remove]
";

/// Does its work, which others see, and is then gone, or goes on for ever: a child that the dead
/// process leaves behind.
const WORK: &str = r#"
echo "$1 ${INSPAN_KEY:-none}" >>done
[ -e "hold-$1" ] && exec tail -f /dev/null
echo "did $1"
"#;

const PROBE: &str = "grep -q '^post' done && echo done it was || echo absent";

/// The tools in the order of their calls, and the repeat class of each.
const CLASSES: [(&str, &str); 5] = [
    ("look", "pure"),
    ("list", "idempotent"),
    ("remove", "once"),
    ("post", "probe"),
    ("pay", "keyed"),
];

/// Says what comes after the replies that a request holds.
fn by_replies(request: &Received) -> Answer {
    match replies_in(request) {
        0 => Answer::anthropic(&[
            Said::text("First two at once."),
            Said::call("toolu_1", "look", "{}"),
            Said::call("toolu_2", "list", "{}"),
        ]),
        1 => Answer::anthropic(&[
            Said::call("toolu_3", "remove", "{}"),
            Said::call("toolu_4", "post", "{}"),
        ]),
        2 => Answer::anthropic(&[Said::call("toolu_5", "pay", "{}")]),
        _ => says("Done."),
    }
}

/// One run in a world of its own, which may be killed and always comes to its end.
struct Story {
    world: World,
    database: Option<Database>,
    server: Server,
    id: String,
    running: Option<Running>,
    kills: usize,
}

impl Story {
    /// `held` is a tool that goes on for ever, until its process is killed.
    fn new(on_postgres: bool, held: Option<&str>) -> Self {
        let server = Server::answering(by_replies);
        let world = World::at(&server)
            .with_agent(WORKER)
            .with_file("work.sh", WORK)
            .with_file("probe.sh", PROBE)
            .with_file("done", "");
        let database = on_postgres.then(|| Database::new(&world));
        let world = match &database {
            Some(database) => world.with_config(&database.yaml()),
            None => world,
        };
        if let Some(tool) = held {
            world.write(&format!("agent/hold-{tool}"), "");
        }
        let mut running = world.start("Work.", &["--ask", "later"]);
        let id = running.id();
        Self { world, database, server, id, running: Some(running), kills: 0 }
    }

    /// Goes on until so many more entries are there, and dies; false when all was done before.
    fn dies_after(&mut self, entries: usize) -> bool {
        let mut seen = 0;
        self.dies_when(|line| {
            seen += usize::from(line["update"] == "entry");
            seen == entries
        })
    }

    /// Goes on until this tool is started, and dies in it.
    fn dies_in(&mut self, tool: &str) -> bool {
        self.dies_when(|line| {
            let entry = &line["entry"];
            entry["kind"] == "ToolStarted" && entry["body"]["name"] == tool
        })
    }

    fn dies_when(&mut self, mut is_it: impl FnMut(&Value) -> bool) -> bool {
        while let Some(mut running) = self.running.take() {
            if running.read_until(&mut is_it) {
                running.kill();
                self.kills += 1;
                for (tool, _) in CLASSES {
                    let _ = std::fs::remove_file(self.world.path(&format!("agent/hold-{tool}")));
                }
                // Nobody need wait until the lease of the dead process is over.
                self.database.iter().for_each(Database::free);
                self.running = Some(self.resumed());
                return true;
            }
            self.goes_on_after(&running.finish());
        }
        false
    }

    /// Whatever is next after a process that has come to its end.
    fn goes_on_after(&mut self, ran: &Ran) {
        match ran.code {
            0 => assert_eq!(ran.done()["answer"], "Done.", "{}", ran.err),
            6 => {
                self.answer();
                self.running = Some(self.resumed());
            }
            code => panic!("it ended with {code}: {}", ran.err),
        }
    }

    /// Allows what waits to be allowed; what was answered before the process died is no question.
    fn answer(&self) {
        let log = self.world.log(&self.id);
        let asked = log.iter().rfind(|entry| entry["kind"] == "PermissionAsked");
        let call = asked.map(|entry| text(&entry["body"]["call"])).unwrap_or_default();
        let ran = self.world.inspan(&["answer", &self.id, &call, "allow"]);
        assert!(ran.code == 0 || ran.code == 2, "{}", ran.err);
    }

    fn resumed(&self) -> Running {
        Running::start(self.world.command(&["resume", &self.id, "--json", "--ask", "later"]))
    }

    /// Comes to its end, and gives how each tool was answered and how often it was done.
    fn ends(&mut self, what: &str) -> BTreeMap<String, (String, usize)> {
        while let Some(running) = self.running.take() {
            self.goes_on_after(&running.finish());
        }
        let verified = self.world.inspan(&["verify", &self.id]);
        assert_eq!(verified.code, 0, "{what}: {}", verified.err);
        let log = self.world.log(&self.id);
        let done = self.world.read("agent/done");
        let mut seen = BTreeMap::new();
        for (tool, class) in CLASSES {
            let of = |kind: &str| -> Vec<&Value> {
                let is_it = |entry: &&Value| entry["kind"] == kind && entry["body"]["name"] == tool;
                log.iter().filter(is_it).map(|entry| &entry["body"]).collect()
            };
            let finished = of("ToolFinished");
            assert_eq!(finished.len(), 1, "{what}: {tool} has {} results", finished.len());
            let how = text(&finished[0]["how"]);
            let times = done.lines().filter(|line| line.starts_with(&format!("{tool} "))).count();
            let keys: BTreeSet<&str> =
                done.lines().filter_map(|line| line.strip_prefix("pay ")).collect();
            let attempts = of("ToolStarted").len();
            match class {
                // Never a second time; told as unknown where nobody knows, and never as failed.
                "once" => assert!(times <= 1 && (how == "ok" || how == "unknown"), "{what}: {how}"),
                "probe" => assert!(times == 1 && how == "ok", "{what}: {tool} {how} {times}"),
                "keyed" => assert!(keys.len() == 1 && how == "ok", "{what}: {keys:?} {how}"),
                _ => assert!((1..=attempts).contains(&times) && how == "ok", "{what}: {how}"),
            }
            if how == "ok" && class == "once" {
                assert_eq!(times, 1, "{what}: {tool}");
            }
            seen.insert(tool.to_owned(), (how, times));
        }
        // What was asked without an end on record was asked again, and nothing else.
        let requests = self.server.received().len();
        assert!(requests <= 4 + self.kills, "{what}: {requests} requests");
        seen
    }
}

/// What an entry of the log is, in a word or two.
fn named(entry: &Value) -> String {
    let kind = text(&entry["kind"]);
    match &entry["body"]["name"] {
        Value::String(name) => format!("{kind} {name}"),
        _ => kind,
    }
}

fn matrix(on_postgres: bool) {
    let name = if on_postgres { "Postgres" } else { "SQLite" };
    let mut whole = Story::new(on_postgres, None);
    whole.ends("without a kill");
    let entries: Vec<String> = whole.world.log(&whole.id).iter().map(named).collect();
    let heads: Vec<String> =
        CLASSES.iter().map(|(tool, class)| format!("`{tool}` ({class})")).collect();
    let mut table = format!("| {name}: killed | {} |\n", heads.join(" | "));
    table += &format!("|---|{}\n", "---|".repeat(CLASSES.len()));
    let mut row = |what: String, mut story: Story| {
        let seen = story.ends(&format!("{name}, killed {what}"));
        let cells = CLASSES.iter().map(|(tool, _)| {
            let (how, times) = &seen[*tool];
            format!("{how}, done {times}×")
        });
        table += &format!("| {what} | {} |\n", cells.collect::<Vec<_>>().join(" | "));
    };
    // Before the first two entries there is no session to go on with.
    for (index, entry) in entries.iter().enumerate().skip(2) {
        let mut story = Story::new(on_postgres, None);
        story.dies_after(index + 1);
        row(format!("after {} {entry}", index + 1), story);
    }
    for (tool, _) in CLASSES {
        let mut story = Story::new(on_postgres, Some(tool));
        story.dies_in(tool);
        row(format!("in `{tool}`, whose program is left behind"), story);
    }
    println!("{table}");
}

#[test]
fn after_each_entry_on_sqlite() {
    matrix(false);
}

#[test]
fn after_each_entry_on_postgres() {
    matrix(true);
}

/// Each session is killed up to six times in a row, wherever it is.
fn at_random(on_postgres: bool) {
    let kills: usize = std::env::var("INSPAN_KILLS")
        .map_or(12, |text| text.parse().expect("INSPAN_KILLS is a number"));
    let mut rng = fastrand::Rng::with_seed(7);
    let mut made = 0;
    while made < kills {
        // Every third begins with a program that is left behind.
        let held = (rng.u8(..3) == 0).then(|| CLASSES[rng.usize(..CLASSES.len())].0);
        let mut story = Story::new(on_postgres, held);
        made += usize::from(held.is_some_and(|tool| story.dies_in(tool)));
        let plan: Vec<usize> = (0..rng.usize(1..=6)).map(|_| rng.usize(2..14)).collect();
        for entries in &plan {
            // Before its prompt, which is the third entry, a session has no turn to go on with.
            let least = if story.kills == 0 { 3 } else { 2 };
            if made >= kills || !story.dies_after(least.max(*entries)) {
                break;
            }
            made += 1;
        }
        story.ends(&format!("killed in {held:?}, then after {plan:?}"));
    }
    println!("{made} kills");
}

#[test]
fn at_random_on_sqlite() {
    at_random(false);
}

#[test]
fn at_random_on_postgres() {
    at_random(true);
}
