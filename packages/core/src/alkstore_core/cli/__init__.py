"""`alkstore`, the command for whoever operates a store: look, redrive, copy, run workers."""

from alkstore_core.cli.entry import main

__all__ = ["main"]
