"""Bindings: what `ALIEN_<NAME>_BINDING` says about the store of that name.

Each is read when it is asked for, so a malformed one breaks no other. No message repeats what a
binding holds: it may be a credential.
"""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

from alkstore_localstores.errors import (
    BINDING_CONFIG_INVALID,
    BINDING_NOT_CONFIGURED,
    LocalStoreError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

KV_SERVICE: Final = "local-kv"
QUEUE_SERVICE: Final = "local-queue-http"
_LEGACY_QUEUE: Final = "local-queue"

# What a header may carry after `Bearer `.
_TOKEN = re.compile(r"[\x21-\x7e]+")


class QueueBinding(NamedTuple):
    """Where a queue's owner listens, and the queue's credential."""

    endpoint: str
    token: str

    def __repr__(self) -> str:
        return f"QueueBinding(endpoint={self.endpoint!r}, token=…)"


def variable(name: str) -> str:
    """The environment variable of a binding."""
    return f"ALIEN_{name.upper().replace('-', '_')}_BINDING"


def kv_binding(name: str, environ: Mapping[str, str] | None = None) -> str:
    """The data directory of a key-value store.

    Raises:
        LocalStoreError: BINDING_NOT_CONFIGURED: the variable is not set; BINDING_CONFIG_INVALID:
            it is no binding of a local key-value store.

    """
    where, fields = _read(name, environ, KV_SERVICE)
    return _text(where, fields, "dataDir")


def queue_binding(name: str, environ: Mapping[str, str] | None = None) -> QueueBinding:
    """The endpoint and the token of a queue.

    Raises:
        LocalStoreError: BINDING_NOT_CONFIGURED: the variable is not set; BINDING_CONFIG_INVALID:
            it is no binding of a local queue over HTTP, or one of an older release.

    """
    where, fields = _read(name, environ, QUEUE_SERVICE)
    endpoint, token = _text(where, fields, "endpoint"), _text(where, fields, "token")
    return check_queue_binding(QueueBinding(endpoint, token), where)


def check_queue_binding(binding: QueueBinding, where: str) -> QueueBinding:
    """A binding that can be used.

    Raises:
        LocalStoreError: BINDING_CONFIG_INVALID: it cannot.

    """
    try:
        parts = urlsplit(binding.endpoint)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        # A login in the address would be a second credential, and shown wherever that is.
        usable = usable and parts.username is None and parts.password is None
    except ValueError:
        usable = False
    if not usable or not binding.endpoint.isascii() or not binding.endpoint.isprintable():
        raise _invalid(where, "its endpoint is no http or https address")
    if not _TOKEN.fullmatch(binding.token):
        raise _invalid(where, "its token holds characters that no header can carry")
    return binding


def _read(name: str, environ: Mapping[str, str] | None, service: str) -> tuple[str, dict[str, Any]]:
    where = variable(name)
    text = (os.environ if environ is None else environ).get(where)
    if text is None:
        raise LocalStoreError(
            BINDING_NOT_CONFIGURED,
            f"there is no binding {name!r}",
            hint=f"set {where} to the binding's JSON",
        )
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        # Without the parser's words and its context, which would repeat the text.
        fields = None
    if not isinstance(fields, dict):
        raise _invalid(where, "it is no JSON object")
    found = fields.get("service")
    if found == _LEGACY_QUEUE and service == QUEUE_SERVICE:
        raise _invalid(
            where,
            f"its service is {_LEGACY_QUEUE!r}: applications open no queue files any more",
            hint="have the binding made anew by a release whose queues have an owner",
        )
    if found != service:
        raise _invalid(where, f"its service is not {service!r}")
    return where, fields


def _text(where: str, fields: dict[str, Any], field: str) -> str:
    value = fields.get(field)
    if not isinstance(value, str) or not value:
        raise _invalid(where, f"its {field} is missing, or no text")
    return value


def _invalid(where: str, reason: str, hint: str | None = None) -> LocalStoreError:
    return LocalStoreError(BINDING_CONFIG_INVALID, f"{where} cannot be used: {reason}", hint=hint)
