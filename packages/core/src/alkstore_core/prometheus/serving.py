"""What stands in a store, as text that Prometheus reads, and a small program that serves it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest

from alkstore_core.coalescing import Flights
from alkstore_core.errors import AlkstoreError
from alkstore_core.overview import overview
from alkstore_core.prometheus.families import families_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.metrics_core import Metric

    from alkstore_core.store import Store

_log = logging.getLogger(__name__)

LIMIT: Final = 500

ANSWER_S: Final = 20.0
"""So long a scrape waits for the database."""

Message: TypeAlias = MutableMapping[str, Any]
AsgiApp: TypeAlias = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]],
    Awaitable[None],
]
"""An application of the ASGI 3 interface, without the names of any framework."""


async def metrics_text(
    store: Store, *, registry: CollectorRegistry | None = REGISTRY, limit: int = LIMIT
) -> str:
    """What stands in an open store, in Prometheus' text format.

    Behind it, what the process counts in `registry`, such as `WorkerMetrics`; nothing for
    `None`. Of queues with outboxes, of streams, of consumers and of schedules the first
    `limit` are shown; how many more there are says `alkstore_omitted`.

    It asks the database several questions for each queue and stream, one after another.

    Raises:
        DatabaseError: the database refused.
        Closed: the store is not open.
        ValueError: `limit` is below 1.

    """
    _check(limit)
    families = families_of(await overview(store), limit)
    text: bytes = generate_latest(_Families(families))
    if registry is not None:
        text += generate_latest(registry)
    return text.decode()


def metrics_app(
    store: Store, *, registry: CollectorRegistry | None = REGISTRY, limit: int = LIMIT
) -> AsgiApp:
    """An ASGI application that answers every GET with `metrics_text`; mount it at `/metrics`.

    It runs on the event loop that opened the store. While the database does not answer, or the
    store is not open, it says 503 with the reason, so that a scrape fails and shows as `up 0`;
    it waits 20 seconds at most. A scrape that comes while another one is being answered gets
    the same answer, so a slow database counts for one of them at a time, however many there are.
    It asks nobody who they are: serve it where only your monitoring can reach it.

    Raises:
        ValueError: `limit` is below 1.

    """
    _check(limit)
    flights = Flights()

    async def ask() -> str:
        return await metrics_text(store, registry=registry, limit=limit)

    async def app(
        scope: Message,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        if scope["type"] == "lifespan":
            await _live(receive, send)
        elif scope["type"] != "http":
            raise ValueError(f"metrics are served over http, not over {scope['type']}")
        elif scope["method"] not in {"GET", "HEAD"}:
            await _answer(send, scope, 405, "only GET and HEAD\n", (b"allow", b"GET, HEAD"))
        else:
            try:
                async with asyncio.timeout(ANSWER_S):
                    text = await flights.ask("text", ask)
            except AlkstoreError as error:
                _log.warning("metrics: %s", error)
                await _answer(send, scope, 503, f"{error}\n")
            except TimeoutError:
                late = f"the database has not answered within {ANSWER_S:.0f} seconds"
                _log.warning("metrics: %s", late)
                await _answer(send, scope, 503, f"{late}\n")
            else:
                kind = (b"content-type", CONTENT_TYPE_LATEST.encode())
                await _answer(send, scope, 200, text, kind)

    return app


def _check(limit: int) -> None:
    if limit < 1:
        raise ValueError(f"limit must be at least 1, not {limit}")


class _Families:
    """A registry of metrics that were made elsewhere."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        """Every one of them."""
        return self._families


async def _live(
    receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
) -> None:
    """A server that asks before it begins and ends is told to go on; nothing is held here."""
    while True:
        asked = (await receive())["type"]
        await send({"type": f"{asked}.complete"})
        if asked == "lifespan.shutdown":
            return


async def _answer(
    send: Callable[[Message], Awaitable[None]],
    scope: Message,
    status: int,
    text: str,
    *headers: tuple[bytes, bytes],
) -> None:
    body = text.encode()
    told = dict(((b"content-type", b"text/plain; charset=utf-8"), *headers))
    told[b"content-length"] = str(len(body)).encode()
    await send({"type": "http.response.start", "status": status, "headers": list(told.items())})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})
