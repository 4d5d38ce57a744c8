"""Saboteurs: one deliberate fault per property, to show that the property would find it.

A table is a module `saboteurs/<mechanism>.py` (split like the suite's modules where it gets
long) with a dict `SABOTEURS` of property id → `Saboteur`:

    SABOTEURS = {
        # The result of a primitive, changed. `sorted` by id forgets the priorities.
        "queues.claim.order": Saboteur(
            result("claim", lambda jobs: sorted(jobs, key=lambda job: job.id)),
            stateful=True,
        ),
        # A primitive replaced; `real` is the session with all its unsabotaged primitives.
        "queues.fail.buries": Saboteur(
            primitive("bury", lambda real, queue, claim, error: real.ack(queue, [claim])),
            also={"queues.retry.last_attempt": "a job without attempts left is buried as well"},
            stateful=True,
        ),
        # A function of core, replaced wherever it is bound.
        "names.empty": Saboteur(
            core("names:_legal", lambda real, kind, name: name if name == " " else real(kind, name))
        ),
    }

Kinds of patches, each of which replaces exactly one thing:

* `primitive(name, f)`: of `Session` or `TxSession`, on `Engine.auto`, in transactions of our own
  and in joined ones (`where="auto"` or `where="tx"` for one of them). `f(real, *args, **kwargs)`
  returns an awaitable or a plain value. `real` also has `engine`, `in_tx` and `notes`, a dict
  per database that keeps what a fault has to remember.
  `result(name, f)` changes what it gives, `arguments(name, f)` what it gets,
  `nothing(name, value)` does nothing and says `value`. `spec(priority=f)` stores jobs with
  options other than those asked for, `claimed(attempts=f)` hands out jobs with other fields.
* `engine(name, f)`, `signals(name, f)`, `subscription(name, f)`: the same for their methods.
* `core("module:function", f)`, `op("module:function", f)`: a function, method or property of
  `alkstore_core` or `alkstore_core.sql`; `f(real, *args)`. The path may lead into a class:
  `core("queues:Queue.cancel", f)`, then `f(real, self, *args)`. `code` takes the full module.
* `constant("module:NAME", value)` of core; `statement("module:NAME", f)` of core's shared SQL,
  where `f(original)` is the new expression.
* `facts(**changes)`: the engine declares something else than it does.
* `harness(name, f)`: a method of the harness, `f(real, *args)`.

`also` maps further properties that fail to the reason why they do: at most five, and a property
that is listed has to fail. `stateful=True`: it takes a sequence of calls to see the fault; the
model has to find nine of ten of those. `base="sqlite"` where the memory engine cannot show it
(joined transactions, files, other processes).

    python contract-suite/tests/matrix.py --id queues.claim --full

says for each saboteur what it fails, and what is wrong with the table.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import pkgutil
from typing import TYPE_CHECKING, Any

from attrs import evolve, field, frozen
from patches import (
    Patch,
    arguments,
    claimed,
    code,
    constant,
    core,
    engine,
    facts,
    harness,
    nothing,
    op,
    primitive,
    result,
    signals,
    spec,
    statement,
    subscription,
)

from alkstore_contract.harness import Harness, load_harness
from alkstore_contract.properties import manifest

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "Saboteur",
    "arguments",
    "claimed",
    "code",
    "constant",
    "core",
    "engine",
    "facts",
    "harness",
    "manifest",
    "nothing",
    "op",
    "primitive",
    "result",
    "sabotaged",
    "signals",
    "spec",
    "stateful_saboteurs",
    "statement",
    "subscription",
    "table",
]


@frozen
class Saboteur:
    """One fault, and what it breaks."""

    patch: Patch
    also: Mapping[str, str] = field(factory=dict, kw_only=True)
    """Further properties that fail, each with the reason."""

    stateful: bool = field(default=False, kw_only=True)
    """Whether it takes a sequence of calls to see it, as the model makes them."""

    base: str = field(default="mem", kw_only=True)
    """Whose harness is sabotaged."""


TABLES = "ALKSTORE_SABOTEURS"
"""Set to the beginnings of tables' names, only those are read: others may be half written."""


def read_tables(package: str) -> dict[str, Saboteur]:
    """Every table of a package, merged.

    Raises:
        ValueError: two tables have one id.

    """
    found: dict[str, Saboteur] = {}
    path = importlib.import_module(package).__path__
    wanted = tuple(f"{package}.{start}" for start in os.environ.get(TABLES, "").split(","))
    for module in pkgutil.iter_modules(path, f"{package}."):
        if not module.name.startswith(wanted):
            continue
        entries = importlib.import_module(module.name).SABOTEURS
        if twice := found.keys() & entries.keys():
            raise ValueError(f"{module.name} repeats {', '.join(sorted(twice))}")
        found |= entries
    return dict(sorted(found.items()))


@functools.cache
def table() -> dict[str, Saboteur]:
    """Property id → its saboteur."""
    return read_tables("saboteurs")


def stateful_saboteurs() -> list[str]:
    """The saboteurs of which the model has to find nine of ten."""
    return [id_ for id_, saboteur in table().items() if saboteur.stateful]


class SabotagedHarness(Harness):
    """A base harness with one fault in it, at work inside `with harness.at_work():`."""

    def __init__(self, saboteur: Saboteur) -> None:
        self._patch = saboteur.patch
        self._base = load_harness(saboteur.base)
        self._notes: dict[str, dict[Any, Any]] = {}
        self.distribution = self._base.distribution  # type: ignore[misc]
        self.facts = evolve(self._base.facts, **self._patch.facts)  # type: ignore[misc]
        for name in ("home", "caller", "written", "sever", "store", "spawn"):
            real = getattr(self, name)
            change = self._patch.harness.get(name)
            if change is not None:
                setattr(self, name, functools.partial(change, real))

    def at_work(self) -> contextlib.AbstractContextManager[None]:
        """The fault is in the code; stores opened meanwhile have it too."""
        return self._patch.installed()

    def home(self):
        return self._base.home()

    def store(self, address, clock):
        store = self._base.store(address, clock)
        self._patch.seize(store._runtime.engine, self._notes.setdefault(address, {}))
        return store

    async def sever(self, address):
        await self._base.sever(address)

    def caller(self, address, kind):
        return self._base.caller(address, kind)

    async def written(self, address):
        return await self._base.written(address)


def sabotaged(subject: str, id_: str) -> SabotagedHarness:
    """The harness of one saboteur of a subject's table; a spawned process finds it again."""
    saboteur = importlib.import_module(subject).table()[id_]
    name = "sabotaged__" + id_.replace(".", "__dot__")
    kind = type(name, (SabotagedHarness,), {"__module__": subject, "__qualname__": name})
    return kind(saboteur)


def sabotage_for_good(subject: str, name: str) -> SabotagedHarness:
    """In a spawned process: what `reference` calls by this name, at work until the end."""
    prefix, found, rest = name.partition("sabotaged__")
    if prefix or not found:
        raise AttributeError(f"module {subject!r} has no attribute {name!r}")
    bad = sabotaged(subject, rest.replace("__dot__", "."))
    _at_work.enter_context(bad.at_work())
    return bad


_at_work = contextlib.ExitStack()


def __getattr__(name: str) -> SabotagedHarness:
    return sabotage_for_good(__name__, name)
