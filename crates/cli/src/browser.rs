//! The person's browser.

use std::process::{Command, Stdio};

/// Whether a browser can be expected to open where the person sees it.
pub(crate) fn is_there() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    cfg!(any(target_os = "macos", windows)) || is_set("DISPLAY") || is_set("WAYLAND_DISPLAY")
}

/// Opens a link with the desktop's program for links; `false` if there is none. Others can see the link in the list of
/// processes.
pub(crate) fn open(link: &str) -> bool {
    let opener: &[&str] = match std::env::consts::OS {
        "macos" => &["open"],
        // No shell reads the link. `explorer` would show a folder in place of an address that has a query.
        "windows" => &["rundll32", "url.dll,FileProtocolHandler"],
        _ => &["xdg-open"],
    };
    let [program, words @ ..] = opener else { return false };
    let quiet = || Stdio::null();
    let started = Command::new(program).args(words).arg(link).stdin(quiet()).stdout(quiet()).stderr(quiet()).spawn();
    let Ok(mut child) = started else { return false };
    std::thread::spawn(move || child.wait());
    true
}
