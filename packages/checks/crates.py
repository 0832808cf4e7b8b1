"""`cargo install`, from the files that `cargo publish` would send: what they lack is seen here and not by whoever installs
them. Each stands for the registry's of its name, and is compiled without optimisation, which takes a minute or two."""

import os
import shutil
import tarfile

from description import ROOT, version

from .way import Bench, expect, left_out


def check(bench: Bench) -> None:
    if not shutil.which("cargo"):
        return left_out("cargo install", "cargo is not here")
    # What cargo has downloaded already.
    kept = {name: os.environ[name] for name in ("CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN") if name in os.environ}
    bench.environment |= {"CARGO_INCREMENTAL": "0", "CARGO_HOME": os.path.expanduser("~/.cargo")}
    bench.environment |= {"RUSTUP_HOME": os.path.expanduser("~/.rustup"), "CARGO_PROFILE_DEV_DEBUG": "none"} | kept
    folder = bench.scratch / "crates"
    package = ["cargo", "package", "--workspace", "--no-verify", "--allow-dirty", "--offline", "--quiet"]
    bench.tool(*package, "--target-dir", folder, cwd=ROOT)
    patches = []
    for packed in (folder / "package").glob("*.crate"):
        with tarfile.open(packed) as archive:
            archive.extractall(folder, filter="data")
        name = packed.name.removesuffix(f"-{version()}.crate")
        if name != "rescind-cli":
            patches += ["--config", f'patch.crates-io.{name}.path="{folder / packed.stem}"']
    install = ["cargo", "install", "--debug", "--offline", "--quiet", "--root", bench.scratch / "cargo"]
    of_cli = folder / f"rescind-cli-{version()}"
    bench.tool(*install, "--path", of_cli, "--target-dir", ROOT / "target", *patches, timeout=900)
    seen = bench.tool(bench.scratch / "cargo/bin/rescind", "--version")
    expect("cargo install", seen, f"rescind {version()}\n")
    print("cargo install: as expected")
