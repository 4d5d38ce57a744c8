"""Ops on a real SQLite database, in a time that moves by hand."""

from __future__ import annotations

import pytest
from sqlalchemy import create_engine

from alkstore_core.jobspec import JobSpec
from alkstore_core.sql.claims import claim
from alkstore_core.sql.connection_drivers import run_on
from alkstore_core.sql.queues import insert_jobs
from alkstore_core.sql.tables import metadata


class Database:
    """`db(op, *args)` runs an op and gives its value; `now` is the time it sees."""

    def __init__(self, connection):
        self.connection = connection
        self.now = 1_000

    def __call__(self, op, *args):
        return run_on(self.connection, lambda: self.now, op, *args)

    def rows(self, sql):
        """Rows of a statement in plain SQL."""
        return [tuple(row) for row in self.connection.exec_driver_sql(sql)]


@pytest.fixture
def db(tmp_path):
    """An empty database with our tables."""
    engine = create_engine(f"sqlite:///{tmp_path}/ops.db")
    with engine.connect() as connection:
        metadata.create_all(connection)
        yield Database(connection)
    engine.dispose()


@pytest.fixture
def spec():
    """Make a `JobSpec` with a plain queue's defaults."""

    def make(**changed):
        defaults = {
            "priority": 0,
            "delay": None,
            "run_at": None,
            "expires": None,
            "max_attempts": 3,
            "visibility_timeout_s": 300,
            "backoff_base_s": 5,
            "dead_letter_retention_s": None,
            "headers": None,
        }
        return JobSpec(**{**defaults, **changed})

    return make


@pytest.fixture
def put(db, spec):
    """Store jobs in queue `q` and give their ids."""

    def store(*payloads, queue="q", **changed):
        return db(insert_jobs, queue, payloads or (b"1",), spec(**changed))

    return store


@pytest.fixture
def take(db):
    """Claim jobs of queue `q`."""

    def claim_some(limit=100, worker="w", queue="q"):
        return db(claim, queue, worker, limit)

    return claim_some
