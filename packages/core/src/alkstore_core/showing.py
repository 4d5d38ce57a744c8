"""What operators' tools show alike, each in its own way: since when, and payloads laid out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from alkstore_core.errors import CodecError
from alkstore_core.payload import decode_payload

if TYPE_CHECKING:
    from alkstore_core.values import Job

BODY_LIMIT: Final = 64 * 1024
"""So much of a payload is shown, in characters when it is laid out, and else in bytes."""


def since(job: Job, standing: str) -> int | None:
    """When a job came to stand where it does, or when that is going to end."""
    if standing in {"processing", "lapsed"}:
        return job.claim_expires_at
    if standing == "dead":
        return job.died_at
    return job.expires_at if standing == "expired" else job.run_at


def laid_out(payload: bytes) -> tuple[str, bool]:
    """JSON by its structure, and whether `BODY_LIMIT` has cut it.

    Raises:
        CodecError: it is no JSON, or nested too deep to be laid out.

    """
    # Piece by piece: a deep nest of a few bytes would become megabytes of indentation.
    encoder = json.JSONEncoder(ensure_ascii=False, indent=2)
    pieces: list[str] = []
    length = 0
    try:
        for piece in encoder.iterencode(decode_payload(payload)):
            pieces.append(piece)
            length += len(piece)
            if length > BODY_LIMIT:
                return "".join(pieces)[:BODY_LIMIT], True
    except RecursionError:
        raise CodecError("the payload is nested too deep to be laid out") from None
    except ValueError:
        raise CodecError("the payload has an integer too long to be laid out") from None
    return "".join(pieces), False
