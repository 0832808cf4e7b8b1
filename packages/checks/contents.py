"""What is in the packages, for every platform: sizes, checksums, what the programs need of a system, and where the manifests
say that the archives are."""

import base64
import hashlib
import json
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

from description import ROOT, Platform, description, platforms, version

from .way import expect, left_out

LARGEST = 6_000_000
# Of 2012: systems of 2019 have a newer one.
OLDEST_GLIBC = (2, 17)
REPOSITORY = "https://example.com/rescind/rescind"
RELEASE = f"{REPOSITORY}/releases/download/v{version()}"


def check(folder: Path, scratch: Path) -> None:
    sizes(folder)
    archives = {one: archive for one in platforms() if (archive := folder / archive_name(one)).exists()}
    sums = dict(reversed(line.split("  ")) for line in (folder / "SHA256SUMS").read_text().splitlines())
    expect("checksums", {archive.name: digest(archive) for archive in archives.values()}, sums)
    programs = {one: program_of(one, archive) for one, archive in archives.items()}
    for one, program in programs.items():
        if "linux" in one.target:
            print(f"{one.target}: needs {needs(one, program)}")
    for packed in (folder / "pypi").glob("*.whl"):
        record(packed)
    manual_pages(folder, archives)
    manifests = packed_again(folder, scratch, programs)
    homebrew((manifests / "homebrew/rescind.rb"), programs, sums)
    winget(manifests / "winget", programs, sums)
    binstall(archives)


def archive_name(one: Platform) -> str:
    return f"rescind-{version()}-{one.target}.{'zip' if one.is_windows else 'tar.gz'}"


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def program_of(one: Platform, packed: Path) -> bytes:
    name = f"rescind-{version()}-{one.target}/{one.program_name}"
    if one.is_windows:
        with zipfile.ZipFile(packed) as archive:
            return archive.read(name)
    with tarfile.open(packed) as archive:
        entry = archive.getmember(name)
        expect(f"mode of the program for {one.target}", oct(entry.mode), "0o755")
        return archive.extractfile(entry).read()


def record(packed: Path) -> None:
    """Of each file of a wheel the hash and the size, which pip does not look at."""
    with zipfile.ZipFile(packed) as archive:
        (name,) = (one for one in archive.namelist() if one.endswith(".dist-info/RECORD"))
        recorded = dict(line.split(",", 1) for line in archive.read(name).decode().splitlines())
        expect(f"files of {packed.name}", set(recorded), set(archive.namelist()))
        for file in set(recorded) - {name}:
            content = archive.read(file)
            hashed = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            expect(f"{file} of {packed.name}", recorded[file], f"sha256={hashed},{len(content)}")


def manual_pages(folder: Path, archives: dict[Platform, Path]) -> None:
    """Each package has the same pages, and completions; a wheel for Windows, which has no place for them, none."""
    pages = {path.name: path.read_bytes() for path in (ROOT / "target/manual/man").iterdir()}
    expect("pages", "rescind-uninstall.1" in pages and "rescind.1" in pages, True)
    for packed in [*archives.values(), *(folder / "pypi").glob("*.whl"), folder / f"npm/rescind-{version()}.tgz"]:
        files = files_of(packed)
        if "-win" in packed.name and packed.suffix == ".whl":
            continue
        found = {Path(name).name: content for name, content in files.items() if Path(name).name in pages}
        expect(f"pages of {packed.name}", found == pages, True, str(sorted(found)))
        expect(f"completions of {packed.name}", any(name.endswith("/_rescind") for name in files), True)
    manifest = json.loads(files_of(folder / f"npm/rescind-{version()}.tgz")["package/package.json"])
    expect("pages that npm installs", {Path(name).name for name in manifest["man"]}, set(pages))
    for name, text in pages_of_registries(folder):
        expect(f"{name} says how to uninstall", "## Before you uninstall" in text, True)


def pages_of_registries(folder: Path) -> list[tuple[str, str]]:
    npm = files_of(folder / f"npm/rescind-{version()}.tgz")["package/README.md"].decode()
    wheels = [files_of(packed) for packed in (folder / "pypi").glob("*.whl")]
    metadata = [content.decode() for files in wheels for name, content in files.items() if name.endswith("/METADATA")]
    return [("npm's page", npm), *(("PyPI's page", text) for text in metadata)]


def files_of(packed: Path) -> dict[str, bytes]:
    if packed.suffix in (".zip", ".whl"):
        with zipfile.ZipFile(packed) as archive:
            return {name: archive.read(name) for name in archive.namelist()}
    with tarfile.open(packed) as archive:
        return {one.name: archive.extractfile(one).read() for one in archive.getmembers()}


def sizes(folder: Path) -> None:
    for packed in sorted(one for one in folder.rglob("*") if one.is_file()):
        size = packed.stat().st_size
        print(f"{size:>9}  {packed.relative_to(folder)}")
        expect(f"{packed.name} is smaller than {LARGEST}", size < LARGEST, True)


