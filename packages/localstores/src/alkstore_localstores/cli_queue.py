"""`serve`, `create-queue`, `delete-queue` and `stats`: the owner of a state directory.

But for `serve` they ask the owner that is running, and else own the directory for a moment.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

from alkstore_localstores.cli_output import show_fields, show_json, show_table
from alkstore_localstores.errors import BINDING_SETUP_FAILED, LocalStoreError
from alkstore_localstores.owner.admin import ask

if TYPE_CHECKING:
    import argparse

_COUNTS = ("resource", "total", "visible", "in_flight", "delayed")


def add_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], common: argparse.ArgumentParser
) -> None:
    """Add all four."""
    serve = commands.add_parser(
        "serve", parents=[common], help="own a state directory and serve its queues over HTTP"
    )
    serve.add_argument("--host", default="127.0.0.1", help="where to listen (%(default)s)")
    serve.add_argument(
        "--port", type=int, required=True, help="0 takes any that is free, and it is printed"
    )
    serve.add_argument(
        "--url",
        help="the address for clients, when it is another: http://host.docker.internal:8071",
    )
    serve.add_argument(
        "--driver",
        choices=("sqlite3", "turso"),
        default="sqlite3",
        help="what opens the files (%(default)s); turso needs the extra of that name",
    )
    serve.set_defaults(run=_serve)
    create = commands.add_parser(
        "create-queue",
        parents=[common],
        help="make a queue, or find it, and print its endpoint and its token",
    )
    create.add_argument("resource", help="the queue's name: 1 to 64 letters, digits, '_' and '-'")
    create.set_defaults(run=_create)
    delete = commands.add_parser(
        "delete-queue", parents=[common], help="delete a queue with all that is in it"
    )
    delete.add_argument("resource", help="the queue's name")
    delete.set_defaults(run=_delete)
    stats = commands.add_parser("stats", parents=[common], help="count the messages of queues")
    stats.add_argument("resource", nargs="?", help="the name of one queue; all without it")
    stats.set_defaults(run=_stats)
    for command in (serve, create, delete, stats):
        command.add_argument(
            "--state-dir", required=True, help="the directory in which the owner keeps its queues"
        )


async def _serve(options: argparse.Namespace) -> None:
    try:
        from alkstore_localstores.owner.server import serve  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise LocalStoreError(
            BINDING_SETUP_FAILED,
            f"queues cannot be served: {error}",
            hint="pip install 'alkstore-localstores[http]'",
        ) from error
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")

    def started(address: str) -> None:
        # A script waits for this line, so it must not stay in a buffer.
        show_fields({"address": address, "state": options.state_dir}, as_json=options.json)
        sys.stdout.flush()

    await serve(
        options.state_dir,
        host=options.host,
        port=options.port,
        url=options.url,
        driver=options.driver,
        started=started,
    )


def _create(options: argparse.Namespace) -> None:
    made = ask(options.state_dir, {"command": "create", "resource": options.resource})
    show_fields(made, as_json=options.json)


def _delete(options: argparse.Namespace) -> None:
    gone = ask(options.state_dir, {"command": "delete", "resource": options.resource})
    if options.json:
        show_json(gone)
    else:
        sys.stdout.write(f"deleted {gone['resource']}\n")


def _stats(options: argparse.Namespace) -> int:
    request = {"command": "stats"}
    if options.resource is not None:
        request["resource"] = options.resource
    found = ask(options.state_dir, request)
    if options.json:
        show_json(found)
    else:
        readable = [row for row in found if "error" not in row]
        show_table(_COUNTS, [[row[name] for name in _COUNTS] for row in readable])
        for row in found:
            if "error" in row:
                sys.stderr.write(f"{row['resource']}: {row['error']}\n")
    return int(any("error" in row for row in found))
