//! The pages speak of what there is.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use inspan_core::{
    Event,
    budget::Limits,
    event::Stop,
    message::How,
    words::{dollars, duration},
};

use crate::{crate_names, list, read, root};

/// The rows of the first table under a heading, without its two first lines.
pub(crate) fn table(page: &str, heading: &str) -> Vec<Vec<String>> {
    let text = read(page);
    let under = text.lines().skip_while(|line| *line != heading).skip(1);
    let rows: Vec<_> = under
        .take_while(|line| !line.starts_with('#'))
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'))
        .skip(2)
        .map(|row| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect())
        .collect();
    assert!(!rows.is_empty(), "no table under `{heading}` in {page}");
    rows
}

/// `name` without its quotes.
pub(crate) fn quoted(cell: &str) -> String {
    cell.trim_matches('`').to_owned()
}

fn first_cells(page: &str, heading: &str) -> Vec<String> {
    table(page, heading).iter().map(|row| quoted(&row[0])).collect()
}

#[test]
fn every_event_and_its_fields_are_on_the_page_of_the_log() {
    let source = read("crates/core/src/event.rs");
    let fields = |kind: &str| -> Vec<String> {
        let (_, body) = source.split_once(&format!("pub struct {kind} {{")).expect("a struct");
        let (body, _) = body.split_once('}').expect("an end");
        let field = |line: &str| line.trim().strip_prefix("pub ")?.split(':').next().map(quoted);
        body.lines().filter_map(field).collect()
    };
    let expected: Vec<_> =
        Event::KINDS.iter().map(|kind| ((*kind).to_owned(), fields(kind))).collect();
    let told: Vec<_> = table("docs/log.md", "## Events")
        .iter()
        .map(|row| (quoted(&row[0]), row[1].split('`').skip(1).step_by(2).map(quoted).collect()))
        .collect();
    assert_eq!(told, expected);
}

#[test]
fn every_answer_and_every_stop_is_on_the_page_of_the_log() {
    assert_eq!(first_cells("docs/log.md", "## How a call was answered"), How::ALL.map(How::as_str));
    assert_eq!(first_cells("docs/log.md", "## Why a turn ended"), Stop::ALL.map(Stop::as_str));
}

#[test]
fn the_overview_names_every_crate_and_stays_short() {
    let names: Vec<_> = crate_names().iter().map(|name| format!("crates/{name}")).collect();
    let mut told = first_cells("ARCHITECTURE.md", "## The crates");
    told.sort();
    assert_eq!(told, names);
    assert!(read("ARCHITECTURE.md").lines().count() <= 200);
}

/// Markdown files of the workspace, those of dependencies and examples' agents left out.
fn markdown() -> Vec<PathBuf> {
    let folders = ["", "docs", "docs/decisions"];
    let is_page = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "md");
    folders.iter().flat_map(list).filter(is_page).collect()
}

#[test]
fn every_link_in_the_pages_leads_to_a_file() {
    for page in markdown() {
        let text = read(&page);
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().unwrap_or_default();
            let folder = page.parent().unwrap_or(Path::new(""));
            let leads = file.is_empty()
                || link.starts_with("https://")
                || root().join(folder).join(file).exists();
            assert!(leads, "{}: {link}", page.display());
        }
    }
}

#[test]
fn every_decision_is_in_the_list() {
    let text = read("docs/decisions/README.md");
    for path in list("docs/decisions") {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        assert!(name == "README.md" || text.contains(&format!("]({name})")), "{name}");
    }
}

#[test]
fn the_test_command_is_named_where_it_is_used() {
    assert!(read("README.md").contains("./test"));
    assert!(read(".ci/run").contains("/test\""));
}

/// What the command says of itself, its line ends as spaces.
fn help(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_inspan"))
        .args(arguments)
        .arg("--help")
        .output()
        .expect("the command runs");
    String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_readme_names_every_command() {
    let cells = first_cells("README.md", "## The command");
    let told: Vec<_> = cells.iter().filter_map(|cell| cell.split(' ').nth(1)).collect();
    let output = Command::new(env!("CARGO_BIN_EXE_inspan")).output().expect("the command runs");
    let help = String::from_utf8_lossy(&output.stderr);
    let listed: Vec<_> = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .map_while(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    assert_eq!(told, listed);
}

#[test]
fn every_limit_is_a_flag_with_its_default() {
    let help = help(&["run"]);
    let limits = Limits::session();
    let defaults = [
        ("rounds-max", limits.rounds_max.to_string()),
        ("tokens-max", limits.tokens_max.map_or("none".to_owned(), |max| max.to_string())),
        ("cost-max-usd", limits.cost_max_nano_usd.map_or("none".to_owned(), dollars)),
        ("time-max", limits.time_ms_max.map_or("none".to_owned(), duration)),
        ("calls-max", limits.calls_max.to_string()),
        ("calls-at-once-max", limits.calls_at_once_max.to_string()),
        ("retries-max", limits.retries_max.to_string()),
        ("output-tokens-max", limits.output_tokens_max.to_string()),
    ];
    for (flag, default) in &defaults {
        let about =
            help.split(&format!("--{flag} ")).nth(1).and_then(|rest| rest.split(']').next());
        let told = about.and_then(|about| about.split("[default: ").nth(1));
        assert_eq!(told, Some(default.as_str()), "--{flag}");
    }
    let names = first_cells("docs/limits.md", "## Limits of a turn");
    assert_eq!(names, defaults.map(|(flag, _)| flag.replace('-', "_")));
}
