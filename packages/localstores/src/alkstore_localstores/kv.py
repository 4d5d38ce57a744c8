"""`LocalKv`: a key-value store in one file, for any number of processes of one host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, TypeVar

import attrs

from alkstore_core.sql.op import Mode
from alkstore_localstores import kv_ops
from alkstore_localstores.bindings import kv_binding
from alkstore_localstores.files import StoreFile
from alkstore_localstores.formats import KV
from alkstore_localstores.kv_rules import (
    SCAN_LIMIT,
    check_key,
    check_limit,
    check_value,
    invalid,
    milliseconds,
)
from alkstore_localstores.kv_tokens import (
    I64_MAX,
    cursor_after,
    read_cursor,
    read_version,
    version_token,
)

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator, Callable, Mapping
    from datetime import timedelta
    from types import TracebackType

    from alkstore_core.sql.op import Op
    from alkstore_localstores.drivers import DriverName
    from alkstore_localstores.errors import LocalStoreError
    from alkstore_localstores.kv_ops import Row
    from alkstore_localstores.kv_tokens import Version

T = TypeVar("T")


@attrs.frozen
class KvEntry:
    """A live key, its value, and the version that conditional writes of this key take."""

    key: str
    value: bytes
    version: str = attrs.field(repr=False)


@attrs.frozen
class KvPage:
    """Entries by key, and the cursor for the next page; `None` when no live key follows."""

    items: tuple[KvEntry, ...]
    next_cursor: str | None


class LocalKv:
    """A key-value store under `data_dir`, opened by `open` or `async with`.

    Keys are 1 to 512 of the characters `A-Z a-z 0-9 - _ : .`, values 0 to 24,576 bytes. A write
    that has returned is on the disk. Any number of stores and processes may have one directory
    open at the same time, on the same driver; of racing conditional writes one wins.

    An expired entry reads as absent. It stays in the file until a `get` or `exists` meets it.
    """

    def __init__(
        self,
        data_dir: str | os.PathLike[str],
        *,
        driver: DriverName = "sqlite3",
        clock: Callable[[], int] | None = None,
    ) -> None:
        """Prepare; `clock` gives unix milliseconds in place of the host's time.

        Raises:
            LocalStoreError: there is no such driver, or `data_dir` is no path.

        """
        self._file = StoreFile(data_dir, KV, driver=driver, clock=clock)

    @classmethod
    def from_binding(
        cls,
        name: str,
        environ: Mapping[str, str] | None = None,
        *,
        driver: DriverName = "sqlite3",
    ) -> Self:
        """The store of a binding, from `ALIEN_<NAME>_BINDING`.

        Raises:
            LocalStoreError: `BINDING_NOT_CONFIGURED`, `BINDING_CONFIG_INVALID`.

        """
        return cls(kv_binding(name, environ), driver=driver)

    @property
    def data_dir(self) -> str:
        """The directory of the file, as an absolute path."""
        return self._file.data_dir

    async def open(self) -> None:
        """Make or check the file and connect; see `StoreFile.open` for what is refused.

        Raises:
            LocalStoreError: nothing is open, and what was refused is unchanged.

        """
        await self._file.open()

    async def close(self) -> None:
        """Finish what was accepted, then let go of the file. Idempotent."""
        await self._file.close()

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

    async def get(self, key: str) -> KvEntry | None:
        """The entry of a key, or `None` when there is none or it has expired.

        Raises:
            LocalStoreError: `INVALID_INPUT` for a key out of its rules, `KV_OPERATION_FAILED`
                when the file fails or the row holds what this format does not.

        """
        check_key(key)
        row = await self._read(kv_ops.find, key)
        if row is None or not await self._is_live(key, row.expires_at):
            return None
        return self._entry(row)

    async def exists(self, key: str) -> bool:
        """Whether a key has a live entry; the value is not read.

        Raises:
            LocalStoreError: as `get`.

        """
        check_key(key)
        found = await self._read(kv_ops.find_expiry, key)
        return found is not None and await self._is_live(key, found[0])

    async def put(
        self,
        key: str,
        value: bytes,
        *,
        ttl: float | timedelta | None = None,
        if_absent: bool = False,
        if_version: str | None = None,
    ) -> bool:
        """Write an entry; whether it was written, which without a condition it always is.

        `ttl` is in seconds, to the millisecond; 0 stores an entry that reads as absent, and an
        entry without one never expires. With `if_absent` only a key without a live entry is
        written, with `if_version` only a live entry of the version that a read returned. A put
        that was applied gives the entry a new version.

        Raises:
            LocalStoreError: `INVALID_INPUT` for a key, value, ttl or version out of their rules;
                `KV_OPERATION_FAILED` when the file fails: nothing was written, unless the
                message says that this is unknown.

        """
        check_key(key)
        check_value(value)
        if if_absent and if_version is not None:
            raise invalid("a put is either if_absent or if_version, not both")
        version = None if if_version is None else read_version(if_version, key)
        now = self._file.read_clock()
        expires_at = None if ttl is None else min(now + milliseconds(ttl), I64_MAX)
        if version is not None:
            if _is_over(version, now):
                return False
            return await self._write(kv_ops.put_if_version, key, value, expires_at, version.backend)
        op = kv_ops.put_if_absent if if_absent else kv_ops.put
        return await self._write(op, key, value, expires_at)

    async def delete(self, key: str, *, if_version: str | None = None) -> bool:
        """Delete an entry; true, or with `if_version` whether it was live and of that version.

        Raises:
            LocalStoreError: as `put`.

        """
        check_key(key)
        if if_version is None:
            return await self._write(kv_ops.remove, key)
        version = read_version(if_version, key)
        if _is_over(version, self._file.read_clock()):
            return False
        return await self._write(kv_ops.remove_if_version, key, version.backend)

    async def scan_prefix(
        self, prefix: str, *, limit: int = SCAN_LIMIT, cursor: str | None = None
    ) -> KvPage:
        """A page of the live entries whose keys begin with `prefix`, by key.

        The prefix follows the rules of a key. `cursor` is the `next_cursor` of the page before,
        of the same prefix; keys that come and go in between make no key of the rest appear twice
        or be left out. A limit of 0 gives an empty page and the cursor back.

        Raises:
            LocalStoreError: `INVALID_INPUT` for a prefix, limit or cursor out of their rules,
                `KV_OPERATION_FAILED` as `get`.

        """
        check_key(prefix, "prefix")
        check_limit(limit)
        after = None if cursor is None else read_cursor(cursor, prefix)
        if limit == 0:
            return KvPage((), cursor)
        # One more than asked for tells whether a live key follows.
        rows = await self._read(kv_ops.page, prefix, after, min(limit, I64_MAX - 1) + 1)
        entries = tuple(self._entry(row) for row in rows[:limit])
        is_last = len(rows) <= limit
        return KvPage(entries, None if is_last else cursor_after(prefix, entries[-1].key))

    async def scan(self, prefix: str) -> AsyncIterator[KvEntry]:
        """Iterate over the live entries whose keys begin with `prefix`, by key.

        Reads a page at a time, so keys that are put or deleted meanwhile may or may not be seen.

        Raises:
            LocalStoreError: as `scan_prefix`.

        """
        next_cursor = None
        while True:
            page = await self.scan_prefix(prefix, cursor=next_cursor)
            for entry in page.items:
                yield entry
            next_cursor = page.next_cursor
            if next_cursor is None:
                return

    async def len(self) -> int:
        """How many entries are live.

        Raises:
            LocalStoreError: `KV_OPERATION_FAILED`, the file fails.

        """
        return await self._read(kv_ops.count)

    async def keys(self) -> list[str]:
        """The keys of all live entries, ascending, read at once.

        Raises:
            LocalStoreError: `KV_OPERATION_FAILED`, the file fails or a key is no text.

        """
        found = await self._read(kv_ops.keys)
        for key in found:
            if not isinstance(key, str):
                raise self._odd(repr(key), "key", key, "text")
        return found

    async def clear(self) -> None:
        """Delete every entry.

        Raises:
            LocalStoreError: `KV_OPERATION_FAILED`, as `put`.

        """
        await self._write(kv_ops.clear)

    async def _read(self, op: Callable[..., Op[T]], *args: Any) -> T:
        return await self._file.run(Mode.READ, op, *args)

    async def _write(self, op: Callable[..., Op[T]], *args: Any) -> T:
        return await self._file.run(Mode.WRITE, op, *args)

    async def _is_live(self, key: str, expires_at: Any) -> bool:
        """Whether a row that was read has not expired; else it is deleted."""
        self._check_expiry(key, expires_at)
        if expires_at is None or expires_at > self._file.read_clock():
            return True
        await self._write(kv_ops.drop_expired, key)
        return False

    def _entry(self, row: Row) -> KvEntry:
        if not isinstance(row.key, str):
            raise self._odd(repr(row.key), "key", row.key, "text")
        if not isinstance(row.value, bytes):
            raise self._odd(row.key, "value", row.value, "a blob")
        self._check_expiry(row.key, row.expires_at)
        if not isinstance(row.version, str):
            raise self._odd(row.key, "version", row.version, "text")
        return KvEntry(row.key, row.value, version_token(row.key, row.version, row.expires_at))

    def _check_expiry(self, key: str, expires_at: Any) -> None:
        if expires_at is not None and not isinstance(expires_at, int):
            raise self._odd(key, "expires_at", expires_at, "an integer")

    def _odd(self, key: str, column: str, value: object, wanted: str) -> LocalStoreError:
        return self._file.failed(
            f"the {column} stored for {key!r} in {self._file.path} is of type "
            f"{type(value).__name__}, and has to be {wanted}",
            context={"file": self._file.path, "key": key},
            hint="put the key again, or delete it",
            retryable=False,
        )


def _is_over(version: Version, now: int) -> bool:
    return version.expires_at is not None and version.expires_at <= now
