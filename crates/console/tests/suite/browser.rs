//! The page in a real Chromium, over scripted shims.
//!
//! Each case waits for what the page shows. Pictures are written to `target/screenshots`, or to `RESCIND_SCREENSHOTS`: of
//! what a case sees, and by `layout` of each state of the page at each size (`scripts/screenshots`). Without `chromium` and `chromedriver` nothing is tried, and with `RESCIND_REQUIRE_PEERS` that
//! fails.

mod busy;
mod cancel;
mod containers;
mod driver;
mod ended;
mod focus;
mod layout;
mod looks;
mod processes;
mod stage;
mod states;
mod stop;
mod watch;
