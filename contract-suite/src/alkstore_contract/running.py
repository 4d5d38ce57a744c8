"""One property, run: the same for the command line, for pytest and for the saboteurs."""

from __future__ import annotations

import asyncio
import inspect
import sys
import time
import traceback
from typing import TYPE_CHECKING, Any

from attrs import frozen

from alkstore_contract.case import Case

if TYPE_CHECKING:
    from alkstore_contract.harness import Harness
    from alkstore_contract.properties import Property


@frozen(kw_only=True)
class Outcome:
    """What became of a property. It holds when every case ran and none failed."""

    id: str
    digest: str
    cases: int
    """How many cases held before the first that did not."""

    seconds: float
    error: str | None
    """The failed case and the traceback; `None` when it holds."""


def run(harness: Harness, prop: Property) -> Outcome:
    """Run every case of a property, each in an event loop of its own, up to the first failure."""
    if sys.flags.optimize:
        raise RuntimeError("the contract is not judged under `python -O`")
    began = time.perf_counter()
    held = 0
    error = None
    try:
        for arguments in [(value,) for value in prop.cases] or [()]:
            where = f"case {arguments[0]!r}: " if arguments else ""
            _run_case(harness, prop, arguments)
            held += 1
    except Exception:  # noqa: BLE001 - whatever it is, it is told
        error = where + traceback.format_exc()
    return Outcome(
        id=prop.id,
        digest=prop.digest,
        cases=held,
        seconds=time.perf_counter() - began,
        error=error,
    )


def _run_case(harness: Harness, prop: Property, arguments: tuple[Any, ...]) -> None:
    if not inspect.iscoroutinefunction(prop.function):
        prop.function(harness, *arguments)
        return

    async def show() -> None:
        async with asyncio.timeout(prop.seconds), Case(harness) as case:
            await prop.function(case, *arguments)  # type: ignore[misc]

    with asyncio.Runner() as runner:
        runner.run(show())
