"""What an engine gives the kit: a place to store, stores on it, and the facts."""

from __future__ import annotations

import importlib
import inspect
import sys
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from attrs import field, fields, frozen
from attrs.validators import in_, instance_of, optional

from alkstore_contract.processes import Process

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from alkstore_core import Clock, Store

GROUP = "alkstore.harnesses"

JoinKind = Literal["AsyncConnection", "AsyncSession", "Connection", "Session"]

RawWorkload = Literal[
    "enqueue",
    "enqueue-50",
    "enqueue-many",
    "drain-1",
    "drain-4",
    "publish",
    "read",
    "transaction",
]
"""The workloads of `bench` that a plain driver can do as well; there are no others."""

RawRun = Callable[[int], Awaitable[int]]
"""Do so many operations; says how many were done."""

BENCH: Final = "bench"
"""The name of the queue and of the stream that `bench` works on."""

BENCH_PAYLOAD: Final[dict[str, Any]] = {
    "task": "thumbnail",
    "image": 4711,
    "sizes": [64, 128, 256],
    "source": "https://img.example.org/originals/4711.jpeg",
}
"""What every job and every event of `bench` carries."""

BENCH_PAGE: Final = 100
"""Rows of one call in `enqueue-many` and `read`; counts are multiples of it there."""


@frozen(kw_only=True)
class Facts:
    """What differs between engines, and nothing else may. A fact chooses what is asserted.

    Every fact has to be given; none of them takes a property away.
    """

    notify_limit: int | None = field(validator=optional(instance_of(int)))
    """Largest notify payload in bytes; `None`: any size is carried."""

    durability: Literal["durable", "volatile"] = field(validator=in_(("durable", "volatile")))
    """Whether what was committed outlives the process. While a home lasts, it outlives the last
    store in either case."""

    reach: Literal["process", "host", "cluster"] = field(
        validator=in_(("process", "host", "cluster"))
    )
    """From where stores reach one database. Beyond `process`, `Harness.spawn` is used; and to see
    that what is `durable` outlives a process, while no other one has a store open."""

    receiver_closes_on: Literal["close", "loss"] = field(validator=in_(("close", "loss")))
    """`close`: a receiver ends with its store only. `loss`: also when the engine can no longer
    tell what is committed (`Harness.sever`)."""

    single_writer: bool = field(validator=instance_of(bool))
    """Whether one write transaction at a time is open in a database."""

    sql_join: Literal["none", "async", "both"] = field(validator=in_(("none", "async", "both")))
    """What `Store.join` takes: nothing (there is no `join`), SQLAlchemy's async kinds, or the
    sync ones too."""


class Caller(ABC):
    """A transaction of the caller's own, through the database's own connection."""

    subject: Any
    """What `Store.join` takes: a connection or session inside an open transaction."""

    @abstractmethod
    async def write(self, value: str) -> None:
        """Write a row of the caller's in this transaction."""

    @abstractmethod
    async def commit(self) -> None:
        """Commit it, the row and whatever joined."""

    @abstractmethod
    async def rollback(self) -> None:
        """Roll it back."""


