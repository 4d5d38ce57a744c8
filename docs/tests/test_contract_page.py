"""The contract's page and the properties of the kit speak of the same."""

import re

import pytest

from alkstore_contract import manifest
from contract_tables import PAGE, with_tables
from verification_backlog import BACKLOG, Item, ids_of
from wheelhouse import ROOT


def headings():
    """Return the addresses of the page's sections: `Queues`, `Queues/Claim`."""
    found, top = set(), ""
    for level, title in re.findall(r"^(##|###) (.+)$", PAGE.read_text(), flags=re.MULTILINE):
        if level == "##":
            top = title
            found.add(title)
        else:
            found.add(f"{top}/{title}")
    return found


def test_tables():
    """The page lists every property, and what verifies what: `.ci/contract_tables.py` writes it."""
    text = PAGE.read_text(encoding="utf-8")
    assert text == with_tables(text)


def test_decided():
    """Every property was decided in a section of the page, or in a decision that is on record."""
    decisions = {
        f"decision {path.name[:3]}"
        for path in (ROOT / "docs/architecture/decisions").glob("[0-9]*.md")
    }
    known = headings() | decisions
    assert {} == {p.id: p.decided for p in manifest().values() if p.decided not in known}


@pytest.mark.parametrize("item", BACKLOG, ids=range(1, len(BACKLOG) + 1))
def test_backlog(item):
    """Each entry of the backlog is shown by properties that exist."""
    assert ids_of(item, list(manifest()))


def test_backlog_is_whole():
    """The specification's backlog has 23 entries."""
    assert 23 == len({item.wanted for item in BACKLOG})


def test_backlog_names_properties():
    """An entry that names a property that does not exist is an error."""
    with pytest.raises(LookupError, match=r"no property 'queues\.gone'"):
        ids_of(Item(wanted="It is gone", shown_by=("queues.gone",)), list(manifest()))
