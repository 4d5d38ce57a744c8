"""The file of `copy --map`: it has its name when it is whole, and replaces nothing else."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from alkstore_core.cli.opening import file_of
from alkstore_core.cli.output import Told, written
from alkstore_core.cli.statuses import Refused
from alkstore_core.copying.checks import same_file

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

_BESIDE: Final = ("", "-wal", "-shm", "-journal")
"""What the names of the files of one SQLite database end with."""


@contextlib.contextmanager
def whole_file(path: Path | None, urls: Sequence[str]) -> Generator[Told | None]:
    """A new file that takes the place of `path` when it was left without an error.

    A symlink stays one: what it leads to is replaced.

    Raises:
        Refused: `path` belongs to one of the databases of `urls`, or is no regular file.
        NotWritten: it cannot be written there.

    """
    if path is None:
        yield None
        return
    what = f"the map {path}"
    with written(what):
        real = Path(os.path.realpath(path))
        _check(path, real, urls)
        part = real.with_name(f".alkstore-{secrets.token_hex(8)}.part")
        file = part.open("x", encoding="utf-8")
    try:
        yield Told(file, what)
        with written(what):
            file.flush()
            os.fsync(file.fileno())
            if real.exists():
                shutil.copymode(real, part)
            part.replace(real)
    finally:
        with contextlib.suppress(OSError):
            file.close()
        with contextlib.suppress(OSError):
            part.unlink()


def _check(path: Path, real: Path, urls: Sequence[str]) -> None:
    for url in urls:
        file = file_of(url)
        if file is None:
            continue
        for name in (os.fspath(file), os.path.realpath(file)):
            for end in _BESIDE:
                if same_file(real, Path(name + end)):
                    raise Refused(f"--map {path} would replace a file of the database {file}")
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(real.stat().st_mode):
            raise Refused(f"--map {path} is no regular file, which alone can be replaced")
