"""What operators' tools show alike, each in its own way: since when, and payloads laid out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from alkstore_core.payload import decode_payload

if TYPE_CHECKING:
    from alkstore_core.values import Job

BODY_LIMIT: Final = 64 * 1024
"""So much of a payload is shown, in characters when it is laid out, and else in bytes."""

_PART: Final = re.compile(r'"(?:[^"\\]|\\.)*+"|[\[\]{},:]|[^\s\[\]{},:"]+')
_OPENING: Final = frozenset("[{")
_CLOSING: Final = frozenset("]}")


def since(job: Job, standing: str) -> int | None:
    """When a job came to stand where it does, or when that is going to end."""
    if standing in {"processing", "lapsed"}:
        return job.claim_expires_at
    if standing == "dead":
        return job.died_at
    return job.expires_at if standing == "expired" else job.run_at


def laid_out(payload: bytes) -> tuple[str, bool]:
    """JSON by its structure, and whether `BODY_LIMIT` has cut it.

    Only the space between its parts is ours: numbers, strings and keys stand there as they are
    stored, also a number that Python has no equal of, such as 1e999.

    Raises:
        CodecError: it is no JSON, nested too deep, or with an integer of more than 4,300 digits.

    """
    decode_payload(payload)
    # Piece by piece: a deep nest of a few bytes would become megabytes of indentation.
    pieces: list[str] = []
    length = level = 0
    last = ""
    for found in _PART.finditer(payload.decode()):
        part = found[0]
        level -= part in _CLOSING
        if last == "," or (last in _OPENING) is not (part in _CLOSING):
            pieces.append("\n" + "  " * level)
            length += len(pieces[-1])
        pieces.append(": " if part == ":" else part)
        length += len(pieces[-1])
        if length > BODY_LIMIT:
            return "".join(pieces)[:BODY_LIMIT], True
        level += part in _OPENING
        last = part
    return "".join(pieces), False
