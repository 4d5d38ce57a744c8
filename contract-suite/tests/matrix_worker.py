"""A process of the matrix: runs properties on sabotaged engines and says what came of each.

    python matrix_worker.py SUBJECT

Reads one request per line and answers with one line per property, both JSON. It may be killed
at any time: a saboteur can make it hang where nothing else helps.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import random
import re
import signal
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sabotage
from attrs import evolve
from patches import forget_answers

from alkstore_contract.harness import load_harness
from alkstore_contract.running import run
from alkstore_core.policy import backoff

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FrameType

    from alkstore_contract.harness import Harness
    from alkstore_contract.properties import Property


MISTAKES = r"^[ |]*(AttributeError|ImportError|IndexError|KeyError|(Name|Type|UnboundLocal)Error)\b"
"""What no saboteur raises on purpose: it does not do what its table says, but falls over."""


class TooLongError(BaseException):
    """A property that the loop's own time-out did not end: it never came back to the loop."""


@contextlib.contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Interrupt the block, again each second, for what it does in the end may hang as well."""

    def cut(*_: object) -> None:
        raise TooLongError

    previous = signal.signal(signal.SIGALRM, cut)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def attempt(harness: Harness, prop: Property, seconds: float) -> dict[str, Any]:
    """Run one property; what it cost, and the end of its error if it does not hold."""
    # What is random in core is not in the matrix.
    backoff._jitter.seed(1)
    random.seed(1)
    began = time.perf_counter()
    try:
        with deadline(seconds + 1.0):
            error = run(harness, evolve(prop, seconds=seconds)).error
    except TooLongError:
        error = "it hangs"
    except BaseException as stray:  # noqa: BLE001 - a saboteur may let anything through.
        error = repr(stray)
    told = None if error is None else error.strip().splitlines()[-1]
    seconds = time.perf_counter() - began
    mistaken = error is not None and is_mistaken(error)
    return {"property": prop.id, "error": told, "seconds": seconds, "mistaken": mistaken}


def is_mistaken(error: str) -> bool:
    """Whether a traceback, or one that led to it, ends by a mistake in a saboteur's own line."""
    return any(
        (frames := re.findall(r'^[ |]*File "(.+)", line ', block, flags=re.MULTILINE))
        and Path(frames[-1]).parent.name == "saboteurs"
        and re.search(MISTAKES, block, flags=re.MULTILINE)
        for block in error.split("Traceback (most recent call last):")
    )


def trace(harness: Harness, prop: Property, seconds: float) -> dict[str, Any]:
    """Run one property on a sound engine; also which of our code ran, and what that names."""
    seen: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            seen.add(frame.f_code)

    forget_answers()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        answer = attempt(harness, prop, seconds)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    ours = [code for code in seen if "/alkstore_" in code.co_filename]
    answer["ran"] = sorted({(code.co_filename, code.co_qualname) for code in ours})
    answer["named"] = sorted({name for code in ours for name in code.co_names})
    return answer


def serve(subject: str) -> None:
    """Answer requests until there are none."""
    # What properties and saboteurs print is not an answer.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    manifest = importlib.import_module(subject).manifest()
    histories = sys.modules.get("alkstore_contract.machine.histories")
    if histories is not None:
        # Nobody reads the model's findings here: no shorter one is looked for.
        histories.SHORTENING_SECONDS = 0.0
    answers.write("ready\n")
    for line in sys.stdin:
        request = json.loads(line)
        asked = {id_: manifest[id_] for id_ in request["seconds"]}
        with contextlib.ExitStack() as stack:
            if request["saboteur"] is None:
                harness, show = load_harness(request["base"]), trace
            else:
                harness, show = sabotage.sabotaged(subject, request["saboteur"]), attempt
                stack.enter_context(harness.at_work())
            for id_, prop in asked.items():
                answer = show(harness, prop, request["seconds"][id_])
                answers.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    # Whatever a sabotaged engine leaves behind is not judged.
    warnings.simplefilter("ignore")
    serve(sys.argv[1])
