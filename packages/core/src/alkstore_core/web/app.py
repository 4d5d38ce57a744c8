"""The application: which address shows what, to whom, and what is said when it cannot."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import Route

from alkstore_core.clock import SystemClock
from alkstore_core.coalescing import Flights
from alkstore_core.errors import AlkstoreError, Closed, DatabaseError
from alkstore_core.web.access import Access
from alkstore_core.web.actions import Actions, PartlyDone
from alkstore_core.web.entrance import Entrance
from alkstore_core.web.jobpages import JobPages
from alkstore_core.web.rendering import Pages
from alkstore_core.web.storepages import StorePages

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from alkstore_core.store import Store
    from alkstore_core.web.access import Visit

    Endpoint = Callable[[Request, Visit], Awaitable[Response]]

ANSWER_S: Final = 20.0
"""So long a page waits for the database."""

_log = logging.getLogger(__name__)


def status_app(
    store: Store,
    *,
    token: str | None,
    actions: bool = False,
    insecure_without_token: bool = False,
    title: str = "alkstore",
) -> Starlette:
    """An application that shows an open store; serve it, or mount it into yours.

    Who opens it is asked for `token` (16 characters or more), or shows it as
    `Authorization: Bearer TOKEN`. `insecure_without_token=True`, together with `token=None`,
    lets everybody in: only for where something in front of it has asked already. With `actions`
    dead jobs can be redriven and deleted. Ages and what is left of a time are reckoned by the
    store's clock. The store has to be open, on the event loop that serves.

    Raises:
        DatabaseError: there is no token and it is not said that there is to be none, or the
            token is too easily guessed.

    """
    if (token is None) != insecure_without_token:
        raise DatabaseError(
            "the status page needs a token, or else insecure_without_token=True with token=None, "
            "which lets everybody in who reaches it"
        )
    access = Access(token, SystemClock())
    pages = Pages(access, title, actions=actions)
    entrance = Entrance(access, pages)

    def get(path: str, endpoint: Endpoint) -> Route:
        return Route(path, _guarded(access, entrance, endpoint, ANSWER_S), methods=["GET"])

    def post(path: str, endpoint: Endpoint) -> Route:
        # It is never cut short: what it has begun to do it also reports.
        return Route(path, _guarded(access, entrance, endpoint, None), methods=["POST"])

    flights = Flights()
    seen = StorePages(store, pages, flights)
    jobs = JobPages(store, pages, access, flights)
    routes = [
        get("/", seen.overview),
        get("/stream", seen.stream),
        get("/event", seen.event),
        get("/event-payload", seen.event_payload),
        get("/queue", jobs.queue),
        get("/job", jobs.job),
        get("/job-payload", jobs.payload),
        Route("/login", entrance.login, methods=["POST"]),
        post("/logout", entrance.logout),
        *(Route(f"/{name}", pages.asset) for name in ("style.css", "live.js", "icon.svg")),
    ]
    if actions:
        doing = Actions(store, access)
        routes += [post("/redrive", doing.redrive), post("/purge", doing.purge)]
    app = Starlette(routes=routes, exception_handlers=_handlers(pages))
    # Another spelling of a path is another path.
    app.router.redirect_slashes = False
    return app


def _guarded(
    access: Access, entrance: Entrance, endpoint: Endpoint, timeout: float | None
) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint for those who are let in."""

    async def answer(request: Request) -> Response:
        visit = access.admit(request)
        if visit is None:
            return entrance.ask(request)
        async with asyncio.timeout(timeout):
            response = await endpoint(request, visit)
        if visit.fresh:
            access.set_cookie(request, response, visit.session)
        return response

    return answer


def _handlers(pages: Pages) -> dict[Any, Any]:
    again = {"Retry-After": "5"}

    async def refused(_: Request, error: HTTPException) -> Response:
        detail = error.detail
        if error.status_code == 404 and detail == "Not Found":  # noqa: PLR2004
            detail = "There is no such page."
        heading = _HEADINGS.get(error.status_code, "This is not served")
        return pages.failure(error.status_code, heading, detail, dict(error.headers or {}))

    async def wrong(_: Request, error: AlkstoreError) -> Response:
        return pages.failure(400, _HEADINGS[400], str(error))

    async def down(_: Request, error: AlkstoreError) -> Response:
        _log.warning("the status page got no answer from the store: %s", error)
        return pages.failure(503, "The database does not answer", str(error), again)

    async def late(_: Request, __: TimeoutError) -> Response:
        detail = f"It has not answered within {ANSWER_S:.0f} seconds."
        return pages.failure(503, "The database does not answer", detail, again)

    async def partly(_: Request, error: PartlyDone) -> Response:
        return pages.failure(503, "Not all of it was done", str(error))

    async def broken(_: Request, __: Exception) -> Response:
        # Starlette raises it again for the server's log; its text is for nobody else.
        detail = "This is a defect of the status page. What went wrong is in the server's log."
        return pages.failure(500, "The page failed", detail)

    return {
        HTTPException: refused,
        PartlyDone: partly,
        DatabaseError: down,
        Closed: down,
        AlkstoreError: wrong,
        TimeoutError: late,
        Exception: broken,
    }


_HEADINGS: Final = {
    400: "This cannot be asked for",
    403: "This is not allowed",
    404: "Not there",
}
