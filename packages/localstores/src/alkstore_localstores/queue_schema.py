"""The tables of `localqueue.v1`. The format is fixed: a change of it is another format."""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger, Column, Integer, MetaData, Table, Text

FILE: Final = "localqueue.sqlite"

FORMAT: Final = "localqueue.v1"

CREATE_MESSAGES: Final = """\
CREATE TABLE IF NOT EXISTS messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    payload_type TEXT NOT NULL,
    payload_data TEXT NOT NULL,
    enqueued_at INTEGER NOT NULL,
    visible_at INTEGER NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 0,
    receipt_handle TEXT
)"""

CREATE_INDEX: Final = """\
CREATE INDEX IF NOT EXISTS idx_messages_visible ON messages (visible_at, enqueued_at, id)"""

DDL: Final = (CREATE_MESSAGES, CREATE_INDEX)
"""What is created beside the `meta` table that all formats have."""

messages: Final = Table(
    "messages",
    MetaData(),
    Column("id", Integer, primary_key=True),
    Column("payload_type", Text, nullable=False),
    Column("payload_data", Text, nullable=False),
    Column("enqueued_at", BigInteger, nullable=False),
    Column("visible_at", BigInteger, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("receipt_handle", Text),
)
"""The columns, for statements; what is created is `DDL`."""
