"""The operations of a queue on its file, as statements that a runner executes.

An outcome that is no failure of the database is a value: an error would undo the whole group
that the op shares its transaction with.
"""

from __future__ import annotations

import enum
import re
import uuid
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from sqlalchemy import (
    BigInteger,
    Insert,
    LargeBinary,
    Text,
    bindparam,
    case,
    delete,
    func,
    insert,
    literal_column,
    select,
    update,
)
from sqlalchemy import cast as sql_cast

from alkstore_core.sql.merging import Merge
from alkstore_localstores.formats import messages
from alkstore_localstores.messages import LEASE_SECONDS, Payload, PayloadType, QueueMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from sqlalchemy.sql.elements import ColumnElement

    from alkstore_core.sql.op import Op

NOW = bindparam("now", type_=BigInteger)
"""Milliseconds since 1970, read once for an op."""


class _Bytes(LargeBinary):
    """Bytes as the drivers give them."""

    def result_processor(self, dialect: object, coltype: object) -> None:
        """Take bytes as they are."""


def _as_written(column: ColumnElement[Any]) -> ColumnElement[bytes]:
    # Text that is no UTF-8 would fail the whole statement, and so block the queue.
    return sql_cast(column, _Bytes)


def _milliseconds(seconds: int) -> ColumnElement[int]:
    return literal_column(str(seconds * 1000), BigInteger)


_id = bindparam("id", type_=BigInteger)
_receipt = bindparam("receipt", type_=Text)
_limit = bindparam("limit", type_=BigInteger)
_due = messages.c.visible_at <= NOW
_delivery = (messages.c.id == _id, messages.c.receipt_handle == _receipt)
_one = literal_column("1", BigInteger)
_zero = literal_column("0", BigInteger)

SEND = insert(messages).values(
    payload_type=bindparam("type", type_=Text),
    payload_data=bindparam("data", type_=Text),
    enqueued_at=NOW,
    visible_at=NOW,
    attempt=_zero,
)


def _sends(size: int) -> Insert:
    return insert(messages).values(
        [
            {
                "payload_type": bindparam(f"type_{row}", type_=Text),
                "payload_data": bindparam(f"data_{row}", type_=Text),
                "enqueued_at": NOW,
                "visible_at": NOW,
                "attempt": _zero,
            }
            for row in range(size)
        ]
    )


SEND_TWO = _sends(2)
# Fifty sends in a few statements: between any two of them another thread may get its turn.
SEND_MANY = {32: _sends(32), 8: _sends(8), 2: SEND_TWO}
DUE = (
    select(messages.c.id)
    .where(_due)
    .order_by(messages.c.enqueued_at, messages.c.id)
    .limit(_limit)
    .offset(_zero)
)
LOOK = select(
    _as_written(messages.c.payload_type),
    _as_written(messages.c.payload_data),
    case((func.typeof(messages.c.attempt) == literal_column("'integer'"), messages.c.attempt)),
).where(messages.c.id == _id)
CLAIM = (
    update(messages)
    .where(messages.c.id == _id)
    .values(
        visible_at=NOW + _milliseconds(LEASE_SECONDS),
        attempt=messages.c.attempt + _one,
        receipt_handle=_receipt,
    )
    # As the format's own claim has it; the payload has been read by LOOK.
    .returning(messages.c.payload_type, messages.c.payload_data, messages.c.attempt)
)
ACK = delete(messages).where(*_delivery)
NACK = update(messages).where(*_delivery).values(visible_at=NOW)
RENEW = (
    update(messages)
    .where(*_delivery, messages.c.visible_at > NOW)
    .values(visible_at=NOW + bindparam("milliseconds", type_=BigInteger))
)
EXISTS = select(messages.c.id).where(messages.c.id == _id)
PURGE = delete(messages)
STATS = select(
    func.count(),
    func.count(case((_due, _one))),
    func.count(case((messages.c.visible_at > NOW, messages.c.receipt_handle))),
).select_from(messages)

_HANDLE = re.compile(
    r"(-?[0-9]{1,19}):([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})", re.IGNORECASE
)
_ROW_IDS = range(-(2**63), 2**63)
_ATTEMPTS_END = 2**63 - 1


class Handle(NamedTuple):
    """A receipt, taken apart."""

    id: int
    receipt: str

    @classmethod
    def parse(cls, text: str) -> Handle | None:
        """What a receipt names; none when it was never issued by a queue."""
        found = _HANDLE.fullmatch(text)
        if found is None or int(found[1]) not in _ROW_IDS:
            return None
        return cls(int(found[1]), found[2])


