"""`completion`: what a shell needs to complete this command."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from alkstore_core.cli.statuses import Refused


@click.command(short_help="Print the completion script of a shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell: eval "$(alkstore completion bash)"."""
    made = get_completion_class(shell)
    if made is None:
        raise Refused(f"this release of click has no completion for {shell}")
    command = ctx.find_root().command
    click.echo(made(command, {}, "alkstore", "_ALKSTORE_COMPLETE").source())
