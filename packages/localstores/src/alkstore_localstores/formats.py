"""The two formats on disk: their tables, their files, their markers. Defined here and nowhere else.

`docs/formats/` describes them; a test keeps the two alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
from sqlalchemy import (
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    bindparam,
    literal_column,
    select,
    text,
)
from sqlalchemy.dialects import sqlite
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.schema import CreateIndex, CreateTable

from alkstore_core.sql.compile import Compiler
from alkstore_localstores.errors import KV_OPERATION_FAILED, QUEUE_OPERATION_FAILED

if TYPE_CHECKING:
    from collections.abc import Iterator

COMPILER = Compiler(sqlite.dialect(paramstyle="qmark"))
"""For every statement on a store's file: both drivers take the same text."""

MARKER = "format"
"""The key of the row in `meta` that holds a format's identifier."""

meta = Table(
    "meta",
    MetaData(),
    # In SQLite a primary key that is no integer may be NULL; the formats leave it so.
    Column("key", Text, primary_key=True, nullable=True),
    Column("value", Text, nullable=False),
)

_marker = literal_column(f"'{MARKER}'", Text)
FIND_MARKER = select(meta.c.value).where(meta.c.key == _marker)
SET_MARKER = (
    insert(meta)
    .values(key=_marker, value=bindparam("marker", type_=Text))
    .prefix_with("OR IGNORE")
    .inline()
)

kv = Table(
    "kv",
    MetaData(),
    Column("key", Text, primary_key=True, nullable=True),
    Column("value", LargeBinary, nullable=False),
    Column("expires_at", Integer),
    Column("version", Text, nullable=False),
)

messages = Table(
    "messages",
    MetaData(),
    Column("id", Integer, primary_key=True, nullable=True),
    Column("payload_type", Text, nullable=False),
    Column("payload_data", Text, nullable=False),
    Column("enqueued_at", Integer, nullable=False),
    Column("visible_at", Integer, nullable=False),
    Column("attempt", Integer, nullable=False, server_default=text("0")),
    Column("receipt_handle", Text),
    Index("idx_messages_visible", "visible_at", "enqueued_at", "id"),
    sqlite_autoincrement=True,
)


@attrs.frozen(eq=False)
class Format:
    """What a store's file is called, what is in it, and how Turso is to open it."""

    marker: str
    file: str
    table: Table
    multiprocess: bool
    """Many processes share the file: Turso's multi-process log, and reads beside the writer."""

    failure: str
    """The code of an operation that fails."""

    @property
    def tables(self) -> tuple[Table, Table]:
        """All tables of the file."""
        return meta, self.table

    def names(self) -> set[str]:
        """The tables and indexes that make a file complete."""
        indexes = {str(index.name) for table in self.tables for index in table.indexes}
        return indexes | {table.name for table in self.tables}

    def ddl(self) -> Iterator[str]:
        """The statements that make what is missing of the tables."""
        dialect = sqlite.dialect()
        for table in self.tables:
            yield str(CreateTable(table, if_not_exists=True).compile(dialect=dialect))
            for index in table.indexes:
                yield str(CreateIndex(index, if_not_exists=True).compile(dialect=dialect))


KV = Format("localkv.v2", "localkv.sqlite", kv, True, KV_OPERATION_FAILED)
QUEUE = Format("localqueue.v1", "localqueue.sqlite", messages, False, QUEUE_OPERATION_FAILED)
