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
from alkstore_contract.expect import UnmetError

if TYPE_CHECKING:
    from collections.abc import Callable

    from alkstore_contract.harness import Harness
    from alkstore_contract.properties import Property


LONGEST = 40_000
"""Characters of an error that are kept: its beginning and its end."""


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


def run(harness: Harness, prop: Property, began: Callable[[int], None] = lambda _: None) -> Outcome:
    """Run every case of a property, each in an event loop of its own, up to the first failure.

    `began` is told the number of each case before it runs.
    """
    if sys.flags.optimize:
        raise RuntimeError("the contract is not judged under `python -O`")
    started = time.perf_counter()
    digest = prop.digest
    cases: list[tuple[Any, ...]] = [(value,) for value in prop.cases] or [()]
    held = 0
    error = None
    where = ""
    try:
        for arguments in cases:
            where = "".join(f"case {value!r}: " for value in arguments)
            began(held)
            _run_case(harness, prop, arguments)
            held += 1
    except (Exception, asyncio.CancelledError, SystemExit):  # noqa: BLE001 - whatever it is, told
        error = told(f"{where}{traceback.format_exc()}")
    return Outcome(
        id=prop.id,
        digest=digest,
        cases=held,
        seconds=time.perf_counter() - started,
        error=error,
    )


def told(text: str) -> str:
    """An error's text, of a length that people read and in characters that can be written."""
    if len(text) > LONGEST:
        text = f"{text[: LONGEST // 2]}\n[...]\n{text[-LONGEST // 2 :]}"
    return text.encode(errors="backslashreplace").decode()


def _run_case(harness: Harness, prop: Property, arguments: tuple[Any, ...]) -> None:
    if not inspect.iscoroutinefunction(prop.function):
        prop.function(harness, *arguments)
        return

    late = f"it did not end within {prop.seconds:g} s"

    async def show() -> None:
        limit = asyncio.timeout(prop.seconds)
        try:
            async with limit, Case(harness) as case:
                await prop.function(case, *arguments)  # type: ignore[misc]
        except TimeoutError as error:
            if limit.expired():
                raise UnmetError(late) from error
            raise
        if limit.expired():  # somebody swallowed the cancellation
            raise UnmetError(late)

    with asyncio.Runner() as runner:
        runner.run(show())
