"""The verdict is the manifest minus what was seen to hold."""

import pytest

from alkstore_contract import manifest
from alkstore_contract.running import Outcome
from alkstore_contract.verdict import Expected, Standing, expectations, gist, judge

EXPECTED = {"a.one": Expected(digest="d1", cases=1), "a.two": Expected(digest="d2", cases=3)}


def outcome(id_="a.one", digest="d1", cases=1, error=None):
    """Return the record of a property that held, unless told otherwise."""
    return Outcome(id=id_, digest=digest, cases=cases, seconds=0.0, error=error)


BOTH = [outcome(), outcome("a.two", "d2", 3)]


def test_conforms():
    """It conforms when every property left a whole record without an error."""
    verdict = judge(EXPECTED, BOTH)
    assert "conforms" == verdict.status
    assert ["a.one", "a.two"] == list(verdict.in_state("held"))


def test_repeated():
    """A record that is delivered twice changes nothing."""
    assert "conforms" == judge(EXPECTED, BOTH + BOTH).status


@pytest.mark.parametrize(
    ("second", "why"),
    [
        ([], "did not run"),
        ([outcome("a.two", "other", 3)], "source differs"),
        ([outcome("a.two", "d2", 2)], "2 of its 3 cases"),
        ([outcome("a.two", "d2", 3), outcome("a.two", "other", 3)], "source differs"),
    ],
    ids=["not run", "another source", "not all cases", "once another source"],
)
def test_incomplete(second, why):
    """A property without a whole record of its own source is missing."""
    verdict = judge(EXPECTED, [outcome(), *second])
    assert "incomplete" == verdict.status
    (missing,) = verdict.in_state("missing").values()
    assert why in missing.why


def test_failed():
    """An error makes the engine not conform, whatever else is missing or came out well."""
    verdict = judge(EXPECTED, [outcome(), outcome(error="wrong")], lost={"a.one": "skipped"})
    assert "does-not-conform" == verdict.status
    assert Standing(state="failed", cases=1, why="wrong") == verdict.standings["a.one"]


def test_lost():
    """What is known to be lost does not hold, even if it left a record."""
    verdict = judge(EXPECTED, BOTH, lost={"a.two": "its process ended"})
    assert "incomplete" == verdict.status
    assert "its process ended" == verdict.standings["a.two"].why


def test_reasons():
    """A reason beside the properties keeps a whole run from conforming."""
    assert "incomplete" == judge(EXPECTED, BOTH, reasons=["selected"]).status


def test_unknown():
    """A record of a property that the kit does not have makes the run incomplete."""
    verdict = judge(EXPECTED, [*BOTH, outcome("b.three")])
    assert "incomplete" == verdict.status
    assert ("b.three is no property of this kit",) == verdict.reasons


def test_nothing_expected_of_nothing():
    """An empty run holds nothing."""
    verdict = judge(EXPECTED, [])
    assert "incomplete" == verdict.status
    assert {} == verdict.in_state("held")


def test_gist():
    """The gist of a traceback is its message."""
    told = (
        "Traceback (most recent call last):\n  File …\nalkstore_contract.expect.UnmetError: gone\n"
    )
    assert "gone" == gist(told)
    assert not gist("")


def test_expectations():
    """What is expected of a property are its digest and its number of cases."""
    prop = manifest()["names.empty"]
    assert Expected(digest=prop.digest, cases=3) == expectations({"x": prop})["x"]
