"""The documents of the local stores' formats say what the code makes."""

import contextlib
import re
import sqlite3

import pytest

from alkstore_localstores.files import StoreFile
from alkstore_localstores.formats import KV, QUEUE
from wheelhouse import ROOT

each_format = pytest.mark.parametrize(
    ("format_", "page"), [(KV, "localkv.md"), (QUEUE, "localqueue.md")], ids=["kv", "queue"]
)


def shape(connection) -> dict[str, list]:
    """All that SQLite knows of tables, columns and indexes, whatever the text of their DDL."""
    found = {}
    names = "SELECT type, name, tbl_name FROM sqlite_master WHERE name <> 'sqlite_sequence'"
    for kind, name, table in sorted(connection.execute(names).fetchall()):
        pragma = "table_xinfo" if kind == "table" else "index_xinfo"
        found[f"{kind} {name} of {table}"] = connection.execute(
            f"PRAGMA {pragma}({name})"
        ).fetchall()
    for (table,) in connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table'"
    ).fetchall():
        found[f"indexes of {table}"] = connection.execute(f"PRAGMA index_list({table})").fetchall()
    return found


def documented(page) -> sqlite3.Connection:
    """A database made by a page's DDL."""
    text = (ROOT / "docs" / "formats" / page).read_text(encoding="utf-8")
    (ddl,) = re.findall(r"^```sql\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    connection = sqlite3.connect(":memory:")
    connection.executescript(ddl)
    return connection


@each_format
@pytest.mark.parametrize("adopted", [False, True])
async def test_the_ddl_is_the_codes(format_, page, adopted, tmp_path):
    """Tables, columns, types, defaults, keys, indexes and the marker are the same."""
    path = tmp_path / format_.file
    if adopted:
        path.touch()
    async with StoreFile(tmp_path, format_):
        pass
    with (
        contextlib.closing(sqlite3.connect(path)) as made,
        contextlib.closing(documented(page)) as described,
    ):
        assert shape(described) == shape(made)
        marker = "SELECT key, value FROM meta"
        assert described.execute(marker).fetchall() == made.execute(marker).fetchall()
        autoincrement = "SELECT count(*) FROM sqlite_master WHERE name = 'sqlite_sequence'"
        assert described.execute(autoincrement).fetchall() == made.execute(autoincrement).fetchall()


@each_format
def test_a_page_names_its_format_and_file(format_, page):
    """The title is the marker, and the file's name is in it."""
    text = (ROOT / "docs" / "formats" / page).read_text(encoding="utf-8")
    assert text.startswith(f"# {format_.marker}\n")
    assert format_.file in text
