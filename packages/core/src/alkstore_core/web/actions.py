"""What can be done: dead jobs are redriven and deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.exceptions import HTTPException

from alkstore_core.errors import AlkstoreError
from alkstore_core.web import reading
from alkstore_core.web.entrance import own_form
from alkstore_core.web.rendering import see_other

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from alkstore_core.store import Store
    from alkstore_core.web.access import Access, Visit
    from alkstore_core.web.reading import Form

AGES: Final[dict[str, int | None]] = {
    "all": None,
    "hour": 3_600,
    "day": 86_400,
    "week": 7 * 86_400,
    "month": 30 * 86_400,
}
"""How long ago a job has to have died to be deleted, in seconds."""


class PartlyDone(Exception):  # noqa: N818 - no error of ours: it is shown to whoever asked.
    """The database failed when some of what was asked for had been done."""


class Actions:
    """The endpoints of forms."""

    def __init__(self, store: Store, access: Access) -> None:
        self._store = store
        self._access = access

    async def redrive(self, request: Request, visit: Visit) -> Response:
        """Redrive one dead job, those selected, or all that were shown."""
        fields = await own_form(request, self._access, visit)
        source = reading.asked_source(self._store, request.query_params)
        # All of it is read before anything is done: a 400 has done nothing.
        ids = _chosen(fields)
        origin = reading.field(fields, "from")
        after = reading.number("after", request.query_params.get("after"))
        fresh: list[int] = []
        gone = 0
        for job_id in ids:
            try:
                new = await source.jobs.redrive(job_id)
            except AlkstoreError as error:
                raise PartlyDone(_so_far(fresh, gone, job_id, error)) from error
            if new is None:
                gone += 1
            else:
                fresh.append(new)
        if len(ids) == 1 and fresh:
            done = self._access.sign(f"redriven-as:{ids[0]}:{fresh[0]}")
            if origin == "job":
                return see_other(source.url("job", id=fresh[0], done=done))
        else:
            done = self._access.sign(f"redriven:{len(fresh)}:{gone}")
        return see_other(source.url("queue", state="dead", after=after or None, done=done))

    async def purge(self, request: Request, visit: Visit) -> Response:
        """Delete the dead jobs that died long enough ago, or all."""
        fields = await own_form(request, self._access, visit)
        source = reading.asked_source(self._store, request.query_params)
        age = reading.field(fields, "age") or ""
        if age not in AGES or reading.field(fields, "sure") != "yes":
            raise HTTPException(
                400, "Nothing was deleted: say which dead jobs are meant, and that you are sure."
            )
        seconds = AGES[age]
        before = None if seconds is None else await self._store.now() - seconds
        deleted = await source.jobs.purge_dead(before)
        done = self._access.sign(f"deleted:{deleted}")
        return see_other(source.url("queue", state="dead", done=done))


def _chosen(fields: Form) -> list[int]:
    """The ids that the button speaks of: one row's, those that were shown, or those selected."""
    if "one" in fields:
        chosen = fields["one"]
    elif "all" in fields:
        chosen = fields.get("shown", [])
    else:
        chosen = fields.get("id", [])
    if not chosen:
        raise HTTPException(400, "No job was selected: nothing was redriven.")
    return list(dict.fromkeys(reading.required("id", text) for text in chosen))


def _so_far(fresh: list[int], gone: int, job_id: int, error: AlkstoreError) -> str:
    return (
        f"{len(fresh)} redriven and {gone} already gone when the database failed at job {job_id}: "
        f"{error}. Whether that job was redriven is unknown; those after it were not. "
        "Load the list again to see what is left."
    )


def told(signed: str | None) -> tuple[str, ...] | None:
    """What was done, as the signed text of a redirection tells it."""
    return None if signed is None else tuple(signed.split(":"))
