"""What is installed: which code an engine consists of, and which core it asks for."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path, PurePosixPath

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

CORE = "alkstore-core"
KIT = "alkstore-contract"
REPORT = "contract-report.json"


class UncertifiableError(Exception):
    """There is no digest that says which code this is; the message says why."""


def installed(name: str) -> Distribution:
    """The installed distribution of this name.

    Raises:
        UncertifiableError: there is none.

    """
    try:
        return distribution(name)
    except (PackageNotFoundError, ValueError) as error:  # the latter for an empty name
        raise UncertifiableError(f"no distribution {name!r} is installed") from error


def contract_version() -> str:
    """The contract's version: the major and minor version of core."""
    return ".".join(distribution(CORE).version.split(".")[:2])


def code_digest(found: Distribution) -> str:
    """SHA-256 over the paths and hashes of all that can be imported, as the installer recorded it.

    The report of the kit and compiled copies are left out, so putting a report into a package
    does not change what it reports on.

    Raises:
        UncertifiableError: it is an editable installation, or its files are not those that
            were installed.

    """
    entries = _code(found)
    here = {path for top in _tops(entries) for path in _on_disk(found, top)}
    if strange := sorted(here - entries.keys()):
        raise UncertifiableError(f"{strange[0]} was not installed with {found.name}")
    digest = hashlib.sha256()
    for path, recorded in sorted(entries.items()):
        try:
            content = Path(str(found.locate_file(path))).read_bytes()
        except OSError as error:
            raise UncertifiableError(f"{path} of {found.name} is gone") from error
        actual = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        if recorded != f"sha256={actual}":
            raise UncertifiableError(f"{path} of {found.name} was changed after its installation")
        digest.update(f"{path} {recorded}\n".encode())
    return digest.hexdigest()


def foreign_origin(found: Distribution) -> str | None:
    """Why what this process has imported is not what is installed; `None` when it is."""
    entries = _code(found)
    names = _import_names(entries)
    ours = {Path(str(found.locate_file(path))).resolve() for path in entries}
    for name, module in sorted(sys.modules.items()):
        origin = getattr(module, "__file__", None)
        if name.partition(".")[0] not in names or origin is None:
            continue
        if Path(origin).resolve() not in ours:
            return f"{name} was imported from {origin}, not from what is installed"
    return None


def digest_of_imported(name: str, module: str) -> tuple[str | None, str | None]:
    """The code digest of the distribution that `module` of this process is of, or why none."""
    try:
        found = installed(name)
        digest = code_digest(found)
        why = foreign_origin(found)
        if why is None and module.partition(".")[0] not in _import_names(_code(found)):
            why = f"{module}, which was tried, is no module of {name}"
    except UncertifiableError as error:
        return None, str(error)
    return (digest, None) if why is None else (None, why)


def report_of(found: Distribution) -> Path | None:
    """The report inside an installed distribution, if there is one."""
    for path in sorted(_record(found)):
        if PurePosixPath(path).name == REPORT and path.count("/") == 1:
            return Path(str(found.locate_file(path)))
    return None


def unpinned(found: Distribution) -> str | None:
    """Why what an engine asks of core does not pin the contract; `None` when it does."""
    contract = contract_version()
    major, minor = map(int, contract.split("."))
    try:
        asked = [Requirement(text) for text in found.requires or []]
    except InvalidRequirement as error:
        return f"{found.name} has a requirement that cannot be read: {error}"
    asked = [r for r in asked if canonicalize_name(r.name) == CORE]
    base = [r for r in asked if r.marker is None]
    if not base:
        return f"{found.name} does not require {CORE}"
    # Every one that may come: a hole where the next one is does not pin.
    others = [
        f"{one}.{two}.{patch}"
        for one in range(major + 2)
        for two in range(minor + 20)
        for patch in (0, 1, 99)
        if (one, two) != (major, minor)
    ]
    for requirement in base:
        wanted = requirement.specifier
        admits = [v for v in others if wanted.contains(v)]
        if admits or not wanted.contains(distribution(CORE).version, prereleases=True):
            return (
                f"{found.name} requires {CORE}{wanted}, which does not pin the contract "
                f"{contract}: it has to be {CORE}>={contract}.0,<{major}.{minor + 1}"
            )
    return None


def _record(found: Distribution) -> dict[str, str]:
    text = found.read_text("RECORD")
    return {row[0]: row[1] for row in csv.reader((text or "").splitlines()) if row}


def _code(found: Distribution) -> dict[str, str]:
    source = json.loads(found.read_text("direct_url.json") or "{}")
    if source.get("dir_info", {}).get("editable"):
        raise UncertifiableError(f"{found.name} is an editable installation")
    entries = {}
    for path, recorded in _record(found).items():
        first = PurePosixPath(path).parts[0]
        inside = first not in ("..", "/") and not first.endswith((".dist-info", ".data"))
        if inside and not _is_left_out(path):
            entries[path] = recorded
    if not entries:
        raise UncertifiableError(f"{found.name} has no record of an import package")
    return entries


def _tops(entries: dict[str, str]) -> set[str]:
    return {PurePosixPath(path).parts[0] for path in entries}


def _import_names(entries: dict[str, str]) -> set[str]:
    return {top.partition(".")[0] for top in _tops(entries)}


def _on_disk(found: Distribution, top: str) -> set[str]:
    root = Path(str(found.locate_file("")))
    # A link to a directory is code as well, and is not followed.
    files = (path for path in (root / top).rglob("*") if path.is_file() or path.is_symlink())
    relative = (path.relative_to(root).as_posix() for path in files)
    return {path for path in relative if not _is_left_out(path)}


def _is_left_out(path: str) -> bool:
    parts = PurePosixPath(path).parts
    report = len(parts) == 2 and parts[1] == REPORT  # noqa: PLR2004 - directly in the package
    # Bytecode in another place is no copy of a source: it is what gets imported.
    return report or "__pycache__" in parts
