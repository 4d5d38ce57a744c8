"""The machine: what it plays, how it tells, and that it notices."""

from __future__ import annotations

import pytest
from patches import arguments, core, nothing, primitive, result, statement
from sabotage import SabotagedHarness, Saboteur

from alkstore_contract import UnmetError, machine
from alkstore_contract.harness import load_harness
from alkstore_contract.machine import actors, histories, run_histories, whole
from alkstore_core.sql.tables import jobs

pytestmark = pytest.mark.once


HISTORIES = 90
"""At most: the first that shows a fault ends the search, and a rare fault may need many."""
STEPS = 200


def told(kind, patch, *, most=HISTORIES):
    """Return how a sabotaged engine's failing history is told, line by line."""
    harness = SabotagedHarness(Saboteur(patch))
    with harness.at_work(), pytest.raises(UnmetError) as failure:
        run_histories(kind, harness, histories=most, steps=STEPS)
    return str(failure.value).splitlines()


async def _refreshing(real, name, owner, ttl):
    token = await real.acquire(name, owner, ttl)
    if token is not None:
        await real.renew(name, token, ttl)
    return token


async def _charged(real, queue, claims, **_wake):
    """Count a released attempt all the same."""
    return sum([await real.requeue(queue, claim, 0, None) for claim in claims])


