"""How Postgres finds the rows: by an index, whatever is in the tables or is believed to be."""

import asyncio
import json
import re

import pytest
from sqlalchemy.dialects.postgresql import asyncpg as dialect

from alkstore_core.sql import inspection
from alkstore_core.sql import queues as core_queues
from alkstore_core.sql.compile import Compiler
from alkstore_postgres import PostgresOpts, PostgresStore, claims, dead_letters, queues, streams

pytestmark = pytest.mark.once


JOBS = "alkstore.__alkstore_jobs"
EVENTS = "alkstore.__alkstore_events"
MANY = 500_000

READY = "__alkstore_jobs_ready"
DELAYED = "__alkstore_jobs_delayed"
PROCESSING = "__alkstore_jobs_processing"
EXPIRY = "__alkstore_jobs_expiry"
RECENT = "__alkstore_jobs_recent"
BY_ID = "__alkstore_jobs_pkey"
STREAM = "__alkstore_events_stream"
BY_OFFSET = "__alkstore_events_pkey"

PLANS = {
    "claim": (claims.CLAIM, {READY, BY_ID, DELAYED, PROCESSING, EXPIRY}),
    "claim anyway": (claims.CLAIM_ANYWAY, {READY, BY_ID}),
    "claim behind": (
        claims.CLAIM_BEHIND,
        {READY, BY_ID, DELAYED, PROCESSING, EXPIRY, RECENT},
    ),
    "probe": (claims.PROBE, {DELAYED, PROCESSING, EXPIRY, READY}),
    "set ready aside": (claims.SET_READY_ASIDE, {EXPIRY, BY_ID}),
    "set delayed aside": (claims.SET_DELAYED_ASIDE, {EXPIRY, BY_ID}),
    "bury lapsed": (claims.BURY_LAPSED, {PROCESSING, BY_ID}),
    "turn back": (claims.TURN_BACK, {PROCESSING, BY_ID}),
    "promote": (claims.PROMOTE, {DELAYED, BY_ID}),
    "ack": (core_queues.ACK, {BY_ID}),
    "ack many": (queues.ACK_MANY, {BY_ID}),
    "ack ids": (queues.ACK_IDS, {BY_ID}),
    "extend many": (queues.EXTEND_MANY, {BY_ID}),
    "release": (queues.RELEASE, {BY_ID}),
    "bury": (dead_letters.BURY, {BY_ID}),
    "sweep": (dead_letters.SWEEP, {EXPIRY, BY_ID}),
    "next due": (inspection.NEXT_DUE, {DELAYED, PROCESSING}),
    "read": (streams.READ, {STREAM}),
    "read from": (streams.READ_FROM, {STREAM, "__alkstore_consumers_pkey"}),
    "trim": (streams.TRIM, {STREAM, BY_OFFSET}),
}

ARGUMENTS = {
    "after": 10,
    "attempt": 1,
    "bound": 10**9,
    "chunk": 20_000,
    "claims": "[[1,1],[2,1]]",
    "claim_ids": [1, 2],
    "claim_attempts": [1, 1],
    "consumer": "c",
    "horizon": 10,
    "id": 1,
    "ids": "[1,2,3]",
    "last_error": "x",
    "limit": 100,
    "now": None,
    "priority": 0,
    "queue": "q",
    "queues": '["q"]',
    "run_at": 10,
    "seconds": 10,
    "since": 10,
    "slow": 0.003,
    "stream": "s",
    "worker_id": "w",
}

PUT = f"""
INSERT INTO {JOBS} (queue, payload, state, priority, run_at, created_at, expires_at, attempts,
                    max_attempts, visibility_timeout_s, backoff_base_s, claim_expires_at)
SELECT 'q', '1', {{state}}, {{priority}}, {{run_at}}, 0, {{expires}}, 0, 3, 300, 5, {{expires}}
FROM generate_series(1, $1::int) AS g
"""
LATER = "4000000000 + g"
PUT_DELAYED = PUT.format(state="'delayed'", priority=9, run_at=LATER, expires="NULL")
PUT_READY = PUT.format(state="'ready'", priority=0, run_at="g", expires="NULL")
PUT_PROCESSING = PUT.format(state="'processing'", priority=0, run_at="g", expires=LATER)
PUT_EVENTS = f"""
INSERT INTO {EVENTS} (stream, payload, created_at)
SELECT CASE WHEN g % 100 = 0 THEN 's' ELSE 't' END, '1', 1 FROM generate_series(1, $1::int) AS g
"""

compiler = Compiler(dialect.dialect()).for_schema("alkstore")


async def believed_empty(sql):
    """500,000 rows that a claim must not look at; the statistics say there are none."""
    await sql.execute(f"ANALYZE {JOBS}, {EVENTS}")
    await sql.execute(PUT_DELAYED, MANY)
    await sql.execute(PUT_READY, 1000)
    await sql.execute(PUT_EVENTS, 100_000)


async def known(sql):
    """The same, and the statistics know."""
    await believed_empty(sql)
    await sql.execute(f"ANALYZE {JOBS}, {EVENTS}")


