//! `rescind __guard`: ends its process group when the shim ends.

use std::process::ExitCode;

use crate::run::OWN_FAILURE;

pub(crate) fn main() -> ExitCode {
    match rescind::launch::guard() {
        Ok(never) => match never {},
        Err(_) => ExitCode::from(OWN_FAILURE),
    }
}
