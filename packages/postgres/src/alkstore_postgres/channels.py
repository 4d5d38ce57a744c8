"""The names under which topics are notified in the database."""

from __future__ import annotations

import functools
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from alkstore_core.names import RESERVED_PREFIX

if TYPE_CHECKING:
    from alkstore_core.spi import Topic

LONGEST: Final = 63
"""Bytes of a name in Postgres: `pg_notify` refuses more, LISTEN silently cuts it."""


@functools.lru_cache(maxsize=4096)
def channel_of(schema: str, topic: Topic) -> str:
    """The channel that a topic's wakes go through; no two topics of a schema share one.

    A caller's channel is itself, so that a trigger's `NOTIFY` wakes its receivers too, unless
    it is too long. Everything else is named after what it belongs to, the schema included,
    under the prefix that callers' names cannot have.
    """
    if topic.kind == "channel":
        if len(topic.name.encode()) <= LONGEST:
            return topic.name
        whole = topic.name
    else:
        whole = f"{schema}\0{topic.name}"
    digest = blake2b(whole.encode(), digest_size=16).hexdigest()
    return f"{RESERVED_PREFIX}{topic.kind}_{digest}"