class Harness(ABC):
    """How the kit gets at an engine. One instance serves many properties, one after the other."""

    distribution: ClassVar[str]
    """The name under which the engine is installed, such as `alkstore-sqlite`."""

    facts: ClassVar[Facts]

    @abstractmethod
    def home(self) -> AbstractAsyncContextManager[str]:
        """An empty database that nobody else uses; gives its address, gone after the block.

        Until then it keeps what was committed, also while no store of it is open.
        """

    @abstractmethod
    def store(self, address: str, clock: Clock | None) -> Store:
        """An unopened store at an address; a second one of the same address is another client.

        With a `clock`, that one stamps and judges everything. In another process an address of
        an engine with the reach for it means the same database.
        """

    async def sever(self, address: str) -> None:  # noqa: B027 - not every engine has what to cut
        """Take away from every open store at `address` what its receivers live on.

        `receiver_closes_on="loss"`: so that they end (a file: it is deleted). With `close` and
        a reach beyond the process: whatever an outage is (a server: its connections are cut);
        the receivers live on and wake with `__alkstore_listener_reconnected__`. An engine of
        one process has nothing to cut and does nothing.
        """

    def caller(self, address: str, kind: JoinKind) -> AbstractAsyncContextManager[Caller]:
        """A transaction of the caller's own, rolled back at the end of the block if still open.

        Needed unless `sql_join` is `none`.
        """
        raise NotImplementedError(f"{type(self).__name__}.caller({kind!r})")

    async def written(self, address: str) -> list[str]:
        """The values of `Caller.write` that are committed, sorted. Needed with `caller`."""
        raise NotImplementedError(f"{type(self).__name__}.written")

    async def spawn(self, address: str, function: str, *args: Any) -> Process:
        """Run `function` (`module:name`, an `async def` taking a store and `args`) elsewhere.

        The default is another process of this host; an engine that reaches further may do
        better. Arguments and what is said are JSON.
        """
        return await Process.start(reference(self), address, function, args)

    def raw(
        self,
        address: str,  # noqa: ARG002 - for those who override it
        workload: RawWorkload,  # noqa: ARG002 - as above
    ) -> AbstractAsyncContextManager[RawRun] | None:
        """The same row work through the plain driver: what `bench` divides the engine's rate by.

        `None`, the default: there is no such baseline, and no ratio. Otherwise what the block
        gets is called with a count, does so many operations on the engine's own rows, in the
        queue and stream `BENCH` and with `BENCH_PAYLOAD` encoded, and returns how many it did.
        It should be the strictest opponent there is: nothing checked, nothing woken, statements
        prepared, rows left as the driver gives them, each commit as durable as the engine's,
        and in as many tasks at once as serve it best. A store of the engine is open at `address`
        meanwhile; before each call it fills in what has to be there, after it it counts.

        * `enqueue`, `enqueue-50`: insert a ready job and commit, one job an operation.
        * `enqueue-many`: insert `BENCH_PAGE` jobs and commit; an operation is one job.
        * `drain-1`, `drain-4`: claim the next ready job as a claim would and commit, then delete
          it and commit; as many jobs are there as are asked for.
        * `publish`: insert an event and commit.
        * `read`: select the stream's events, `BENCH_PAGE` at a time, from the beginning and
          again; an operation is one event.
        * `transaction`: insert a job and an event, then commit.
        """
        return None


class UnfitHarnessError(TypeError):
    """What was named as a harness is none, or lacks something."""


def reference(harness: Harness) -> str:
    """`module:name` of a harness, for another process."""
    kind = type(harness)
    return f"{kind.__module__}:{kind.__qualname__}"


def load_harness(name: str) -> Harness:
    """The harness that `module:attribute` or the name of an installed entry point means.

    Raises:
        LookupError: there is none; the message says which there are.
        UnfitHarnessError: it is not a whole harness; the message says what is missing.

    """
    if ":" in name:
        module, _, attribute = name.partition(":")
        if not module or not attribute or module.startswith("."):
            raise LookupError(f"{name!r} does not name a harness: that is MODULE:HARNESS")
        try:
            found: Any = importlib.import_module(module)
            for part in attribute.split("."):
                found = getattr(found, part)
        except (ImportError, AttributeError) as error:
            raise LookupError(f"the harness {name!r} cannot be imported: {error}") from error
    else:
        installed = [entry for entry in entry_points(group=GROUP) if entry.name == name]
        if not installed:
            known = sorted({entry.name for entry in entry_points(group=GROUP)})
            raise LookupError(
                f"no installed engine registers a harness {name!r} under {GROUP}; installed: "
                f"{', '.join(known) or 'none'}. Another one is named MODULE:HARNESS"
            )
        found = installed[0].load()
    return _fit(name, found() if isinstance(found, type) else found)


def load_harness_here(name: str) -> Harness:
    """As `load_harness`; a module may lie in the working directory, behind all that is installed.

    Raises:
        LookupError: there is none; the message says which there are.
        UnfitHarnessError: it is not a whole harness; the message says what is missing.

    """
    if ":" in name:
        sys.path.append(str(Path.cwd()))
    return load_harness(name)


def _fit(name: str, harness: object) -> Harness:
    if not isinstance(harness, Harness):
        raise UnfitHarnessError(f"{name!r} is a {type(harness).__name__}, not a Harness")
    for attribute in ("distribution", "facts"):
        if not hasattr(harness, attribute):
            raise UnfitHarnessError(f"the harness {name!r} has no `{attribute}`")
    distribution: object = harness.distribution
    if not isinstance(distribution, str) or not distribution:
        raise UnfitHarnessError(
            f"the `distribution` of {name!r} has to be the name under which it is installed, "
            f"not {distribution!r}"
        )
    facts: object = inspect.getattr_static(harness, "facts")
    if not isinstance(facts, Facts):
        names = ", ".join(field.name for field in fields(Facts))
        raise UnfitHarnessError(f"the `facts` of {name!r} have to be a Facts({names})")
    return harness
