"""What a request asks for. Whatever is malformed is the caller's fault, and answered with 400."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import parse_qs

from attrs import frozen
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from alkstore_core.integers import I64_MAX
from alkstore_core.web.shown import url

if TYPE_CHECKING:
    from starlette.datastructures import QueryParams
    from starlette.requests import Request

    from alkstore_core.queues import JobSource
    from alkstore_core.store import Store

Form = dict[str, list[str]]

FORM_LIMIT: Final = 64 * 1024
MAX_FIELDS: Final = 1_000

STATES: Final = ("pending", "processing", "dead")


@frozen(kw_only=True)
class Source:
    """The queue or outbox that a page is about."""

    kind: Literal["queue", "outbox"]
    name: str
    jobs: JobSource

    def url(self, page: str, **parameters: object) -> str:
        """A link to a page about it."""
        return url(page, **{self.kind: self.name}, **parameters)


def asked_source(store: Store, query: QueryParams) -> Source:
    """The queue or outbox that an address names, whether it holds anything or not.

    Raises:
        InvalidName, ReservedName: there can be none of that name.
        HTTPException: both are named, or none.

    """
    queue, outbox = query.get("queue"), query.get("outbox")
    if queue is not None and outbox is None:
        return Source(kind="queue", name=queue, jobs=store.queue(queue))
    if outbox is not None and queue is None:
        return Source(kind="outbox", name=outbox, jobs=store.outbox(outbox).backing)
    raise HTTPException(400, "The address has to name one queue or one outbox.")


def number(what: str, text: str | None) -> int | None:
    """A number from 0 to the greatest that a store can hold; `None` where there is none.

    Raises:
        HTTPException: it is none.

    """
    if text is None:
        return None
    value = int(text) if re.fullmatch(r"[0-9]{1,19}", text) else None
    if value is None or value > I64_MAX:
        raise HTTPException(400, f"{what} has to be a whole number from 0 to {I64_MAX}.")
    return value


def required(what: str, text: str | None) -> int:
    """As `number`, where there has to be one."""
    value = number(what, text)
    if value is None:
        raise HTTPException(400, f"The address has to hold {what}.")
    return value


def state(text: str | None) -> str | None:
    """A state to list the jobs of, or `None` for all live ones."""
    if not text:
        return None
    if text not in STATES:
        raise HTTPException(400, f"The state has to be one of {', '.join(STATES)}, or left out.")
    return text


async def form(request: Request) -> Form:
    """The fields of a form that was sent.

    Raises:
        HTTPException: it is none, or larger than any of ours.

    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise HTTPException(415, "Only forms are taken: application/x-www-form-urlencoded.")
    text = bytearray()
    try:
        async for piece in request.stream():
            text += piece
            if len(text) > FORM_LIMIT:
                raise HTTPException(413, f"A form has at most {FORM_LIMIT} bytes.")
    except ClientDisconnect as error:
        raise HTTPException(400, "The form was not sent to its end.") from error
    try:
        return parse_qs(text.decode("ascii"), keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError as error:
        raise HTTPException(400, "The form cannot be read.") from error


def field(fields: Form, name: str) -> str | None:
    """The one value of a field, or `None`."""
    values = fields.get(name, [])
    if len(values) > 1:
        raise HTTPException(400, f"The form holds {name!r} more than once.")
    return values[0] if values else None
