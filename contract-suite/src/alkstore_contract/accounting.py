"""What pytest's reports say of each property, as outcomes that a verdict can be made of.

Two witnesses have to agree. The record is made by the kit beside the run of the property and
travels in `user_properties`; pytest's own outcome of set-up, call and tear-down comes on top of
it. Neither alone is believed: hooks rewrite reports, and a test can be replaced by another.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from attrs import Factory, define, evolve

from alkstore_contract.distributions import UncertifiableError, installed, unpinned
from alkstore_contract.pytest_plugin import PROPERTY
from alkstore_contract.running import Outcome
from alkstore_contract.verdict import Expected, judge

if TYPE_CHECKING:
    import pytest

    from alkstore_contract.verdict import Verdict

RECORD = "alkstore_record"
_PHASES = {"setup", "call", "teardown"}


@define
class _Node:
    """One test of one property, as far as its reports came in."""

    id: str
    passed: set[str] = Factory(set)
    failed: str | None = None
    lost: str | None = None
    records: list[Outcome] = Factory(list)


class Accounting:
    """Hears every report of a test of the kit; a report that comes twice changes nothing."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Node] = {}
        self._engines: set[str] = set()

    def hear(self, report: pytest.TestReport, id_: str) -> None:
        """Take one phase of one test into account."""
        node = self._nodes.setdefault(report.nodeid, _Node(id_))
        for key, value in report.user_properties:
            if key == RECORD:
                told = dict(_object(value))
                self._engines.add(told.pop("engine"))
                outcome = Outcome(**told)
                # Whoever runs a test again leaves the records of all its runs.
                if outcome not in node.records:
                    node.records.append(outcome)
        expected_failure = getattr(report, "wasxfail", None)
        # Plugins know more outcomes than pytest's three, such as that of a test run again.
        said: str = report.outcome
        if said == "passed" and expected_failure is not None:
            node.failed = f"it was expected to fail and passed: {expected_failure}"
        elif said == "passed":
            node.passed.add(report.when)
        elif said == "failed" and report.when == "setup":
            node.lost = f"its set-up failed: {_gist(report)}"
        elif said == "failed":
            node.failed = f"{report.when}: {_gist(report)}"
        elif expected_failure is not None:
            node.lost = f"it was marked as expected to fail: {expected_failure}"
        elif said == "skipped":
            node.lost = f"it was skipped: {_gist(report)}"
        else:
            node.lost = f"pytest calls it {said}"

    def verdict(self) -> Verdict:
        """Judge the session by what was heard in it."""
        outcomes: list[Outcome] = []
        lost: dict[str, str] = {}
        for node in self._nodes.values():
            outcomes += [evolve(r, error=r.error or node.failed) for r in node.records]
            if not node.records and node.failed:
                lost[node.id] = f"it left no record: {node.failed}"
            elif node.lost is not None:
                lost[node.id] = node.lost
            elif node.passed != _PHASES and node.failed is None:
                lost[node.id] = f"only its {', '.join(sorted(node.passed))} passed"
            elif not node.records:
                lost[node.id] = "it left no record: the test is not the kit's"
        return judge(_pristine(), outcomes, lost=lost, reasons=self._reasons())

    def _reasons(self) -> list[str]:
        if len(self._engines) != 1:
            named = ", ".join(sorted(self._engines)) or "none"
            return [f"exactly one engine has to be tried, this was {named}"]
        try:
            doubt = unpinned(installed(*self._engines))
        except UncertifiableError as error:
            return [str(error)]
        return [] if doubt is None else [doubt]


def _pristine() -> dict[str, Expected]:
    """What to expect, from a process in which nothing of the engine or its tests is loaded."""
    listed = subprocess.run(
        [sys.executable, "-P", "-m", "alkstore_contract.cli", "list", "--json"],
        check=True,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    return {
        prop["id"]: Expected(digest=prop["digest"], cases=prop["runs"])
        for prop in json.loads(listed.stdout)
    }


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"a record of {PROPERTY} is an object, not {value!r}")
    return value


def _gist(report: pytest.TestReport) -> str:
    lines = report.longreprtext.strip().splitlines()
    return lines[-1] if lines else ""
