"""The queue protocol over HTTP: JSON bodies to requests and answers, and back.

Both sides are here, so that what the client writes is what the owner reads.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from attrs import frozen

from alkstore_localstores.errors import INVALID_INPUT, LocalStoreError
from alkstore_localstores.jsontext import dumps, parse, rewrite
from alkstore_localstores.messages import (
    BATCH_LIMIT,
    AckOutcome,
    Payload,
    PayloadType,
    QueueMessage,
    QueueStats,
    SendOutcome,
    check_count,
    check_duration,
    check_single,
    text_payload,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

BODY_LIMIT: Final = 4 * 1024 * 1024
"""Bytes of a request. Ten messages of the largest size, escaped in full, are 3.94 MB."""

Operation = Literal[
    "send", "sendBatch", "receive", "ack", "ackBatch", "nack", "renew", "purge", "stats"
]


@frozen
class Request:
    """An operation and its arguments, checked.

    These are a `Payload` for send, payloads for sendBatch, a receipt or receipts, a count for
    receive, a receipt and seconds for renew, and none for purge and stats.
    """

    operation: Operation
    arguments: tuple[Any, ...] = ()


# -- the owner's side ---------------------------------------------------------------------


def read_request(body: bytes) -> Request:
    """A request's body.

    Raises:
        LocalStoreError: INVALID_INPUT; BINDING_SETUP_FAILED for a message that is too large and
            a receive of a wrong count.

    """
    fields = _read(body)
    operation = fields.get("operation")
    if not isinstance(operation, str) or operation not in _READERS:
        raise _refusal(
            f"its operation is {_short(operation)}, and not one of {', '.join(_READERS)}"
        )
    readers = _READERS[operation]
    given = set(fields) - {"operation"}
    if given != readers.keys():
        wanted = ", ".join(readers) or "no fields"
        raise _refusal(
            f"{operation} takes {wanted}, and was given {_short(', '.join(sorted(given)))}"
        )
    arguments = tuple(read(fields[name]) for name, read in readers.items())
    return Request(cast("Operation", operation), arguments)


def write_null(_: None) -> str:
    """The answer to send, ack, nack, renew and purge."""
    return "null"


def write_messages(messages: list[QueueMessage]) -> str:
    """The answer to a receive."""
    return f"[{','.join(map(_message_text, messages))}]"


def write_outcomes(outcomes: list[SendOutcome] | list[AckOutcome]) -> str:
    """The answer to a batch."""
    return dumps([outcome.as_json() for outcome in outcomes])


def write_stats(stats: QueueStats) -> str:
    """The answer to stats."""
    return dumps(
        {
            "total": stats.total,
            "visible": stats.visible,
            "inFlight": stats.in_flight,
            "delayed": stats.delayed,
        }
    )


def _message_text(message: QueueMessage) -> str:
    data = rewrite(message.payload) if message.payload_type == "json" else dumps(message.payload)
    payload = _payload_text(message.payload_type, data)
    receipt = dumps(message.receipt_handle)
    return f'{{"payload":{payload},"receiptHandle":{receipt},"attempt":{message.attempt}}}'


def _payload_text(kind: str, data: str) -> str:
    return f'{{"type":"{kind}","data":{data}}}'


def _read(body: bytes) -> dict[str, Any]:
    try:
        fields = parse(body.decode())
    except ValueError as error:
        raise _refusal(f"it is no JSON: {error}") from error
    if not isinstance(fields, dict):
        raise _refusal(f"it is no object but {_short(fields)}")
    return fields


def _payload(given: Any) -> Payload:
    if not isinstance(given, dict) or set(given) != {"type", "data"}:
        raise _refusal(f"a message is an object of type and data, and not {_short(given)}")
    if given["type"] == "json":
        return Payload("json", rewrite(given["data"]))
    if given["type"] == "text":
        return text_payload(given["data"])
    raise _refusal(f"a message's type is json or text, and not {_short(given['type'])}")


def _single(given: Any) -> Payload:
    payload = _payload(given)
    check_single(payload)
    return payload


def _payloads(given: Any) -> list[Payload]:
    return [_payload(each) for each in _items("messages", given)]


def _receipt(given: Any) -> str:
    if not isinstance(given, str):
        raise _refusal(f"a receipt is a string, and not {_short(given)}")
    return given


def _receipts(given: Any) -> list[str]:
    return [_receipt(each) for each in _items("receipts", given)]


def _items(name: str, given: Any) -> list[Any]:
    if not isinstance(given, list):
        raise _refusal(f"{name} is an array, and not {_short(given)}")
    if len(given) > BATCH_LIMIT:
        raise _refusal(f"{name} has {len(given)} items; one request takes {BATCH_LIMIT}")
    return given


def _count(given: Any) -> int:
    check_count(given)
    return int(given)


def _duration(given: Any) -> int:
    check_duration(given)
    return int(given)


_READERS: Final[Mapping[str, Mapping[str, Callable[[Any], Any]]]] = {
    "send": {"message": _single},
    "sendBatch": {"messages": _payloads},
    "receive": {"maxMessages": _count},
    "ack": {"receipt": _receipt},
    "ackBatch": {"receipts": _receipts},
    "nack": {"receipt": _receipt},
    "renew": {"receipt": _receipt, "durationSeconds": _duration},
    "purge": {},
    "stats": {},
}
"""The fields of each operation, in the order of its arguments."""


# -- the client's side --------------------------------------------------------------------


def write_request(operation: Operation, **fields: Any) -> bytes:
    """A request's body. Payloads are spliced in as they are stored."""
    members = [f'"operation":"{operation}"']
    members += (f'"{name}":{_text(value)}' for name, value in fields.items())
    return f"{{{','.join(members)}}}".encode()


