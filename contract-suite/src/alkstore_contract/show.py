"""Properties and reports as people read them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rich.table import Table

from alkstore_contract.verdict import INTERRUPTED, UNSELECTED, gist

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from alkstore_contract.properties import Property
    from alkstore_contract.report import Report

SAYS = {
    "conforms": "conforms: every property held",
    "does-not-conform": "does not conform",
    "incomplete": "incomplete: not every property was seen to hold",
}


def properties_table(properties: Iterable[Property]) -> Table:
    """The properties for a terminal."""
    table = Table("property", "promise", "decided", "since")
    table.columns[0].no_wrap = True
    for prop in properties:
        table.add_row(prop.id, prop.sentence, prop.decided, prop.since)
    return table


def properties_markdown(properties: Iterable[Property]) -> str:
    """The properties for the contract's page."""
    rows = [
        f"| `{p.id}` | {_cell(p.sentence)} | {_cell(p.decided)} | {p.since} |" for p in properties
    ]
    head = ["| Property | Promise | Decided | Since |", "|---|---|---|---|"]
    return "\n".join([*head, *rows]) + "\n"


def heading(report: Report) -> str:
    """Who was tried, in one line."""
    engine = report.canonical["engine"]
    named = f"{engine['name']} {engine['version']}" if engine else "no engine"
    return f"{named}, contract {report.canonical['contract']}"


def summary_table(report: Report) -> Table:
    """How many properties of each mechanism held."""
    table = Table("mechanism", title=heading(report), title_justify="left")
    for column in ("held", "failed", "missing"):
        table.add_column(column, justify="right")
    for mechanism, *counts in _counts(report):
        table.add_row(mechanism, *(str(count or "") for count in counts))
    return table


def wanting_table(report: Report, manifest: Mapping[str, Property]) -> Table:
    """What failed, and what was not seen to hold."""
    table = Table("property", "promise", "what happened", show_lines=True)
    table.columns[0].no_wrap = True
    for id_, state, why in wanting(report):
        table.add_row(id_, manifest[id_].sentence, f"{state}: {why}")
    return table


def wanting(report: Report) -> list[tuple[str, str, str]]:
    """Id, state and the gist of what was tried and not seen to hold, failures first."""
    whys = report.run["whys"]
    found = [
        (id_, outcome["state"], gist(whys.get(id_, "")))
        for id_, outcome in report.canonical["outcomes"].items()
        if outcome["state"] != "held" and whys.get(id_) not in (UNSELECTED, INTERRUPTED)
    ]
    return sorted(found, key=lambda row: (row[1], row[0]))


def report_markdown(report: Report, manifest: Mapping[str, Property]) -> str:
    """A whole report as a page."""
    canonical = report.canonical
    facts = [f"| {name} | {value} |" for name, value in (canonical["facts"] or {}).items()]
    counts = [
        f"| {name} | {held} | {failed} | {missing} |"
        for name, held, failed, missing in _counts(report)
    ]
    wrong = [
        f"| `{id_}` | {_cell(manifest[id_].sentence)} | {state}: {_cell(why)} |"
        for id_, state, why in wanting(report)
    ]
    lines = [
        f"# {heading(report)}",
        "",
        f"**{SAYS[report.verdict]}.**",
        "",
        *(f"* {_cell(reason)}" for reason in canonical["reasons"]),
        *([""] if canonical["reasons"] else []),
        *_block("| Fact | Value |", facts),
        *_block("| Mechanism | Held | Failed | Missing |", counts),
        *_block("| Property | Promise | What happened |", wrong),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _block(head: str, rows: list[str]) -> list[str]:
    rule = "|---" * (head.count("|") - 1) + "|"
    return [head, rule, *rows, ""] if rows else []


def _counts(report: Report) -> list[tuple[str, int, int, int]]:
    counts: dict[str, Counter[str]] = {}
    for id_, outcome in report.canonical["outcomes"].items():
        counts.setdefault(id_.partition(".")[0], Counter())[outcome["state"]] += 1
    counts["all"] = sum(counts.values(), Counter())
    return [(name, c["held"], c["failed"], c["missing"]) for name, c in counts.items()]


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
