"""The SQL behind the expressions, where a reviewer can read it in a diff, and what it reads.

`ALKSTORE_UPDATE_GOLDEN=1` rewrites the files.
"""

import contextlib
import importlib
import os
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import Delete, Insert, Select, Update
from sqlalchemy.dialects import sqlite

from alkstore_localstores import kv_ops
from alkstore_localstores.formats import COMPILER, KV, QUEUE
from alkstore_localstores.opening import make_tables

GOLDEN = Path(__file__).parent / "golden"


def statements(module):
    """The statements of a module, by name."""
    found = vars(importlib.import_module(f"alkstore_localstores.{module}")).items()
    kinds = (Select, Insert, Update, Delete)
    return {name: value for name, value in found if name.isupper() and isinstance(value, kinds)}


def check(name, content):
    """Compare with the file, or write it."""
    path = GOLDEN / f"{name}.sql"
    if os.environ.get("ALKSTORE_UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == content


def text(sql):
    """SQL without the blanks at the ends of lines."""
    return "\n".join(line.rstrip() for line in sql.strip().expandtabs(4).splitlines()) + ";\n"


@pytest.mark.parametrize("module", ["kv_ops", "queue_ops", "inspection_ops", "formats"])
def test_statements(module):
    """The statements of each module compile to what is written in its file."""
    dialect = sqlite.dialect(paramstyle="named")
    found = statements(module)
    assert found
    parts = [
        f"-- {name}\n{text(str(value.compile(dialect=dialect)))}" for name, value in found.items()
    ]
    check(module, "\n".join(parts))


@pytest.mark.parametrize("format_", [KV, QUEUE], ids=["kv", "queue"])
def test_ddl(format_):
    """And so do the tables."""
    check(format_.marker, "\n".join(text(ddl) for ddl in format_.ddl()))


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (kv_ops.PAGE, "SEARCH kv USING INDEX sqlite_autoindex_kv_1 (key>? AND key<?)"),
        (kv_ops.PAGE_AFTER, "SEARCH kv USING INDEX sqlite_autoindex_kv_1 (key>? AND key<?)"),
        (kv_ops.FIND, "SEARCH kv USING INDEX sqlite_autoindex_kv_1 (key=?)"),
        (kv_ops.FIND_EXPIRY, "SEARCH kv USING INDEX sqlite_autoindex_kv_1 (key=?)"),
        (kv_ops.DROP_EXPIRED, "SEARCH kv USING INDEX sqlite_autoindex_kv_1 (key=?)"),
        (kv_ops.PUT_IF_VERSION, "SEARCH kv USING INDEX sqlite_autoindex_kv_1 (key=?)"),
        (kv_ops.DELETE_IF_VERSION, "SEARCH kv USING INDEX sqlite_autoindex_kv_1 (key=?)"),
    ],
)
def test_plans(statement, expected):
    """A page is a range that ends where the prefix does; all else finds its one row."""
    names = {"name", "since", "until", "count", "now", "content", "expiry", "fresh", "expected"}
    request = COMPILER.request(statement, dict.fromkeys(names, 1))
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        make_tables(connection, KV)
        plan = connection.execute(f"EXPLAIN QUERY PLAN {request.sql}", request.arguments)
        assert [row[3] for row in plan.fetchall()] == [expected]
