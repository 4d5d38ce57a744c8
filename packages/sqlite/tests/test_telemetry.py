"""Traces over a file: from whichever transaction to the handler, of any process."""

import asyncio

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session

from alkstore_core import StopToken, TxHandle, otel
from alkstore_core.prometheus import metrics_text
from alkstore_core.worker import Consumer, Retry, Worker
from alkstore_sqlite import SqliteStore, prepare_engine


@pytest.fixture
def exporter():
    """The spans that have ended."""
    return InMemorySpanExporter()


@pytest.fixture
def provider(exporter):
    """An SDK that hands them over at once."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider


@pytest.fixture
async def traced(path, provider):
    """An open store on the time of the system, traced."""
    async with SqliteStore(path) as store:
        otel.instrument(store, tracer_provider=provider)
        yield store


def named(exporter, name):
    """The spans of a name, by their end."""
    return [span for span in exporter.get_finished_spans() if span.name == name]


async def by_its_own_transaction(store, path):
    """A transaction of the store."""
    async with store.transaction() as tx:
        await tx.connection.execute(text("CREATE TABLE orders (id INTEGER)"))
        await tx.enqueue_tx("work", 1)


async def by_a_joined_connection(store, path):
    """A transaction of an `AsyncConnection`."""
    engine = prepare_engine(create_async_engine(f"sqlite+aiosqlite:///{path}"))
    async with engine.begin() as connection:
        await store.join(connection).enqueue_tx("work", 1)
    await engine.dispose()


async def by_a_blocking_session_in_a_thread(store, path):
    """A transaction of a blocking `Session`, in another thread."""
    engine = prepare_engine(create_engine(f"sqlite:///{path}"))

    def enqueue():
        with Session(engine) as session, session.begin():
            store.join(session).enqueue_tx("work", 1)

    await asyncio.to_thread(enqueue)
    engine.dispose()


@pytest.mark.parametrize(
    "enqueue",
    [by_its_own_transaction, by_a_joined_connection, by_a_blocking_session_in_a_thread],
)
async def test_from_any_transaction_through_a_retry(traced, path, provider, exporter, enqueue):
    """Both attempts, in threads, are in the trace of the request that enqueued the job."""
    with provider.get_tracer("tests").start_as_current_span("request") as request:
        await enqueue(traced, path)
    stop, current = StopToken(), []
    loop = asyncio.get_running_loop()

    def handler(_):
        current.append(trace.get_current_span().get_span_context().span_id)
        if len(current) == 1:
            raise Retry("not yet", delay=0)
        loop.call_soon_threadsafe(stop.stop)

    around = [otel.trace_jobs(tracer_provider=provider)]
    await Worker(traced, "work", handler, middlewares=around).run(stop)

    (sent,), handled = named(exporter, "enqueue work"), named(exporter, "process work")
    assert request.get_span_context().span_id == sent.parent.span_id
    assert [sent.context.span_id] * 2 == [span.parent.span_id for span in handled]
    assert [span.context.span_id for span in handled] == current
    outcomes = [span.attributes["messaging.alkstore.outcome"] for span in handled]
    assert ["retried", "acked"] == outcomes


async def test_through_a_stream_in_one_transaction(traced, provider, exporter):
    """What an exactly-once consumer enqueues is in the publisher's trace."""
    await traced.stream("orders").publish(1)
    stop = StopToken()

    async def bill(_, tx: TxHandle):
        await tx.enqueue_tx("invoices", 1)
        stop.stop()

    around = [otel.trace_events(tracer_provider=provider)]
    await Consumer(traced, "orders", "billing", bill, middlewares=around).run(stop)

    (sent,), (handled,) = named(exporter, "publish orders"), named(exporter, "process orders")
    (enqueued,) = named(exporter, "enqueue invoices")
    assert sent.context.span_id == handled.parent.span_id
    assert handled.context.span_id == enqueued.parent.span_id


async def test_what_is_rolled_back_leaves_no_header(traced, exporter):
    """The span tells of the attempt; the job is not there."""
    async with traced.begin_tx() as tx:
        await tx.enqueue_tx("work", 1)

    assert 1 == len(named(exporter, "enqueue work"))
    assert [] == await traced.queue("work").jobs()


async def test_the_connection_of_a_traced_transaction(traced):
    """A traced session has what its kind of session has."""
    async with traced.transaction() as tx:
        assert 1 == (await tx.connection.execute(text("SELECT 1"))).scalar()


async def test_many_at_once_keep_their_own_context(traced, provider, exporter):
    """Calls that share a commit do not share a trace."""
    tracer = provider.get_tracer("tests")

    async def request(number):
        with tracer.start_as_current_span(f"request {number}") as span:
            job = await traced.queue("work").enqueue(number)
            return job, span.get_span_context().trace_id

    made = dict(await asyncio.gather(*(request(number) for number in range(20))))

    for job in await traced.queue("work").jobs():
        assert f"{made[job.id]:032x}" == job.headers["traceparent"].split("-")[1]


async def test_the_age_of_what_waits(path, clock):
    """The oldest ready job's age, as the engine counts it."""
    async with SqliteStore(path, clock=clock) as store:
        await store.queue("work").enqueue(1)
        await clock.advance(7)
        told = await metrics_text(store, registry=None)

    samples = {
        (sample.name, sample.labels.get("queue")): sample.value
        for family in text_string_to_metric_families(told)
        for sample in family.samples
    }
    assert 7 == samples["alkstore_queue_oldest_ready_age_seconds", "work"]
