"""Connections outside of the pool: for what has to go on while the pool is exhausted."""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING, Final

from sqlalchemy.util import greenlet_spawn

if TYPE_CHECKING:
    import asyncpg
    from sqlalchemy.ext.asyncio import AsyncEngine

KEEPALIVE: Final = {
    "TCP_KEEPIDLE": 15,
    "TCP_KEEPALIVE": 15,  # As macOS calls it.
    "TCP_KEEPINTVL": 5,
    "TCP_KEEPCNT": 3,
    "TCP_USER_TIMEOUT": 30_000,
}
"""Seconds, a number, and milliseconds until a peer that says nothing is taken for dead."""

# The server, too, must notice: a session whose client is gone would hold up the whole cluster's
# queue of notifications. And it must not end one that waits for days, as it is meant to.
_SETTINGS: Final = """
SELECT set_config('application_name', $1, false),
       set_config('idle_session_timeout', '0', false),
       set_config('tcp_keepalives_idle', '15', false),
       set_config('tcp_keepalives_interval', '5', false),
       set_config('tcp_keepalives_count', '3', false),
       set_config('tcp_user_timeout', '30000', false)
"""


async def connect_like(engine: AsyncEngine) -> asyncpg.Connection:
    """Connect as the engine does, with all that its owner has told it, but not out of its pool.

    Raises:
        Exception: whatever SQLAlchemy or asyncpg raise when the server cannot be reached.

    """
    # A pool of the same making has the engine's arguments, events and tokens, and a free place.
    pool = engine.sync_engine.pool.recreate()
    fairy = await greenlet_spawn(pool.connect)
    connection: asyncpg.Connection = fairy.driver_connection
    fairy.detach()
    return connection


async def make_lasting(connection: asyncpg.Connection, name: str) -> None:
    """Prepare a connection for a long life in which mostly nothing is said."""
    # What the application does on "connect" may have begun a transaction: nothing we do next
    # would be committed then, and an idle one stops every NOTIFY in the end.
    if connection.is_in_transaction():
        await connection.execute("COMMIT")
    # asyncpg gives no other way to the socket.
    plug: socket.socket | None = connection._transport.get_extra_info("socket")  # noqa: SLF001
    if plug is not None and plug.family != socket.AF_UNIX:
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in KEEPALIVE.items():
            if hasattr(socket, option):
                # A platform may know the name and not the option.
                with contextlib.suppress(OSError):
                    plug.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    await connection.execute(_SETTINGS, name)
