//! What `tcptrace-lab --version` says of the core: revision, profile and compiler of the build.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=../.git/HEAD");
    println!("cargo::rerun-if-changed=src");
    let first_line = |program: &str, words: &[&str]| {
        let output = Command::new(program).args(words).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        let line = text.lines().next()?.trim().to_owned();
        (output.status.success() && !line.is_empty()).then_some(line)
    };
    let revision = first_line("git", &["rev-parse", "--short=9", "HEAD"]);
    let compiler = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let parts = [
        // A source package has no history.
        revision.map(|revision| format!("revision {revision}")),
        std::env::var("PROFILE").ok(),
        first_line(&compiler, &["--version"]),
    ];
    let text: Vec<String> = parts.into_iter().flatten().collect();
    println!("cargo::rustc-env=TCPTRACE_BUILD={}", text.join(", "));
}
