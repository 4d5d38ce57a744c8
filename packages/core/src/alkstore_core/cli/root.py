"""The command `alkstore` and its parts."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any, Final

import click

from alkstore_core.cli.completion import completion
from alkstore_core.cli.copying import copy
from alkstore_core.cli.dead import dead
from alkstore_core.cli.doctor import doctor
from alkstore_core.cli.enqueue import enqueue
from alkstore_core.cli.jobs import jobs, sweep
from alkstore_core.cli.listen import listen
from alkstore_core.cli.output import telling
from alkstore_core.cli.params import url_before, url_option_before
from alkstore_core.cli.schedules import locks, schedules
from alkstore_core.cli.status import status
from alkstore_core.cli.statuses import BROKEN_PIPE, NotWritten, silence, status_of
from alkstore_core.cli.streams import stream
from alkstore_core.cli.top import top
from alkstore_core.cli.web import web
from alkstore_core.cli.worker import worker

if TYPE_CHECKING:
    from collections.abc import Sequence


class Root(click.Group):
    """Ends with the documented statuses, whatever happens."""

    def main(  # noqa: D102 - click's, and only what becomes of errors is ours.
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        run = functools.partial(
            super().main,
            args,
            prog_name,
            complete_var,
            standalone_mode=False,
            windows_expand_args=windows_expand_args,
            **extra,
        )
        if not standalone_mode:
            return run()

        def told() -> Any:
            with telling():
                return run()

        sys.exit(status_of(told))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, which needs a use for a `--url` before it, and ears for its answer."""
        name, command, rest = super().resolve_command(ctx, args)
        takes = isinstance(command, click.Group) or (
            command is not None and any(param.name == "url" for param in command.params)
        )
        if url_before(ctx) is not None and not takes:
            ctx.fail(f"{name} takes no --url")
        if sys.stdout is None and name not in _SILENT:
            raise NotWritten("standard output is closed, so nothing was done: give it a file")
        return name, command, rest

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, and see that all it said has left."""
        try:
            result = super().invoke(ctx)
            if sys.stdout is not None:
                sys.stdout.flush()
        except BrokenPipeError:
            silence(sys.stdout)
            raise click.exceptions.Exit(BROKEN_PIPE) from None
        return result


_SILENT: Final = ("web", "worker")
"""They do their work without a word on standard output."""

PARTS: Final[tuple[click.Command, ...]] = (
    completion,
    copy,
    dead,
    doctor,
    enqueue,
    jobs,
    listen,
    locks,
    schedules,
    status,
    stream,
    sweep,
    top,
    web,
    worker,
)


@click.group(cls=Root, commands=PARTS, context_settings={"help_option_names": ["-h", "--help"]})
@url_option_before
@click.version_option(package_name="alkstore-core", prog_name="alkstore")
def root() -> None:
    """See what is in an alkstore database, run its workers, and mend what went wrong.

    The database is named by --url, before or behind the command, or by ALKSTORE_URL, where no
    list of processes shows its password.
    """
