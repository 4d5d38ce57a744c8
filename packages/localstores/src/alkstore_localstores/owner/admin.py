"""How the command line talks to a running owner: lines of JSON over `owner.sock` (0600).

A request is `{"command": …, "resource": …}`; the answer is `{"ok": …}` or `{"error": envelope}`.
Whoever can open the socket may do everything: it is a file, and its mode says who that is.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import socket
import sys
from typing import TYPE_CHECKING, Any, Final, Self

import attrs

from alkstore_localstores.errors import (
    INVALID_INPUT,
    LOCAL_FILESYSTEM_ERROR,
    LOCAL_QUEUE_OWNER_NOT_READY,
    QUEUE_OPERATION_FAILED,
    LocalStoreError,
    shown,
)
from alkstore_localstores.owner.state import StateDirectory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from alkstore_localstores.owner.owner import QueueOwner

_log = logging.getLogger(__name__)

_LINE_LIMIT = 1 << 20

# Bytes of a socket's name that all systems take; Linux takes 107.
_NAME_LIMIT = 100

# What newer releases would clean up by itself is found under its real name only.
_KEPT: dict[str, Any] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}

ASK_SECONDS: Final = 60.0
"""How long the command line waits for a running owner; a deletion waits for what is running."""


async def carry_out(owner: QueueOwner, address: str | None, request: Any) -> Any:
    """One command, on an owner of this process.

    Raises:
        LocalStoreError: there is no such command, or what it calls raises.

    """
    match request:
        case {"command": "create", "resource": str(resource)}:
            token = await owner.create(resource)
            endpoint = None if address is None else f"{address}/queues/{resource}"
            return {"resource": resource, "endpoint": endpoint, "token": token}
        case {"command": "delete", "resource": str(resource)}:
            await owner.delete(resource)
            return {"resource": resource}
        case {"command": "stats", "resource": str(resource)}:
            return [{"resource": resource, **attrs.asdict(await owner.stats(resource))}]
        case {"command": "stats"}:
            return [await _stats_or_error(owner, resource) for resource in owner.resources]
    raise LocalStoreError(INVALID_INPUT, "the owner knows no such command")


async def _stats_or_error(owner: QueueOwner, resource: str) -> dict[str, Any]:
    try:
        return {"resource": resource, **attrs.asdict(await owner.stats(resource))}
    except LocalStoreError as error:
        return {"resource": resource, "error": error.message}


class AdminServer:
    """Listens on `owner.sock` for as long as its block lasts."""

    def __init__(self, owner: QueueOwner, address: str) -> None:
        self._owner = owner
        self._address = address
        self._path = owner.state.socket

    async def __aenter__(self) -> Self:
        try:
            self._server = await asyncio.start_unix_server(
                self._talk, sock=_bound(str(self._path)), limit=_LINE_LIMIT, **_KEPT
            )
        except OSError as error:
            raise LocalStoreError(
                LOCAL_FILESYSTEM_ERROR, f"{self._path} cannot be listened on: {error}"
            ) from error
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)  # noqa: PTH108 - no Path in a coroutine

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(ConnectionError):
                writer.write(json.dumps(await self._answer(reader)).encode() + b"\n")
                await writer.drain()
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader) -> dict[str, Any]:
        try:
            request = json.loads(await reader.readline())
        except (ValueError, RecursionError):
            return {"error": LocalStoreError(INVALID_INPUT, "this is no request").envelope()}
        try:
            return {"ok": await carry_out(self._owner, self._address, request)}
        except LocalStoreError as error:
            return {"error": error.envelope()}
        except Exception as error:  # noqa: BLE001 - whoever asked has to hear of it
            _log.exception("a command failed")
            failed = LocalStoreError(
                QUEUE_OPERATION_FAILED,
                f"the owner failed: {shown(error)}. Whether it has done what it was asked for is "
                "unknown; its log says more",
                internal=True,
                retryable=False,
            )
            return {"error": failed.envelope()}


def ask(state_dir: str | os.PathLike[str], request: dict[str, Any]) -> Any:
    """Have a command carried out: by the running owner, or as the owner when there is none.

    Raises:
        LocalStoreError: what the command raises; LOCAL_QUEUE_OWNER_NOT_READY: the running owner
            does not answer.

    """
    state = StateDirectory(state_dir)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(ASK_SECONDS)
            with _reachable(str(state.socket)) as path:
                connection.connect(path)
            connection.sendall(json.dumps(request).encode() + b"\n")
            with connection.makefile("rb") as file:
                line = file.readline()
    except (FileNotFoundError, ConnectionRefusedError):
        return asyncio.run(_as_owner(state, request))
    except OSError as error:
        raise _unanswered(state, str(error)) from error
    try:
        answer = json.loads(line)
    except ValueError as error:
        raise _unanswered(state, "it has ended") from error
    if "error" in answer:
        raise LocalStoreError.from_envelope(answer["error"])
    return answer["ok"]


async def _as_owner(state: StateDirectory, request: dict[str, Any]) -> Any:
    from alkstore_localstores.owner.owner import QueueOwner  # noqa: PLC0415 - slow, often unneeded

    if not state.path.is_dir() and request["command"] != "create":
        raise LocalStoreError(INVALID_INPUT, f"{state.path} is no state directory")
    async with QueueOwner(state.path) as owner:
        return await carry_out(owner, None, request)


def _bound(path: str) -> socket.socket:
    """A socket for us alone, which does not listen yet."""
    with contextlib.suppress(FileNotFoundError):
        # Of an owner that was killed: we hold its lock.
        os.unlink(path)  # noqa: PTH108
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _reachable(path) as name:
            listener.bind(name)
            # Nobody can connect before it listens.
            os.chmod(name, 0o600)  # noqa: PTH101
    except BaseException:
        listener.close()
        raise
    return listener


@contextlib.contextmanager
def _reachable(path: str) -> Iterator[str]:
    """A name of the socket that is short enough for the system."""
    if len(os.fsencode(path)) <= _NAME_LIMIT or not hasattr(os, "O_PATH"):
        yield path
        return
    directory, name = os.path.split(path)
    descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{name}"
    finally:
        os.close(descriptor)


def _unanswered(state: StateDirectory, reason: str) -> LocalStoreError:
    return LocalStoreError(
        LOCAL_QUEUE_OWNER_NOT_READY,
        f"the owner of {state.path} does not answer: {reason}. Whether it has done what it was "
        "asked for is unknown",
    )
