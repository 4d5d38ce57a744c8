"""`worker`: runs the handlers of an application."""

from __future__ import annotations

import asyncio
import importlib
import logging
import sys
import traceback
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from alkstore_core import AlkstoreError, DatabaseError
from alkstore_core.cli.escaping import safe
from alkstore_core.cli.opening import exists, file_of, opened
from alkstore_core.cli.params import url_option
from alkstore_core.cli.statuses import Refused
from alkstore_core.overview import overview
from alkstore_core.worker import App
from alkstore_core.worker import run as run_all

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Collection, Coroutine, Sequence
    from types import TracebackType

    from alkstore_core import Store

_ONLY = "Serve this {0}, and besides only what else is named."
_LEVELS = ("debug", "info", "warning", "error")

_log = logging.getLogger(__name__)


@click.command(short_help="Run the handlers of an App, and fire schedules.")
@click.argument("app", metavar="MODULE:APP")
@click.option("--queue", "queues", multiple=True, metavar="NAME", help=_ONLY.format("queue"))
@click.option("--outbox", "outboxes", multiple=True, metavar="NAME", help=_ONLY.format("outbox"))
@click.option(
    "--consumer", "consumers", multiple=True, metavar="NAME", help=_ONLY.format("consumer")
)
@click.option(
    "--concurrency",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many handlers at once for each queue and outbox, where a decorator does not say.",
)
@click.option("--no-schedules", is_flag=True, help="Leave schedules to other processes.")
@click.option(
    "--log-level",
    type=click.Choice(_LEVELS),
    default="info",
    show_default=True,
    help="Of the lines on stderr, unless the application sets logging up.",
)
@url_option
def worker(
    app: str,
    url: str | None,
    queues: Sequence[str],
    outboxes: Sequence[str],
    consumers: Sequence[str],
    concurrency: int | None,
    log_level: str,
    *,
    no_schedules: bool,
) -> None:
    """Run the handlers of an App, and fire schedules, until SIGTERM or ctrl-C.

    APP is the name of an alkstore_core.worker.App in MODULE, which is looked for in the working
    directory, too. The first signal ends what runs in order, a second one without grace.

    With --queue, --outbox or --consumer, each as often as needed, only the handlers of those run.
    """
    found = load(app)
    logging.basicConfig(
        level=log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    # Seven lines of its own plumbing before the first of ours.
    logging.getLogger("alembic.runtime.plugins").setLevel(logging.WARNING)
    try:
        chosen: dict[str, Any] = {"concurrency": concurrency}
        if queues or outboxes or consumers:
            chosen |= {"queues": queues, "outboxes": outboxes, "consumers": consumers}
        _run(_work(url, found, chosen, schedules=not no_schedules))
    except BaseExceptionGroup as errors:
        told = "; ".join(_told(error) for error in errors.exceptions)
        raise Refused(f"several of them failed: {told}") from None


def load(spec: str) -> App:
    """The app of `module:name`, the name of an attribute or of an attribute's attribute.

    Raises:
        ClickException: there is none.

    """
    module, colon, name = spec.partition(":")
    if module.endswith(".py") and Path(module).is_file():
        file = Path(module).resolve().with_suffix("")
        inside = file.is_relative_to(Path.cwd())
        spelt = ".".join(file.relative_to(Path.cwd()).parts) if inside else file.name
        where = "" if inside else f" in {str(file.parent)!r}"
        raise click.UsageError(
            f"{module!r} is a file: write its module, as {spelt}:{name or 'app'}{where}"
        )
    if not colon or not module or not name:
        raise click.UsageError(
            f"{spec!r} does not say where the App is: write module:name, such as tasks:app"
        )
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        imported = found = importlib.import_module(module)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a module may raise anything.
        raise Refused(f"cannot import {module!r}: {_told(error)}{_where(error)}") from None
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            apps = [repr(key) for key, value in vars(imported).items() if isinstance(value, App)]
            instead = f", but App {', '.join(apps)}" if apps else ""
            raise Refused(f"module {module!r} has no {name!r}{instead}") from None
    if not isinstance(found, App):
        raise Refused(f"{spec} is of type {type(found).__name__}, and no alkstore_core.worker.App")
    return found


def _run(work: Coroutine[Any, Any, None]) -> None:
    """Do it in an event loop of its own, which no `SystemExit` of another task ends.

    asyncio raises one out of the loop as well as where its task is awaited: there a handler fails.
    """
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        working = loop.create_task(work)
        while True:
            try:
                loop.run_until_complete(working)
            except SystemExit:
                if working.done():
                    raise
                _log.exception("a task that the application began has exited; the worker goes on")
            else:
                return


async def _work(url: str | None, app: App, options: dict[str, Any], *, schedules: bool) -> None:
    """Run what `options` leave of the App; they are those of `App.runners`."""
    path = file_of(url or "")
    made = path is not None and not exists(path)
    async with opened(url, create=True) as store:
        where = str(path) if path is not None else safe(url or "")
        try:
            runners = app.runners(store, **options)
        except (AlkstoreError, TypeError, ValueError) as error:
            raise Refused(f"the App cannot be run: {error}") from None
        if not runners and not schedules:
            raise Refused("the App has no handler, and schedules are left out: nothing to do")
        if made:
            _log.warning("there was no file %s: made a new database", where)
        served = sorted(map(str, runners))
        if served:
            _log.info("on %s: %s", where, ", ".join(served))
        else:
            _log.warning("on %s: the App has no handler, only schedules are fired", where)
        # What was left out here is another process's.
        await _tell_unhandled(store, [f"{kind} {name!r}" for kind, name in app.handled])
        async with _lifespan(app, store):
            await run_all(*runners, schedules=store if schedules else None)


@asynccontextmanager
async def _lifespan(app: App, store: Store) -> AsyncGenerator[None]:
    """What begins or ends badly there is told as the application's."""
    running = False
    try:
        async with app.lifespan(store):
            running = True
            yield
            running = False
    except Exception as error:
        if running:
            raise
        raise Refused(f"the App's lifespan failed: {_told(error)}{_where(error)}") from None


async def _tell_unhandled(store: Store, handled: Collection[str]) -> None:
    """Where a name is mistyped, jobs would otherwise wait in silence, and so would we."""
    try:
        seen = await overview(store)
    except DatabaseError as error:
        # The workers bear it, and try again.
        _log.warning("cannot look for jobs that the App has no handler for: %s", error)
        return
    waiting = [f"{queue.kind} {queue.name!r}" for queue in seen.queues if queue.stats.ready]
    for what in waiting:
        if what not in handled:
            _log.warning("jobs wait in %s, which the App has no handler for", what)
    for schedule in seen.schedules:
        if (what := f"queue {schedule.queue!r}") not in (*handled, *waiting):
            _log.warning(
                "schedule %r fills %s, which the App has no handler for",
                schedule.name,
                what,
            )


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _where(error: BaseException) -> str:
    """The line that raised, if it is not one of the import system's own."""
    trace: TracebackType | None = error.__traceback__
    frames = [f for f in traceback.extract_tb(trace) if not f.filename.startswith("<frozen")]
    # The first is ours, and so is the only one of a module that is not there at all.
    outside = [f for f in frames if f.filename not in {__file__, importlib.__file__}]
    return f" ({outside[-1].filename}, line {outside[-1].lineno})" if outside else ""
