"""An engine on trial: run it, judge it, write down what was found."""

from __future__ import annotations

import asyncio
import datetime as dt
import platform
import sys
import time
from importlib.metadata import version
from typing import TYPE_CHECKING

from alkstore_contract.distributions import (
    CORE,
    KIT,
    UncertifiableError,
    contract_version,
    installed,
    unpinned,
)
from alkstore_contract.parent import Gathered, gather
from alkstore_contract.properties import manifest
from alkstore_contract.report import Code, Report, make
from alkstore_contract.verdict import INTERRUPTED, UNSELECTED, expectations, judge

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from alkstore_contract.properties import Property
    from alkstore_contract.running import Outcome


def selected(parts: Sequence[str]) -> list[Property]:
    """The properties whose id is, or begins with, one of these; all when there are none.

    Raises:
        LookupError: a part selects nothing.

    """
    everything = list(manifest().values())
    for part in parts:
        if not any(_is_part(part, prop) for prop in everything):
            known = ", ".join(sorted({prop.mechanism for prop in everything}))
            raise LookupError(
                f"no property {part!r}; the mechanisms are {known}, and `list` shows the ids"
            )
    return [p for p in everything if not parts or any(_is_part(part, p) for part in parts)]


def _is_part(part: str, prop: Property) -> bool:
    return f"{prop.id}.".startswith(f"{part}.")


def conduct(
    harness: str,
    parts: Sequence[str],
    jobs: int,
    tell: Callable[[str, Outcome | str], None],
) -> Report:
    """Try an engine in child processes and judge what they report.

    Interrupted, it judges what was reported until then.

    Raises:
        LookupError: a part selects nothing.
        UnknownHarnessError: there is no such harness.

    """
    properties = selected(parts)
    expected = expectations(manifest())
    began, start = dt.datetime.now(dt.UTC), time.monotonic()
    gathered = Gathered()
    lost = dict.fromkeys(expected.keys() - {p.id for p in properties}, UNSELECTED)
    try:
        asyncio.run(gather(harness, properties, jobs, tell, gathered))
    except KeyboardInterrupt:
        gathered.reasons["the run was interrupted"] = None
        tried = gathered.lost.keys() | {outcome.id for outcome in gathered.outcomes}
        lost |= dict.fromkeys({p.id for p in properties} - tried, INTERRUPTED)
    reasons = list(gathered.reasons)
    if parts:
        reasons.append(f"selected were {', '.join(parts)} only")
    engine = None
    if gathered.distribution is None:
        reasons.append("no engine told its facts")
    else:
        engine, doubts = _engine_code(gathered.distribution, _one(gathered.engine))
        reasons += doubts
    verdict = judge(expected, gathered.outcomes, lost=lost | gathered.lost, reasons=reasons)
    return make(
        verdict,
        expected,
        contract=contract_version(),
        suite=Code(name=KIT, version=version(KIT), digest=_one(gathered.suite)),
        engine=engine,
        facts=gathered.facts,
        run={
            "began": began.isoformat(timespec="seconds"),
            "seconds": round(time.monotonic() - start, 3),
            "jobs": jobs,
            "python": platform.python_version(),
            "platform": f"{platform.system()} {platform.machine()}",
            "implementation": sys.implementation.name,
            "core": version(CORE),
            "undigested": _undigested(gathered),
            "times": {
                o.id: round(o.seconds, 4) for o in sorted(gathered.outcomes, key=lambda o: o.id)
            },
        },
    )


def _engine_code(name: str, digest: str | None) -> tuple[Code, list[str]]:
    """Which engine a distribution is, and why it cannot be certified at all."""
    try:
        found = installed(name)
    except UncertifiableError as error:
        return Code(name=name, version="", digest=None), [str(error)]
    doubt = unpinned(found)
    code = Code(name=name, version=found.version, digest=digest)
    return code, [] if doubt is None else [doubt]


def _one(digests: set[tuple[str | None, str | None]]) -> str | None:
    """The digest that all children told; `None` when any of them has told none."""
    return next(iter(digests))[0] if len(digests) == 1 else None


def _undigested(gathered: Gathered) -> list[str]:
    return sorted({why for _, why in gathered.engine | gathered.suite if why is not None})
