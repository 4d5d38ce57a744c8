"""What the census counts. Pure: the same code serves the workers and the direct count."""

from __future__ import annotations

import ast
import gc
import os
import sysconfig
import warnings
from dataclasses import dataclass, fields
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

NOT_OURS = {"site-packages", "dist-packages", "__pycache__"}
BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


@dataclass(frozen=True, slots=True)
class Counts:
    """What one file, or many, amount to."""

    lines: int = 0
    functions: int = 0
    classes: int = 0
    imports: int = 0
    unparsable: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Counts)))


def standard_library() -> Path:
    """Where the running interpreter keeps its own modules."""
    return Path(sysconfig.get_path("stdlib"))


def find_sources(root: Path, limit: int | None = None) -> dict[str, int]:
    """Each `.py` file below `root` by its path, with its size in bytes; at most `limit`."""
    found: dict[str, int] = {}
    for directory, below, names in os.walk(root):
        below[:] = sorted(set(below) - NOT_OURS)
        for name in sorted(names):
            path = Path(directory, name)
            if name.endswith(".py") and path.is_file() and os.access(path, os.R_OK):
                found[path.relative_to(root).as_posix()] = path.stat().st_size
                if len(found) == limit:
                    return found
    return found


def package_of(path: str) -> str:
    """The top-level package of a file; single modules stand together."""
    parts = PurePosixPath(path).parts
    return parts[0] if len(parts) > 1 else "(modules)"


def count_file(root: Path, path: str) -> Counts:
    """Count one file. A source that Python cannot parse (the library ships some) is a result."""
    return count_source((root / path).read_bytes())


def count_source(source: bytes) -> Counts:
    """Count the lines, functions, classes and imports of one module."""
    lines = len(source.splitlines())
    try:
        tree = _parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Counts(lines=lines, unparsable=1)
    functions = classes = imports = 0
    for node in _statements(tree):
        functions += isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        classes += isinstance(node, ast.ClassDef)
        imports += isinstance(node, ast.Import | ast.ImportFrom)
    return Counts(lines=lines, functions=functions, classes=classes, imports=imports)


def sum_counts(counts: Iterable[Counts]) -> Counts:
    """Add up."""
    return sum(counts, Counts())


def _parse(source: bytes) -> ast.Module:
    # A tree is a million objects without a cycle: a collector that walks them while they are
    # made costs a third of the time and frees nothing.
    collecting = gc.isenabled()
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Old escapes in test data are not our news.
            return ast.parse(source)
    finally:
        if collecting:
            gc.enable()


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """Every statement. What is counted never hides in an expression, so none is visited."""
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        yield node
        for block in BLOCKS:
            # A lambda's body is no list.
            if isinstance(inside := getattr(node, block, None), list):
                todo.extend(inside)
