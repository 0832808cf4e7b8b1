export CARGO_INCREMENTAL := "0"

# The recipes.
default:
    @just --list --unsorted

# What every change must pass: formatting, lints, tests.
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings
    cargo test --workspace

# The tests whose module or name has FILTER in it: `just test relay_cancel`, `just test peer::storm`.
test FILTER:
    cargo test --workspace --no-fail-fast -- {{FILTER}}

# Everything, as it runs for each submission; `.ci/run check` is what of it needs only Rust.
ci:
    .ci/run

# The shim between real processes, in under ten seconds.
demo *ARGS:
    cargo run --release -- demo {{ARGS}}

# What rarely fails and `just ci` leaves out: features, traces, `loom`, the official suite in every revision, publishing.
ci-apart:
    .ci/apart

# What the shim costs; `--quick` for a first look.
bench *ARGS:
    cargo run --release --manifest-path bench/Cargo.toml -- {{ARGS}}

# Writes anew what a session runs through, which the linker lays together (crates/cli/session.ld).
session-functions *ARGS:
    scripts/session-functions {{ARGS}}

# Fuzz one target for that many seconds; needs cargo-fuzz, and no nightly compiler.
fuzz NAME SECONDS="60":
    cargo fuzz run -s none {{NAME}} -- -max_total_time={{SECONDS}}

# Every reachable state of a small world, and how many there are.
explore:
    cargo test --config .cargo/explore.toml --workspace --test explore explore:: -- --nocapture

# Eighteen bugs seeded into a copy of the engine, and sixteen into one of the HTTP machines: each must be found.
seeded-bugs:
    scripts/seeded-bugs

# A revision of MCP that does not exist, added to a copy: the bridge, the HTTP machine and the library must know it.
new-revision:
    scripts/new-revision

# Mutants of the engine that no test notices, of one shard of all; needs cargo-mutants. Missed by the tests that take seconds, they meet all tests.
mutants SHARD="0/100":
    cargo mutants --jobs 1 --package rescind-proto --package rescind-parts --package rescind-wire --output target --sharding round-robin --shard {{SHARD}} -- -- --skip explore:: --skip random_walks:: --skip monitor_walks:: --skip floods:: || [ $? = 2 ]
    cargo mutants --jobs 1 --package rescind-proto --package rescind-parts --package rescind-wire --output target --sharding round-robin --shard {{SHARD}} --iterate

# Mutants of the library that its own tests do not notice, of one shard of all.
mutants-rescind SHARD="0/100":
    cargo mutants --config .cargo/mutants-rescind.toml --jobs 1 --package rescind --output target --sharding round-robin --shard {{SHARD}}

# Every interleaving of what a connection's threads share without its lock.
loom:
    cargo test --manifest-path loom/Cargo.toml

# A minute of each flood, or SECONDS of it: what machines, a real link, a real peer, `serve` and `run --url` hold stays within bounds.
floods SECONDS="60":
    RESCIND_SOAK_SECONDS={{SECONDS}} cargo test --config .cargo/explore.toml --workspace --test explore floods:: -- --ignored --nocapture
    RESCIND_SOAK_SECONDS={{SECONDS}} cargo test -p rescind-cli --test suite a_link_and_a_peer_hold -- --ignored --nocapture
    RESCIND_SOAK_SECONDS={{SECONDS}} cargo test --config .cargo/explore.toml -p rescind-cli --test suite gateway_floods:: -- --ignored --nocapture --test-threads 1

# A minute of drops, cancels, timeouts and broken links at random, over Unix sockets; then nothing is left.
soak SECONDS="60":
    RESCIND_SOAK_SECONDS={{SECONDS}} cargo test -p rescind --test suite soak:: -- --ignored --nocapture

# Real SDKs through the shim, and with a Peer in both roles; needs Node 18 and Python 3.11, or later, and for some tests neovim.
peers:
    peers/install
    cargo build -p rescind-cli --examples
    RESCIND_COMPARE=1 RESCIND_REQUIRE_PEERS=1 cargo test -p rescind-cli --test suite peers:: -- --nocapture
    RESCIND_REQUIRE_PEERS=1 cargo test -p rescind --test suite interop::

# The console's page in a real Chromium, and pictures of it in target/screenshots; needs chromium and chromedriver.
page:
    RESCIND_REQUIRE_PEERS=1 cargo test -p rescind-console --test suite browser::
    cargo build -p rescind-cli --examples
    RESCIND_REQUIRE_PEERS=1 cargo test -p rescind-cli --test suite page::

# Pictures of each state of the page, at three sizes, in light and dark, in target/screenshots; `--readme` for those of the README, too.
pictures *ARGS:
    scripts/screenshots {{ARGS}}

# What being watched costs a shim, in instructions for each round trip; needs valgrind.
watched:
    cargo build --release -p rescind-cli --examples
    cargo test --release -p rescind-cli --test suite run_admin_cost:: -- --ignored --nocapture

# Faults of Rust SDKs without and with relay::wrap, as a table.
wrapped:
    peers/rust/run

# Writes the page of cases anew, from the comments of tests.
pages:
    RESCIND_WRITE_PAGES=1 cargo test -p rescind-testkit --test suite pages::
    RESCIND_WRITE_PAGES=1 cargo test -p rescind-cli --test suite what_the_page_shows

# Licences, sources and duplicates of dependencies; needs cargo-deny.
deny:
    cargo fetch --locked
    cargo deny --offline check licenses bans sources
