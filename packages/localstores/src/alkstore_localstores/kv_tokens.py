"""Version tokens and cursors: what callers of a key-value store carry along, opaque to them.

Both are compact JSON in unpadded base64url, so that other implementations of the format read
them. Reading is as strict as theirs: what was changed on the way is refused, not guessed at.
"""

from __future__ import annotations

import base64
import json
from typing import Any, NamedTuple, NoReturn

from alkstore_localstores.errors import INVALID_INPUT, LocalStoreError

TOKEN_FORMAT = 1
CURSOR_VERSION = 1

I64_MIN, I64_MAX = -(2**63), 2**63 - 1


class Version(NamedTuple):
    """What a version token says about a row."""

    backend: str
    expires_at: int | None
    """Unix milliseconds."""


def version_token(key: str, backend: str, expires_at: int | None) -> str:
    """The token for a row as it was read."""
    fields = {
        "format": TOKEN_FORMAT,
        "key": key,
        "backendVersion": backend,
        "expiresAtMillis": expires_at,
    }
    return _encode(fields)


def read_version(token: Any, key: str) -> Version:
    """What a token of this key says.

    Raises:
        LocalStoreError: `INVALID_INPUT`; it is no token, or another key's.

    """
    fields = _decode(token, "version token", "format", "key", "backendVersion", "expiresAtMillis")
    backend, expires_at = fields.get("backendVersion"), fields.get("expiresAtMillis")
    if not _is_integer(fields.get("format"), TOKEN_FORMAT, TOKEN_FORMAT):
        _refuse("version token", "is not of format 1")
    if not isinstance(fields.get("key"), str) or not isinstance(backend, str):
        _refuse("version token", "lacks a key or a version")
    if expires_at is not None and not _is_integer(expires_at, I64_MIN, I64_MAX):
        _refuse("version token", "has an expiry that is no integer")
    if fields["key"] != key:
        _refuse("version token", f"belongs to another key than {key!r}")
    return Version(backend, expires_at)


def cursor_after(prefix: str, last_key: str) -> str:
    """The cursor of a prefix that goes on after `last_key`."""
    return _encode({"version": CURSOR_VERSION, "prefix": prefix, "last_key": last_key})


def read_cursor(given: Any, prefix: str) -> str:
    """The key after which a cursor of this prefix goes on.

    Raises:
        LocalStoreError: `INVALID_INPUT`; it is no cursor, or another prefix's.

    """
    fields = _decode(given, "cursor", "version", "prefix", "last_key")
    last_key = fields.get("last_key")
    if not _is_integer(fields.get("version"), CURSOR_VERSION, CURSOR_VERSION):
        _refuse("cursor", "is not of version 1")
    if not isinstance(fields.get("prefix"), str) or not isinstance(last_key, str):
        _refuse("cursor", "lacks a prefix or a key")
    if fields["prefix"] != prefix:
        _refuse("cursor", f"belongs to another prefix than {prefix!r}")
    return last_key


def _encode(fields: dict[str, Any]) -> str:
    text = json.dumps(fields, separators=(",", ":"), ensure_ascii=False)
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def _decode(given: Any, what: str, *known: str) -> dict[str, Any]:
    if not isinstance(given, str):
        _refuse(what, f"is of type {type(given).__name__}")

    def fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs if name in known]
        if len(names) != len(set(names)):
            raise ValueError(names)
        return dict(pairs)

    try:
        raw = given.encode("ascii")
        content = base64.b64decode(raw + b"=" * (-len(raw) % 4), altchars=b"-_", validate=True)
        # Padding, the other alphabet and stray bits at the end decode as well.
        canonical = base64.urlsafe_b64encode(content).rstrip(b"=") == raw
        text = content.decode()
        found = json.loads(text, object_pairs_hook=fields, parse_constant=_no_constant)
        if "\\u" in text:
            # Half a surrogate pair is no character, and no database takes it.
            json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        _refuse(what, "is not what a call returned")
    if not canonical or not isinstance(found, dict):
        _refuse(what, "is not what a call returned")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _is_integer(value: object, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _refuse(what: str, problem: str) -> NoReturn:
    raise LocalStoreError(
        INVALID_INPUT,
        f"the {what} {problem}",
        hint=f"pass a {what} on as it was returned, to the same key or prefix",
    )
