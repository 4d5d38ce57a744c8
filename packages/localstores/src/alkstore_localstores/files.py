"""An open store file: ops go in, durable results come out."""

from __future__ import annotations

import asyncio
import os
import time
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from alkstore_core.completion import to_the_end
from alkstore_core.errors import DatabaseError
from alkstore_core.sql.op import Mode
from alkstore_core.sql.runner import Runner
from alkstore_localstores.drivers import BUSY_SECONDS
from alkstore_localstores.errors import BINDING_SETUP_FAILED, INVALID_INPUT, LocalStoreError
from alkstore_localstores.formats import COMPILER
from alkstore_localstores.opening import Opener

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from alkstore_core.sql.merging import Merge
    from alkstore_core.sql.op import Op
    from alkstore_localstores.drivers import DriverName
    from alkstore_localstores.formats import Format

T = TypeVar("T")


def unix_milliseconds() -> int:
    """The host's time."""
    return time.time_ns() // 1_000_000


class StoreFile:
    """The file of a store under `data_dir`, opened by `open` or `async with`.

    Both stores stand on this one class. `run` executes an op of `alkstore_core.sql.op`: callers
    of one loop turn share a transaction, and each returns after its commit. A statement with a
    parameter `now` gets unix milliseconds from `clock`.

        file = StoreFile(data_dir, QUEUE, driver="sqlite3", clock=None)
        await file.open()
        value = await file.run(Mode.WRITE, some_op, argument)
        await file.close()
    """

    def __init__(
        self,
        data_dir: str | os.PathLike[str],
        format_: Format,
        *,
        driver: DriverName = "sqlite3",
        clock: Callable[[], int] | None = None,
        merges: Mapping[Callable[..., Op[Any]], Merge] = MappingProxyType({}),
    ) -> None:
        """Prepare; nothing is touched before `open`. `merges` says which calls can be one op.

        Raises:
            LocalStoreError: there is no such driver, or `data_dir` is no path.

        """
        try:
            self.data_dir = os.path.abspath(os.fsdecode(data_dir))  # noqa: PTH100
        except TypeError as error:
            raise LocalStoreError(
                INVALID_INPUT, f"data_dir is of type {type(data_dir).__name__}, and no path"
            ) from error
        self.path = os.path.join(self.data_dir, format_.file)  # noqa: PTH118
        self.format = format_
        self.read_clock = unix_milliseconds if clock is None else clock
        self._merges = merges
        self._opener = Opener(self.path, format_, driver)
        # From the beginning of an opening to the end of a closing.
        self._is_open = False
        self._opening: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._writer = self._runner("BEGIN IMMEDIATE", gives_way=format_.multiprocess)
        self._reader = self._runner("BEGIN", gives_way=False) if format_.multiprocess else None

    async def open(self) -> None:
        """Make or check the file and connect; after an error nothing is left open.

        Raises:
            LocalStoreError: `BINDING_SETUP_FAILED` when the file is another format's, damaged or
                in use by what must not be mixed with this driver; every byte is as before.
                `LOCAL_FILESYSTEM_ERROR` when the system refuses the directory or the file.

        """
        if self._is_open:
            raise LocalStoreError(BINDING_SETUP_FAILED, f"{self.path} is already open here")
        self._is_open = True
        self._loop = asyncio.get_running_loop()
        self._opener.forget()
        self._opening = asyncio.create_task(self._start())
        try:
            await to_the_end(self._opening)
        except BaseException as error:
            await self.close()
            if isinstance(error, DatabaseError):
                raise LocalStoreError(BINDING_SETUP_FAILED, str(error)) from error
            raise

    async def close(self) -> None:
        """Finish what was accepted, then let go of the file. Idempotent.

        A cancellation goes on when that is done: the file is never left half closed.
        """
        if not self._is_open:
            return
        if self._closing is None:
            self._closing = asyncio.create_task(self._end())
        await to_the_end(self._closing)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def run(self, mode: Mode, op: Callable[..., Op[T]], *args: Any) -> T:
        """Run an op in a transaction of its own; reads do not wait for writes where they can.

        Raises:
            LocalStoreError: with the code of this format's failing operations. Nothing was done,
                unless the message says that this is unknown.

        """
        if self._loop is not asyncio.get_running_loop() and self._is_open:
            raise self.failed(
                f"{self.path} was opened in another event loop; nothing was done",
                hint="open a store in each loop that uses one",
                retryable=False,
            )
        runner = self._writer
        if mode is Mode.READ and self._reader is not None:
            runner = self._reader
        try:
            return await runner.run(mode, op, *args)
        except DatabaseError as error:
            raise self._failed(error) from error

    async def _start(self) -> None:
        await self._writer.start()
        if self._reader is not None:
            await self._reader.start()

    async def _end(self) -> None:
        try:
            if self._opening is not None and not self._opening.done():
                await asyncio.wait((self._opening,))
            try:
                if self._reader is not None:
                    await self._reader.close()
            finally:
                await self._writer.close()
        finally:
            self._opening = self._closing = None
        self._is_open = False

    def failed(self, message: str, **fields: Any) -> LocalStoreError:
        """An error with this format's code."""
        return LocalStoreError(self.format.failure, message, **fields)

    def _failed(self, error: DatabaseError) -> LocalStoreError:
        context = {"file": self.path}
        # Core's words for it give advice on stores that join an application's sessions.
        if str(error).startswith(f"{self.path} stayed locked"):
            return self.failed(
                f"{self.path} stayed locked by another process for {BUSY_SECONDS:g} s; nothing "
                "was done",
                context=context,
                hint="find the transaction that is open that long",
            )
        return self.failed(str(error), context=context)

    def _runner(self, begin: str, *, gives_way: bool) -> Runner:
        return Runner(
            self._opener.connect,
            COMPILER,
            self.read_clock,
            begin=begin,
            check=self._opener.check,
            busy_timeout=BUSY_SECONDS,
            judge=self._opener.dbapi.judge,
            describe=self.path,
            gives_way=gives_way,
            merges=self._merges,
        )
