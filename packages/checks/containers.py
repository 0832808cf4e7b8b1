"""The image of `packages/Containerfile`, which needs no other: built and started with Podman, where that runs."""

import platform
import shutil
from pathlib import Path

from description import ROOT, version

from .way import Bench, Way, expect, left_out


def check(bench: Bench, bare: Way) -> None:
    podman = shutil.which("podman")
    if not podman or platform.system() != "Linux":
        return left_out("the container", "podman is not here")
    folder = bench.scratch / "container"
    folder.mkdir()
    # What a container may be given without privileges, such as those of a container that this runs in.
    settings = '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=1000:1000"]\nnetns = "host"\n'
    (folder / "containers.conf").write_text(settings + '[engine]\nruntime = "runc"\nevents_logger = "file"\n')
    words = ["env", f"CONTAINERS_CONF={folder / 'containers.conf'}", podman, "--root", folder / "root"]
    words += ["--runroot", folder / "run", "--storage-driver", "vfs"]
    context = folder / "context"
    context.mkdir()
    shutil.copy(bare.command[0], context)
    try:
        bench.tool(*words, "build", "--quiet", "--network", "none", "--tag", "rescind", "--file", ROOT / "packages/Containerfile", context)
        seen = bench.tool(*words, "run", "--rm", "rescind", "--version")
    except SystemExit as error:
        return left_out("the container", f"podman cannot run here: {str(error).strip().splitlines()[-1]}")
    expect("the container", seen, f"rescind {version()}\n")
    print("the container: as expected")
