"""A PgBouncer in transaction mode, in front of a server, for the tests.

It is the system's package. `ALKSTORE_TEST_PGBOUNCER` names another program, or says `off`: then the
tests that need it are left out, and pytest says so.
"""

import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Self
from urllib.parse import unquote, urlsplit

import pytest
from server import PATIENCE, other_user, wait_ready

GIVEN = "ALKSTORE_TEST_PGBOUNCER"
SERVER_CONNECTIONS = 3

# The guide shows the same.
SETTINGS = {
    "pool_mode": "transaction",
    "max_client_conn": "500",
    "default_pool_size": str(SERVER_CONNECTIONS),
}


def program() -> str:
    """Where PgBouncer is.

    Raises:
        LookupError: it is not installed, and nobody said that it need not be.

    """
    given = os.environ.get(GIVEN, "")
    if given == "off":
        pytest.skip(f"{GIVEN}=off: PgBouncer is left out on purpose")
    path = os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/usr/local/sbin"])
    found = given or shutil.which("pgbouncer", path=path)
    if not found:
        message = (
            "this test needs PgBouncer: install the system's package pgbouncer, name the program "
            f"in {GIVEN}, or set {GIVEN}=off to do without"
        )
        raise LookupError(message)
    return found


class PgBouncer:
    """Clients share a few connections to the server, each for one transaction at a time.

    `settings` say otherwise; `files` are laid beside its configuration, where it runs.
    """

    def __init__(
        self, server_url: str, settings: dict | None = None, files: dict | None = None
    ) -> None:
        self._program = program()
        self._server = urlsplit(server_url)
        self._settings = SETTINGS | (settings or {})
        self._files = files or {}
        self._user = other_user()
        self._home = Path(tempfile.mkdtemp(prefix="alkstore-pgbouncer-"))
        self._process: subprocess.Popen | None = None
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]

    @property
    def url(self) -> str:
        """The server's URL, by way of the pooler."""
        login = self._server.netloc.rpartition("@")[0]
        return self._server._replace(netloc=f"{login}@127.0.0.1:{self._port}").geturl()

    def __enter__(self) -> Self:
        host, port = self._server.hostname, self._server.port or 5432
        users = self._home / "users.txt"
        users.write_text(f'"{self._server.username}" "{unquote(self._server.password or "")}"\n')
        settings = self._settings | {
            "listen_addr": "127.0.0.1",
            "listen_port": str(self._port),
            "auth_type": "trust",
            "auth_file": str(users),
            "unix_socket_dir": "",
        }
        lines = [f"{name} = {value}" for name, value in settings.items()]
        configuration = self._home / "pgbouncer.ini"
        databases = f"[databases]\n* = host={host} port={port}\n"
        configuration.write_text(databases + "\n".join(["[pgbouncer]", *lines, ""]))
        for name, content in self._files.items():
            (self._home / name).write_bytes(content)
        if self._user:
            for path in (self._home, *self._home.iterdir()):
                os.chown(path, self._user["user"], self._user["group"])
        with (self._home / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [self._program, configuration],
                stdout=log,
                stderr=log,
                cwd=self._home,
                **self._user,
            )
        try:
            wait_ready(self.url, self._process, self._home / "log")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.terminate()
        self._process.wait(PATIENCE)
        shutil.rmtree(self._home)