def _text(value: Any) -> str:
    if isinstance(value, Payload):
        return _payload_text(value.type, value.data if value.type == "json" else dumps(value.data))
    if isinstance(value, list):
        return f"[{','.join(map(_text, value))}]"
    return dumps(value)


def read_null(answer: Any) -> None:
    """The answer to send, ack, nack, renew and purge.

    Raises:
        ValueError: it is something else.

    """
    if answer is not None:
        raise _unexpected("null", answer)


def read_messages(answer: Any) -> list[QueueMessage]:
    """The answer to receive.

    Raises:
        ValueError: it is something else.

    """
    return [_message(each) for each in _array(answer)]


def read_sent(answer: Any) -> list[SendOutcome]:
    """The answer to sendBatch.

    Raises:
        ValueError: it is something else.

    """
    return [SendOutcome(*_outcome(each, "sent", "rejected", "unknown")) for each in _array(answer)]


def read_acked(answer: Any) -> list[AckOutcome]:
    """The answer to ackBatch.

    Raises:
        ValueError: it is something else.

    """
    return [AckOutcome(*_outcome(each, "acknowledged", "failed")) for each in _array(answer)]


def read_stats(answer: Any) -> QueueStats:
    """The answer to stats.

    Raises:
        ValueError: it is something else.

    """
    names = ("total", "visible", "inFlight", "delayed")
    if not isinstance(answer, dict) or any(type(answer.get(n)) is not int for n in names):
        raise _unexpected("counts", answer)
    return QueueStats(*(answer[name] for name in names))


def _array(answer: Any) -> list[Any]:
    if not isinstance(answer, list):
        raise _unexpected("an array", answer)
    return answer


def _message(given: Any) -> QueueMessage:
    match given:
        case {
            "payload": {"type": "json" | "text" as kind, "data": data},
            "receiptHandle": str(receipt),
            "attempt": int(attempt),
        } if kind == "json" or isinstance(data, str):
            return QueueMessage(cast("PayloadType", kind), data, receipt, attempt)
    raise _unexpected("a message", given)


def _outcome(given: Any, good: str, *bad: str) -> tuple[Any, str | None, str | None]:
    match given:
        case {"status": status} if status == good:
            return status, None, None
        case {"status": status, "code": str(code), "message": str(message)} if status in bad:
            return status, code, message
    raise _unexpected("an outcome", given)


def _unexpected(wanted: str, answer: Any) -> ValueError:
    return ValueError(f"it is not {wanted} but {_short(answer)}")


def _refusal(reason: str) -> LocalStoreError:
    return LocalStoreError(INVALID_INPUT, f"the request cannot be read: {reason}")


_SHORT = 80


def _short(value: Any) -> str:
    """What was given instead, for a person to recognise it."""
    if isinstance(value, (dict, list)):
        return f"an {'object' if isinstance(value, dict) else 'array'} of {len(value)}"
    text = json.dumps(value)
    return text if len(text) <= _SHORT else f"{text[:_SHORT]}…"
