"""What workers and consumers log: stable names and fields beside the text."""

import ast
import inspect
import logging
from pathlib import Path

import pytest
from dict_engine import until
from outcomes import Scenes

import alkstore_core.worker
from alkstore_core.worker import Consumer, Fail, OutboxWorker, Retry

PACKAGE = Path(inspect.getfile(alkstore_core.worker)).parent


def told(caplog, name):
    """The one record of an event."""
    (record,) = [r for r in caplog.records if r.event_name == f"alkstore.{name}"]
    return record


@pytest.fixture
def scenes(engine, store, runs, clock, caplog):
    """Jobs that end in all ways, with everything logged."""
    caplog.set_level(logging.DEBUG, "alkstore_core.worker")
    return Scenes(engine, store, runs, clock)


async def test_a_failed_job_is_told_with_what_follows(engine, scenes, caplog):
    """The pause in the line, and in the field, is the one that the job gets."""
    await scenes.play("retried", [])
    record = told(caplog, "job.failed")
    pause = engine.data.jobs[1].run_at - engine.clock.now()

    assert pause in range(2, 6)
    assert (
        f"queue 'q': job 1 failed (attempt 1 of 3), again in {pause} s: ValueError: no route"
        == record.getMessage()
    )
    assert record.exc_info is not None
    assert ("q", 1, 1, 3) == (record.queue, record.job_id, record.attempt, record.max_attempts)
    assert ("retried", False, pause) == (record.outcome, record.timed_out, record.delay_s)
    assert record.duration_s == 0
    assert "ValueError: no route" == record.error
    assert engine.calls.count("requeue") == 1


async def test_a_retry_of_the_handler_s_own(engine, scenes, caplog):
    """Its delay is told, and no traceback."""
    await scenes.play("retried_by_retry", [])
    record = told(caplog, "job.failed")

    assert "queue 'q': job 1 failed (attempt 1 of 3), again in 60 s: busy" == record.getMessage()
    assert record.exc_info is None
    assert 1_060 == engine.data.jobs[1].run_at


@pytest.mark.parametrize(
    ("scene", "attempts", "text"),
    [
        ("dead", "1 of 1", "ValueError: no route"),
        ("dead_by_fail", "1 of 3", "no such address"),
        ("dead_by_its_payload", "1 of 3", "the payload is no int"),
    ],
)
async def test_a_dead_job_is_told_as_such(scenes, caplog, scene, attempts, text):
    """Whoever reads the line need not look the job up."""
    await scenes.play(scene, [])
    record = told(caplog, "job.failed")

    assert f"queue 'q': job 1 failed (attempt {attempts}), dead now: {text}" == record.getMessage()
    assert ("dead", None) == (record.outcome, record.delay_s)


async def test_a_timeout_is_told_as_one(scenes, caplog):
    """How long it took is a field."""
    await scenes.play("timed_out", [])
    record = told(caplog, "job.failed")

    assert "timed out after 5 s" == record.error
    assert (True, 5) == (record.timed_out, record.duration_s)


async def test_a_job_that_is_done_is_told_to_who_debugs(scenes, caplog):
    """With how long it took; at any other level nothing is said."""
    await scenes.play("acked", [])
    record = told(caplog, "job.done")

    assert (logging.DEBUG, "acked", 0) == (record.levelno, record.outcome, record.duration_s)
    assert "queue 'q': job 1 done in 0.000 s" == record.getMessage()
    assert not [r for r in caplog.records if r.levelno > logging.DEBUG]


async def test_what_is_given_back_at_the_end_is_told(scenes, caplog):
    """One line for all jobs that another worker has now."""
    await scenes.play("released", [])
    record = told(caplog, "jobs.released")

    assert "queue 'q': 1 jobs given back" == record.getMessage()
    assert (logging.INFO, 1, [1]) == (record.levelno, record.count, record.job_ids)


async def test_a_lost_claim_is_told(scenes, caplog):
    """With the reason, and no failure beside it."""
    await scenes.play("lost", [])
    record = told(caplog, "job.lost")

    assert (1, "lost", "its heartbeat was refused") == (
        record.job_id,
        record.outcome,
        record.reason,
    )
    assert not [r for r in caplog.records if r.event_name == "alkstore.job.failed"]


async def test_a_thread_that_is_left_is_no_failure(scenes, caplog):
    """Its job comes back when its claim lapses, and that is what is told."""
    await scenes.play("released_to_its_lapse", [])

    assert 1 == told(caplog, "job.left_running").job_id
    assert 1 == told(caplog, "jobs.unsettled").count
    assert not [r for r in caplog.records if r.event_name == "alkstore.job.failed"]


async def test_an_outbox_has_a_field_of_its_own(engine, store, runs, caplog):
    """The queue behind it is never named."""
    await store.outbox("mail").enqueue(1)

    async def handler(_):
        raise Fail("no such address")

    runs(OutboxWorker(store, "mail", handler))
    await until(lambda: engine.data.jobs[1].last_error)
    record = told(caplog, "job.failed")

    assert "mail" == record.outbox
    assert not hasattr(record, "queue")


async def test_events_that_fail(store, runs, caplog):
    """By stream, consumer, offset and attempt; then as skipped."""
    await store.stream("s").publish(1)
    tries = []

    async def handler(_):
        tries.append(1)
        raise Retry("busy", delay=0)

    runs(Consumer(store, "s", "c", handler, max_attempts=2, on_poison="skip"))
    await until(lambda: len(tries) == 2 and caplog.records[-1].levelno == logging.ERROR)
    failed, skipped = told(caplog, "event.failed"), told(caplog, "event.skipped")

    assert ("s", "c", 1, 1) == (failed.stream, failed.consumer, failed.offset, failed.attempt)
    assert ("retried", 0) == (failed.outcome, failed.delay_s)
    assert ("s", "c", 1, "dead") == (
        skipped.stream,
        skipped.consumer,
        skipped.offset,
        skipped.outcome,
    )


def lines():
    """Every call of a logger in the package."""
    for path in sorted(PACKAGE.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = getattr(node, "func", None)
            name = ast.unparse(called) if called is not None else ""
            if name.startswith("_log.") and name != "_log.isEnabledFor":
                yield f"{path.name}:{node.lineno}", node


@pytest.mark.parametrize("line", [pytest.param(node, id=at) for at, node in lines()])
def test_each_line_has_a_name(line):
    """Nothing is logged without `extra`."""
    assert "extra" in {keyword.arg for keyword in line.keywords}
