"""What the environment says about stores, and what is said about that."""

import json
import traceback

import pytest

from alkstore_localstores import LocalHttpQueue, LocalKv, LocalStoreError
from alkstore_localstores.bindings import kv_binding, queue_binding, variable

QUEUE = {"service": "local-queue-http", "endpoint": "http://127.0.0.1:1/q", "token": "secret"}
KV = {"service": "local-kv", "dataDir": "/data"}


def environ(**bindings):
    """An environment with these bindings, as JSON unless they are text."""
    return {
        variable(name): value if isinstance(value, str) else json.dumps(value)
        for name, value in bindings.items()
    }


def test_a_binding_is_found_by_its_name():
    """In capitals, with underscores."""
    assert "ALIEN_MY_FIRST_QUEUE_BINDING" == variable("my-first_Queue")


def test_a_queue_binding_is_read():
    """Whatever else it has."""
    found = queue_binding("jobs", environ(jobs=QUEUE | {"region": "here"}))
    assert ("http://127.0.0.1:1/q", "secret") == tuple(found)
    assert "secret" not in repr(found)


def test_a_client_comes_from_its_binding(monkeypatch):
    """From the environment of the process, when no other is given."""
    for name, value in environ(jobs=QUEUE).items():
        monkeypatch.setenv(name, value)
    assert "http://127.0.0.1:1/q" == LocalHttpQueue.from_binding("jobs").endpoint


async def test_a_kv_store_comes_from_its_binding(tmp_path):
    """It lies in the directory that the binding names."""
    async with LocalKv.from_binding("cache", environ(cache=KV | {"dataDir": str(tmp_path)})) as kv:
        await kv.put("k", b"v")
        assert str(tmp_path) == kv.data_dir
    assert (tmp_path / "localkv.sqlite").is_file()


def test_a_kv_binding_is_read():
    """Its directory is what there is to know."""
    assert "/data" == kv_binding("cache", environ(cache=KV))


def test_what_is_not_set_is_not_configured():
    """Which variable to set is said."""
    for read in (queue_binding, kv_binding):
        with pytest.raises(LocalStoreError, match="ALIEN_JOBS_BINDING") as caught:
            read("jobs", {})
        assert "BINDING_NOT_CONFIGURED" == caught.value.code


def without(field):
    """A queue's binding that lacks one thing."""
    return {name: value for name, value in QUEUE.items() if name != field}


@pytest.mark.parametrize(
    "binding",
    [
        "",
        "{secret",
        "[]",
        '"secret"',
        "[" * 100_000,
        KV,
        without("service"),
        without("endpoint"),
        without("token"),
        QUEUE | {"token": ""},
        QUEUE | {"token": None},
        QUEUE | {"token": ["secret"]},
        QUEUE | {"token": "secret\r\nX: y"},
        QUEUE | {"token": "secret token"},
        QUEUE | {"token": "secr\u00e9t"},
        QUEUE | {"endpoint": "secret"},
        QUEUE | {"endpoint": "ftp://secret/"},
        QUEUE | {"endpoint": "http://"},
        QUEUE | {"endpoint": "http://h:secret/"},
        QUEUE | {"endpoint": "http://h:99999/secret"},
        QUEUE | {"endpoint": "http://me:secret@h/"},
        QUEUE | {"endpoint": "http://h/secret\n"},
        QUEUE | {"endpoint": 1},
        QUEUE | {"service": "sqs"},
    ],
    ids=lambda binding: repr(binding)[:50],
)
def test_a_malformed_queue_binding_is_invalid(binding):
    """Nothing of it is repeated: what is in the wrong place may be a credential."""
    given = environ(jobs=binding, good=QUEUE)
    with pytest.raises(LocalStoreError, match="ALIEN_JOBS_BINDING") as caught:
        LocalHttpQueue.from_binding("jobs", given)
    assert "BINDING_CONFIG_INVALID" == caught.value.code
    error = caught.value
    told = "".join(traceback.format_exception_only(error)) + json.dumps(error.envelope())
    assert "secret" not in told
    assert error.__cause__ is None
    # One malformed binding breaks no other.
    assert "secret" == queue_binding("good", given).token


@pytest.mark.parametrize("binding", ["", "{", KV | {"dataDir": ""}, {"service": "local-kv"}, QUEUE])
def test_a_malformed_kv_binding_is_invalid(binding):
    """As a queue's."""
    with pytest.raises(LocalStoreError) as caught:
        kv_binding("cache", environ(cache=binding))
    assert "BINDING_CONFIG_INVALID" == caught.value.code


def test_a_binding_of_an_older_release_makes_nothing(tmp_path):
    """Neither file nor directory: whoever has that file open must not get company."""
    legacy = {"service": "local-queue", "queuePath": str(tmp_path / "queue")}
    with pytest.raises(LocalStoreError, match="open no queue files") as caught:
        LocalHttpQueue.from_binding("jobs", environ(jobs=legacy))
    assert "BINDING_CONFIG_INVALID" == caught.value.code
    assert [] == list(tmp_path.iterdir())
