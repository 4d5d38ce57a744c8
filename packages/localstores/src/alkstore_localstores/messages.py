"""What goes into a queue and what comes out of it, locally and over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from attrs import frozen

from alkstore_localstores.errors import (
    BINDING_SETUP_FAILED,
    INVALID_INPUT,
    QUEUE_MESSAGE_SIZE_INVALID,
    LocalStoreError,
    shown,
)
from alkstore_localstores.jsontext import check_text, dumps, loads

if TYPE_CHECKING:
    from collections.abc import Mapping

PAYLOAD_LIMIT: Final = 65_536
"""Bytes of UTF-8 a message may have: of a text, or of the JSON text of any other value."""

BATCH_LIMIT: Final = 10
"""Messages in one receive, and items in one request of a batch."""

LEASE_SECONDS: Final = 30
"""How long a received message stays hidden, unless its receipt is renewed."""

RENEW_SECONDS: Final = (1, 600)
"""The shortest and the longest renewal."""

PayloadType = Literal["json", "text"]


class Payload(NamedTuple):
    """A message as it is stored: text, and what kind of text."""

    type: str
    data: str

    @property
    def size(self) -> int:
        """Bytes of UTF-8."""
        return len(self.data) if self.data.isascii() else len(self.data.encode())

    @property
    def value(self) -> Any:
        """What was sent.

        Raises:
            ValueError: the type is none of ours, or the text is no JSON.

        """
        if self.type == "text":
            return self.data
        if self.type == "json":
            return loads(self.data)
        message = f"its payload type is {self.type!r}"
        raise ValueError(message)


@frozen
class QueueMessage:
    """A received message.

    `receipt_handle` names this delivery: it ends with the next one. `attempt` counts the
    deliveries so far, this one included.
    """

    payload_type: PayloadType
    payload: Any
    receipt_handle: str
    attempt: int


@frozen
class QueueStats:
    """How many messages there are.

    `visible` ones are there to be received, `in_flight` ones are leased, `delayed` ones were
    never delivered and are not due yet (nothing here makes such, a foreign writer may).
    """

    total: int
    visible: int
    in_flight: int
    delayed: int


@frozen
class SendOutcome:
    """What became of one message of a batch.

    `sent`: it is stored. `rejected`: it is surely not stored. `unknown`: it may be stored or
    not. The latter two have the code and the message of an error.
    """

    status: Literal["sent", "rejected", "unknown"]
    code: str | None = None
    message: str | None = None

    def as_json(self) -> dict[str, str]:
        """The outcome as a JSON object."""
        return _outcome(self.status, self.code, self.message)


@frozen
class AckOutcome:
    """What became of one receipt of a batch.

    `acknowledged`: the message is gone. `failed`: it was not, or nobody knows; with the code
    and the message of an error.
    """

    status: Literal["acknowledged", "failed"]
    code: str | None = None
    message: str | None = None

    def as_json(self) -> dict[str, str]:
        """The outcome as a JSON object."""
        return _outcome(self.status, self.code, self.message)


SENT: Final = SendOutcome("sent")
ACKNOWLEDGED: Final = AckOutcome("acknowledged")


def _outcome(status: str, code: str | None, message: str | None) -> dict[str, str]:
    found: Mapping[str, str | None] = {"status": status, "code": code, "message": message}
    return {name: value for name, value in found.items() if value is not None}


def json_payload(value: Any) -> Payload:
    """A JSON value as a message.

    Raises:
        LocalStoreError: INVALID_INPUT: it is no JSON value.

    """
    return Payload("json", dumps(value))


def text_payload(text: Any) -> Payload:
    """A text as a message.

    Raises:
        LocalStoreError: INVALID_INPUT: it is no text, or none that UTF-8 can hold.

    """
    if not isinstance(text, str):
        kind = type(text).__name__
        raise LocalStoreError(INVALID_INPUT, f"a text message is a str, and this is a {kind}")
    check_text(text)
    return Payload("text", text)


def check_single(payload: Payload) -> None:
    """Refuse a message that is too large, before anything is touched.

    Raises:
        LocalStoreError: BINDING_SETUP_FAILED: it is more than `PAYLOAD_LIMIT` bytes.

    """
    if payload.size > PAYLOAD_LIMIT:
        raise LocalStoreError(
            BINDING_SETUP_FAILED,
            f"the message has {payload.size} bytes and a queue takes {PAYLOAD_LIMIT}",
            context={"size": payload.size, "limit": PAYLOAD_LIMIT},
            hint="store the data elsewhere and send where it is",
        )


def check_in_batch(payload: Payload) -> None:
    """Refuse a message that cannot be part of a batch.

    Raises:
        LocalStoreError: QUEUE_MESSAGE_SIZE_INVALID: it is empty or too large.

    """
    if not 1 <= payload.size <= PAYLOAD_LIMIT:
        raise LocalStoreError(
            QUEUE_MESSAGE_SIZE_INVALID,
            f"the message has {payload.size} bytes and a batch takes 1 to {PAYLOAD_LIMIT}",
        )


def check_count(max_messages: int) -> None:
    """Refuse to receive so many.

    Raises:
        LocalStoreError: BINDING_SETUP_FAILED: it is no integer from 1 to `BATCH_LIMIT`.

    """
    if type(max_messages) is not int or not 1 <= max_messages <= BATCH_LIMIT:
        raise LocalStoreError(
            BINDING_SETUP_FAILED,
            f"max_messages is {shown(max_messages)}; one receive takes 1 to {BATCH_LIMIT}",
        )


def check_receipt(receipt: object) -> None:
    """Refuse what cannot be a receipt at all; an unknown one is another matter.

    Raises:
        LocalStoreError: INVALID_INPUT: it is no text.

    """
    if not isinstance(receipt, str):
        kind = type(receipt).__name__
        raise LocalStoreError(INVALID_INPUT, f"a receipt is a str, and this is a {kind}")


def check_duration(seconds: int) -> None:
    """Refuse to renew for so long.

    Raises:
        LocalStoreError: INVALID_INPUT: it is no integer from 1 to 600.

    """
    shortest, longest = RENEW_SECONDS
    if type(seconds) is not int or not shortest <= seconds <= longest:
        raise LocalStoreError(
            INVALID_INPUT,
            f"duration_seconds is {shown(seconds)}; a renewal takes {shortest} to {longest}",
        )
