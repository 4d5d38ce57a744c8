"""The pages about a whole store, and about its streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.exceptions import HTTPException

from alkstore_core.overview import overview, stream_overview
from alkstore_core.web import reading, shown
from alkstore_core.web.rendering import download

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from alkstore_core.coalescing import Flights
    from alkstore_core.store import Store
    from alkstore_core.streams import StreamHandle
    from alkstore_core.values import StreamBounds, StreamEvent
    from alkstore_core.web.access import Visit
    from alkstore_core.web.rendering import Pages

PAGE: Final = 50

_GUESSES: Final = 6


class StorePages:
    """The endpoints."""

    def __init__(self, store: Store, pages: Pages, flights: Flights) -> None:
        self._store = store
        self._pages = pages
        self._flights = flights

    async def overview(self, _: Request, visit: Visit) -> Response:
        """Everything that is there, in numbers."""
        seen = await self._flights.ask("overview", lambda: overview(self._store))
        return self._pages.page("overview.html", visit, now=seen.at, seen=seen)

    async def stream(self, request: Request, visit: Visit) -> Response:
        """A stream's consumers, and its latest events or those after an offset."""
        stream = self._asked_stream(request)
        after = reading.number("after", request.query_params.get("after"))
        seen = await self._flights.ask(
            ("stream", stream.name), lambda: stream_overview(self._store, stream.name)
        )
        if after is None:
            events = await _latest(stream, seen.bounds)
        else:
            events = await stream.read_since(after, PAGE)
        return self._pages.page(
            "stream.html",
            visit,
            now=await self._store.now(),
            seen=seen,
            events=events,
            after=after,
            more=after is not None and len(events) == PAGE,
        )

    async def event(self, request: Request, visit: Visit) -> Response:
        """An event, and as much of its payload as is shown."""
        event = await self._asked_event(request)
        return self._pages.page(
            "event.html",
            visit,
            now=await self._store.now(),
            event=event,
            body=shown.body(event.payload),
        )

    async def event_payload(self, request: Request, _: Visit) -> Response:
        """An event's payload as it is, to save."""
        event = await self._asked_event(request)
        return download(event.payload, f"event-{event.offset}-payload")

    def _asked_stream(self, request: Request) -> StreamHandle:
        name = request.query_params.get("stream")
        if name is None:
            raise HTTPException(400, "The address has to name a stream.")
        return self._store.stream(name)

    async def _asked_event(self, request: Request) -> StreamEvent:
        stream = self._asked_stream(request)
        offset = reading.required("offset", request.query_params.get("offset"))
        for event in await stream.read_since(offset - 1, 1):
            if event.offset == offset:
                return event
        raise HTTPException(
            404, f"The stream {stream.name!r} has no event at offset {offset}, or no more."
        )


async def _latest(stream: StreamHandle, bounds: StreamBounds) -> list[StreamEvent]:
    """The last events of a stream, latest first.

    Offsets have gaps, where those of other streams may lie, so how far back the last ones begin is
    guessed from how densely they lie. Where they lie too unevenly, it gives fewer of them.
    """
    if not bounds.count:
        return []
    span = bounds.last - bounds.first + 1
    back = max(PAGE, PAGE * span // bounds.count)
    best: list[StreamEvent] = []
    for _ in range(_GUESSES):
        events = await stream.read_since(max(bounds.last - back, bounds.first - 1), 2 * PAGE)
        if len(events) < 2 * PAGE or events[-1].offset >= bounds.last:
            best = max(best, events, key=len)
            if len(events) >= PAGE or back >= span:
                break
            back *= 4
        else:
            # It began too far back to come to the end.
            back = max(PAGE, back // 3)
    return best[: -PAGE - 1 : -1]
