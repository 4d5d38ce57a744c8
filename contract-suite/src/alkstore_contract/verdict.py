"""The verdict: what the contract holds, minus what was seen to hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from alkstore_contract.properties import Property
    from alkstore_contract.running import Outcome

State = Literal["held", "failed", "missing"]
Status = Literal["conforms", "does-not-conform", "incomplete"]

UNSELECTED = "it was not selected"
INTERRUPTED = "the run was interrupted before it ended"


@frozen(kw_only=True)
class Expected:
    """What a record has to show so that its property counts as held."""

    digest: str
    cases: int


@frozen(kw_only=True)
class Standing:
    """Where a property stands after a run."""

    state: State
    cases: int
    why: str | None = None
    """Its error, or why it is missing; `None` when it held."""


@frozen(kw_only=True)
class Verdict:
    """Where every property stands, and what follows."""

    status: Status
    standings: Mapping[str, Standing]
    """By id, one for each property of the manifest."""

    reasons: tuple[str, ...]
    """What keeps the whole run from being complete, beside missing properties."""

    def in_state(self, state: State) -> dict[str, Standing]:
        """The properties in one state."""
        return {id_: s for id_, s in self.standings.items() if s.state == state}


def expectations(manifest: Mapping[str, Property]) -> dict[str, Expected]:
    """What to expect of each property; taken where no engine's code has run."""
    return {id_: Expected(digest=p.digest, cases=p.runs) for id_, p in manifest.items()}


def judge(
    expected: Mapping[str, Expected],
    outcomes: Iterable[Outcome],
    *,
    lost: Mapping[str, str] | None = None,
    reasons: Sequence[str] = (),
) -> Verdict:
    """Judge a run by the records it left.

    A property is held when it left a record, each of its records shows all cases and the
    expected digest and no error, and it is not in `lost`. Any error makes the verdict
    `does-not-conform`. Anything else that is wanting, `reasons` included, makes it `incomplete`.
    """
    records: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        records.setdefault(outcome.id, []).append(outcome)
    unknown = sorted(records.keys() - expected.keys())
    reasons = [*reasons, *(f"{id_} is no property of this kit" for id_ in unknown)]
    lost = lost or {}
    standings = {
        id_: _standing(wanted, records.get(id_, []), lost.get(id_))
        for id_, wanted in sorted(expected.items())
    }
    states = {standing.state for standing in standings.values()}
    status: Status = "conforms"
    if "failed" in states:
        status = "does-not-conform"
    elif states != {"held"} or reasons:
        status = "incomplete"
    return Verdict(status=status, standings=standings, reasons=tuple(reasons))


def _standing(expected: Expected, records: list[Outcome], lost: str | None) -> Standing:
    cases = min((record.cases for record in records), default=0)
    for record in records:
        if record.error is not None:
            return Standing(state="failed", cases=record.cases, why=record.error)
    why = lost
    if why is None and not records:
        why = "it did not run"
    if why is None and any(record.digest != expected.digest for record in records):
        why = "what ran is not the kit's own property: its source differs"
    if why is None and any(record.cases != expected.cases for record in records):
        why = f"{cases} of its {expected.cases} cases ran"
    return Standing(state="held" if why is None else "missing", cases=cases, why=why)


def gist(why: str) -> str:
    """What a traceback ends with: the message, without the name of our own error."""
    lines = [line for line in why.strip().splitlines() if line[:1].strip()]
    return lines[-1].removeprefix("alkstore_contract.expect.UnmetError: ") if lines else ""
