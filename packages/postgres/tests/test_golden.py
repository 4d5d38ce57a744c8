"""The SQL behind the expressions, where a reviewer can read it in a diff.

`ALKSTORE_UPDATE_GOLDEN=1` rewrites the files.
"""

import importlib
import os
from pathlib import Path

import pytest
from sqlalchemy import CompoundSelect, Delete, Insert, Select, Update
from sqlalchemy.dialects.postgresql import asyncpg, psycopg

from alkstore_core.sql.compile import Compiler

GOLDEN = Path(__file__).parent / "golden"
MODULES = (
    "alkstore_core.sql.inspection",
    "alkstore_core.sql.locks",
    "alkstore_core.sql.queues",
    "alkstore_core.sql.schedules",
    "alkstore_core.sql.streams",
    "alkstore_core.sql.transfer",
    "alkstore_postgres.claims",
    "alkstore_postgres.dead_letters",
    "alkstore_postgres.diagnosis",
    "alkstore_postgres.forms",
    "alkstore_postgres.locks",
    "alkstore_postgres.queues",
    "alkstore_postgres.streams",
)


def statements(module):
    """The statements of a module, by name."""
    kinds = (Select, CompoundSelect, Insert, Update, Delete)
    return {
        name: value
        for name, value in vars(importlib.import_module(module)).items()
        if name.isupper() and not name.startswith("_") and isinstance(value, kinds)
    }


class Anything(dict):
    """Every parameter has a value."""

    def __missing__(self, name):
        return None


def text(sql):
    """SQL as it is, without the blanks at the ends of lines."""
    return "\n".join(line.rstrip() for line in sql.strip().splitlines()) + ";\n"


@pytest.mark.parametrize("module", MODULES)
def test_statements(module):
    """The statements of each module compile to what is written in its file."""
    compiler = Compiler(asyncpg.dialect()).for_schema("alkstore")
    content = "\n".join(
        f"-- {name}\n{text(compiler.request(statement, Anything()).sql)}"
        for name, statement in statements(module).items()
    )
    owner, _, noun = module.rpartition(".")
    path = GOLDEN / f"{'core_' if owner == 'alkstore_core.sql' else ''}{noun}.sql"
    if os.environ.get("ALKSTORE_UPDATE_GOLDEN"):
        path.write_text(content, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == content


@pytest.mark.parametrize("schema", ["alkstore", "Mixed Case", 'quo"te', "100%", "ünïcode"])
@pytest.mark.parametrize(
    "dialect", [asyncpg.dialect(), psycopg.dialect()], ids=["asyncpg", "psycopg"]
)
def test_every_table_is_named_with_its_schema(schema, dialect):
    """No statement finds its tables by the search path, whatever the schema is called."""
    compiler = Compiler(dialect).for_schema(schema)
    quoted = dialect.identifier_preparer.quote_schema(schema)
    for module in MODULES:
        for name, statement in statements(module).items():
            sql = compiler.request(statement, Anything()).sql
            for place in sql.split("__alkstore_")[:-1]:
                # Either "schema.table", or "table.column" of a table that was named so before.
                assert place.endswith((f"{quoted}.", " ", "(", "+")), (module, name, sql)
            assert "alkstore_schema_goes_here" not in sql
