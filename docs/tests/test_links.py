"""Links of pages that are no part of the built documentation lead somewhere; it checks its own."""

import re

import pytest
from test_examples import PAGES

from wheelhouse import ROOT

OUTSIDE = [
    ROOT / "CONTRIBUTING.md",
    *(p for p in PAGES if p.name == "README.md"),
]
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```", flags=re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (.+)$", flags=re.MULTILINE)


def anchors(page):
    """Return a page's anchors, as GitHub and MyST make them of its headings."""
    plain = FENCED.sub("", page.read_text(encoding="utf-8"))
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in HEADING.findall(plain)
    }


def links():
    """Return each relative link, with the page that it is on."""
    return [
        pytest.param(page, target, id=f"{page.relative_to(ROOT).as_posix()}:{target}")
        for page in OUTSIDE
        for target in LINK.findall(FENCED.sub("", page.read_text(encoding="utf-8")))
    ]


@pytest.mark.parametrize(("page", "target"), links())
def test_link(page, target):
    """The file is there, and so is the heading in it."""
    path, _, anchor = target.partition("#")
    found = (page.parent / path).resolve() if path else page
    assert found.exists()
    assert found.is_relative_to(ROOT)
    assert not anchor or anchor in anchors(found)
