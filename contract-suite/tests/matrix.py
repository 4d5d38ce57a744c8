"""Run saboteurs against properties, and say what is wrong with the tables.

    python contract-suite/tests/matrix.py --id queues.claim       # these, on their family
    python contract-suite/tests/matrix.py --id queues.claim --full  # these, on every property
    python contract-suite/tests/matrix.py --full                  # the whole matrix, nightly
    python contract-suite/tests/matrix.py --missing               # properties without a saboteur
    python contract-suite/tests/matrix.py --model                 # what the model finds, nightly

A family are the properties whose ids begin with the same part, of a large mechanism with the same
two. Properties whose run on the sound engine never comes near the thing that a saboteur replaces
cannot notice and are not run; of the groups `model` and `process` only the saboteur's own property
and those it lists are.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from attrs import define, field
from faults import MOST_TOLD, faults_of_model, faults_of_saboteur, faults_of_tables
from patches import Trail
from sabotage import TABLES
from workers import Task, run_tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from sabotage import Saboteur

    from alkstore_contract.properties import Property

CUT_SECONDS = {"quick": 0.7, "process": 3.0, "model": 120.0, "again": 4.0}
"""After which a run has failed. That is short, for many faults make a property wait for ever; so
when nobody expects it to fail it gets more time, `again`: the machine may have been busy."""

LARGE_FAMILY = 100
"""Mechanisms with more properties than that are families by the first two parts of the ids."""

AT_ONCE = 25
"""Properties per task: large enough to be quick, small enough to share out evenly."""


@define
class Footprint:
    """A property on the sound engine."""

    error: str | None
    seconds: float
    trail: Trail


@define
class Seen:
    """What one saboteur's properties did, each with the end of its error."""

    held: dict[str, float] = field(factory=dict)
    failed: dict[str, str] = field(factory=dict)
    cut: set[str] = field(factory=set)
    mistaken: dict[str, str] = field(factory=dict)

    def note(self, task: Task, answer: Mapping[str, Any]) -> None:
        """Take the answer to one property; a later one counts."""
        id_, error, seconds = answer["property"], answer["error"], answer["seconds"]
        for kept in (self.held, self.failed, self.mistaken):
            kept.pop(id_, None)
        if error is None:
            self.held[id_] = seconds
        else:
            self.failed[id_] = error
            if answer.get("mistaken"):
                self.mistaken[id_] = error
            if seconds >= task.seconds[id_]:
                self.cut.add(id_)


class Counter:
    """Says on standard error how far it is, now and then."""

    def __init__(self, total: int, seconds: float | None) -> None:
        self._total = total
        self._every = seconds
        self._done = 0
        self._told = time.monotonic()

    def one(self) -> None:
        """One more is done."""
        self._done += 1
        if self._every is not None and time.monotonic() - self._told >= self._every:
            self._told = time.monotonic()
            sys.stderr.write(f"{self._done} of {self._total} runs\n")


