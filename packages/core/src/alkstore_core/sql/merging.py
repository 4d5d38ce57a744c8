"""Ops of several callers that can be one: the other half of group commit.

Fifty producers that enqueue one job each in the same turn cost one statement, not fifty. Only
ops that mean the same when they are run together are listed here; when a merged op fails its
callers' ops run one by one, so an error still finds the caller it belongs to.
"""

from __future__ import annotations

from itertools import chain, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from alkstore_core.sql import queues, streams
from alkstore_core.sql._jobs import many_claims
from alkstore_core.sql.tables import jobs

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from alkstore_core.jobspec import JobSpec
    from alkstore_core.spi import Claim, Entry
    from alkstore_core.sql.op import Op

Arguments = tuple[Any, ...]


class Merge(NamedTuple):
    """How calls of one op become a single op."""

    key: Callable[[Arguments], Hashable]
    """Calls of equal key may be merged."""

    run: Callable[[Sequence[Arguments]], Op[list[Any]]]
    """The one op for all of them; it gives each call's value, in order."""


def _insert_key(arguments: Arguments) -> Hashable:
    queue, _, spec = arguments
    # Handles share their default spec, so identity finds what is worth merging.
    return queue, id(spec)


def _insert_jobs(calls: Sequence[tuple[str, Sequence[bytes], JobSpec]]) -> Op[list[list[int]]]:
    queue, _, spec = calls[0]
    payloads = [payload for call in calls for payload in call[1]]
    ids = iter((yield from queues.insert_jobs(queue, payloads, spec)))
    return [list(islice(ids, len(call[1]))) for call in calls]


def _append(calls: Sequence[tuple[str, Sequence[Entry]]]) -> Op[list[list[int]]]:
    entries = list(chain.from_iterable(call[1] for call in calls))
    offsets = iter((yield from streams.append(calls[0][0], entries)))
    return [list(islice(offsets, len(call[1]))) for call in calls]


ACK_EACH = queues.ACK_MANY.returning(jobs.c.id)


def _ack(calls: Sequence[tuple[str, Sequence[Claim]]]) -> Op[list[int]]:
    claims = {claim for call in calls for claim in call[1]}
    acked: set[tuple[int, int]] = set()
    for row in many_claims(calls[0][0], claims):
        acked.update((id_, row["attempt"]) for (id_,) in (yield ACK_EACH, row).rows)
    # Of two calls with one claim the first has acked it, as if they had run one by one.
    counts: list[int] = []
    for _, wanted in calls:
        mine = acked.intersection(wanted)
        acked -= mine
        counts.append(len(mine))
    return counts


MERGES: Mapping[Callable[..., Op[Any]], Merge] = {
    queues.insert_jobs: Merge(_insert_key, _insert_jobs),
    queues.ack: Merge(itemgetter(0), _ack),
    streams.append: Merge(itemgetter(0), _append),
}
