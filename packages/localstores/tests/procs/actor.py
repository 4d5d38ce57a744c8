"""Do what the lines say: [verb, argument, ...] in, ["ok", value] or ["error", text] out.

actor.py kv DRIVER DIRECTORY     a LocalKv; opened by "open"
actor.py sqlite PATH             the plain sqlite3 module
actor.py turso-multi PATH        pyturso, multi-process log
actor.py turso-single PATH       pyturso, one process
"""

import asyncio
import contextlib
import ctypes
import json
import resource
import signal
import sqlite3
import sys


def say(kind, value) -> None:
    """Answer."""
    sys.stdout.write(f"{json.dumps([kind, value])}\n")
    sys.stdout.flush()


class Raw:
    """A plain connection; values are text, for JSON's sake."""

    def __init__(self, connect) -> None:
        self._connect = connect
        self._connection = None

    def open(self) -> None:
        """Connect."""
        self._connection = self._connect()

    def close(self) -> None:
        """Let go of it."""
        connection, self._connection = self._connection, None
        connection.close()

    def sql(self, statement, *parameters):
        """Execute and fetch."""
        rows = self._connection.execute(statement, parameters).fetchall()
        return [[v.decode() if isinstance(v, bytes) else v for v in row] for row in rows]


class Keys:
    """A LocalKv, with values as text."""

    def __init__(self, driver, directory) -> None:
        from alkstore_localstores import LocalKv  # noqa: PLC0415 - raw actors start without it

        self._kv = LocalKv(directory, driver=driver)

    async def open(self) -> None:
        """Open it."""
        await self._kv.open()

    async def close(self) -> None:
        """Close it."""
        await self._kv.close()

    async def put(self, key, value, **options):
        """Put text."""
        return await self._kv.put(key, value.encode(), **options)

    async def get(self, key):
        """The text, or null."""
        entry = await self._kv.get(key)
        return entry and entry.value.decode()

    async def take(self, names):
        """Which of the names were put by us, each if absent, all at once."""
        calls = [self._kv.put(name, b"x", if_absent=True) for name in names]
        won = await asyncio.gather(*calls)
        return [name for name, did in zip(names, won, strict=True) if did]

    async def increment(self, key, times) -> int:
        """Add 1 so many times, each by compare and set; returns how often it had to try again."""
        again = 0
        for _ in range(times):
            while True:
                entry = await self._kv.get(key)
                value = str(int(entry.value) + 1).encode()
                if await self._kv.put(key, value, if_version=entry.version):
                    break
                again += 1
        return again

    async def stream(self, start) -> None:
        """Put numbers until the end of the process; say each when it is durable."""
        number = start
        while True:
            await self._kv.put(f"n:{number}", str(number).encode())
            say("ok", number)
            number += 1

    async def page(self, prefix, limit):
        """The keys of a page."""
        return [entry.key for entry in (await self._kv.scan_prefix(prefix, limit=limit)).items]


def obey_file_modes() -> None:
    """Even root has to from here on."""
    version_3 = 0x20080522
    header = (ctypes.c_uint32 * 2)(version_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.capset(header, nothing) != 0:
        raise OSError(ctypes.get_errno(), "capset")


def limit_files(size) -> None:
    """Let no file grow beyond so many bytes; null for no limit."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard if size is None else size, hard))


def target(kind, *arguments):
    """What the orders are for."""
    if kind == "kv":
        return Keys(*arguments)
    (path,) = arguments
    if kind == "sqlite":
        return Raw(lambda: sqlite3.connect(path, isolation_level=None, timeout=5))
    import turso  # noqa: PLC0415 - as above

    features = "multiprocess_wal" if kind == "turso-multi" else None

    def connect():
        connection = turso.connect(path, experimental_features=features, isolation_level=None)
        connection.execute("PRAGMA busy_timeout=5000")
        return connection

    return Raw(connect)


async def main() -> None:
    """Read orders to the end of the input."""
    subject = target(*sys.argv[1:])
    free = {"obey_file_modes": obey_file_modes, "limit_files": limit_files}
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        verb, *arguments = json.loads(line)
        options = arguments.pop() if arguments and isinstance(arguments[-1], dict) else {}
        try:
            value = (free.get(verb) or getattr(subject, verb))(*arguments, **options)
            if asyncio.iscoroutine(value):
                value = await value
        except Exception as error:  # noqa: BLE001 - told to whoever gave the order
            say("error", f"{type(error).__name__} {error}")
        else:
            say("ok", value)
    with contextlib.suppress(Exception):
        closed = subject.close()
        if asyncio.iscoroutine(closed):
            await closed


asyncio.run(main())
