"""Reaching the tables of the shared SQL past its ops, for faults the seam cannot express."""

from sqlalchemy import text

from alkstore_core.sql.op import Mode


def write(engine, sql):
    """Run one statement as a transaction of its own. `:now` is the engine's time."""

    def change():
        yield text(sql), {}

    return engine.auto._driver.run(Mode.WRITE, change)


def run(engine, op, *args):
    """Run an op as a transaction of its own."""
    return engine.auto._driver.run(Mode.WRITE, op, *args)
