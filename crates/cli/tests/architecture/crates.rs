//! Who imports whom.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

use crate::{crate_names, read, root};

/// Every package that this crate of ours is built from, itself included.
fn tree(name: &str, more: &[&str]) -> BTreeSet<String> {
    let package = if name == "inspan" { name.to_owned() } else { format!("inspan-{name}") };
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--offline", "--package", &package, "--edges", "normal"])
        .args(["--prefix", "none", "--format", "{p}"])
        .args(more)
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).expect("text");
    lines.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

type Names = &'static [&'static str];

/// Libraries that wait, open, draw or roll dice.
const WORLD: Names = &[
    "async-std",
    "axum",
    "chrono",
    "clap",
    "crossterm",
    "dirs",
    "dotenvy",
    "fastrand",
    "getrandom",
    "hyper",
    "jiff",
    "jsonschema",
    "libsqlite3-sys",
    "mio",
    "rand",
    "reqwest",
    "rustix",
    "rustls",
    "secrecy",
    "smol",
    "socket2",
    "sqlx",
    "time",
    "tokio",
    "tracing",
    "uuid",
];
const HTTP: Names = &["axum", "hyper", "reqwest", "rustls"];
const SQL: Names = &["libsqlite3-sys", "sqlx", "sqlx-core"];
const SCREEN: Names = &["anstream", "clap", "crossterm", "ratatui"];

#[test]
fn no_crate_imports_what_its_reason_forbids() {
    let table: [(&str, Names, &[Names]); 11] = [
        ("core", &["engine", "evals", "providers", "schema", "store"], &[WORLD]),
        ("engine", &["evals", "providers", "schema", "store"], &[HTTP, SQL, SCREEN]),
        ("evals", &["providers"], &[HTTP, SQL, SCREEN]),
        // With its default features.
        ("inspan", &["evals", "mcp", "schema", "testkit"], &[SQL, SCREEN, &["axum", "jsonschema"]]),
        ("macros", &["core", "engine", "evals", "providers", "schema", "store"], &[WORLD]),
        ("mcp", &["evals", "pictures", "providers", "store"], &[SQL, SCREEN]),
        ("pictures", &["engine", "evals", "providers", "schema", "store"], &[HTTP, SQL, SCREEN]),
        ("providers", &["engine", "evals", "schema", "store"], &[SQL, SCREEN]),
        ("schema", &["engine", "evals", "providers", "store"], &[HTTP, SQL, SCREEN, &["tokio"]]),
        ("store", &["engine", "evals", "providers", "schema"], &[HTTP, SCREEN]),
        ("testkit", &["engine", "providers", "schema", "store"], &[SQL, SCREEN]),
    ];
    let mut named: BTreeSet<&str> = table.iter().map(|(name, ..)| *name).collect();
    for (name, ours, others) in table {
        let tree = tree(name, &[]);
        let ours = ours.iter().chain(&["cli"]).map(|name| format!("inspan-{name}"));
        let others = others.iter().copied().flatten().map(|&name| name.to_owned());
        let found: Vec<_> = ours.chain(others).filter(|name| tree.contains(name)).collect();
        assert_eq!(found, Vec::<String>::new(), "in the tree of {name}");
    }
    // A new crate gets its row here; the command may import everything but the test kit.
    named.insert("cli");
    assert_eq!(crate_names().iter().map(String::as_str).collect::<BTreeSet<_>>(), named);
    assert!(!tree("cli", &[]).contains("inspan-testkit"));
}

#[test]
fn the_core_has_few_dependencies() {
    let direct = [
        "aho-corasick",
        "futures-core",
        "inspan-core",
        "serde",
        "serde_json",
        "serde_json_lenient",
        "sha2",
        "thiserror",
    ];
    assert_eq!(tree("core", &["--depth", "1"]), BTreeSet::from(direct.map(str::to_owned)));
}

/// The versions of each package in the lock file, those for tests and for other systems included.
fn locked() -> BTreeMap<String, Vec<String>> {
    let lock = read("Cargo.lock");
    let value = |line: &str| line.split('"').nth(1).map(str::to_owned);
    let mut versions = BTreeMap::<_, Vec<_>>::new();
    for package in lock.split("[[package]]").skip(1) {
        let mut lines = package.trim().lines();
        if let (Some(name), Some(version)) =
            (lines.next().and_then(value), lines.next().and_then(value))
        {
            versions.entry(name).or_default().push(version);
        }
    }
    versions
}

#[test]
fn one_of_each_big_library_and_one_tls() {
    let locked = locked();
    for name in ["hyper", "libsqlite3-sys", "reqwest", "ring", "rustls", "serde_json", "tokio"] {
        assert_eq!(locked.get(name).map(Vec::len), Some(1), "{name}: {:?}", locked.get(name));
    }
    for name in [
        "aws-lc-rs",
        "aws-lc-sys",
        "native-tls",
        "openssl",
        "openssl-sys",
        "rusqlite",
        "serde_yaml",
    ] {
        assert_eq!(locked.get(name), None, "{name}");
    }
}
