"""A patch replaces one thing everywhere it matters, and it is put back."""

from __future__ import annotations

import asyncio

import pytest
from patches import (
    arguments,
    constant,
    core,
    engine,
    facts,
    harness,
    nothing,
    op,
    primitive,
    result,
    signals,
    statement,
    subscription,
)
from sabotage import SabotagedHarness, Saboteur, read_tables
from sqlalchemy import true

from alkstore_core import names, queues, requests
from alkstore_core.policy import backoff
from alkstore_core.spi import Fired


def under(patch, show):
    """Run `show(store)` on an engine with the patch at work."""
    bad = SabotagedHarness(Saboteur(patch))

    async def run():
        async with bad.home() as address, bad.store(address, None) as store:
            return await show(store)

    with bad.at_work():
        return asyncio.run(run())


async def _two_jobs(store):
    queue = store.queue("work")
    await queue.enqueue_many(["a", "b"])
    return [handle.job.payload for handle in await queue.claim_batch("w", 2)]


async def _job_of_a_transaction(store):
    async with store.begin_tx() as tx:
        await tx.enqueue_tx("work", "x")
        await tx.commit()
    return (await store.queue("work").stats()).ready


@pytest.mark.parametrize(
    ("patch", "payloads"),
    [
        (result("claim", lambda jobs: jobs[::-1]), [b'"b"', b'"a"']),
        (arguments("claim", lambda queue, worker, n: (queue, worker, n - 1)), [b'"a"']),
        (nothing("claim", []), []),
        (primitive("claim", lambda real, queue, worker, n: real.claim("other", worker, n)), []),
        (primitive("claim", lambda real, *args: real.notes.setdefault("jobs", [])), []),
        (op("claims:claim", lambda real, queue, worker, n: real("other", worker, n)), []),
        (core("queues:Queue.claim_batch", lambda real, self, worker, n: real(self, "v", 0)), []),
        (statement("claims:BEST", lambda best: best.where(~true())), []),
    ],
)
def test_a_claim_is_sabotaged(patch, payloads):
    """Each kind of patch reaches an auto-commit call."""
    assert under(patch, _two_jobs) == payloads


@pytest.mark.parametrize(("where", "stored"), [("all", 0), ("tx", 0), ("auto", 1)])
def test_a_primitive_is_sabotaged_in_transactions(where, stored):
    """In transactions as well, unless the patch is for auto-commit calls alone."""
    assert under(nothing("insert_jobs", [1], where=where), _job_of_a_transaction) == stored


def test_a_commit_can_be_sabotaged():
    """The end of a transaction is a primitive too."""
    assert under(primitive("commit", lambda real: real.rollback()), _job_of_a_transaction) == 0


def test_a_patch_knows_where_it_stands():
    """`in_tx` tells auto-commit calls and transactions apart."""
    asked = []
    patch = primitive(
        "insert_jobs", lambda real, *args, **wake: asked.append(real.in_tx) or [len(asked)]
    )

    async def both(store):
        await store.queue("work").enqueue("x")
        async with store.begin_tx() as tx:
            await tx.enqueue_tx("work", "x")

    under(patch, both)
    assert asked == [False, True]


def test_wakes_are_sabotaged():
    """Subscriptions and signals are reached, so is the engine itself."""

    async def wake(store):
        async with store.listen("bell") as receiver:
            await store.notify("bell")
            return await receiver.recv()

    assert under(subscription("wait", lambda real: Fired.CLOSED), wake) is None
    channels = []
    under(
        signals("subscribe", lambda real, topic: channels.append(topic) or real.subscribe(topic)),
        wake,
    )
    assert [topic.name for topic in channels] == ["bell"]
    assert under(engine("diagnose", lambda real: ["ill"]), lambda store: store.diagnose()) == [
        "ill"
    ]


def test_code_is_replaced_wherever_it_is_bound_and_put_back():
    """Modules that imported the function by name have the fault as well, until the end."""
    real = names.check_name
    patch = core("names:check_name", lambda real, kind, name: "same")
    with patch.installed():
        assert requests.check_name("queue", "any") == names.check_name("queue", "any") == "same"
    assert requests.check_name is names.check_name is real


def test_an_inherited_method_is_replaced_in_one_class():
    """What the class inherits is replaced for it alone, and inherited again afterwards."""
    before = queues.JobSource.sweep_expired, queues.Queue.sweep_expired
    with core("queues:Queue.sweep_expired", lambda real, self: 7).installed():
        assert queues.JobSource.sweep_expired is before[0]
        assert queues.Queue.sweep_expired(None) == 7
    assert (queues.JobSource.sweep_expired, queues.Queue.sweep_expired) == before
    assert "sweep_expired" not in vars(queues.Queue)


def test_what_was_remembered_does_not_hide_a_fault():
    """Caches are emptied when a fault comes and when it goes."""
    assert names.check_name("queue", "known") == "known"
    with core("names:_legal", lambda real, kind, name: "changed").installed():
        assert names.check_name("queue", "known") == "changed"
    assert names.check_name("queue", "known") == "known"


def test_a_constant_is_replaced_by_name_only():
    """Equal small integers are one object: other constants of its value stay."""
    with constant("policy.backoff:MAX_BACKOFF_S", 0).installed():
        assert backoff.MAX_BACKOFF_S == 0
        assert backoff.backoff_delay(5, 1) == 0
    assert backoff.MAX_BACKOFF_S == 3600


def test_facts_and_the_harness_are_sabotaged():
    """The harness says what the patch says, for all else what its base says."""
    bad = SabotagedHarness(Saboteur(facts(notify_limit=3)))
    assert bad.facts.notify_limit == 3
    bad = SabotagedHarness(Saboteur(harness("written", lambda real, address: ["a row"])))
    assert bad.written("anywhere") == ["a row"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: primitive("clame", lambda real: None),
        lambda: engine("clame", lambda real: None),
        lambda: facts(colour="red"),
        lambda: harness("clame", lambda real: None),
    ],
)
def test_a_misspelt_target_is_refused(make):
    """A patch of nothing is an error where it is written."""
    with pytest.raises(ValueError, match="no "):
        make()


def test_a_misspelt_function_is_refused():
    """So is one of a function that does not exist, when it is to be installed."""
    with (
        pytest.raises(AttributeError, match="there is no alkstore_core"),
        core("names:clame", lambda real: None).installed(),
    ):
        pass


def test_two_tables_cannot_name_one_property(tmp_path, monkeypatch):
    """The second would hide the first."""
    package = tmp_path / "twice"
    package.mkdir()
    for name in ("__init__", "first", "second"):
        (package / f"{name}.py").write_text('SABOTEURS = {"names.empty": None}\n')
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=r"twice\.second repeats names\.empty"):
        read_tables("twice")
