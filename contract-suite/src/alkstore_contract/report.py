"""The report: what a run found, in a form that can be kept, compared and checked."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import reprlib
from typing import TYPE_CHECKING, Any

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from alkstore_contract.verdict import Expected, Verdict

FORMAT = 1


class ReportError(Exception):
    """This is no report; the message says what is wrong with it."""


@frozen(kw_only=True)
class Code:
    """Which code took part: the engine's or the kit's."""

    name: str
    version: str
    digest: str | None
    """Of the installed code; `None` when it could not be told, as with an editable one."""


@frozen(kw_only=True)
class Report:
    """What a run found. Two runs of the same code on the same facts have equal `canonical`."""

    canonical: Mapping[str, Any]
    """Contract, suite, engine, facts, outcomes, reasons and verdict."""

    run: Mapping[str, Any]
    """When, where, how long, and the texts of errors. Never compared."""

    seal: str
    """SHA-256 over `canonical`. It shows a slip of an editor, not a forger's work."""

    @property
    def verdict(self) -> str:
        """`conforms`, `does-not-conform` or `incomplete`."""
        return str(self.canonical["verdict"])

    def as_json(self) -> str:
        """The text of the file."""
        value = {"canonical": self.canonical, "seal": self.seal, "run": self.run}
        return json.dumps(value, indent=1, ensure_ascii=False) + "\n"

    def write(self, path: Path) -> None:
        """Write the file, whole or not at all."""
        aside = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # What UTF-8 cannot carry becomes an escape, and JSON reads it as one.
            aside.write_text(self.as_json(), encoding="utf-8", errors="backslashreplace")
            aside.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                aside.unlink()
            raise


def make(
    verdict: Verdict,
    expected: Mapping[str, Expected],
    *,
    contract: str,
    suite: Code,
    engine: Code | None,
    facts: Mapping[str, Any] | None,
    run: Mapping[str, Any],
) -> Report:
    """Put a report together. Without an engine there was none that could be run."""
    outcomes = {
        id_: {"state": standing.state, "cases": standing.cases, "source": expected[id_].digest}
        for id_, standing in verdict.standings.items()
    }
    canonical = {
        "format": FORMAT,
        "verdict": verdict.status,
        "contract": contract,
        "suite": {"version": suite.version, "digest": suite.digest},
        "engine": engine
        and {"name": engine.name, "version": engine.version, "digest": engine.digest},
        "facts": facts,
        "reasons": list(verdict.reasons),
        "outcomes": outcomes,
    }
    whys = {i: s.why for i, s in verdict.standings.items() if s.why is not None}
    return Report(canonical=canonical, run={**run, "whys": whys}, seal=seal(canonical))


def seal(canonical: Mapping[str, Any]) -> str:
    """Digest `canonical` independently of how the file is laid out."""
    text = json.dumps(canonical, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def read(path: Path) -> Report:
    """Read a report.

    Raises:
        ReportError: it cannot be read, is of another format, or lacks something.

    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ReportError(f"{path} cannot be read as a report: {error}") from error
    try:
        version = value["canonical"]["format"]
    except (TypeError, KeyError):
        raise ReportError(f"{path} is no report of alkstore-contract") from None
    if version != FORMAT:
        raise ReportError(f"{path} has the format {version!r}; this kit reads {FORMAT}")
    _check(value, _SHAPE, str(path))
    return Report(canonical=value["canonical"], run=value["run"], seal=value["seal"])


class _Each:
    """An object whose values all have one shape, whatever their names."""

    def __init__(self, shape: Any) -> None:
        self.shape = shape


class _Maybe:
    """What may be null."""

    def __init__(self, shape: Any) -> None:
        self.shape = shape


_CODE = {"version": str, "digest": _Maybe(str)}
_SHAPE: dict[str, Any] = {
    "canonical": {
        "format": int,
        "verdict": {"conforms", "does-not-conform", "incomplete"},
        "contract": str,
        "suite": _CODE,
        "engine": _Maybe({"name": str, **_CODE}),
        "facts": _Maybe(_Each(_Maybe((str, int)))),
        "reasons": [str],
        "outcomes": _Each({"state": {"held", "failed", "missing"}, "cases": int, "source": str}),
    },
    "seal": str,
    "run": _Each(object),
}


def _check(value: Any, shape: Any, where: str) -> None:
    """Compare a value with a shape: types, literals, a list, an object."""
    match shape:
        case _Maybe():
            if value is not None:
                _check(value, shape.shape, where)
        case set():
            _expect(
                isinstance(value, str) and value in shape, value, " or ".join(sorted(shape)), where
            )
        case list():
            _expect(isinstance(value, list), value, "a list", where)
            for index, item in enumerate(value):
                _check(item, shape[0], f"{where}[{index}]")
        case _Each():
            _expect(isinstance(value, dict), value, "an object", where)
            for key, item in value.items():
                _check(item, shape.shape, f"{where}.{key}")
        case dict():
            named = isinstance(value, dict) and value.keys() == shape.keys()
            _expect(named, value, f"an object with {', '.join(shape)}", where)
            for key, inner in shape.items():
                _check(value[key], inner, f"{where}.{key}")
        case _:
            _expect(isinstance(value, shape), value, str(shape), where)


def _expect(fits: object, value: Any, what: str, where: str) -> None:
    if not fits:
        # The names of an object say what it lacks.
        named = f"an object with {reprlib.repr(list(value))}" if isinstance(value, dict) else None
        told = named or reprlib.repr(value)
        raise ReportError(f"{where}: {told} is not {what}")
