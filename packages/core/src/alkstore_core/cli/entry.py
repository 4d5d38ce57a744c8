"""Where the script begins, also where what it is made of was not installed."""

from __future__ import annotations

import importlib
import io
import sys

NEEDS = ("click", "rich")


def main() -> None:
    """Run the command line of this process; ends it with one of the documented statuses."""
    for name in NEEDS:
        try:
            importlib.import_module(name)
        except ImportError:
            sys.stderr.write("alkstore needs the extra `cli`: pip install 'alkstore-core[cli]'\n")
            sys.exit(2)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # What a terminal's encoding has no sign for is escaped, and no error.
            stream.reconfigure(errors="backslashreplace")
    try:
        from alkstore_core.cli.root import root  # noqa: PLC0415 - it imports what may be missing.

        root(prog_name="alkstore")
    except KeyboardInterrupt:
        # In the midst of an import, which takes long enough to think better of it.
        sys.exit(130)
