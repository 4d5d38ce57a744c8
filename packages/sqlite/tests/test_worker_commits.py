"""A busy worker pays for one commit where it could pay for two."""

import collections

from alkstore_core import StopToken
from alkstore_core.sql.runner import Runner
from alkstore_core.worker import Worker
from alkstore_sqlite import SqliteStore


async def test_acknowledgements_and_the_next_claim_share_a_commit(path, monkeypatch):
    """Forty jobs, ten at a time: each further claim rides with the acks of the ones before."""
    groups = collections.Counter()
    execute = Runner._execute

    def counting(self, connection, calls):
        names = {call.op.__name__ for call in calls} & {"ack", "claim"}
        if names:
            groups["+".join(sorted(names))] += 1
        return execute(self, connection, calls)

    monkeypatch.setattr(Runner, "_execute", counting)
    stop, seen = StopToken(), []

    async def handler(number: int):
        seen.append(number)
        if len(seen) == 40:
            stop.stop()

    async with SqliteStore(path) as store:
        await store.queue("q").enqueue_many(range(40))
        await Worker(store, "q", handler, concurrency=10).run(stop)

    assert list(range(40)) == seen
    assert {"claim": 1, "ack+claim": 4} == groups
