"""The SQL behind the expressions, where a reviewer can read it in a diff.

`ALKSTORE_UPDATE_GOLDEN=1` rewrites the files.
"""

import importlib
import os
from pathlib import Path

import pytest
from sqlalchemy import CompoundSelect, Delete, Insert, Select, Update
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from alkstore_core.sql.tables import metadata

GOLDEN = Path(__file__).parents[1] / "golden" / "sqlite"
NOUNS = (
    "claims",
    "dead_letters",
    "inspection",
    "locks",
    "merging",
    "queues",
    "schedules",
    "signals",
    "streams",
    "transfer",
)


def statements(noun):
    """The statements of a module, by name."""
    module = importlib.import_module(f"alkstore_core.sql.{noun}")
    kinds = (Select, CompoundSelect, Insert, Update, Delete)
    return {
        name: value
        for name, value in vars(module).items()
        if name.isupper() and not name.startswith("_") and isinstance(value, kinds)
    }


def text(compiled):
    """SQL as it is, without the blanks at the ends of lines."""
    return "\n".join(line.rstrip() for line in str(compiled).strip().splitlines()) + ";\n"


def check(name, content):
    """Compare with the file, or write it."""
    path = GOLDEN / f"{name}.sql"
    if os.environ.get("ALKSTORE_UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == content


@pytest.mark.parametrize("noun", NOUNS)
def test_statements(noun):
    """The statements of each noun compile to what is written in its file."""
    dialect = sqlite.dialect(paramstyle="named")
    content = "\n".join(
        f"-- {name}\n{text(statement.compile(dialect=dialect))}"
        for name, statement in statements(noun).items()
    )
    check(noun, content)


def test_schema():
    """The tables and their indexes are what is written in the file."""
    dialect = sqlite.dialect()
    content = ""
    for table in metadata.sorted_tables:
        content += text(CreateTable(table).compile(dialect=dialect))
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            content += text(CreateIndex(index).compile(dialect=dialect))
        content += "\n"
    check("tables", content)


@pytest.mark.parametrize("noun", NOUNS)
def test_every_value_comes_with_the_call(noun):
    """No statement binds a constant: the drivers put in what the op gives, and the time."""
    dialect = sqlite.dialect()
    for name, statement in statements(noun).items():
        compiled = statement.compile(dialect=dialect)
        bound = {key for key, value in compiled.params.items() if value is not None}
        assert (name, set()) == (name, bound)


def test_no_file_is_left_over():
    """Every golden file belongs to a noun."""
    assert {*NOUNS, "tables"} == {path.stem for path in GOLDEN.iterdir()}
