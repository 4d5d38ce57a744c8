"""How the commands speak: tables for people, JSON for scripts."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from alkstore_localstores.errors import LocalStoreError


def show_json(value: Any) -> None:
    """Print a value as one line of JSON."""
    sys.stdout.write(f"{json.dumps(value, ensure_ascii=False)}\n")


def show_fields(fields: Mapping[str, Any], *, as_json: bool) -> None:
    """Print what is known of one thing: a line for each name, or one object."""
    if as_json:
        show_json(fields)
        return
    width = max(map(len, fields), default=0)
    for name, value in fields.items():
        sys.stdout.write(f"{name:<{width}}  {_shown(value)}\n")


def show_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows under their columns' names, for people."""
    lines = [[*columns], *([_shown(value) for value in row] for row in rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(columns))]
    for line in lines:
        padded = (f"{text:<{width}}" for text, width in zip(line, widths, strict=True))
        sys.stdout.write(f"{'  '.join(padded).rstrip()}\n")


def show_error(error: LocalStoreError, *, as_json: bool) -> None:
    """Print an error to where errors go."""
    text = json.dumps(error.envelope(), ensure_ascii=False) if as_json else f"error: {error}"
    sys.stderr.write(f"{text}\n")


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(_shown, value)) or "-"
    return str(value)
