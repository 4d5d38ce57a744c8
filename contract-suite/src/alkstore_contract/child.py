"""The process in which an engine is tried; its parent judges.

It hears property ids, one a line, and says JSON lines: once who the engine is, then the case
that begins and the outcome of each property, and at the end how many outcomes there were.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from attrs import asdict

from alkstore_contract.distributions import KIT, digest_of_imported
from alkstore_contract.harness import load_harness
from alkstore_contract.properties import manifest
from alkstore_contract.running import run

if TYPE_CHECKING:
    from collections.abc import Callable

    from alkstore_contract.harness import Harness


def main(named: str) -> int:
    """Try what the parent asks for, until it says that this was all."""
    orders, reports = _own_pipes()

    def say(**message: object) -> None:
        reports.write(json.dumps(message) + "\n")
        reports.flush()

    harness = _load(named, say)
    if harness is None:
        return 1
    say(distribution=harness.distribution, facts=asdict(harness.facts))
    for count, line in enumerate(orders):
        id_ = json.loads(line)
        if id_ is None:
            engine, suite = (digest_of_imported(n) for n in (harness.distribution, KIT))
            say(final=count, engine=engine, suite=suite)
            return 0
        outcome = run(harness, manifest()[id_], lambda case: say(case=case))
        say(outcome=asdict(outcome))
    return 1  # the parent has gone


def _own_pipes() -> tuple[TextIO, TextIO]:
    """Take the pipes to the parent away from whatever reads and prints in this process."""
    orders = os.fdopen(os.dup(0), encoding="utf-8")
    reports = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return orders, reports


def _load(named: str, say: Callable[..., None]) -> Harness | None:
    if ":" in named:
        sys.path.append(str(Path.cwd()))  # last: what is installed comes first
    try:
        return load_harness(named)
    except LookupError as error:
        say(unknown=str(error))
    except Exception:  # noqa: BLE001 - an engine's import may raise anything
        say(unusable=traceback.format_exc())
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