class Matrix:
    """The saboteurs of a subject (a module with `manifest()` and `table()`)."""

    def __init__(
        self,
        subject: str = "sabotage",
        *,
        jobs: int = 2,
        stderr: int | None = None,
        cut: Mapping[str, float] = CUT_SECONDS,
        skip: bool = True,
        progress: float | None = None,
    ) -> None:
        module = importlib.import_module(subject)
        self.properties: Mapping[str, Property] = module.manifest()
        self.table: Mapping[str, Saboteur] = module.table()
        self._subject = subject
        self._jobs = jobs
        self._cut_seconds = cut
        self._skip = skip
        self._progress = progress
        self._stderr = asyncio.subprocess.DEVNULL if stderr is None else stderr
        self._footprints: dict[tuple[str, str], Footprint] = {}

    def chosen(self, prefixes: Sequence[str]) -> list[str]:
        """The saboteurs whose id begins with one of `prefixes`; all without any."""
        return [id_ for id_ in self.table if not prefixes or id_.startswith(tuple(prefixes))]

    def run(self, ids: Sequence[str], *, full: bool) -> tuple[dict[str, Seen], list[str]]:
        """Run these saboteurs' properties; what was seen, and what is wrong."""
        wanted = {id_: self._candidates(id_, full=full) for id_ in ids if id_ in self.properties}
        self._trace({(self.table[id_].base, other) for id_ in wanted for other in wanted[id_]})
        faults: list[str] = []
        seen = {id_: Seen() for id_ in wanted}
        tasks = []
        for id_, others in wanted.items():
            base = self.table[id_].base
            sound = [other for other in others if self._footprints[base, other].error is None]
            for other in sorted(set(others) - set(sound)):
                error = self._footprints[base, other].error
                faults.append(f"{other}: fails on the unsabotaged {base}: {error}")
            near = [other for other in sound if self._near(id_, other)]
            for start in range(0, len(near), AT_ONCE):
                seconds = {other: self._cut(base, other) for other in near[start : start + AT_ONCE]}
                tasks.append(Task(base, id_, seconds))
            for other in set(sound) - set(near):
                seen[id_].held[other] = 0.0

        self._do(tasks, seen)
        self._do(list(self._doubtful(seen)), seen)
        for id_, mine in seen.items():
            faults += faults_of_saboteur(id_, self.table[id_], mine.held, mine.failed)
            if mine.mistaken:
                other, error = min(mine.mistaken.items())
                faults.append(f"{id_}: falls over itself in {other}: {error}")
        return seen, list(dict.fromkeys(faults))

    def run_model(self, ids: Sequence[str]) -> tuple[dict[str, Seen], list[str]]:
        """Run the model's properties on these saboteurs until one fails; what it misses."""
        model = [prop.id for prop in self.properties.values() if prop.group == "model"]
        if not model:
            return {}, ["there is no model"]
        seen = {id_: Seen() for id_ in ids}

        tasks = []
        for id_ in ids:
            # The part of the model that is about the saboteur's mechanism is the quickest to see.
            family = self.properties[id_].mechanism
            order = sorted(model, key=lambda other: family not in other)
            seconds = dict.fromkeys(order, self._cut_seconds["model"])
            tasks.append(Task(self.table[id_].base, id_, seconds, until_failure=True))
        self._do(tasks, seen)
        return seen, faults_of_model(ids, [id_ for id_, mine in seen.items() if mine.failed])

    def stateful(self, prefixes: Sequence[str] = (), *, every: int = 1) -> list[str]:
        """The saboteurs that the model has to find, or one of every so many."""
        ids = [id_ for id_ in self.chosen(prefixes) if self.table[id_].stateful]
        return [id_ for id_ in ids if id_ in self.properties][::every]

    def _candidates(self, id_: str, *, full: bool) -> list[str]:
        family = self._family(id_)
        also = self.table[id_].also
        return [
            other
            for other, prop in self.properties.items()
            if other == id_
            or other in also
            or (prop.group == "quick" and (full or other.startswith(family)))
        ]

    def _family(self, id_: str) -> str:
        mechanism, what, *_ = id_.split(".")
        family = f"{mechanism}."
        size = sum(other.startswith(family) for other in self.properties)
        return f"{family}{what}" if size > LARGE_FAMILY else family

    def _near(self, id_: str, other: str) -> bool:
        saboteur = self.table[id_]
        if (
            not self._skip
            or other == id_
            or other in saboteur.also
            or self.properties[other].group != "quick"
        ):
            return True
        return saboteur.patch.touched_by(self._footprints[saboteur.base, other].trail)

    def _cut(self, base: str, other: str) -> float:
        # A traced run is slower than any other, so this is generous.
        group, taken = self.properties[other].group, self._footprints[base, other].seconds
        return max(self._cut_seconds[group], 10 * taken if group == "process" else taken)

    def _trace(self, pairs: Iterable[tuple[str, str]]) -> None:
        def tell(task: Task, answer: dict[str, Any]) -> None:
            self._footprints[task.base, answer["property"]] = Footprint(
                answer["error"],
                answer["seconds"],
                Trail({(*code,) for code in answer.get("ran", ())}, {*answer.get("named", ())}),
            )

        by_base: dict[str, list[str]] = {}
        for base, id_ in sorted(pairs):
            if (base, id_) not in self._footprints:
                by_base.setdefault(base, []).append(id_)
        tasks = [
            Task(base, None, {i: self.properties[i].seconds for i in ids[start : start + AT_ONCE]})
            for base, ids in by_base.items()
            for start in range(0, len(ids), AT_ONCE)
        ]
        self._hand_out(tasks, tell)

    def _doubtful(self, seen: Mapping[str, Seen]) -> Iterator[Task]:
        for id_, mine in seen.items():
            saboteur = self.table[id_]
            again = mine.cut - {id_, *saboteur.also}
            if again:
                patient = dict.fromkeys(sorted(again), self._cut_seconds["again"])
                yield Task(saboteur.base, id_, patient)

    def _do(self, tasks: Sequence[Task], seen: Mapping[str, Seen]) -> None:
        def tell(task: Task, answer: dict[str, Any]) -> None:
            seen[task.saboteur or ""].note(task, answer)

        self._hand_out(tasks, tell)

    def _hand_out(self, tasks: Sequence[Task], tell: Callable[[Task, Any], None]) -> None:
        counter = Counter(sum(task.cost for task in tasks), self._progress)

        def counted(task: Task, answer: Any) -> None:
            tell(task, answer)
            counter.one()

        asyncio.run(run_tasks(self._subject, tasks, counted, jobs=self._jobs, stderr=self._stderr))


