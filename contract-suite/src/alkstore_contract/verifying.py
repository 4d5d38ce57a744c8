"""Whether a report speaks of what is installed here, and how two reports differ."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alkstore_contract.distributions import (
    KIT,
    REPORT,
    UncertifiableError,
    code_digest,
    contract_version,
    installed,
    report_of,
    unpinned,
)
from alkstore_contract.properties import manifest
from alkstore_contract.report import ReportError, read, seal
from alkstore_contract.verdict import expectations

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from alkstore_contract.report import Report

Change = tuple[str, str, str]


def find(subject: str) -> Report:
    """The report at a path, or the one inside an installed distribution.

    Raises:
        ReportError: there is none, or it is none.

    """
    path = Path(subject)
    if path.suffix == ".json" or path.is_file():
        return read(path)
    try:
        found = report_of(installed(subject))
    except UncertifiableError as error:
        raise ReportError(f"{error}, and there is no file of that name") from error
    if found is None:
        raise ReportError(f"{subject} is installed without a {REPORT}")
    return read(found)


def objections(report: Report) -> list[str]:
    """Why this report does not certify what is installed here, as sentences; none: it does."""
    return [*_about_itself(report), *_about_the_engine(report), *_about_the_suite(report)]


def changes(old: Report, new: Report) -> list[Change]:
    """What differs in `canonical`: where, the old value, the new one."""
    before, after = _flat(old.canonical), _flat(new.canonical)
    return [
        (where, before.get(where, "absent"), after.get(where, "absent"))
        for where in sorted(before.keys() | after.keys())
        if before.get(where) != after.get(where)
    ]


def _about_itself(report: Report) -> Iterator[str]:
    if seal(report.canonical) != report.seal:
        yield "The report was edited after it was made."
    if report.verdict != "conforms":
        yield f"Its verdict is {report.verdict}."
    elif wanting := [i for i, o in report.canonical["outcomes"].items() if o["state"] != "held"]:
        yield f"It calls itself conforming, yet these did not hold: {', '.join(wanting)}."
    elif report.canonical["reasons"]:
        yield f"It calls itself conforming, yet says: {'; '.join(report.canonical['reasons'])}."
    if report.canonical["contract"] != contract_version():
        yield (
            f"It is about the contract {report.canonical['contract']}; "
            f"the installed core is of the contract {contract_version()}."
        )


def _about_the_engine(report: Report) -> Iterator[str]:
    engine = report.canonical["engine"]
    if engine is None:
        yield "It is about no engine."
        return
    if report.canonical["facts"] is None:
        yield "It gives no facts."
    if engine["digest"] is None:
        yield "It does not say which code it is about: the engine was an editable installation."
    try:
        found = installed(engine["name"])
        digest = code_digest(found)
    except UncertifiableError as error:
        yield f"The engine cannot be checked: {error}."
        return
    if found.version != engine["version"]:
        yield (f"It is about {engine['name']} {engine['version']}; installed is {found.version}.")
    if engine["digest"] not in (None, digest):
        yield f"It is about other code than that of the installed {engine['name']}."
    doubt = unpinned(found)
    if doubt is not None:
        yield f"The engine does not pin the contract: {doubt}."


def _about_the_suite(report: Report) -> Iterator[str]:
    suite = report.canonical["suite"]
    if suite["digest"] is None:
        yield "It does not say which suite it was made with: the kit was an editable installation."
    expected = expectations(manifest())
    outcomes = report.canonical["outcomes"]
    if absent := sorted(expected.keys() - outcomes.keys()):
        yield f"It lacks properties of this kit: {', '.join(absent)}."
    if unknown := sorted(outcomes.keys() - expected.keys()):
        yield f"It has properties that this kit does not know: {', '.join(unknown)}."
    if suite["version"] != version(KIT):
        return  # another suite of the same contract: its digests say nothing here
    try:
        digest = code_digest(installed(KIT))
    except UncertifiableError as error:
        yield f"The kit cannot be checked: {error}."
        return
    if suite["digest"] not in (None, digest):
        yield f"It was made with another suite than the installed {KIT} {version(KIT)}."
    for id_ in sorted(expected.keys() & outcomes.keys()):
        wanted, outcome = expected[id_], outcomes[id_]
        partly = outcome["state"] == "held" and outcome["cases"] != wanted.cases
        if partly or outcome["source"] != wanted.digest:
            yield f"What it says of {id_} does not fit the property of this kit."


def _flat(value: Any, where: str = "") -> Mapping[str, str]:
    if isinstance(value, dict) and value:
        found: dict[str, str] = {}
        for key, inner in value.items():
            found |= _flat(inner, f"{where}.{key}" if where else key)
        return found
    return {where: repr(value)}
