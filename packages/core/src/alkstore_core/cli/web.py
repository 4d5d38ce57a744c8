"""`web`: the status page, served by itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import click

from alkstore_core import DatabaseError
from alkstore_core.cli.ending import run_until_told
from alkstore_core.cli.opening import name_of, opened
from alkstore_core.cli.params import Integer, url_option
from alkstore_core.cli.statuses import NotInstalled, Refused

TOKEN: Final = "ALKSTORE_WEB_TOKEN"  # noqa: S105 - the variable's name.


@click.command(
    epilog=f"The token is read from {TOKEN} or a file: everybody on a host can read the command "
    "lines of its processes."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option(
    "--port",
    type=Integer(0, 65_535),
    default=8484,
    show_default=True,
    help="0 takes any free one.",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A file that holds the token.",
)
@click.option("--actions", is_flag=True, help="Let dead jobs be redriven and deleted.")
@click.option(
    "--insecure",
    is_flag=True,
    help="Ask nobody for a token: something in front of it has done so already.",
)
@click.option("--title", metavar="TEXT", help="On each page; without it the database's name.")
@url_option
def web(
    url: str | None,
    host: str,
    port: int,
    token_file: Path | None,
    title: str | None,
    *,
    actions: bool,
    insecure: bool,
) -> None:
    """Serve the status page until ctrl-C or SIGTERM.

    Without a token it is served to this host's own browsers alone, and to look at only. The first
    signal lets requests end, a second one does not wait for them.
    """
    try:
        from alkstore_core.web.server import check_access, serve  # noqa: PLC0415 - an extra's.
    except ModuleNotFoundError:
        raise NotInstalled(
            "alkstore web needs the extra `web`: pip install 'alkstore-core[cli,web]'"
        ) from None
    token = os.environ.get(TOKEN) or None
    if token_file is not None:
        try:
            token = token_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise click.UsageError(f"cannot read a token from {token_file}: {error}") from None
    try:
        check_access(host, token, actions=actions, insecure_without_token=insecure)
    except DatabaseError as error:
        raise click.UsageError(str(error)) from None

    async def work() -> None:
        async with opened(url) as store:
            try:
                await serve(
                    store,
                    host,
                    port,
                    token=token,
                    actions=actions,
                    insecure_without_token=insecure,
                    title=title or name_of(url or ""),
                    started=_started,
                )
            except BrokenPipeError:
                raise
            except OSError as error:
                raise Refused(str(error)) from None

    run_until_told(lambda _: work())


def _started(address: str) -> None:
    click.echo(f"The status page is at {address}")
