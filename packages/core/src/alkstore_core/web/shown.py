"""How values are shown: times, durations, numbers and payloads."""

from __future__ import annotations

import codecs
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote, urlencode

from attrs import frozen

from alkstore_core.errors import CodecError
from alkstore_core.showing import BODY_LIMIT, laid_out

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


def body(payload: bytes) -> Body:
    """Lay a payload out: JSON by its structure, other text as it is, else its bytes in hex.

    Of a payload of more than `BODY_LIMIT` bytes its beginning is shown as it is.
    """
    size = len(payload)
    if size <= BODY_LIMIT:
        try:
            text, cut = laid_out(payload)
        except CodecError:
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
