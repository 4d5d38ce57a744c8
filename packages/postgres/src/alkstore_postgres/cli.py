"""`alkstore-postgres`: the schema, for whoever is allowed to change it."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from typing import TYPE_CHECKING, Final

import attrs

from alkstore_core import DatabaseError
from alkstore_postgres.connections import own_engine
from alkstore_postgres.migrations import as_sql, head, scripts
from alkstore_postgres.opts import PostgresOpts
from alkstore_postgres.schema import LOCK_PATIENCE, ensure_schema, revision_of
from alkstore_postgres.servers import check_server
from alkstore_postgres.urls import describe, places

if TYPE_CHECKING:
    from collections.abc import Sequence

URL: Final = "ALKSTORE_POSTGRES_URL"

TIMEOUT: Final = 30.0
"""Seconds."""

OK: Final = 0
BEHIND: Final = 1
FAILED: Final = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit status is 0, 1 (`check`: not at head), or 2 (it could not)."""
    parser = _parser()
    parsed = parser.parse_args(arguments)
    if parsed.command != "sql" and not parsed.url:
        parser.error(f"which database? Give --url, or set {URL}")
    try:
        opts = PostgresOpts(schema=parsed.schema, pool_size=1)
        if parsed.command == "sql":
            print(_sql(parsed.schema, parsed.since), end="")  # noqa: T201 - its purpose
            return OK
        opts = attrs.evolve(opts, connect_timeout=parsed.timeout)
        return asyncio.run(_online(parsed.command, parsed.url, opts))
    except (DatabaseError, ValueError) as error:
        print(f"alkstore-postgres: {error}", file=sys.stderr)  # noqa: T201 - its purpose
        return FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="alkstore-postgres",
        description="Make, bring up to date and check the schema that holds alkstore's tables.",
        epilog="Exit status: 0 done, 1 the schema is not at the newest revision (check), 2 failed.",
    )
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--schema", default="alkstore", help="its name (default: alkstore)")
    online = argparse.ArgumentParser(add_help=False)
    online.add_argument(
        "--url",
        default=os.environ.get(URL),
        help=f"postgresql://user:password@host:port/database (default: {URL} of the environment)",
    )
    online.add_argument(
        "--timeout",
        type=float,
        default=TIMEOUT,
        metavar="SECONDS",
        help="how long a server may take to let us in, and to answer (default: %(default)g); the "
        f"migration itself may take longer, and waits up to {LOCK_PATIENCE:g} s for others",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, told in (
        ("upgrade", "make the schema, or bring it to the newest revision"),
        ("current", "say at which revision it is"),
        ("check", "exit with 1 unless it is at the newest revision; changes nothing"),
    ):
        commands.add_parser(name, help=told, description=told, parents=[shared, online])
    told = "print the SQL of the upgrade, for somebody else to run"
    sql = commands.add_parser("sql", help=told, description=told, parents=[shared])
    sql.add_argument(
        "--since", default="base", help="the revision the schema is at (default: there is none)"
    )
    return parser


def _sql(schema: str, since: str) -> str:
    known = scripts()
    ours = [script.revision for script in known.walk_revisions()]
    if since != "base" and since not in ours:
        raise DatabaseError(f"there is no revision {since!r}; there are {', '.join(ours)}")
    return as_sql(schema, known, since=since)


async def _online(command: str, url: str, opts: PostgresOpts) -> int:
    engine = own_engine(url, opts)
    newest = head(scripts())
    # To connect to one of them, and then for an answer.
    patience = opts.connect_timeout * (max(len(places(url)), 1) + 1)
    try:
        before = await revision_of(engine, opts.schema, patience)
        if command == "upgrade":
            await check_server(engine, describe(url), patience)
            await ensure_schema(engine, opts.schema, migrate=True, patience=patience)
            done = "is at" if before == newest else f"went from {before or 'nothing'} to"
            _tell(f"schema {opts.schema!r} {done} revision {newest}")
        elif command == "current":
            _tell(before or f"schema {opts.schema!r} does not exist")
        elif before != newest:
            _tell(f"schema {opts.schema!r} is at {before or 'no revision'}, the newest is {newest}")
            return BEHIND
        else:
            _tell(f"schema {opts.schema!r} is at the newest revision, {newest}")
    finally:
        await engine.dispose()
    return OK


def _tell(line: str) -> None:
    print(line)  # noqa: T201 - a command's answer
