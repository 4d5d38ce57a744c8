"""`enqueue`: jobs by hand, or out of a pipe."""

from __future__ import annotations

import itertools
import sys
from typing import TYPE_CHECKING, Any, Final

import click

from alkstore_core import AlkstoreError, CodecError, EnqueueOpts, QueueOpts, decode_payload
from alkstore_core.cli.ending import interrupted_at_once
from alkstore_core.cli.opening import opened, run
from alkstore_core.cli.output import emit
from alkstore_core.cli.params import (
    I64,
    Moment,
    Seconds,
    header_option,
    json_option,
    outbox_option,
    url_option,
)
from alkstore_core.cli.statuses import say

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence

    from alkstore_core import Store

BATCH: Final = 1000


@click.command()
@click.argument("queue")
@click.argument("payload", required=False)
@click.option("--lines", is_flag=True, help="A payload on each line of standard input.")
@click.option(
    "--batch",
    type=click.IntRange(1, 10_000),
    default=BATCH,
    show_default=True,
    help="Lines of one transaction.",
)
@click.option("--delay", type=Seconds(), help="Not before so long from now: 90, 15m, 2h, 7d.")
@click.option("--run-at", type=Moment(), help="Not before: unix seconds or ISO 8601.")
@click.option("--priority", type=I64, default=0, show_default=True, help="Higher is first.")
@click.option("--max-attempts", type=I64, metavar="N", help="Dead after so many.")
@click.option("--expires", type=Seconds(), help="Not any more so long from now.")
@header_option
@click.option("--visibility-timeout", type=Seconds(least=1), help="How long a claim lasts.")
@click.option("--backoff", type=Seconds(), help="The first pause before another attempt.")
@click.option("--retention", type=Seconds(), help="How long it is kept once it is dead.")
@outbox_option
@click.option("--create", is_flag=True, help="Make the database's file if there is none.")
@json_option
@url_option
def enqueue(
    queue: str,
    payload: str | None,
    url: str | None,
    batch: int,
    headers: Sequence[tuple[str, str]],
    visibility_timeout: int | None,
    backoff: int | None,
    retention: int | None,
    *,
    lines: bool,
    outbox: bool,
    create: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Put a job with PAYLOAD, which is JSON, into QUEUE, and print its id.

    PAYLOAD - is standard input, as one payload. Without --visibility-timeout, --backoff and
    --retention the library's defaults are stamped on the job, and not what your application
    sets. With --lines each batch is one transaction, and its ids are printed once it has
    committed.
    """
    if options["delay"] is not None and options["run_at"] is not None:
        raise click.UsageError("say when: --delay, or --run-at")
    opts = EnqueueOpts(headers=dict(headers) or None, **options)
    stamps = {
        "visibility_timeout_s": visibility_timeout,
        "backoff_base_s": backoff,
        "dead_letter_retention_s": retention,
    }
    given = {name: value for name, value in stamps.items() if value is not None}
    if outbox and given:
        raise click.UsageError("messages of an outbox have stamps of their own")
    if lines == (payload is not None):
        raise click.UsageError("give one PAYLOAD, or - for standard input, or --lines")
    payloads: Iterable[Any]
    if payload is not None:
        # Read before anything is opened: nobody's writer is to wait for a person who types.
        data = (
            sys.stdin.buffer.read() if payload == "-" else payload.encode(errors="surrogateescape")
        )
        payloads = [decode_payload(data)]
    else:
        payloads = _parsed(sys.stdin.buffer)
    work = _enqueue(
        url, queue, payloads, batch, opts, given, outbox=outbox, create=create, as_json=as_json
    )
    with interrupted_at_once():
        run(work)


def _parsed(lines: Iterable[bytes]) -> Iterable[Any]:
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield decode_payload(line)
            except CodecError as error:
                raise CodecError(f"line {number}: {error}") from None


async def _enqueue(
    url: str | None,
    name: str,
    payloads: Iterable[Any],
    batch: int,
    opts: EnqueueOpts,
    stamps: dict[str, int],
    *,
    outbox: bool,
    create: bool,
    as_json: bool,
) -> None:
    done = 0
    async with opened(url, create=create) as store:
        put = _into_outbox(store, name, opts) if outbox else _into_queue(store, name, opts, stamps)
        rest = iter(payloads)
        try:
            while chunk := [*itertools.islice(rest, batch)]:
                for number in await put(chunk):
                    done += 1
                    if as_json:
                        emit({"id": number})
                    else:
                        click.echo(str(number))
        except (AlkstoreError, click.ClickException):
            if done:
                say(f"the {done} jobs whose ids are printed are in; of the rest none is:")
            raise


def _into_queue(
    store: Store, name: str, opts: EnqueueOpts, stamps: dict[str, int]
) -> Callable[[list[Any]], Coroutine[Any, Any, list[int]]]:
    queue = store.queue(name, QueueOpts(**stamps))
    return lambda payloads: queue.enqueue_many(payloads, opts)


def _into_outbox(
    store: Store, name: str, opts: EnqueueOpts
) -> Callable[[list[Any]], Coroutine[Any, Any, list[int]]]:
    store.outbox(name)

    async def put(payloads: list[Any]) -> list[int]:
        async with store.transaction() as tx:
            return [await tx.outbox_enqueue_tx(name, payload, opts) for payload in payloads]

    return put
