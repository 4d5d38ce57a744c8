"""Playing random histories, and telling the shortest one found that fails."""

from __future__ import annotations

import os
import time
import warnings
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis.errors import HypothesisDeprecationWarning
from hypothesis.stateful import run_state_machine_as_test

from alkstore_contract.expect import UnmetError
from alkstore_contract.machine.steps import FailedHistoryError

if TYPE_CHECKING:
    from alkstore_contract.harness import Harness
    from alkstore_contract.machine.machine import Machine
    from alkstore_contract.machine.steps import Taken

VARIABLE = "ALKSTORE_HISTORIES"
"""Set to a whole number, histories are random and so many times as many, for nightly runs.

Without it they are the same in every run, as a verdict has to be.
"""

SHORTENING_SECONDS = 10.0
"""How long a failing history is shortened."""


def run_histories(machine: type[Machine], harness: Harness, *, histories: int, steps: int) -> None:
    """Play `histories` histories of up to `steps` steps each.

    Raises:
        UnmetError: one of them left the contract; the message is that history, call by call.

    """
    kind: Any = type(machine.__name__, (machine,), {"harness": harness})
    factor = int(os.environ.get(VARIABLE, "0"))
    try:
        for number in range(histories * max(factor, 1)):
            _play(kind, None if factor else number, steps)
    except FailedHistoryError as failed:
        lines = _shortened(kind, failed)
        raise UnmetError("\n".join(["a history that leaves the contract:", *lines])) from None


def _play(kind: Any, number: int | None, steps: int) -> None:
    """Play one history.

    Hypothesis makes five mutants of each example, which here are hardly new: so each history is
    a run of its own, of two examples. The first is always the simplest, which is empty.
    """
    chosen = type(kind.__name__, (kind,), {})
    if number is not None:
        chosen = seed(number)(chosen)
    with warnings.catch_warnings():
        # An engine's threads may use it while we draw; nothing that is drawn depends on it.
        warnings.filterwarnings("ignore", "Do not use the `random`", HypothesisDeprecationWarning)
        run_state_machine_as_test(
            chosen,
            settings=settings(
                max_examples=2,
                stateful_step_count=steps,
                derandomize=number is not None,
                database=None,
                deadline=None,
                print_blob=False,
                verbosity=Verbosity.quiet,
                phases=[Phase.generate],
                # A history takes as long as its calls, and its data is large on purpose.
                suppress_health_check=list(HealthCheck),
            ),
        )


def _shortened(kind: type[Machine], failed: FailedHistoryError) -> list[str]:
    """The lines of a history that fails as well, with as few steps as can be found in time.

    Not by Hypothesis, which cuts at what was drawn: here a step can be left out by itself.
    """
    ends = time.monotonic() + SHORTENING_SECONDS
    size = max(len(failed.taken) // 2, 1)
    while time.monotonic() < ends:
        start, shorter = 0, False
        while start < len(failed.taken) and time.monotonic() < ends:
            found = _replayed(kind, failed.taken[:start] + failed.taken[start + size :])
            if found is None:
                start += size
            else:
                failed, shorter = found, True
        if not shorter and size == 1:
            break
        size = max(size // 2, 1)
    return failed.lines


def _replayed(kind: type[Machine], taken: list[Taken]) -> FailedHistoryError | None:
    """The failure of a history, if it fails."""
    machine = kind()
    try:
        try:
            machine.begin()
            for one in taken:
                machine.take(one)
        finally:
            machine.teardown()
    except FailedHistoryError as failed:
        return failed
    return None
