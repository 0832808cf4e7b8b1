//! A server process that a test drives; see `rescind_testkit::puppet`.

fn main() -> std::io::Result<()> {
    rescind_testkit::puppet::main()
}
