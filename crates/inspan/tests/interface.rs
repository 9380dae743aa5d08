//! The public interface, as lists, of this crate and of those that it gives on: a change of it is a
//! change of a list, to be seen and to be weighed against the version.
//!
//! `INSTA_UPDATE=always cargo test -p inspan --test interface` writes the list anew. The form in
//! which rustdoc tells the interface moves with the toolchain, and `public-api` moves with it.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

#[test]
fn the_interface_is_the_one_that_is_written_down() {
    let behind =
        ["core", "engine", "evals", "providers", "store"].map(|name| format!("inspan-{name}"));
    for package in std::iter::once("inspan".to_owned()).chain(behind) {
        insta::assert_snapshot!(package.as_str(), interface_of(&package));
    }
}

fn interface_of(package: &str) -> String {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("..");
    // Only rustdoc itself is told that it may use what is not stable, so that nothing else is
    // built a second time.
    let rustdoc = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rustdoc-json");
    fs::write(&rustdoc, "#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec rustdoc \"$@\"\n").unwrap();
    fs::set_permissions(&rustdoc, fs::Permissions::from_mode(0o755)).unwrap();
    let output = Command::new(env!("CARGO"))
        .args(["rustdoc", "--locked", "--offline", "--quiet", "--package", package, "--lib"])
        .arg("--all-features")
        .arg("--target-dir")
        .arg(&target)
        .args(["--", "-Z", "unstable-options", "--output-format", "json"])
        .env("RUSTDOC", &rustdoc)
        .env_remove("RUSTDOCFLAGS")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json = format!("doc/{}.json", package.replace('-', "_"));
    let api = public_api::Builder::from_rustdoc_json(target.join(json))
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()
        .unwrap();
    api.to_string()
}
