//! Has the linker lay together what a session runs through, as `session.ld` says, where it can.

use std::path::Path;
use std::process::{Command, Stdio};
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=session.ld");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|it| it == value);
    if is("CARGO_CFG_TARGET_OS", "linux")
        && is("PROFILE", "release")
        && let Some(argument) = env::var("CARGO_MANIFEST_DIR").ok().map(|here| format!("-T{here}/session.ld"))
        && can_link_with(&argument).unwrap_or(false)
    {
        println!("cargo::rustc-link-arg-bins={argument}");
    }
}

/// Whether a program can be linked so: not every linker knows `INSERT`. `None` without what cargo says of the build.
fn can_link_with(argument: &str) -> Option<bool> {
    let folder = env::var_os("OUT_DIR")?;
    let source = Path::new(&folder).join("linked.rs");
    fs::write(&source, "fn main() {}").ok()?;
    let mut rustc = Command::new(env::var_os("RUSTC")?);
    // Stripped, since zig makes a C library of its own for what is and for what is not.
    rustc.args(["-C", "strip=symbols", "--target"]).arg(env::var_os("TARGET")?).arg("--out-dir").arg(&folder);
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        rustc.args(["-C", &format!("linker={linker}")]);
    }
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    rustc.args(flags.split('\u{1f}').filter(|flag| !flag.is_empty()));
    rustc.args(["-C", &format!("link-arg={argument}")]).arg(source);
    Some(rustc.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success()))
}
