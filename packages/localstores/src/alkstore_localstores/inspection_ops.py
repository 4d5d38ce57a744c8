"""Statements that count a store's rows by state. A parameter `now` is unix milliseconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import func, select

from alkstore_localstores.formats import KV, QUEUE, kv, messages
from alkstore_localstores.kv_ops import EXPIRED, LIVE, NOW

if TYPE_CHECKING:
    from sqlalchemy import Executable

_later = messages.c.visible_at > NOW
_delivered = messages.c.receipt_handle.is_not(None)

KV_COUNTS = select(
    func.count().label("total"),
    func.count().filter(LIVE).label("live"),
    func.count().filter(EXPIRED).label("expired"),
).select_from(kv)

QUEUE_COUNTS = select(
    func.count().label("total"),
    func.count().filter(messages.c.visible_at <= NOW).label("visible"),
    func.count().filter(_later, _delivered).label("inFlight"),
    func.count().filter(_later, ~_delivered).label("delayed"),
).select_from(messages)

COUNTS: dict[str, Executable] = {KV.marker: KV_COUNTS, QUEUE.marker: QUEUE_COUNTS}
"""By the marker of the format."""