FAULTS = {
    "a claim ignores priorities": (
        machine.Queues,
        statement("claims:BEST", lambda best: best.order_by(None).order_by(jobs.c.id)),
    ),
    "a batch comes in the order of ids": (
        machine.Queues,
        result("claim", lambda found: sorted(found, key=lambda job: job.id)),
    ),
    "an ack is fenced by the worker only": (
        machine.Queues,
        primitive(
            "ack",
            lambda real, queue, claims: real.ack_ids(queue, [claim.id for claim in claims], "ann"),
        ),
    ),
    "a heartbeat does nothing": (
        machine.Queues,
        primitive("extend", lambda _, queue, claims, seconds: [claim.id for claim in claims]),
    ),
    "a release costs an attempt": (machine.Queues, primitive("release", _charged)),
    "a retry forgets its error": (
        machine.Queues,
        arguments("requeue", lambda queue, claim, delay, error: (queue, claim, delay, None)),
    ),
    "the backoff does not grow": (
        machine.Queues,
        core("policy.backoff:backoff_delay", lambda real, base, attempt: real(base, 1)),
    ),
    "a sweep forgets no dead job": (machine.Queues, nothing("purge_retired", 0)),
    "a purge takes everything": (
        machine.Queues,
        arguments("purge_dead", lambda queue, before, n: (queue, None, n)),
    ),
    "a failed delivery counts as done": (
        machine.Outboxes,
        core(
            "jobs:JobHandle.retry",
            lambda real, handle, error=None, delay=None: (
                handle.ack() if isinstance(error, Exception) else real(handle, error, delay)
            ),
        ),
    ),
    "a trim spares its horizon": (
        machine.Streams,
        arguments("trim", lambda stream, horizon, n: (stream, horizon - 1, n)),
    ),
    "a read repeats the last event": (
        machine.Streams,
        arguments("read", lambda stream, after, limit: (stream, after - 1, limit)),
    ),
    "a saved offset is lost": (machine.Streams, nothing("save_offset")),
    "a lock is refreshed by its owner": (machine.Locks, primitive("acquire", _refreshing)),
    "a lock lets everybody in": (
        machine.Locks,
        arguments("acquire", lambda name, _, ttl: (name, "kim", ttl)),
    ),
    "a commit is a rollback": (
        machine.Transactions,
        primitive("commit", lambda real: real.rollback()),
    ),
    "a rollback is a commit": (
        machine.Transactions,
        primitive("rollback", lambda real: real.commit()),
    ),
    "63 boundaries are caught up with": (
        machine.Schedules,
        core(
            "policy.boundaries:due_boundaries", lambda real, at, step, now: real(at, step, now, 63)
        ),
    ),
    "a boundary fires a second late": (
        machine.Schedules,
        core(
            "policy.boundaries:due_boundaries", lambda real, at, step, now: real(at, step, now - 1)
        ),
    ),
    "an enqueue wakes nobody": (
        machine.Wakes,
        primitive(
            "insert_jobs",
            lambda real, queue, payloads, spec, wake=(): real.insert_jobs(queue, payloads, spec),
        ),
    ),
    "a retry wakes nobody": (
        machine.Wakes,
        primitive("requeue", lambda real, *given, wake=(): real.requeue(*given)),
    ),
    "a job that comes due wakes nobody": (machine.Wakes, nothing("next_due", {})),
    "a transaction wakes before its commit": (
        machine.Wakes,
        primitive(
            "signal",
            lambda real, topics: [real.engine.signals.fire(topic) for topic in topics],
            where="tx",
        ),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_it_notices(fault, monkeypatch):
    """A history that shows the fault is among the first few."""
    monkeypatch.setattr(actors, "PATIENCE_SECONDS", 1.0)
    monkeypatch.setattr(histories, "SHORTENING_SECONDS", 0.0)
    kind, patch = FAULTS[fault]
    lines = told(kind, patch)
    assert lines[0] == "a history that leaves the contract:"
    assert len(lines) > 2


def test_the_failing_history_is_told_shortly():
    """What has nothing to do with the fault is left out, and the last line says what differs."""
    lines = told(machine.Locks, primitive("acquire", _refreshing))
    calls, outcome = lines[1:-1], lines[-1].strip()
    assert len(calls) <= 6
    assert "expected " in outcome
    assert sum("try_lock" in call for call in calls) >= 2


def test_histories_are_the_same_in_every_run(monkeypatch):
    """Without the variable nothing is left to chance; with it all is."""
    monkeypatch.setattr(histories, "SHORTENING_SECONDS", 0.0)
    fault = nothing("release_lock", True)
    assert told(machine.Locks, fault) == told(machine.Locks, fault)
    monkeypatch.setenv(histories.VARIABLE, "2")
    assert told(machine.Locks, fault) != told(machine.Locks, fault)


def test_more_histories_are_played_for_the_asking(monkeypatch):
    """The variable says how many times as many."""
    played = []
    monkeypatch.setattr(histories, "_play", lambda *args: played.append(args[1]))
    run_histories(machine.Locks, load_harness("mem"), histories=3, steps=1)
    assert played == [0, 1, 2]
    played.clear()
    monkeypatch.setenv(histories.VARIABLE, "4")
    run_histories(machine.Locks, load_harness("mem"), histories=3, steps=1)
    assert played == [None] * 12


def test_a_fault_of_the_machine_is_no_silence(monkeypatch):
    """What fails in a step without being a judgement is told with its traceback."""
    monkeypatch.setattr(histories, "SHORTENING_SECONDS", 0.0)
    monkeypatch.setattr(machine.Locks, "same_locks", lambda *_: 1 // 0)
    with pytest.raises(UnmetError, match="ZeroDivisionError"):
        run_histories(machine.Locks, load_harness("mem"), histories=1, steps=1)


def test_parts_do_not_hide_each_other():
    """Parts are put together by inheritance, so no two of them use a name for two things."""
    shared = {"finish", "notified", "work_came", "time_passed", "lost"}
    owners: dict[str, str] = {}
    for part in whole.Whole.__mro__:
        if part.__module__.startswith("alkstore_contract.machine."):
            for name in vars(part):
                if not name.startswith("__") and name not in shared:
                    assert owners.setdefault(name, part.__name__) == part.__name__, name
    assert {"claim", "publish", "try_lock", "schedule", "commit", "recv"} <= owners.keys()


@pytest.mark.parametrize(
    "kind",
    [
        machine.Queues,
        machine.Outboxes,
        machine.Streams,
        machine.Locks,
        machine.Schedules,
        machine.Transactions,
        machine.Wakes,
        machine.Whole,
    ],
    ids=lambda kind: kind.__name__,
)
def test_each_step_is_taken(kind):
    """A step that no history takes would be a promise that nobody looks at."""
    taken = set()

    class Watched(kind):
        def take(self, step):
            taken.add(step[0])
            super().take(step)

    Watched.__name__ = kind.__name__
    run_histories(Watched, load_harness("mem"), histories=12, steps=STEPS)
    steps = {name for name in dir(kind) if hasattr(getattr(kind, name), "step")}
    assert taken == steps - kind.omits
