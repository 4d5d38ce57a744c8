"""The pages about queues, outboxes and their jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.exceptions import HTTPException

from alkstore_core.web import reading, shown
from alkstore_core.web.actions import told
from alkstore_core.web.rendering import download

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from alkstore_core.coalescing import Flights
    from alkstore_core.store import Store
    from alkstore_core.values import Job
    from alkstore_core.web.access import Access, Visit
    from alkstore_core.web.reading import Source
    from alkstore_core.web.rendering import Pages

PAGE: Final = 50


class JobPages:
    """The endpoints."""

    def __init__(self, store: Store, pages: Pages, access: Access, flights: Flights) -> None:
        self._store = store
        self._pages = pages
        self._access = access
        self._flights = flights

    async def queue(self, request: Request, visit: Visit) -> Response:
        """How many jobs of a queue stand where, and a page of them by id."""
        query = request.query_params
        source = reading.asked_source(self._store, query)
        state = reading.state(query.get("state"))
        after = reading.number("after", query.get("after")) or 0
        stats = await self._flights.ask((source.kind, source.name), source.jobs.stats)
        # One more than is shown tells whether there is another page.
        jobs = await source.jobs.jobs(state, PAGE + 1, after)
        return self._pages.page(
            "queue.html",
            visit,
            now=await self._store.now(),
            source=source,
            state=state,
            after=after,
            stats=stats,
            jobs=jobs[:PAGE],
            following=jobs[PAGE - 1].id if len(jobs) > PAGE else None,
            done=self._done(request),
        )

    async def job(self, request: Request, visit: Visit) -> Response:
        """All of a job, and as much of its payload as is shown."""
        source, job = await self._asked(request)
        return self._pages.page(
            "job.html",
            visit,
            now=await self._store.now(),
            source=source,
            job=job,
            body=shown.body(job.payload),
            done=self._done(request),
        )

    async def payload(self, request: Request, _: Visit) -> Response:
        """A job's payload as it is, to save."""
        job = (await self._asked(request))[1]
        return download(job.payload, f"job-{job.id}-payload")

    async def _asked(self, request: Request) -> tuple[Source, Job]:
        source = reading.asked_source(self._store, request.query_params)
        job_id = reading.required("id", request.query_params.get("id"))
        job = await source.jobs.get_job(job_id)
        if job is None:
            raise HTTPException(
                404,
                f"The {source.kind} {source.name!r} has no job {job_id}. A job that is done is "
                "deleted, and one that was redriven has a new id.",
            )
        return source, job

    def _done(self, request: Request) -> tuple[str, ...] | None:
        return told(self._access.signed(request.query_params.get("done", "")))
