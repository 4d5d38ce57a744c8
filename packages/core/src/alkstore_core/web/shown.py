"""How values are shown: times, durations, numbers and payloads."""

from __future__ import annotations

import codecs
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode

from attrs import frozen

from alkstore_core.errors import CodecError
from alkstore_core.payload import decode_payload
from alkstore_core.values import JobState

if TYPE_CHECKING:
    from alkstore_core.values import Job

BODY_LIMIT: Final = 64 * 1024
"""So much of a payload is shown, in bytes, and so many characters of it when it is laid out."""

EXCERPT: Final = 160

_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_FORMAT: Final = "%Y-%m-%d %H:%M:%S"
_LATEST: Final = 253_402_300_799
"""The last second of the year 9999, with which the calendar of `datetime` ends."""


@frozen(kw_only=True)
class Body:
    """A payload laid out, or as much of it as is shown."""

    text: str
    form: str
    size: int
    cut: bool


def duration(seconds: int) -> str:
    """The two greatest units of it: `45 s`, `3 h 20 min`, `12 d 4 h`."""
    left = abs(seconds)
    parts: list[str] = []
    for size, unit in _UNITS:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count:,} {unit}")
        elif parts:
            break
    return " ".join(parts[:2]) or "0 s"


def distance(moment: int, now: int) -> str:
    """How far away: `3 min ago`, `in 2 h 5 min`, `now`."""
    if moment == now:
        return "now"
    away = duration(moment - now)
    return f"in {away}" if moment > now else f"{away} ago"


def calendar(moment: int) -> str:
    """A moment in UTC; one that no calendar holds as its unix seconds."""
    if 0 <= moment <= _LATEST:
        return datetime.fromtimestamp(moment, UTC).strftime(_FORMAT)
    return f"unix {moment}"


def excerpt(payload: bytes) -> str:
    """The beginning of a payload, on one line."""
    return shortened(payload[: 4 * EXCERPT + 4].decode(errors="replace"))


def shortened(text: str) -> str:
    """The beginning of a text, on one line."""
    line = " ".join(text[: 4 * EXCERPT].split())
    return line if len(line) <= EXCERPT else line[: EXCERPT - 1] + "…"


def standing(job: Job, now: int) -> str:
    """Where a job stands, in the words of `QueueStats`."""
    if job.state is JobState.DEAD:
        return "dead"
    claim = job.claim_expires_at
    if job.state is JobState.PROCESSING and claim is not None and claim >= now:
        return "processing"
    if job.expires_at is not None and job.expires_at <= now:
        return "expired"
    if job.state is JobState.PROCESSING:
        return "lapsed"
    return "delayed" if job.run_at > now else "ready"


def since(job: Job, stands: str) -> int | None:
    """When a job came to stand where it does, or when that is going to end."""
    if stands in {"processing", "lapsed"}:
        return job.claim_expires_at
    if stands == "dead":
        return job.died_at
    return job.expires_at if stands == "expired" else job.run_at


def body(payload: bytes) -> Body:
    """Lay a payload out: JSON by its structure, other text as it is, else its bytes in hex."""
    size = len(payload)
    if size <= BODY_LIMIT:
        try:
            text, cut = _laid_out(payload)
        except (CodecError, RecursionError, ValueError):
            pass  # Not what core stores: shown as it is.
        else:
            return Body(text=text, form="JSON", size=size, cut=cut)
    head = payload[:BODY_LIMIT]
    try:
        # A character that the cut went through is no sign of what is not text.
        text = codecs.getincrementaldecoder("utf-8")().decode(head, final=size <= BODY_LIMIT)
    except UnicodeDecodeError:
        head = head[: BODY_LIMIT // 4]
        return Body(text=head.hex(" ", -4), form="bytes, in hex", size=size, cut=len(head) < size)
    return Body(text=text, form="text", size=size, cut=size > BODY_LIMIT)


def url(page: str, **parameters: object) -> str:
    """A link to a page of ours, relative, so that it holds wherever the application is mounted."""
    query = urlencode(
        {name: value for name, value in parameters.items() if value is not None}, quote_via=quote
    )
    return f"{page}?{query}" if query else page


def _laid_out(payload: bytes) -> tuple[str, bool]:
    # Piece by piece: a deep nest of a few bytes would become megabytes of indentation.
    encoder = json.JSONEncoder(ensure_ascii=False, indent=2)
    pieces: list[str] = []
    length = 0
    for piece in encoder.iterencode(decode_payload(payload)):
        length += len(piece)
        if length > BODY_LIMIT:
            return "".join(pieces), True
        pieces.append(piece)
    return "".join(pieces), False
