"""The matrix itself, tried on a table with every mistake in it."""

from __future__ import annotations

import asyncio
import functools
import traceback

import pytest
from matrix import Matrix, Seen
from matrix import main as run_matrix
from matrix_worker import is_mistaken
from workers import Task, run_tasks

from alkstore_core import DatabaseError

pytestmark = pytest.mark.once


CUT = {"quick": 0.5, "process": 15.0, "model": 5.0, "again": 1.0}


@functools.cache
def seen_in_full():
    """One run of the fake subject's whole matrix, and the faults it found."""
    matrix = Matrix("fake_subject", cut=CUT)
    return matrix.run(matrix.chosen([]), full=True)


@pytest.mark.parametrize(
    "fault",
    [
        "streams.order: its property still holds",
        "streams.claims: lists streams.order, which holds",
        "claims.order: also fails streams.claims, which is not listed",
        "streams.broken: its property was not run",
    ],
)
def test_each_mistake_of_a_table_is_reported(fault):
    """A saboteur that does nothing, a listed pass, an unlisted failure: each is an error."""
    _, faults = seen_in_full()
    assert fault in faults


def test_nothing_else_is_reported():
    """What is right is not complained of: the faults are these and no others."""
    _, faults = seen_in_full()
    others = {fault.partition(":")[0] for fault in faults}
    assert others == {"streams.order", "streams.claims", "claims.order", "streams.broken"}
    broken = {
        fault.removesuffix(": it is broken")
        for fault in faults
        if fault.startswith("streams.broken:")
    }
    assert broken == {
        "streams.broken: its property was not run",
        "streams.broken: fails on the unsabotaged mem: alkstore_contract.expect.UnmetError",
        "streams.broken: fails on the unsabotaged sqlite: alkstore_contract.expect.UnmetError",
    }


@pytest.mark.parametrize(
    ("id_", "error"),
    [
        ("locks.taken", "did not end within 0.5 s"),
        ("locks.fenced", "did not end within 0.5 s"),
        ("locks.renewed", "its process ended (3)"),
    ],
)
def test_what_hangs_or_dies_has_failed(id_, error):
    """A property that waits for ever, never comes back or ends the process fails by that."""
    seen, _ = seen_in_full()
    assert error in seen[id_].failed[id_]


def test_a_spawned_process_has_the_fault_too():
    """The child's store is sabotaged like the parent's: it loses the job it says is stored."""
    seen, _ = seen_in_full()
    assert "expected 1, got 0" in seen["places.committed"].failed["places.committed"]


def test_only_the_family_is_run_unless_asked_for_all():
    """Without `full` another family's failure is not seen."""
    matrix = Matrix("fake_subject", cut=CUT)
    seen, faults = matrix.run(["claims.order"], full=False)
    assert (list(seen["claims.order"].failed), faults) == (["claims.order"], [])


def test_what_never_comes_near_a_fault_is_not_run():
    """A property that calls no `claim` on a sound engine counts as held without a run."""
    seen, _ = seen_in_full()
    ran = {id_ for id_, seconds in seen["claims.count"].held.items() if seconds}
    assert ran == {"claims.count", "claims.order", "streams.claims"} - set(
        seen["claims.count"].failed
    )
    assert seen["claims.count"].held["locks.taken"] == 0.0


def test_the_command_says_what_it_found(capsys):
    """It prints each saboteur and fault, and its status follows the verdict."""
    assert run_matrix(["--subject", "fake_subject", "--id", "claims.order"]) == 0
    assert "claims.order  fails  (TxSession.claim of" in capsys.readouterr().out
    assert run_matrix(["--subject", "fake_subject", "--id", "streams.order"]) == 1
    assert "streams.order: its property still holds" in capsys.readouterr().out


def test_the_command_lists_what_is_missing(capsys):
    """`--missing` names the properties without a saboteur."""
    assert run_matrix(["--subject", "fake_subject", "--missing"]) == 1
    assert capsys.readouterr().out.splitlines()[1] == "locks.forgotten"


def test_the_model_is_told_what_it_misses():
    """Its properties are run on the stateful saboteurs alone, and the missed ones are named."""
    matrix = Matrix("fake_subject", cut=CUT)
    found = ["claims.count", "claims.order"]
    missed = ["locks.fenced", "locks.renewed", "locks.taken", "places.committed", "places.reached"]
    assert matrix.stateful() == sorted([*found, *missed])
    assert matrix.stateful(every=3) == ["claims.count", "locks.renewed", "places.reached"]
    seen, faults = matrix.run_model(matrix.stateful())
    assert sorted(id_ for id_, mine in seen.items() if mine.failed) == found
    assert faults == [f"the model misses 5 of 7: {', '.join(missed)}"]
    assert matrix.run_model(found)[1] == []


def test_a_process_that_cannot_start_is_an_error_at_once():
    """A broken table is told as such, and is not taken for a failure of every property."""
    with pytest.raises(ExceptionGroup) as raised:
        asyncio.run(run_tasks("no_such_subject", [Task("mem", None, {"a.b": 1.0})], print, jobs=1))
    assert "cannot start" in str(raised.value.exceptions[0])


@pytest.mark.parametrize(
    ("where", "line", "mistaken"),
    [
        ("saboteurs/queues.py", "None.nothing", True),
        ("saboteurs/queues.py", "{}[1]", True),
        ("saboteurs/queues.py", "raise DatabaseError('refused')", False),
        ("suite/queues.py", "None.nothing", False),
    ],
)
@pytest.mark.parametrize(
    "around",
    [
        "{}",
        "try:\n  {}\nexcept Exception: raise OSError",
        "try:\n  {}\nexcept Exception as e: raise ExceptionGroup('several', [e, OSError()])",
    ],
)
def test_a_saboteur_that_falls_over_itself_is_told(where, line, mistaken, around):
    """Its property fails, but for nothing that it says of the fault; also where that is hidden."""
    code = compile(around.format(line), f"/somewhere/{where}", "exec")
    try:
        exec(code, {"DatabaseError": DatabaseError})
    except Exception:  # noqa: BLE001 - whichever it is
        text = traceback.format_exc()
    assert mistaken == is_mistaken(text)


def test_a_process_that_ended_has_made_no_mistake():
    """Its answer is made by who waited for it."""
    seen = Seen()
    seen.note(Task("mem", "a.b", {"a.b": 1.0}), {"property": "a.b", "error": "x", "seconds": 0.1})
    assert ({}, {"a.b": "x"}) == (seen.mistaken, seen.failed)


def test_a_mistake_that_is_not_made_again_is_none():
    """Of two answers the later one counts, whatever the first one was."""
    seen, task = Seen(), Task("mem", "a.b", {"a.b": 1.0})
    answer = {"property": "a.b", "seconds": 0.1, "mistaken": True}
    seen.note(task, {**answer, "error": "KeyError: 1"})
    assert {"a.b": "KeyError: 1"} == seen.mistaken
    seen.note(task, {**answer, "error": None, "mistaken": False})
    assert ({}, {}) == (seen.mistaken, seen.failed)
