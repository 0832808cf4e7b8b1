"""Archives, compressed by libdeflate: 3 % smaller than by Python's own compressor, in the same time.

It comes from PyPI into `target/packing`, with pip alone. A program that begins with `with_libdeflate()` goes on there.
"""

import gzip
import importlib.util
import io
import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

# A file of an archive: its bytes, and whether it is a program.
Files = dict[str, tuple[bytes, bool]]

ROOT = Path(__file__).resolve().parent.parent
LEVEL = 12


def with_libdeflate() -> None:
    """Installs it, if it is not there, and begins again with it."""
    if importlib.util.find_spec("deflate"):
        return
    folder, wanted = ROOT / "target/packing", ROOT / "packages/packing.txt"
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    stamp = folder / "installed-from"
    if not stamp.exists() or stamp.read_bytes() != wanted.read_bytes():
        venv.create(folder, clear=True, with_pip=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:"]
        subprocess.run([*pip, "--require-hashes", "--requirement", wanted], check=True)
        stamp.write_bytes(wanted.read_bytes())
    sys.exit(subprocess.run([python, *sys.argv]).returncode)


def tar(files: Files) -> bytes:
    import deflate

    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, (content, is_program) in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755 if is_program else 0o644
            archive.addfile(entry, io.BytesIO(content))
    packed = bytes(deflate.gzip_compress(plain.getvalue(), LEVEL))
    assert gzip.decompress(packed) == plain.getvalue()
    return packed


def zipped(files: Files) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        # In the order given: a wheel's metadata goes last.
        for name, (data, is_program) in files.items():
            entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            entry.create_system, entry.compress_type = 3, zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if is_program else 0o100644) << 16
            with archive.open(entry, "w") as member:
                # `zipfile` has no other way to be given a compressor.
                assert hasattr(member, "_compressor")
                member._compressor = Deflater()
                member.write(data)
    with zipfile.ZipFile(content) as archive:
        assert all(archive.read(name) == data for name, (data, _) in files.items())
    return content.getvalue()


class Deflater:
    """As `zlib.compressobj`: gives everything at its end."""

    def __init__(self) -> None:
        self.taken = io.BytesIO()

    def compress(self, data: bytes) -> bytes:
        self.taken.write(data)
        return b""

    def flush(self) -> bytes:
        import deflate

        return bytes(deflate.deflate_compress(self.taken.getvalue(), LEVEL))