class Receipt(enum.Enum):
    """What became of a receipt that was handed in."""

    CURRENT = "current"
    """It named the last delivery, and what was asked for is done."""

    GONE = "gone"
    """The message is no longer there: acknowledged before, or purged."""

    STALE = "stale"
    """The message is there, under another receipt or none."""


class Broken(NamedTuple):
    """A row that no receiver can be given."""

    id: int
    reason: str


class Received(NamedTuple):
    """What a receive found."""

    messages: list[QueueMessage]
    broken: list[Broken]


def send(payload: Payload) -> Op[None]:
    """Store a message that is due at once."""
    yield SEND, {"type": payload.type, "data": payload.data}


def send_many(payloads: Sequence[Payload]) -> Op[None]:
    """Store messages in their order."""
    start = 0
    for size, statement in SEND_MANY.items():
        while len(payloads) - start >= size:
            row = {}
            for place, payload in enumerate(payloads[start : start + size]):
                row[f"type_{place}"], row[f"data_{place}"] = payload
            yield statement, row
            start += size
    for payload in payloads[start:]:
        yield from send(payload)


def _send_each(calls: Sequence[tuple[Payload]]) -> Op[list[None]]:
    yield from send_many([payload for (payload,) in calls])
    return [None] * len(calls)


def receive(count: int, known_broken: Collection[int]) -> Op[Received]:
    """Claim up to `count` messages in the order they were sent.

    Rows that cannot be decoded stay as they are. Those of them that are known already, which may
    become more meanwhile, are stepped over without another look.
    """
    found = Received([], [])
    skip: set[int] = set()
    while len(found.messages) < count:
        limit = count - len(found.messages) + len(known_broken) + len(skip)
        due = (yield DUE, {"limit": limit}).rows
        fresh = [id_ for (id_,) in due if id_ not in skip and id_ not in known_broken]
        if not fresh and len(due) < limit:
            break
        for id_ in fresh[: count - len(found.messages)]:
            looked = (yield LOOK, {"id": id_}).rows
            try:
                payload = _decode(*looked[0])
                value = payload.value
            except ValueError as error:
                skip.add(id_)
                found.broken.append(Broken(id_, str(error)))
                continue
            receipt = str(uuid.uuid4())
            claimed = (yield CLAIM, {"id": id_, "receipt": receipt}).rows
            kind = cast("PayloadType", payload.type)
            message = QueueMessage(kind, value, f"{id_}:{receipt}", claimed[0][2])
            found.messages.append(message)
    return found


def ack(handle: Handle) -> Op[Receipt]:
    """Delete the message, when the receipt is that of its last delivery."""
    done = (yield ACK, {"id": handle.id, "receipt": handle.receipt}).count
    return Receipt.CURRENT if done else (yield from _why_not(handle))


def ack_many(handles: Sequence[Handle | None]) -> Op[list[Receipt]]:
    """Acknowledge in order; none stands for a receipt that no queue has issued."""
    found: list[Receipt] = []
    for handle in handles:
        what = Receipt.GONE if handle is None else (yield from ack(handle))
        found.append(what)
    return found


def nack(handle: Handle) -> Op[Receipt]:
    """Make the message due now, when the receipt is that of its last delivery."""
    done = (yield NACK, {"id": handle.id, "receipt": handle.receipt}).count
    return Receipt.CURRENT if done else (yield from _why_not(handle))


def renew(handle: Handle, seconds: int) -> Op[bool]:
    """Let a lease that has not ended end `seconds` from now; false when there is none."""
    row = {"id": handle.id, "receipt": handle.receipt, "milliseconds": seconds * 1000}
    return bool((yield RENEW, row).count)


def purge() -> Op[None]:
    """Delete every message, leased ones as well."""
    yield PURGE, {}


def stats() -> Op[tuple[int, int, int]]:
    """Count all messages, those that are due, and those that are leased."""
    total, visible, in_flight = (yield STATS, {}).rows[0]
    return total, visible, in_flight


def _why_not(handle: Handle) -> Op[Receipt]:
    there = (yield EXISTS, {"id": handle.id}).rows
    return Receipt.STALE if there else Receipt.GONE


def _decode(kind: bytes, data: bytes, attempt: int | None) -> Payload:
    if attempt is None or not 0 <= attempt < _ATTEMPTS_END:
        raise ValueError("its attempts cannot be counted on")
    return Payload(kind.decode(), data.decode())


MERGES: Mapping[Callable[..., Op[Any]], Merge] = {send: Merge(lambda _: None, _send_each)}
"""Sends of one turn are one op; when it fails they are sent one by one."""
