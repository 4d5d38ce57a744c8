"""The status page of a store on SQLite, served by itself."""

import os
import signal
import socket
import sqlite3
import subprocess
import sys

import httpx
import pytest
from click.testing import CliRunner
from conftest import COMPILED

from alkstore_core.cli.root import root
from alkstore_core.web import serve, status_app
from alkstore_core.web.server import _OwnHost
from alkstore_sqlite import SqliteOpts, SqliteStore

pytestmark = pytest.mark.once

TOKEN = "a-token-of-sixteen-characters"
MAIN = "from alkstore_core.cli import main; main()"
BEARER = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture
async def path(tmp_path):
    """A file with a queue that has a dead job, a live one and a claimed one."""
    file = tmp_path / "app.db"
    async with SqliteStore(file) as store:
        queue = store.queue("mail")
        await queue.enqueue_many([{"n": n} for n in range(3)])
        await (await queue.claim_one("w")).fail("boom")
        await queue.claim_one("worker-1")
        await store.stream("orders").publish_many(range(5))
        await store.stream("orders").save_offset("billing", 2)
        await store.outbox("hooks").enqueue(1)
        await store.try_lock("import", "host-1", 600)
        await store.schedule("digest", "@every 15m", "mail", None)
    return file


class Serving:
    """`alkstore web`, under way. Its address is the only line it prints."""

    def __init__(self, file, *options, **variables):
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", MAIN, "web", "--port", "0", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **COMPILED, "ALKSTORE_URL": f"sqlite:///{file}", **variables},
        )

    def address(self):
        """Where it is served."""
        line = self.process.stdout.readline()
        assert line.startswith("The status page is at http://"), self.process.stderr.read()
        return line.split()[-1]

    def end(self, number=signal.SIGTERM):
        """Stop it; gives its exit status and all that it printed since."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=20)
        return self.process.returncode, out, err


@pytest.fixture
def command(path):
    """Return a function that starts the command."""
    started = []

    def start(*options, file=path, **variables):
        started.append(Serving(file, *options, **variables))
        return started[-1]

    yield start
    for serving in started:
        serving.process.kill()
        serving.process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_served(command, path, number):
    """It is served to whoever has the token until a signal, and leaves the file in order."""
    serving = command("--actions", ALKSTORE_WEB_TOKEN=TOKEN)
    address = serving.address()
    with httpx.Client(base_url=address) as client:
        assert 401 == client.get("/").status_code
        page = client.get("/", headers=BEARER)
        assert all(name in page.text for name in ("mail", "orders", "hooks", "import", "digest"))
        done = client.post("/redrive?queue=mail", data={"one": "1"}, headers=BEARER)
        assert 303 == done.status_code
    assert (0, "", "") == serving.end(number)
    assert not path.with_name("app.db-wal").exists()


@pytest.mark.parametrize(
    ("options", "title"), [((), "app.db"), (("--title", "shop <live>"), "shop &lt;live&gt;")]
)
def test_title(command, options, title):
    """Several pages in one browser are told apart: by their databases, or as somebody says."""
    address = command(*options, ALKSTORE_WEB_TOKEN=TOKEN).address()
    page = httpx.get(address, headers=BEARER).text
    assert f"<title>Overview · {title}</title>" in page
    assert f'<a class="home" href="./">{title}</a>' in page


def test_token_file(command, tmp_path):
    """The token may stand in a file, with a line end."""
    (tmp_path / "token").write_text(TOKEN + "\n")
    address = command("--token-file", tmp_path / "token").address()
    assert 200 == httpx.get(address, headers=BEARER).status_code


@pytest.fixture
def refused(path, monkeypatch):
    """Run the command in this process, where it ends at once; gives its status and what it said."""
    monkeypatch.delenv("ALKSTORE_WEB_TOKEN", raising=False)

    def run(*options, **variables):
        environment = {"ALKSTORE_URL": f"sqlite:///{path}", **variables}
        done = CliRunner().invoke(root, ["web", *options], env=environment, prog_name="alkstore")
        assert "" == done.stdout
        assert "hunter2" not in done.stderr
        return done.exit_code, done.stderr

    return run


@pytest.mark.parametrize(
    ("options", "variables", "status", "said"),
    [
        (["--host", "0.0.0.0"], {}, 2, "give it a token"),
        (["--host", "::"], {}, 2, "give it a token"),
        (["--host", "localhost.example.org"], {}, 2, "give it a token"),
        (["--actions"], {}, 2, "asked for a token"),
        (["--insecure"], {"ALKSTORE_WEB_TOKEN": TOKEN}, 2, "do one of both"),
        ([], {"ALKSTORE_WEB_TOKEN": "short"}, 2, "16 characters"),
        (["--token-file", "/does/not/exist"], {}, 2, "/does/not/exist"),
        (["--token-file", os.devnull], {}, 2, "16 characters"),
        (["--port", "99999"], {}, 2, "99999"),
        (["--url", "mem:"], {}, 2, "ends with its process"),
        (["--url", "sqlite:////does/not/exist.db"], {}, 3, "no file /does/not/exist.db"),
        (["--url", "nothing://x:hunter2@y"], {}, 3, "no engine knows"),
        (["nothing://x:hunter2@y"], {}, 2, "***"),
    ],
)
def test_refused(refused, options, variables, status, said):
    """What cannot be served, or would be served to too many, is refused with what to do."""
    ended, told = refused(*options, **variables)
    assert (status, True) == (ended, said in told), told


def test_port_in_use(refused):
    """A port that somebody listens at is said to be taken."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        status, told = refused("--port", port)
    assert (1, True) == (status, f"cannot listen at '127.0.0.1', port {port}" in told)


