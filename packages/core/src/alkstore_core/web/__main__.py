"""`python -m alkstore_core.web`: serve the status page of a store."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from alkstore_core.errors import AlkstoreError
from alkstore_core.web.server import PORT, serve

TOKEN = "ALKSTORE_WEB_TOKEN"  # noqa: S105 - the variable's name.
URL = "ALKSTORE_URL"


def main() -> int:
    """Read the command line and serve; the exit status is 0 after a signal."""
    parser = argparse.ArgumentParser(
        prog="python -m alkstore_core.web",
        description="Serve the status page of a store until SIGINT or SIGTERM.",
        epilog=f"The token is read from the variable {TOKEN} or a file: on a command line "
        "everybody on this host could read it.",
    )
    parser.add_argument("--url", default=os.environ.get(URL), help=f"the store's URL, or ${URL}")
    parser.add_argument("--host", default="127.0.0.1", help="where to listen (%(default)s)")
    parser.add_argument("--port", default=PORT, type=int, help="0 for any free one (%(default)s)")
    parser.add_argument("--token-file", type=Path, help="a file that holds the token")
    parser.add_argument("--actions", action="store_true", help="let dead jobs be redriven, deleted")
    asked = parser.parse_args()
    if not asked.url:
        parser.error(f"which store? give --url, or set {URL}")
    try:
        token = os.environ.get(TOKEN) or None
        if asked.token_file is not None:
            token = asked.token_file.read_text(encoding="utf-8").strip()
        serve(asked.url, asked.host, asked.port, token, asked.actions, started=_started)
    except (AlkstoreError, OSError, UnicodeDecodeError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


def _started(address: str) -> None:
    print(f"The status page is at {address}", flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
