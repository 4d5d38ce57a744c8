"""TLS as the URL asks for it, with a server that takes nothing else."""

import subprocess

import pytest
from pgbouncer import PgBouncer

from alkstore_core import DatabaseError
from alkstore_postgres import PostgresOpts, PostgresStore

pytestmark = pytest.mark.once


def self_signed(home):
    """A certificate for `localhost` that nobody else has signed, and its key."""
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    files = ["-keyout", home / "key.pem", "-out", home / "cert.pem"]
    subprocess.run([*command, *names, *files], check=True, capture_output=True)
    return home / "cert.pem"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """The server's certificate."""
    return self_signed(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def secured(postgres_url, certificate):
    """The URL of a PgBouncer that speaks TLS only: not every Postgres is built with it."""
    settings = {
        "pool_mode": "session",  # Listening goes the same way.
        "client_tls_sslmode": "require",
        "client_tls_key_file": "key.pem",
        "client_tls_cert_file": "cert.pem",
    }
    files = {path.name: path.read_bytes() for path in certificate.parent.iterdir()}
    with PgBouncer(postgres_url, settings, files) as pooler:
        yield pooler.url.replace("127.0.0.1", "localhost")


async def use(url):
    """Calls, and a listener: each has connections of its own."""
    opts = PostgresOpts(pgbouncer=True, listen_url=url)
    async with PostgresStore(url, opts=opts) as store:
        await store.queue("jobs").enqueue({})
        async with store.queue("jobs").wakes():
            assert 1 == (await store.queue("jobs").stats()).ready


@pytest.mark.parametrize("query", ["", "?sslmode=prefer", "?sslmode=require"])
async def test_encrypted(secured, query):
    """Encrypted where the server offers it, and where nothing else is asked for."""
    await use(secured + query)


@pytest.mark.parametrize("mode", ["verify-ca", "verify-full"])
async def test_verified(secured, certificate, mode):
    """A server whose certificate is known is taken."""
    await use(f"{secured}?sslmode={mode}&sslrootcert={certificate}")


async def test_plain_is_refused(secured):
    """With `disable` nothing is encrypted, so this server refuses."""
    with pytest.raises(DatabaseError, match="SSL required"):
        await use(f"{secured}?sslmode=disable")


async def test_unknown_certificate(secured, tmp_path):
    """A certificate that nobody trusted has signed is refused, and the error says so."""
    another = self_signed(tmp_path)
    with pytest.raises(DatabaseError, match="certificate verify failed"):
        await use(f"{secured}?sslmode=verify-ca&sslrootcert={another}")


async def test_other_name(secured, certificate):
    """With `verify-full` the certificate has to be for the host of the URL."""
    elsewhere = secured.replace("localhost", "127.0.0.1")
    await use(f"{elsewhere}?sslmode=verify-ca&sslrootcert={certificate}")
    with pytest.raises(DatabaseError, match="certificate verify failed"):
        await use(f"{elsewhere}?sslmode=verify-full&sslrootcert={certificate}")


async def test_server_without(postgres_url):
    """With `require` a server that does not encrypt is refused rather than trusted."""
    with pytest.raises(DatabaseError, match="rejected SSL upgrade"):
        async with PostgresStore(f"{postgres_url}?sslmode=require"):
            pass
