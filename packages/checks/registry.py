"""Packages on loopback, as npm's registry and PyPI's index serve them."""

import base64
import functools
import hashlib
import http.server
import json
import tarfile
import threading
from pathlib import Path


class Files(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_) -> None:
        pass


def registry(folder: Path, served: Path) -> str:
    """Serves the packages, with npm's description of each under its name, and says where."""
    served.mkdir()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Files, directory=str(served)))
    url = f"http://127.0.0.1:{server.server_port}"
    for packed in (folder / "npm").glob("*.tgz"):
        with tarfile.open(packed) as archive:
            manifest = json.load(archive.extractfile("package/package.json"))
        integrity = base64.b64encode(hashlib.sha512(packed.read_bytes()).digest()).decode()
        manifest["dist"] = {"tarball": f"{url}/files/{packed.name}", "integrity": f"sha512-{integrity}"}
        version = manifest["version"]
        about = {"name": manifest["name"], "dist-tags": {"latest": version}, "versions": {version: manifest}}
        put(served / manifest["name"], json.dumps(about).encode())
        put(served / "files" / packed.name, packed.read_bytes())
    links = []
    for packed in (folder / "pypi").glob("*.whl"):
        put(served / "files" / packed.name, packed.read_bytes())
        links.append(f'<a href="{url}/files/{packed.name}">{packed.name}</a>')
    put(served / "simple/rescind/index.html", f"<!DOCTYPE html><html><body>{''.join(links)}</body></html>".encode())
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return url


def put(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
