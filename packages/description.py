"""What `description.toml` says, with the version of the workspace."""

import functools
import platform
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Platform:
    """One system that the command is packed for."""

    target: str
    linker: str
    npm: tuple[str, str] | None = None
    wheel: str | None = None
    glibc: str | None = None
    homebrew: tuple[str, str] | None = None
    winget: str | None = None

    @property
    def is_windows(self) -> bool:
        return "windows" in self.target

    @property
    def program_name(self) -> str:
        return "rescind.exe" if self.is_windows else "rescind"

    @property
    def program(self) -> Path:
        """Where cargo puts it."""
        return ROOT / "target" / self.target / "release" / self.program_name

    @property
    def npm_name(self) -> str | None:
        return self.npm and f"@rescind/{'-'.join(self.npm)}"


def description() -> dict:
    return tomllib.loads((ROOT / "packages/description.toml").read_text())


def platforms() -> list[Platform]:
    lists_as_tuples = lambda value: tuple(value) if isinstance(value, list) else value
    return [Platform(**{key: lists_as_tuples(value) for key, value in one.items()}) for one in description()["platform"]]


def version() -> str:
    return tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]


@functools.cache
def here() -> Platform:
    """The platform of this machine, of those that every package is made for."""
    systems = {"Linux": "linux", "Darwin": "darwin", "Windows": "win32"}
    processors = {"x86_64": "x64", "AMD64": "x64", "aarch64": "arm64", "arm64": "arm64", "ARM64": "arm64"}
    name = systems[platform.system()], processors[platform.machine()]
    return next(one for one in platforms() if one.npm == name)
