"""The command `alkstore` and its parts."""

from __future__ import annotations

import click


@click.group()
@click.version_option(package_name="alkstore-core", prog_name="alkstore")
def root() -> None:
    """Look into a store, and do for it what nobody else does."""
