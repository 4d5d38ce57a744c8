"""How far a run is: a bar on a terminal, lines where somebody will read a log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from rich import progress as bars

from alkstore_contract.verdict import gist

if TYPE_CHECKING:
    from types import TracebackType

    from rich.console import Console

    from alkstore_contract.running import Outcome

LINES = 10
"""Without a terminal: about as many lines as this, beside one for each property in trouble."""


class Progress:
    """Told of each property as it ends."""

    def __init__(self, console: Console, total: int) -> None:
        self._console = console
        self._total = total
        self._done = 0
        self._wanting = 0
        self._bar = bars.Progress(
            bars.TextColumn("{task.description}"),
            bars.BarColumn(),
            bars.MofNCompleteColumn(),
            bars.TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("begins", total=total)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def tell(self, id_: str, what: Outcome | str) -> None:
        """One more is done: its outcome, or what became of its process."""
        self._done += 1
        error = what if isinstance(what, str) else what.error
        if error is not None:
            self._wanting += 1
            state = "missing" if isinstance(what, str) else "failed"
            said = f"{state}: {id_}: {gist(error)}"
            self._console.print(said, markup=False, highlight=False, soft_wrap=True)
        self._bar.update(self._task, completed=self._done, description=id_)
        tenth = self._done * LINES // self._total > (self._done - 1) * LINES // self._total
        if tenth and not self._console.is_terminal:
            self._console.print(
                f"{self._done} of {self._total} tried, {self._wanting} did not hold",
                highlight=False,
            )
