"""What a compiled statement says of itself."""

from __future__ import annotations

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, delete, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from alkstore_core.sql.compile import Compiler

table = Table("t", MetaData(), Column("id", Integer, primary_key=True), Column("v", Integer))


def gives_rows(compiler, statement):
    """Whether rows are fetched after it."""
    return compiler.request(statement, {"v": 1, "id": 1}).gives_rows


@pytest.mark.parametrize("dialect", [sqlite.dialect(), postgresql.dialect()])
@pytest.mark.parametrize(
    "change", [insert(table).values(v=1), update(table).values(v=1), delete(table)]
)
def test_returning_added_later(dialect, change):
    """A statement gives rows when it has a RETURNING, whichever it was made of, in any order."""
    compiler = Compiler(dialect)
    assert not gives_rows(compiler, change)
    assert gives_rows(compiler, change.returning(table.c.id))
    assert gives_rows(compiler, change.returning(table.c.id).returning(table.c.v))
    assert not gives_rows(compiler, change)


def test_select_gives_rows():
    """A query always does."""
    assert gives_rows(Compiler(sqlite.dialect()), select(table.c.id))
