"""The process in which an engine is tried; its parent judges.

It hears property ids, one a line, and says JSON lines: once who the engine is, then the case
that begins and the outcome of each property, and at the end how many outcomes there were.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import sys
import threading
import traceback
from typing import TYPE_CHECKING, Final, TextIO

from attrs import asdict

from alkstore_contract import integrity
from alkstore_contract.distributions import KIT, digest_of_imported
from alkstore_contract.harness import UnfitHarnessError, load_harness_here
from alkstore_contract.properties import manifest
from alkstore_contract.running import run, told

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from alkstore_contract.harness import Harness

NAMED: Final = 5
"""So many changed parts of the kit are named."""


def main(named: str) -> int:
    """Try what the parent asks for, until it says that this was all."""
    orders, reports = _own_pipes()

    def say(**message: object) -> None:
        reports.write(json.dumps(message) + "\n")
        reports.flush()

    # The whole kit is there before anything of the engine is.
    properties = manifest()
    pristine = integrity.snapshot()
    harness = _load(named, say)
    if harness is None:
        return 1
    distribution, facts = harness.distribution, asdict(harness.facts)
    say(distribution=distribution, facts=facts)
    doubts = []
    count = 0
    for id_ in _heard(orders):
        outcome = run(harness, properties[id_], lambda case: say(case=case))
        if asdict(harness.facts) != facts or harness.distribution != distribution:
            doubts = ["the harness did not give the same facts all the time"]
        say(outcome=asdict(outcome))
        count += 1
    if parts := integrity.changed(pristine):
        more = f" and {len(parts) - NAMED} more" if len(parts) > NAMED else ""
        doubts.append(f"the kit was changed by what was tried: {', '.join(parts[:NAMED])}{more}")
    engine = digest_of_imported(distribution, type(harness).__module__)
    say(final=count, engine=engine, suite=digest_of_imported(KIT, __package__), doubts=doubts)
    return 0


def _own_pipes() -> tuple[int, TextIO]:
    """Take the pipes to the parent away from whatever reads and prints in this process."""
    orders = os.dup(0)
    reports = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return orders, reports


def _heard(orders: int) -> Iterator[str]:
    """The ids that the parent says. When it has gone, however deep we are in one, we go too."""
    ids: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def hear() -> None:
        with contextlib.suppress(OSError), os.fdopen(orders, "rb", buffering=0) as lines:
            for line in lines:
                ids.put(id_ := json.loads(line))
                if id_ is None:
                    return
        _end_with_all_we_started()

    threading.Thread(target=hear, name="alkstore-contract orders", daemon=True).start()
    while (id_ := ids.get()) is not None:
        yield id_


def _end_with_all_we_started() -> None:
    if sys.platform != "win32" and os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


def _load(named: str, say: Callable[..., None]) -> Harness | None:
    try:
        return load_harness_here(named)
    except LookupError as error:
        say(unknown=told(str(error)))
    except UnfitHarnessError as error:
        say(unusable=told(str(error)))
    except Exception:  # noqa: BLE001 - an engine's import may raise anything
        say(unusable=told(traceback.format_exc()))
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
