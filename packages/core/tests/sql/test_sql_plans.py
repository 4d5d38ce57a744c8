"""How SQLite finds the rows: by the right index, whatever else is in the tables."""

import random
from collections import defaultdict

import pytest
from sqlalchemy.dialects import sqlite

from alkstore_core.spi import Entry
from alkstore_core.sql import claims, dead_letters, inspection, queues, signals, streams
from alkstore_core.sql.compile import Compiler

READY = "SEARCH __alkstore_jobs USING INDEX __alkstore_jobs_ready (queue=?)"
DELAYED = "SEARCH __alkstore_jobs USING INDEX __alkstore_jobs_delayed"
PROCESSING = "SEARCH __alkstore_jobs USING INDEX __alkstore_jobs_processing"
EXPIRY = "SEARCH __alkstore_jobs USING INDEX __alkstore_jobs_expiry"
BY_ID = "SEARCH __alkstore_jobs USING INTEGER PRIMARY KEY (rowid=?)"
STREAM = "SEARCH __alkstore_events USING INDEX __alkstore_events_stream (stream=? AND offset>?)"
STREAM_ONLY = "SEARCH __alkstore_events USING INDEX __alkstore_events_stream"

PLANS = {
    "probe": (
        claims.PROBE,
        {
            f"{DELAYED} (queue=? AND run_at<?)",
            f"{PROCESSING} (queue=? AND claim_expires_at<?)",
            f"{EXPIRY} (queue=? AND state=? AND expires_at<?)",
        },
    ),
    "best": (claims.BEST, {READY}),
    "claim": (claims.CLAIM, {BY_ID}),
    "claim many": (claims.CLAIM_MANY, {BY_ID}),
    "promote": (claims.PROMOTE, {BY_ID, f"{DELAYED} (queue=? AND run_at<?)"}),
    "set aside": (claims.SET_ASIDE, {BY_ID, f"{EXPIRY} (queue=? AND state=? AND expires_at<?)"}),
    "lapsed": (claims.LAPSED, {f"{PROCESSING} (queue=? AND claim_expires_at<?)"}),
    "turn back": (claims.TURN_BACK, {BY_ID}),
    "ack": (queues.ACK, {BY_ID}),
    "ack many": (queues.ACK_MANY, {BY_ID}),
    "ack ids": (queues.ACK_IDS, {BY_ID}),
    "extend": (queues.EXTEND, {BY_ID}),
    "extend many": (queues.EXTEND_MANY, {BY_ID}),
    "requeue": (queues.REQUEUE, {BY_ID}),
    "release": (queues.RELEASE, {BY_ID}),
    "bury": (dead_letters.BURY, {BY_ID}),
    "bury ids": (dead_letters.BURY_IDS, {BY_ID}),
    "drop ids": (dead_letters.DROP_IDS, {BY_ID}),
    "past expiry": (
        dead_letters.PAST_EXPIRY,
        {f"{EXPIRY} (queue=? AND state=? AND expires_at<?)"},
    ),
    "next due": (inspection.NEXT_DUE, {f"{DELAYED} (queue=?)", f"{PROCESSING} (queue=?)"}),
    "read": (streams.READ, {STREAM}),
    "read from": (
        streams.READ_FROM,
        {STREAM, "SEARCH __alkstore_consumers USING PRIMARY KEY (stream=? AND consumer=?)"},
    ),
    "trim": (
        streams.TRIM,
        {
            "SEARCH __alkstore_events USING INTEGER PRIMARY KEY (rowid=?)",
            f"{STREAM_ONLY} (stream=? AND offset<?)",
        },
    ),
    "ready queues": (
        signals.READY_QUEUES,
        {"SEARCH __alkstore_jobs USING INDEX __alkstore_jobs_ready (queue>?)"},
    ),
    "stream tails": (
        signals.STREAM_TAILS,
        {f"{STREAM_ONLY} (stream=?)"},
    ),
    "channels since": (
        signals.CHANNELS_SINCE,
        {"SEARCH __alkstore_channels USING INTEGER PRIMARY KEY (rowid>?)"},
    ),
    "last notify": (signals.LAST_NOTIFY, {"SEARCH __alkstore_channels"}),
}

compiler = Compiler(sqlite.dialect())


def plan(db, statement):
    """How SQLite will run a statement: its steps on our tables, and every sort."""
    sql = compiler.request(statement, defaultdict(type(None))).sql
    steps = db.connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", (None,) * sql.count("?"))
    # Which partial index counts as covering depends on SQLite's version.
    return {
        step.replace("COVERING ", "")
        for *_, step in steps
        if "__alkstore" in step or "TEMP B-TREE" in step
    }


def one_queue(db, put, take):
    """Everything is ready and in one queue; nearly all events are in one stream."""
    put(*[b"1"] * 50_000)
    db(streams.append, "s", [Entry(b"1")] * 50_000)
    db(streams.append, "t", [Entry(b"1")])


def skewed(db, put, take):
    """A little of everything in a few queues, most of it delayed, and all kinds of rest."""
    chance = random.Random(7)
    put(*[b"1"] * 30_000, delay=500, priority=9)
    for queue in ("q", "r", "s"):
        for _ in range(100):
            expires = chance.choice([None, 5, 5_000])
            delay = chance.choice([None, 5, 50])
            priority = chance.randrange(5)
            put(*[b"1"] * 60, queue=queue, delay=delay, expires=expires, priority=priority)
    take(5_000)
    take(2_000, queue="r")
    db.now = 1_100
    take(100)
    db(dead_letters.sweep, "s", 1_000)
    for stream in ("s", "t"):
        db(streams.append, stream, [Entry(b"1")] * 10_000)


@pytest.mark.parametrize("analyze", [False, True], ids=["no statistics", "analyzed"])
@pytest.mark.parametrize("fill", [one_queue, skewed])
def test_plans(db, put, take, fill, analyze):
    """No step of a hot statement goes through a whole table or sorts."""
    fill(db, put, take)
    if analyze:
        db.connection.exec_driver_sql("ANALYZE")
    db.connection.commit()
    found = {name: plan(db, statement) for name, (statement, _) in PLANS.items()}
    assert {name: steps for name, (_, steps) in PLANS.items()} == found


def test_statistics_of_yesterday(db, put, take):
    """Statistics taken when everything was ready do no harm when nothing is any more."""
    one_queue(db, put, take)
    db.connection.exec_driver_sql("ANALYZE")
    db.connection.commit()
    while take(10_000):
        pass
    found = {name: plan(db, statement) for name, (statement, _) in PLANS.items()}
    assert {name: steps for name, (_, steps) in PLANS.items()} == found
