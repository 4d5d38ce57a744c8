"""Opening a store by URL."""

from importlib.metadata import EntryPoint, EntryPoints

import pytest
from dict_engine import DictEngine

from alkstore_core import DatabaseError, Store, open_store, registry

SECRET = "hunter2"


def factory(url, *, clock=None):
    """An engine's entry point."""
    store = Store(DictEngine(clock))
    store.url = url
    return store


def not_a_store(url, *, clock=None):
    """An entry point that is wrong."""
    return url


@pytest.fixture
def installed(monkeypatch):
    """Pretend that some engines are installed."""

    def install(*pairs):
        entries = [EntryPoint(name, value, "alkstore.engines") for name, value in pairs]
        monkeypatch.setattr(registry, "entry_points", EntryPoints(entries).select)

    install()
    return install


@pytest.mark.parametrize(
    ("scheme", "url"),
    [
        ("sqlite", "sqlite:///a b?mode=ro#c"),
        ("mem", "mem:"),
        ("postgresql", "postgresql+asyncpg://u:p@h/db"),
        ("postgresql+asyncpg", "postgresql+asyncpg://u:p@h/db"),
        ("mine", "MINE://x"),
    ],
)
def test_scheme_chooses_the_engine(installed, clock, scheme, url):
    """The engine gets the URL verbatim and the clock, and opens nothing."""
    installed((scheme, "test_registry:factory"))

    store = open_store(url, clock=clock)

    assert url == store.url
    assert clock is store._runtime.engine.clock
    assert [] == store._runtime.engine.calls


@pytest.mark.parametrize(
    ("url", "advice"),
    [
        ("sqlite:///app.db", "pip install alkstore-sqlite"),
        (f"postgresql://u:{SECRET}@h/db", "pip install alkstore-postgres"),
        (f"postgresql+psycopg://u:{SECRET}@h/db", "pip install alkstore-postgres"),
        ("mem:", "pip install alkstore-mem"),
        (f"mysql://u:{SECRET}@h/db", "no engine knows this URL's scheme; installed: none"),
        (f"postgres://u:{SECRET}@h/db", "this URL's scheme; write postgresql://; installed"),
        (f"{SECRET}:x@h", "no engine knows"),
        (f"u{SECRET}@h/db", "starts with a scheme"),
        ("", "starts with a scheme"),
    ],
)
def test_missing_engine_is_named_with_its_install_line(installed, url, advice):
    """The error says what to install and never shows the URL."""
    with pytest.raises(DatabaseError) as caught:
        open_store(url)

    assert advice in str(caught.value)
    assert SECRET not in str(caught.value)


def test_broken_engines_are_told(installed):
    """An engine that cannot be imported, claims too much or gives no store is an error."""
    installed(("a", "no_such_module:f"), ("b", "test_registry:missing"))
    for url in ("a:", "b:"):
        with pytest.raises(DatabaseError, match="cannot be imported"):
            open_store(url)
    installed(("c", "test_registry:factory"), ("c", "test_registry:not_a_store"))
    with pytest.raises(DatabaseError, match="several engines claim the scheme 'c'"):
        open_store("c:")
    installed(("d", "test_registry:not_a_store"))
    with pytest.raises(DatabaseError, match="gave str, not a Store"):
        open_store("d:")