def needs(one: Platform, program: bytes) -> str:
    """Nothing with musl; with glibc, one of its old versions."""
    first, each, count = *struct.unpack_from("<Q", program, 32), *struct.unpack_from("<HH", program, 54)
    kinds = {struct.unpack_from("<I", program, first + each * number)[0] for number in range(count)}
    interpreter = 3 in kinds
    if "musl" in one.target:
        expect(f"{one.target} has an interpreter", interpreter, False)
        return "nothing"
    expect(f"{one.target} has an interpreter", interpreter, True)
    found = {tuple(map(int, name.split(b"."))) for name in re.findall(rb"\0GLIBC_([0-9.]+)(?=\0)", program)}
    newest = max(found)
    expect(f"{one.target} runs with glibc {OLDEST_GLIBC}", newest <= OLDEST_GLIBC, True, str(sorted(found)))
    return f"glibc {'.'.join(map(str, newest))}"


def packed_again(folder: Path, scratch: Path, programs: dict[Platform, bytes]) -> Path:
    """The same archives, byte for byte, and the manifests that name them."""
    again, options = scratch / "again", []
    for one, program in programs.items():
        file = scratch / f"program-{one.target}"
        file.write_bytes(program)
        options += ["--program", f"{one.target}={file}"]
    command = [sys.executable, ROOT / "packages/build", "--output", again, "--repository", REPOSITORY, *options]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    expect("packed again", (again / "SHA256SUMS").read_text(), (folder / "SHA256SUMS").read_text())
    return again


def homebrew(formula: Path, programs: dict[Platform, bytes], sums: dict[str, str]) -> None:
    text = formula.read_text()
    named = dict(re.findall(r'url "(.*)"\n\s+sha256 "(.*)"', text))
    expected = {f"{RELEASE}/{archive_name(one)}": sums[archive_name(one)] for one in programs if one.homebrew}
    expect("archives of the formula", named, expected)
    if ruby := shutil.which("ruby"):
        subprocess.run([ruby, "-c", formula], check=True, stdout=subprocess.DEVNULL)
    else:
        left_out("the formula's syntax", "ruby is not here")


# Of the schemas 1.6.0.
OF_EACH = {"PackageIdentifier", "PackageVersion", "ManifestType", "ManifestVersion"}
OF_WINGET = {
    "version": {"DefaultLocale"},
    "installer": {"Installers"},
    "defaultLocale": {"PackageLocale", "Publisher", "PackageName", "License", "ShortDescription"},
}


def winget(folder: Path, programs: dict[Platform, bytes], sums: dict[str, str]) -> None:
    kinds = set()
    for file in folder.iterdir():
        text = file.read_text()
        lines = dict(re.findall(r"^(\w+): ?(.*)$", text, re.MULTILINE))
        kind = lines["ManifestType"]
        kinds.add(kind)
        expect(f"what {file.name} lacks", (OF_EACH | OF_WINGET[kind]) - set(lines), set())
        # A plain scalar may hold neither.
        expect(f"values of {file.name}", [value for value in lines.values() if ": " in value or " #" in value], [])
        if kind == "installer":
            named = dict(re.findall(r"InstallerUrl: (.*)\n\s+InstallerSha256: ([0-9A-F]{64})\n", text))
            ours = [archive_name(one) for one in programs if one.winget]
            expect("archives of winget", named, {f"{RELEASE}/{name}": sums[name].upper() for name in ours})
            paths = re.findall(r"RelativeFilePath: (.*)", text)
            inside = [f"{name.removesuffix('.zip')}\\rescind.exe" for name in ours]
            expect("programs of winget", paths, inside)
    expect("manifests of winget", kinds, set(OF_WINGET))


def binstall(archives: dict[Platform, Path]) -> None:
    """What cargo binstall would ask for on a target of its own list is one of our archives, and has the program there."""
    told = tomllib.loads((ROOT / "crates/cli/Cargo.toml").read_text())["package"]["metadata"]["binstall"]
    overrides = told.pop("overrides")
    ours = {one.target: one for one in platforms()}
    of_windows = {"x86_64-pc-windows-msvc": "x86_64-pc-windows-gnu", "aarch64-pc-windows-msvc": "aarch64-pc-windows-gnullvm"}
    for target in [*ours, *of_windows]:
        one = ours[of_windows.get(target, target)]
        how = told | overrides.get(target, {})
        values = {"repo": REPOSITORY, "name": "rescind-cli", "version": version(), "target": target, "bin": "rescind"}
        values |= {"binary-ext": ".exe" if one.is_windows else ""}
        filled = {key: re.sub(r"\{ ([a-z-]+) \}", lambda found: values[found[1]], text) for key, text in how.items()}
        expect(f"archive of {target}", filled["pkg-url"], f"{RELEASE}/{archive_name(one)}")
        expect(f"format of {target}", filled["pkg-fmt"], "zip" if one.is_windows else "tgz")
        inside = f"rescind-{version()}-{one.target}/{one.program_name}"
        expect(f"program of {target}", filled["bin-dir"], inside)
    expect("overrides", set(overrides) - {*ours, *of_windows}, set())
    print(f"cargo binstall: finds {len(archives)} of {len(ours)} archives here under the names that it is told")