async def test_ports_that_cannot_be(path):
    """Nor is a port taken that only looks like the one that was asked for."""
    async with SqliteStore(path) as store:
        with pytest.raises(OSError, match="ports end with 65535"):
            await serve(store, "127.0.0.1", 65_536 + 8_484, token=None)
        with pytest.raises(OSError, match=r"cannot listen at 'a\.\.b'"):
            await serve(store, "a..b", 0, token=TOKEN)


def test_served_to_everybody(command):
    """Who says that it is insecure needs no token, by whatever name it is reached."""
    serving = command("--insecure", "--actions")
    page = httpx.get(serving.address(), headers={"host": "proxied.test"})
    assert (200, True) == (page.status_code, "read-only" not in page.text)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:80", 200),
        ("127.0.0.1:8484", 200),
        ("[::1]:8484", 200),
        ("[::1]", 200),
        ("evil.test", 403),
        ("localhost.evil.test:8484", 403),
        ("localhost:evil", 403),
        ("127.0.0.1.evil.test", 403),
        ("", 403),
    ],
)
async def test_without_a_token(path, host, status):
    """Without a token only who has this host's own name in the address bar sees anything."""
    async with SqliteStore(path) as store:
        app = _OwnHost(status_app(store, token=None, insecure_without_token=True))
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            page = await client.get("/", headers={"host": host})
    assert status == page.status_code
    assert ("mail" in page.text) == (status == 200)
    assert "nosniff" == page.headers["x-content-type-options"]


def test_served_without_a_token(command):
    """On this host it may be served without a token, to look at only."""
    serving = command()
    with httpx.Client(base_url=serving.address()) as client:
        page = client.get("/queue?queue=mail&state=dead")
        assert (200, True) == (page.status_code, "read-only" in page.text)
        assert 403 == client.get("/", headers={"host": "evil.test"}).status_code


async def test_every_page(path):
    """Every page comes out of a real database."""
    async with SqliteStore(path) as store:
        transport = httpx.ASGITransport(status_app(store, token=TOKEN, actions=True))
        async with httpx.AsyncClient(
            transport=transport, base_url="http://page.test", headers=BEARER
        ) as client:
            for address, shown in [
                ("/", "digest"),
                ("/queue?queue=mail", "worker-1"),
                ("/queue?queue=mail&state=pending", "{&#34;n&#34;:2}"),
                ("/queue?queue=mail&state=processing", "worker-1"),
                ("/queue?queue=mail&state=dead", "boom"),
                ("/queue?outbox=hooks", "Outbox"),
                ("/job?queue=mail&id=1", "boom"),
                ("/job?queue=mail&id=2", "worker-1"),
                ("/stream?stream=orders", "billing"),
                ("/event?stream=orders&offset=5", "4"),
            ]:
                page = await client.get(address)
                assert (address, 200) == (address, page.status_code)
                assert shown in page.text


async def test_locked_database(path):
    """Where another process holds the database, what was not done is said to be unknown."""
    other = sqlite3.connect(path, isolation_level=None)
    async with SqliteStore(path, opts=SqliteOpts(busy_timeout=0.05)) as store:
        transport = httpx.ASGITransport(status_app(store, token=TOKEN, actions=True))
        async with httpx.AsyncClient(
            transport=transport, base_url="http://page.test", headers=BEARER
        ) as client:
            other.execute("BEGIN IMMEDIATE")
            answer = await client.post("/redrive?queue=mail", data={"one": "1"})
            assert 503 == answer.status_code
            assert "0 redriven and 0 already gone when the database failed" in answer.text
            assert (
                503
                == (
                    await client.post("/purge?queue=mail", data={"age": "all", "sure": "yes"})
                ).status_code
            )
            assert 200 == (await client.get("/queue?queue=mail&state=dead")).status_code
            other.execute("ROLLBACK")
            other.close()
            assert 303 == (await client.post("/redrive?queue=mail", data={"one": "1"})).status_code
