"""Whom a program on the SDK is to take itself for."""

import mcp.types as types
from mcp.shared.version import SUPPORTED_PROTOCOL_VERSIONS


def know_only(words: list[str]) -> None:
    """Takes `--newest REVISION` out of `words`, and forgets the revisions after it. The SDK has one list of them, which all
    its parts share."""
    if "--newest" not in words:
        return
    flag = words.index("--newest")
    newest = words[flag + 1]
    del words[flag : flag + 2]
    SUPPORTED_PROTOCOL_VERSIONS[:] = [known for known in SUPPORTED_PROTOCOL_VERSIONS if known <= newest]
    types.LATEST_PROTOCOL_VERSION = newest
