//! What the sources of a crate may touch. The compiler can't forbid most of it, so they are read.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{crate_names, list, read, root};

/// The sources of a crate, tests in files of their own left out.
pub(crate) fn sources(name: &str) -> Vec<PathBuf> {
    let mut folders = vec![Path::new("crates").join(name).join("src")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for path in list(&folder) {
            let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            if root().join(&path).is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") && !stem.ends_with("tests") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// The code of a file, without comments and without the tests at its end.
pub(crate) fn code(path: &Path) -> String {
    let text = read(path);
    let lines = text.lines().take_while(|line| !line.starts_with("#[cfg(") || !is_test(line));
    let code = lines.filter(|line| !line.trim_start().starts_with("//"));
    code.flat_map(|line| [line, "\n"]).collect()
}

fn is_test(attribute: &str) -> bool {
    attribute.contains("(test") || attribute.contains(" test")
}

/// The modules of the standard library that code names: `env` in `std::env::var` and in
/// `use std::{env, fs}`.
fn std_modules(code: &str) -> BTreeSet<String> {
    let code: String = code.chars().filter(|c| !c.is_whitespace()).collect();
    let ident =
        |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    let mut names = BTreeSet::new();
    for (at, _) in code.match_indices("std::") {
        let rest = code.split_at(at + "std::".len()).1;
        let Some(group) = rest.strip_prefix('{') else {
            names.insert(ident(rest));
            continue;
        };
        let mut depth = 1;
        let end = group.find(|c| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            depth == 0
        });
        let mut depth = 0;
        let outer = group.split_at(end.unwrap_or(group.len())).0.split(|c| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            depth == 0 && c == ','
        });
        names.extend(outer.map(ident).filter(|name: &String| !name.is_empty()));
    }
    names
}

#[test]
fn groups_of_imports_are_taken_apart() {
    let code = "use std::{a, b::{c, d},\n e::f};\nfn x() { std::g::h() }";
    assert_eq!(std_modules(code), BTreeSet::from(["a", "b", "e", "g"].map(str::to_owned)));
}

#[test]
fn the_core_touches_nothing_outside_itself() {
    let code: String = sources("core").iter().map(|path| code(path)).collect();
    let pure = [
        "any",
        "borrow",
        "cmp",
        "collections",
        "convert",
        "error",
        "fmt",
        "future",
        "hash",
        "iter",
        "mem",
        "num",
        "ops",
        "pin",
        "slice",
        "str",
        "string",
        "sync",
        "vec",
    ];
    let pure = BTreeSet::from(pure.map(str::to_owned));
    let other: Vec<_> = std_modules(&code).difference(&pure).cloned().collect();
    assert_eq!(other, Vec::<String>::new());
    for word in ["async fn", "async move", ".await", "Mutex", "RwLock", "OnceLock", "static mut"] {
        assert!(!code.contains(word), "`{word}` in the core");
    }
}

/// The lists in `crates/core/clippy.toml` are in force: clippy takes them for that package, and
/// refuses what stands in them.
#[test]
fn clippy_refuses_the_world_in_the_core() {
    let folder = root().join("crates/core");
    let source = root().join(env!("CARGO_TARGET_TMPDIR")).join("world.rs");
    let lines = [
        "pub fn a() -> std::time::SystemTime { std::time::SystemTime::now() }",
        "pub fn b() -> Option<std::ffi::OsString> { std::env::var_os(\"HOME\") }",
        "pub fn c() -> std::io::Result<Vec<u8>> { std::fs::read(\"/etc/passwd\") }",
        "pub fn d() { std::thread::sleep(std::time::Duration::ZERO) }",
        "pub fn e() -> std::process::Command { std::process::Command::new(\"sh\") }",
        "pub static F: std::sync::Mutex<u8> = std::sync::Mutex::new(0);",
    ];
    fs::write(&source, lines.join("\n")).expect("a folder for tests");
    let output = Command::new("clippy-driver")
        .args(["--crate-type", "lib", "--edition", "2024", "--emit", "metadata", "--out-dir"])
        .args([env!("CARGO_TARGET_TMPDIR"), "--error-format", "short"])
        .arg(&source)
        .env("CARGO_MANIFEST_DIR", folder)
        .env_remove("CLIPPY_CONF_DIR")
        .output()
        .expect("clippy is part of the toolchain");
    let said = String::from_utf8_lossy(&output.stderr);
    let refused: BTreeSet<usize> = said
        .lines()
        .filter(|line| line.contains("use of a disallowed"))
        .filter_map(|line| line.split(':').nth(1)?.parse().ok())
        .collect();
    assert_eq!(refused, (1..=lines.len()).collect(), "{said}");
}

#[test]
fn only_the_command_reads_the_environment() {
    let reads = |path: &PathBuf| std_modules(&code(path)).contains("env");
    let others = crate_names().into_iter().filter(|name| name != "cli");
    let found: Vec<_> = others.flat_map(|name| sources(&name)).filter(reads).collect();
    assert_eq!(found, [Path::new("crates/providers/src/key.rs")]);
}
