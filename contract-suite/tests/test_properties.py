"""Properties: what is registered, and the digest of what would run."""

import functools
import inspect
import json
import subprocess
import sys

import attrs
import pytest

from alkstore_contract import manifest
from alkstore_contract.conformance import __all__ as tests
from alkstore_contract.properties import Property, prop


async def real(case):
    """It does something."""
    await case.store()


async def emptied(case):
    """It does something."""


def made(function, cases=()):
    """Return a property around a function."""
    return Property(
        id="x.y",
        sentence="It does something.",
        decided="Names",
        since="0.1",
        group="quick",
        cases=cases,
        seconds=1.0,
        function=function,
    )


def test_digest_of_source():
    """Another body, or other cases, make another digest."""
    digests = {made(real).digest, made(emptied).digest, made(real, (1,)).digest}
    assert 3 == len(digests)


def test_digest_of_replaced_code():
    """Code put into a function after its registration makes another digest."""

    async def victim(case):
        await case.store()

    before = made(victim)
    digest = before.digest
    victim.__code__ = emptied.__code__
    assert digest != before.digest


def test_digest_of_a_wrapper():
    """A function that only says it is another one has a digest of its own."""

    @functools.wraps(real)
    async def wrapper(case):
        pass

    assert made(real).digest != made(wrapper).digest


def test_digest_without_source():
    """Code that was made at run time has a digest that no property of ours has."""
    namespace = {}
    exec("async def conjured(case): pass", namespace)
    assert made(namespace["conjured"]).digest not in {p.digest for p in manifest().values()}


def test_digests_are_stable():
    """Every digest is the same in another process with other hash seeds."""
    listed = subprocess.run(
        [sys.executable, "-R", "-m", "alkstore_contract.cli", "list", "--json"],
        check=True,
        capture_output=True,
        text=True,
    )
    there = {entry["id"]: entry["digest"] for entry in json.loads(listed.stdout)}
    assert {id_: p.digest for id_, p in manifest().items()} == there


def test_one_test_each():
    """Each property has one test of pytest, named after it."""
    assert len(manifest()) == len(set(tests))
    assert "test_names_empty" in tests


def test_groups():
    """Only properties of the group `model` run loops of their own."""
    loops = {i for i, p in manifest().items() if not inspect.iscoroutinefunction(p.function)}
    assert {i for i, p in manifest().items() if p.group == "model"} == loops


@pytest.mark.parametrize(
    ("id_", "sentence", "cases"),
    [
        ("Upper.case", "A sentence.", None),
        ("alone", "A sentence.", None),
        ("names.empty", "A sentence.", None),
        ("x.sentence", "no full stop", None),
        ("x.cases", "A sentence.", ()),
    ],
)
def test_refused(id_, sentence, cases):
    """A property without a fit id of its own, a sentence and a case is refused."""
    assert manifest()

    async def function(case, value=None):
        pass

    function.__doc__ = sentence
    with pytest.raises(ValueError, match=id_):
        prop(id_, decided="Names", cases=cases)(function)


def test_frozen():
    """A property cannot be changed."""
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        manifest()["names.empty"].function = emptied
