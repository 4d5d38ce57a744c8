"""`inspect` and `migrate-legacy`: for stores that nobody uses at the moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alkstore_localstores.cli_output import show_fields
from alkstore_localstores.inspection import inspect_file
from alkstore_localstores.migration import migrate_legacy

if TYPE_CHECKING:
    import argparse


def add_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], common: argparse.ArgumentParser
) -> None:
    """Add both."""
    inspect = commands.add_parser(
        "inspect", parents=[common], help="say what is in a stopped store's file"
    )
    inspect.add_argument("file", help="the path of a localkv.sqlite or localqueue.sqlite")
    inspect.set_defaults(run=_inspect)
    migrate = commands.add_parser(
        "migrate-legacy",
        parents=[common],
        help="move a queue of an older release, with everything stopped, to where its owner "
        "keeps it",
    )
    migrate.add_argument(
        "--state-dir", required=True, help="the directory in which the owner keeps its queues"
    )
    migrate.add_argument("resource", help="the queue's name")
    migrate.set_defaults(run=_migrate)


def _inspect(options: argparse.Namespace) -> int:
    found = inspect_file(options.file)
    fields = found.fields()
    if not options.json:
        # One name to a line reads better than objects in a line.
        sidecars = [f"{name} ({size} bytes)" for name, size in found.sidecars.items()]
        head = {"file": found.file, "format": found.format, **fields.pop("counts")}
        fields = {**head, **fields, "sidecars": sidecars}
    show_fields(fields, as_json=options.json)
    return 0 if found.intact else 1


def _migrate(options: argparse.Namespace) -> None:
    done = migrate_legacy(options.state_dir, options.resource)
    fields = {
        "source": str(done.source),
        "destination": str(done.destination),
        "backup": str(done.backup),
    }
    show_fields(fields, as_json=options.json)
