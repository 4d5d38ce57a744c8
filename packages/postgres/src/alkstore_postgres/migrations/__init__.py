"""The schema's history: Alembic revisions, oldest first, and how they are run.

Revisions get their `Operations` and the schema's name as arguments instead of importing
`alembic.op`: that is one for the whole process, and several databases, threads and tasks may be
migrated at the same time. For the same reason there is no `env.py`.
"""

from __future__ import annotations

import functools
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.schema import CreateSchema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sqlalchemy import Connection

HERE: Final = Path(__file__).parent

VERSION_TABLE: Final = "__alkstore_version"
"""In our schema, under a name of ours: the application's own Alembic has a table as well."""


@functools.cache
def scripts(versions: str = str(HERE / "versions")) -> ScriptDirectory:
    """Every revision."""
    return ScriptDirectory(str(HERE), version_locations=[versions])


def head(known: ScriptDirectory) -> str:
    """The newest revision: what this version of the package works with."""
    newest = known.get_current_head()
    if newest is None:
        raise RuntimeError("the package's migrations are missing: install it again")
    return newest


def run(connection: Connection, schema: str, known: ScriptDirectory, *, to: str = "head") -> None:
    """Run the revisions that are missing, in the connection's open transaction."""
    context = _context(schema, known, to, connection=connection)
    context.run_migrations(operations=Operations(context), schema=schema)


def as_sql(schema: str, known: ScriptDirectory, *, since: str = "base") -> str:
    """What `run` would execute on a schema at the revision `since`, for a person to run."""
    out = io.StringIO()
    context = _context(
        schema,
        known,
        "head",
        dialect_name="postgresql",
        as_sql=True,
        output_buffer=out,
        starting_rev=None if since == "base" else since,
        literal_binds=True,
    )
    with context.begin_transaction():
        if since == "base":
            Operations(context).execute(CreateSchema(schema, if_not_exists=True))
        context.run_migrations(operations=Operations(context), schema=schema)
    return out.getvalue()


def leave_out(schema: str = "alkstore") -> Callable[..., bool]:
    """What an application whose Alembic has `include_schemas` gives as `include_name`.

    Autogenerate then proposes nothing about our schema. Without `include_schemas` it looks into
    the application's own schema only, and needs nothing.
    """

    def include_name(name: str | None, kind: str, _: object) -> bool:
        return kind != "schema" or name != schema

    return include_name


def _context(
    schema: str,
    known: ScriptDirectory,
    to: str,
    *,
    connection: Connection | None = None,
    dialect_name: str | None = None,
    **options: Any,
) -> MigrationContext:
    def steps(current: Any, _: MigrationContext) -> Iterable[Any]:
        return known._upgrade_revs(to, current)  # noqa: SLF001 - as Alembic's own `upgrade` does

    return MigrationContext.configure(
        connection,
        dialect_name=dialect_name,
        opts={
            **options,
            "fn": steps,
            "script": known,
            "version_table": VERSION_TABLE,
            "version_table_schema": schema,
            "transaction_per_migration": False,
            "transactional_ddl": True,
        },
    )
