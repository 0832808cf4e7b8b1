//! A stand-in for `docker` and `podman`; see `rescind_testkit::container_engine`.

fn main() -> std::io::Result<std::process::ExitCode> {
    rescind_testkit::container_engine::main()
}