async def believed_ready(sql):
    """The statistics say that all is ready, and nothing is: it is claimed or delayed."""
    await sql.execute(PUT_READY, 100_000)
    await sql.execute(PUT_EVENTS, 100_000)
    await sql.execute(f"ANALYZE {JOBS}, {EVENTS}")
    await sql.execute(f"TRUNCATE {JOBS}")
    await sql.execute(PUT_PROCESSING, MANY // 2)
    await sql.execute(PUT_DELAYED, MANY // 2)


async def tiny(sql):
    """A page of rows, on a connection like those of the store's pool."""
    for put in (PUT_DELAYED, PUT_READY, PUT_PROCESSING, PUT_EVENTS):
        await sql.execute(put, 5)
    await sql.execute(f"VACUUM ANALYZE {JOBS}, {EVENTS}")
    await sql.execute("SET enable_seqscan = off")


@pytest.fixture
async def planned(request, store, sql):
    """A database filled in one of these ways, where no vacuum tells the planner better."""
    for table in (JOBS, EVENTS):
        await sql.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = false)")
    await request.param(sql)
    return sql


async def plans(sql, statement):
    """The plan for these very parameters, and the one for whichever."""
    text, arguments, _ = compiler.request(statement, ARGUMENTS)
    yield await sql.fetch(f"EXPLAIN {text}", *arguments)
    await sql.execute("SET plan_cache_mode = force_generic_plan")
    await sql.execute(f"PREPARE planned AS {text}")
    nulls = ", ".join(["NULL"] * len(arguments))
    yield await sql.fetch(f"EXPLAIN EXECUTE planned ({nulls})")
    await sql.execute("DEALLOCATE planned; RESET plan_cache_mode")


@pytest.mark.parametrize("planned", [believed_empty, known, believed_ready, tiny], indirect=True)
async def test_indexes(planned):
    """Every statement on a worker's way reads by its indexes alone, and sorts no backlog."""
    wrong = []
    for name, (statement, expected) in PLANS.items():
        async for rows in plans(planned, statement):
            plan = "\n".join(line for (line,) in rows)
            found = re.findall(r"using (\w+)|Index Scan on (__alkstore\w+)", plan)
            used = {one or other for one, other in found}
            scans = re.findall(r"Seq Scan on (__alkstore_(?:jobs|dead_jobs|events))\b", plan)
            # Beside an old snapshot only this index leads past what is done.
            if scans or used - expected or (RECENT in expected and RECENT not in used):
                wrong.append(f"{name}:\n{plan}")
    assert not wrong, "\n\n".join(wrong)


async def test_plans_outlive_the_size_of_their_table(postgres_url, sql):
    """What the store prepared while there were few jobs finds them by index among a million."""
    async with PostgresStore(postgres_url, opts=PostgresOpts(pool_size=1)) as store:
        queue = store.queue("q")
        await queue.enqueue_many(range(20))
        await sql.execute(f"VACUUM ANALYZE {JOBS}")
        one, *some, other, another = await queue.claim_batch("w", 10)
        assert await one.ack()
        assert all(await asyncio.gather(other.ack(), another.ack()))
        assert len(some) == await queue.ack_batch(some, "w")
        lease = await store._runtime.engine._connections.take()
        prepared = await lease.raw.fetch(
            "SELECT name, cardinality(parameter_types) FROM pg_prepared_statements "
            "WHERE statement LIKE '%__alkstore_jobs%' AND cardinality(parameter_types) > 0"
        )
        plans = []
        for name, parameters in prepared:
            nulls = ", ".join(["NULL"] * parameters)
            rows = await lease.raw.fetch(f'EXPLAIN EXECUTE "{name}" ({nulls})')
            plans.append("\n".join(line for (line,) in rows))
        await lease.give_back()
    assert 5 == len(plans)
    scans = [plan for plan in plans if "Seq Scan on __alkstore_jobs" in plan]
    assert not scans, "\n\n".join(scans)


def below(node):
    """A node of a plan and all that feed it rows, without the CTEs and sub-selects beside."""
    yield node
    for child in node.get("Plans", ()):
        if child["Parent Relationship"] in {"Outer", "Inner", "Subquery", "Member"}:
            yield from below(child)


def everywhere(node):
    """All nodes of a plan."""
    yield node
    for child in node.get("Plans", ()):
        yield from everywhere(child)


async def test_offsets_are_drawn_after_the_note_is_held(store, sql):
    """In the one-statement publish, `nextval` stands above the scan of the lock's CTE."""
    arguments = {
        **dict.fromkeys(("first", "headers", "key", "now")),
        "entries": '[["1",null,null],["2",null,null]]',
        "note_key": 1,
        "payload": b"1",
        "stream": "s",
        "wake": "w",
    }
    publishes = [s for n, s in vars(streams).items() if n.startswith("APPEND") and n != "APPENDS"]
    assert len(publishes) == 8
    for statement in publishes:
        text, given, _ = compiler.request(statement, arguments)
        ((plan,),) = await sql.fetch(f"EXPLAIN (VERBOSE, FORMAT JSON) {text}", *given)
        root = json.loads(plan)[0]["Plan"]
        outputs = [(node, " ".join(node.get("Output", ()))) for node in everywhere(root)]
        (drawing,) = (node for node, output in outputs if "nextval(" in output)
        assert "held" in [node.get("CTE Name") for node in below(drawing)], plan
        (locking,) = (n for n, output in outputs if "pg_advisory_xact_lock_shared(" in output)
        assert locking["Subplan Name"] == "CTE held", plan
