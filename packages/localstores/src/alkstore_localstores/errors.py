"""The one error of this package: what happened, under a code that machines can act on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from alkstore_core.errors import AlkstoreError

if TYPE_CHECKING:
    from collections.abc import Mapping

INVALID_INPUT = "INVALID_INPUT"
BINDING_NOT_CONFIGURED = "BINDING_NOT_CONFIGURED"
BINDING_CONFIG_INVALID = "BINDING_CONFIG_INVALID"
OPERATION_NOT_SUPPORTED = "OPERATION_NOT_SUPPORTED"
LOCAL_FILESYSTEM_ERROR = "LOCAL_FILESYSTEM_ERROR"
BINDING_SETUP_FAILED = "BINDING_SETUP_FAILED"
KV_OPERATION_FAILED = "KV_OPERATION_FAILED"
QUEUE_OPERATION_FAILED = "QUEUE_OPERATION_FAILED"
LOCAL_QUEUE_UNAUTHORIZED = "LOCAL_QUEUE_UNAUTHORIZED"
LOCAL_QUEUE_OWNER_NOT_READY = "LOCAL_QUEUE_OWNER_NOT_READY"

QUEUE_MESSAGE_SIZE_INVALID = "QUEUE_MESSAGE_SIZE_INVALID"
"""In the outcome of a batch only."""

QUEUE_BATCH_RESPONSE_INVALID = "QUEUE_BATCH_RESPONSE_INVALID"
"""In the outcome of a batch only."""


class _Meaning(NamedTuple):
    http_status_code: int
    retryable: bool


MEANINGS = {
    INVALID_INPUT: _Meaning(400, retryable=False),
    BINDING_NOT_CONFIGURED: _Meaning(400, retryable=False),
    BINDING_CONFIG_INVALID: _Meaning(400, retryable=False),
    OPERATION_NOT_SUPPORTED: _Meaning(501, retryable=False),
    LOCAL_FILESYSTEM_ERROR: _Meaning(500, retryable=True),
    BINDING_SETUP_FAILED: _Meaning(500, retryable=False),
    KV_OPERATION_FAILED: _Meaning(502, retryable=True),
    QUEUE_OPERATION_FAILED: _Meaning(502, retryable=True),
    LOCAL_QUEUE_UNAUTHORIZED: _Meaning(401, retryable=False),
    LOCAL_QUEUE_OWNER_NOT_READY: _Meaning(503, retryable=True),
}
"""Of the codes of errors; those that stand in outcomes only are not here."""

# What an envelope calls itself, and how the fields are called here.
_ENVELOPE = {
    "code": "code",
    "message": "message",
    "context": "context",
    "hint": "hint",
    "retryable": "retryable",
    "internal": "internal",
    "httpStatusCode": "http_status_code",
}
_ALWAYS = ("code", "message", "retryable", "internal")


def shown(value: object) -> str:
    """A value as an error shows it, whatever it is."""
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - Python writes no integers of thousands of digits
        return f"of type {type(value).__name__}, too large to be shown"


class LocalStoreError(AlkstoreError):
    """An operation of a local store failed; `code` says how, `message` with which value.

    `hint` says what to do about it, `context` holds the values as data. `retryable` tells that
    the same call may succeed later, not that this one did nothing: the message says so where
    that is unknown. `internal` errors are not for the eyes of a remote caller. `source` is the
    local store's error behind this one; an error of a driver is the `__cause__`.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        context: Mapping[str, Any] | None = None,
        hint: str | None = None,
        retryable: bool | None = None,
        internal: bool = False,
        http_status_code: int | None = None,
        source: LocalStoreError | None = None,
    ) -> None:
        """`retryable` and `http_status_code` are those of the code where they are not given."""
        super().__init__(code, message)
        meaning = MEANINGS.get(code)
        self.code = code
        self.message = message
        self.context = None if context is None else dict(context)
        self.hint = hint
        self.retryable = bool(meaning and meaning.retryable) if retryable is None else retryable
        self.internal = internal
        if http_status_code is None and meaning is not None:
            http_status_code = meaning.http_status_code
        self.http_status_code = http_status_code
        self.source = source

    def __str__(self) -> str:
        hint = "" if self.hint is None else f"; {self.hint}"
        return f"{self.code}: {self.message}{hint}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (self.__dict__,)

    def envelope(self) -> dict[str, Any]:
        """The error as a JSON object; fields without a value are left out."""
        found = {name: getattr(self, field) for name, field in _ENVELOPE.items()}
        envelope = {n: v for n, v in found.items() if n in _ALWAYS or v is not None}
        if self.source is not None:
            envelope["source"] = self.source.envelope()
        return envelope

    @classmethod
    def from_envelope(cls, envelope: Mapping[str, Any]) -> LocalStoreError:
        """The error that an envelope describes.

        Raises:
            ValueError: it has no code or no message, or a field of another type.

        """
        given: dict[str, Any] = {field: envelope.get(name) for name, field in _ENVELOPE.items()}
        source = envelope.get("source")
        _check("code", given["code"], str)
        _check("message", given["message"], str)
        _check("context", given["context"], dict, type(None))
        _check("hint", given["hint"], str, type(None))
        _check("retryable", given["retryable"], bool, type(None))
        _check("internal", given["internal"], bool, type(None))
        _check("httpStatusCode", given["http_status_code"], int, type(None))
        _check("source", source, dict, type(None))
        given["internal"] = bool(given["internal"])
        return cls(**given, source=None if source is None else cls.from_envelope(source))


def _check(name: str, value: object, *types: type) -> None:
    if not isinstance(value, types):
        _refuse(name, value)


def _refuse(name: str, value: object) -> NoReturn:
    message = f"the error envelope's {name} is of type {type(value).__name__}"
    raise ValueError(message)


def _unpickle(fields: dict[str, Any]) -> LocalStoreError:
    return LocalStoreError(**fields)
