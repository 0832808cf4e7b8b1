"""Signing in with nobody at the browser: the authorization server that `server.py` is then, too, and the person."""

import json
import os
import threading
import urllib.request
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

from marks import until

TOKEN = "good"
RESOURCE = "/.well-known/oauth-protected-resource"
ISSUER = "/.well-known/oauth-authorization-server"


def challenge(origin: str, path: str) -> str:
    """What a request without a token is told."""
    return f'Bearer resource_metadata="{origin}{RESOURCE}{path}"'


def document(origin: str, path: str, target: str) -> dict | None:
    """What is said of the server at `path`, and of its issuer, which is the same."""
    if target in (RESOURCE, RESOURCE + path):
        return {"resource": origin + path, "authorization_servers": [origin]}
    if target == ISSUER:
        ends = {f"{name}_endpoint": f"{origin}/{name.split('_')[0]}" for name in ("authorization", "token")}
        return {
            "issuer": origin,
            **ends,
            "registration_endpoint": f"{origin}/register",
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none"],
        }
    return None


def redirect(target: str) -> str | None:
    """Where the browser is sent from the issuer's page: the person says yes at once."""
    page = urlsplit(target)
    if page.path != "/authorization":
        return None
    asked = {name: values[0] for name, values in parse_qs(page.query).items()}
    state = {"state": asked["state"]} if "state" in asked else {}
    return f"{asked['redirect_uri']}?{urlencode({'code': 'code', **state})}"


def granted(target: str, body: bytes) -> tuple[int, dict] | None:
    """A registered client, or a token."""
    if target == "/register":
        return 201, {**json.loads(body), "client_id": "client"}
    if target == "/token":
        return 200, {"access_token": TOKEN, "token_type": "Bearer", "expires_in": 3600}
    return None


class Person:
    """Whoever the browser opens for. What opens links writes them to a file; a person who comes back follows them all."""

    def __init__(self, folder: Path) -> None:
        self.links_file = folder / "links"
        self.bin = folder / "bin"
        self.bin.mkdir()
        opener = self.bin / "xdg-open"
        opener.write_text(f'#!/bin/sh\nprintf "%s\\n" "$1" >> "{self.links_file}"\n', encoding="utf-8")
        opener.chmod(0o755)
        self._gone = threading.Event()

    def environment(self, folder: Path) -> dict[str, str]:
        return {
            "PATH": f"{self.bin}:{os.environ.get('PATH', '')}",
            "BROWSER": str(self.bin / "xdg-open"),
            "DISPLAY": ":77",
            # Or what opens links would choose the machine's browser.
            **{f"XDG_{name}": str(folder / "none") for name in ("DATA_DIRS", "DATA_HOME", "CONFIG_DIRS", "CONFIG_HOME")},
            "RESCIND_SIGN_IN_DIR": str(folder / "vault"),
        }

    def links(self) -> list[str]:
        return self.links_file.read_text(encoding="utf-8").split() if self.links_file.exists() else []

    def invited(self, patience: float) -> str | None:
        """The first link that was opened."""
        return next(iter(until(self.links, patience) or []), None)

    def come_back(self) -> None:
        threading.Thread(target=self._sign_in, daemon=True).start()

    def leave(self) -> None:
        self._gone.set()

    def _sign_in(self) -> None:
        done = 0
        while not self._gone.wait(0.02):
            for link in self.links()[done:]:
                done += 1
                try:
                    urllib.request.urlopen(link, timeout=5).read()
                except OSError:
                    pass  # whoever opened it waits no more


def callback_port(link: str) -> int | None:
    """The port that the browser comes back to: Rescind opens a link there, which leads to the issuer's page."""
    where = parse_qs(urlsplit(link).query).get("redirect_uri", [link])[0]
    return urlsplit(where).port
