"""`SqliteStore`: one host, one file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Connection

from alkstore_core.sql.store import SqlStore
from alkstore_sqlite.engine import SqliteEngine
from alkstore_sqlite.opts import SqliteOpts

if TYPE_CHECKING:
    import os

    from alkstore_core import Clock


class SqliteStore(SqlStore):
    pass
