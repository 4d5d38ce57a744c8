"""The command `alkstore-localstores`. Each `cli_*` module adds commands of its own.

A command is a parser whose default `run` is a function or a coroutine function of the parsed
options; it returns an exit status, or nothing for 0. A `LocalStoreError` is printed, status 1.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import sys
from typing import TYPE_CHECKING

from alkstore_localstores import cli_files, cli_kv, cli_queue
from alkstore_localstores.cli_output import show_error
from alkstore_localstores.errors import LocalStoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

MODULES = (cli_queue, cli_kv, cli_files)
"""Each has `add_commands(commands, common)`; `common` is the parent parser with `--json`."""


def parser() -> argparse.ArgumentParser:
    """Everything the command line understands."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--json", action="store_true", help="print JSON, for scripts")
    top = argparse.ArgumentParser(
        prog="alkstore-localstores", description="Local key-value stores and queues."
    )
    commands = top.add_subparsers(metavar="command", required=True)
    for module in MODULES:
        module.add_commands(commands, common)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status."""
    options = parser().parse_args(arguments)
    try:
        if inspect.iscoroutinefunction(options.run):
            status = asyncio.run(options.run(options))
        else:
            status = options.run(options)
    except LocalStoreError as error:
        show_error(error, as_json=options.json)
        return 1
    except KeyboardInterrupt:
        return 130
    return int(status or 0)


if __name__ == "__main__":
    sys.exit(main())