def report(matrix: Matrix, seen: Mapping[str, Seen], *, errors: bool) -> Iterator[str]:
    """Line by line what each saboteur fails, against what its table says."""
    for id_, mine in seen.items():
        saboteur = matrix.table[id_]
        mark = "fails" if id_ in mine.failed else "HOLDS"
        ran = len(mine.failed) + sum(1 for seconds in mine.held.values() if seconds)
        yield f"{id_}  {mark}  ({saboteur.patch.target} of {saboteur.base}; {ran} run)"
        if errors and id_ in mine.failed:
            yield f"      {mine.failed[id_]}"
        others = sorted({*mine.failed, *saboteur.also} - {id_})
        for other in others[:MOST_TOLD]:
            listed, fails = other in saboteur.also, other in mine.failed
            how = "also" if fails and listed else "UNLISTED" if fails else "HOLDS, but listed"
            yield f"  {how}: {other}" + (
                f"\n      {mine.failed[other]}" if errors and fails else ""
            )


def report_model(seen: Mapping[str, Seen], *, errors: bool) -> Iterator[str]:
    """Line by line which property of the model found each saboteur."""
    for id_, mine in seen.items():
        yield f"{id_}  {'found by ' + ', '.join(mine.failed) if mine.failed else 'MISSED'}"
        if errors:
            yield from (f"      {error}" for error in mine.failed.values())


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--id", action="append", default=[], help="saboteurs beginning like this")
    parser.add_argument("--full", action="store_true", help="on every property, not the family")
    parser.add_argument("--model", action="store_true", help="run the model on the stateful ones")
    parser.add_argument("--missing", action="store_true", help="properties without a saboteur")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    parser.add_argument("--errors", action="store_true", help="say how properties failed")
    parser.add_argument(
        "--no-skip", action="store_true", help="also run what never comes near a fault"
    )
    parser.add_argument("--stderr", action="store_true", help="show what the processes print")
    parser.add_argument("--subject", default="sabotage", help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    matrix = Matrix(
        given.subject,
        jobs=given.jobs,
        stderr=2 if given.stderr else None,
        skip=not given.no_skip,
        progress=30.0,
    )
    ids = matrix.chosen(given.id)
    began = time.monotonic()
    if given.missing:
        faults = [id_ for id_ in matrix.properties if id_ not in matrix.table]
        seen: dict[str, Seen] = {}
    elif given.model:
        seen, faults = matrix.run_model(matrix.stateful(given.id))
    else:
        seen, faults = matrix.run(ids, full=given.full)
        about = faults_of_tables(matrix.table, matrix.properties)
        faults += [fault for fault in about if not given.id or fault.startswith(tuple(given.id))]
    out = sys.stdout.write
    if given.model:
        lines = report_model(seen, errors=given.errors)
    else:
        lines = report(matrix, seen, errors=given.errors)
    for line in lines:
        out(line + "\n")
    if faults:
        out("\n" + "\n".join(faults) + "\n")
    out(f"\n{len(seen)} saboteurs, {len(faults)} faults, {time.monotonic() - began:.0f} s\n")
    return 1 if faults else 0


def _read_only_wanted_tables(argv: Sequence[str]) -> None:
    ids = [argv[at + 1] for at, word in enumerate(argv[:-1]) if word == "--id"]
    if ids:
        os.environ[TABLES] = ",".join(id_.partition(".")[0] for id_ in ids)


if __name__ == "__main__":
    _read_only_wanted_tables(sys.argv)
    sys.exit(main())
