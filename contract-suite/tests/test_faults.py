"""What is wrong with a table is said, and nothing is said of a right one."""

from __future__ import annotations

import pytest
from faults import faults_of_model, faults_of_saboteur, faults_of_tables
from sabotage import Saboteur, nothing

PROPERTIES = ("a.a", "a.b", "a.c", "a.d", "a.e", "a.f", "a.g")


def saboteur(*also, stateful=True):
    """Patches nothing that matters here."""
    return Saboteur(nothing("trim", 0), also=dict.fromkeys(also, "because"), stateful=stateful)


def whole(**changes):
    """A right table of all properties, with some entries replaced."""
    return {id_: saboteur() for id_ in PROPERTIES} | changes.pop("entries", {})


def test_a_right_table_has_no_faults():
    """Every property has one, at least half are stateful, no two fail the same."""
    table = whole(entries={"a.a": saboteur("a.b", stateful=False), "a.b": saboteur("a.c")})
    assert faults_of_tables(table, PROPERTIES) == []


@pytest.mark.parametrize(
    ("entries", "fault"),
    [
        ({"a.x": saboteur()}, "a.x: there is no such property"),
        ({"a.a": saboteur("a.x")}, "a.a: also a.x, which is no property"),
        ({"a.a": saboteur("a.a")}, "a.a: lists itself"),
        ({"a.a": saboteur(*PROPERTIES[1:])}, "a.a: fails 6 others, at most 5 are allowed"),
        (
            {"a.a": saboteur("a.b"), "a.b": saboteur("a.a")},
            "a.b: fails exactly what the saboteur of a.a fails",
        ),
        (
            {"a.a": Saboteur(nothing("trim", 0), also={"a.b": " "}, stateful=True)},
            "a.a: also a.b, without a reason",
        ),
        (
            {id_: saboteur(stateful=False) for id_ in PROPERTIES[:4]},
            "3 of 7 saboteurs are stateful, at least half have to be",
        ),
    ],
)
def test_each_fault_of_a_table_is_told(entries, fault):
    """One mistake is one fault, which names it."""
    assert faults_of_tables(whole(entries=entries), PROPERTIES) == [fault]


def test_a_property_without_a_saboteur_is_told():
    """Every property of the manifest needs one."""
    table = whole()
    del table["a.c"]
    assert faults_of_tables(table, PROPERTIES) == ["a.c: no saboteur"]


@pytest.mark.parametrize(
    ("held", "failed", "faults"),
    [
        (["a.c"], ["a.a", "a.b"], []),
        (["a.a"], ["a.b"], ["a.a: its property still holds"]),
        ([], ["a.b"], ["a.a: its property was not run"]),
        ([], ["a.a", "a.b", "a.c"], ["a.a: also fails a.c, which is not listed"]),
        (["a.b"], ["a.a"], ["a.a: lists a.b, which holds"]),
    ],
)
def test_a_saboteur_fails_what_it_lists(held, failed, faults):
    """Its own property and those it lists fail, and no others."""
    assert faults_of_saboteur("a.a", saboteur("a.b"), held, failed) == faults


def test_the_model_may_miss_one_of_ten():
    """Nine of ten are enough, eight are not."""
    stateful = [f"a.{number}" for number in range(10)]
    assert faults_of_model(stateful, stateful[1:]) == []
    assert faults_of_model(stateful, stateful[2:]) == ["the model misses 2 of 10: a.0, a.1"]
