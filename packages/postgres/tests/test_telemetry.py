"""Traces over Postgres, whose calls gather into statements and whose sessions are its own."""

import asyncio

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from alkstore_core import StopToken, otel
from alkstore_core.worker import Worker


@pytest.fixture
def exporter():
    """The spans that have ended."""
    return InMemorySpanExporter()


@pytest.fixture
def provider(exporter, store):
    """An SDK that hands them over at once; the open store is traced by it."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    otel.instrument(store, tracer_provider=provider)
    return provider


async def test_many_at_once_keep_their_own_context(store, provider):
    """Jobs and events of calls that gather have the trace of their own caller."""
    tracer = provider.get_tracer("tests")
    queue, stream = store.queue("work"), store.stream("facts")

    async def request(number):
        with tracer.start_as_current_span(f"request {number}") as span:
            trace = f"{span.get_span_context().trace_id:032x}"
            return await queue.enqueue(number), await stream.publish(number), trace

    made = await asyncio.gather(*(request(number) for number in range(50)))
    stored = {job.id: job.headers["traceparent"].split("-")[1] for job in await queue.jobs()}
    events = await stream.read_since(0, 100)
    published = {event.offset: event.headers["traceparent"].split("-")[1] for event in events}

    assert {job: trace for job, _, trace in made} == stored
    assert {offset: trace for _, offset, trace in made} == published


async def test_from_transactions_to_the_handler(store, provider, exporter, postgres_url):
    """Of its own, with its connection at hand, and one that it joined."""
    with provider.get_tracer("tests").start_as_current_span("request") as request:
        async with store.transaction() as tx:
            await tx.connection.execute(text("SELECT 1"))
            await tx.enqueue_tx("work", 1)
        url = postgres_url.replace("postgresql://", "postgresql+asyncpg://")
        engine = create_async_engine(url)
        async with engine.begin() as connection:
            await store.join(connection).enqueue_tx("work", 2)
        await engine.dispose()
    stop, seen = StopToken(), []

    async def handler(number):
        seen.append(number)
        if len(seen) == 2:
            stop.stop()

    around = [otel.trace_jobs(tracer_provider=provider)]
    await Worker(store, "work", handler, middlewares=around).run(stop)
    handled = [s for s in exporter.get_finished_spans() if s.name == "process work"]

    assert [request.get_span_context().trace_id] * 2 == [s.context.trace_id for s in handled]
