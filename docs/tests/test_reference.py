"""The reference leaves nothing out."""

import importlib
import inspect
import re

import pytest

from wheelhouse import ROOT

PAGES = sorted((ROOT / "docs").glob("reference*.md"))
SHOWN = set(
    re.findall(
        r"^\.\. auto\w+:: ([\w.]+)",
        "\n".join(page.read_text(encoding="utf-8") for page in PAGES),
        flags=re.MULTILINE,
    )
)
MODULES = (
    "alkstore_contract",
    "alkstore_core",
    "alkstore_core.copying",
    "alkstore_core.otel",
    "alkstore_core.overview",
    "alkstore_core.prometheus",
    "alkstore_core.sql",
    "alkstore_core.sync",
    "alkstore_core.web",
    "alkstore_core.worker",
    "alkstore_localstores",
    "alkstore_mem",
    "alkstore_mem.testing",
    "alkstore_postgres",
    "alkstore_sqlite",
)


def public(module):
    """Return a module's names: those it lists, else those that it defines."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return [name for name in listed if name != "__version__"]
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and inspect.getmodule(value) is module
    ]


@pytest.mark.parametrize("name", MODULES)
def test_everything_public_is_shown(name):
    """Under the name of the module, or of the one below it that defines it."""
    module = importlib.import_module(name)
    names = public(module)
    assert names
    package = name.partition(".")[0]
    shown = {entry.rpartition(".")[2] for entry in SHOWN if entry.startswith(f"{package}.")}
    assert [] == [each for each in names if each not in shown]
