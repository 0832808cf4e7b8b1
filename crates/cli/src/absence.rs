//! What is said where there are no sessions.

use std::{path::Path, sync::OnceLock};

use rescind_feed::DIRECTORY_VARIABLE;

use crate::{screen::clean, wrap::files};

/// The message for no sessions, with what gives some. It claims no more than was searched.
pub(crate) fn no_sessions() -> String {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let of_others = set("SUDO_USER").map_or_else(String::new, |user| {
        format!("those of {} are listed without sudo; ", clean(&user.to_string_lossy()))
    });
    let others =
        format!("{of_others}sessions started with --unlisted, or with another {DIRECTORY_VARIABLE}, are not listed");
    let place = set(DIRECTORY_VARIABLE).map_or_else(String::new, |chosen| {
        let state = if Path::new(&chosen).exists() { "" } else { ", which does not exist" };
        format!(" in {} ({DIRECTORY_VARIABLE}){state}", clean(&chosen.to_string_lossy()))
    });
    format!("no sessions{place}: {}; {others}", how_to_have_sessions())
}

/// What a person does who has no sessions.
pub(crate) fn how_to_have_sessions() -> &'static str {
    // A table that is redrawn asks again and again.
    static IS_ANY_WRAPPED: OnceLock<Option<bool>> = OnceLock::new();
    match IS_ANY_WRAPPED.get_or_init(files::is_any_wrapped) {
        Some(true) => "restart your clients, so that they start their servers through rescind",
        Some(false) => "wrap your clients' servers with `rescind wrap`, and restart the clients",
        None => "restart your clients, or wrap their servers with `rescind wrap`",
    }
}
