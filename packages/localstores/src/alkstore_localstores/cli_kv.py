"""`kv get`, `kv put` and `kv scan`."""

from __future__ import annotations

import base64
import sys
from typing import TYPE_CHECKING, Any

from alkstore_localstores.cli_output import show_json, show_table
from alkstore_localstores.kv import LocalKv

if TYPE_CHECKING:
    import argparse

    from alkstore_localstores.kv import KvEntry

SHOWN = 60
"""Bytes of a value that a table shows."""


def add_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], common: argparse.ArgumentParser
) -> None:
    """Add `kv` and what follows it."""
    kv = commands.add_parser("kv", help="read and write a key-value store")
    verbs = kv.add_subparsers(metavar="verb", required=True)

    get = verbs.add_parser("get", parents=[common], help="print a value, byte for byte")
    get.set_defaults(run=_get)
    put = verbs.add_parser("put", parents=[common], help="write a value")
    put.set_defaults(run=_put)
    scan = verbs.add_parser("scan", parents=[common], help="list the keys that begin with a prefix")
    scan.set_defaults(run=_scan)
    rules = "1 to 512 of the characters A-Z a-z 0-9 - _ : ."
    for verb, what in ((get, "key"), (put, "key"), (scan, "prefix")):
        verb.add_argument(
            "--data-dir", required=True, help="the directory of localkv.sqlite; made if missing"
        )
        verb.add_argument(
            "--driver",
            choices=("sqlite3", "turso"),
            default="sqlite3",
            help="what opens the file (%(default)s); turso needs the extra of that name",
        )
        verb.add_argument(what, help=rules)

    put.add_argument("value", help="the value, as text; - for standard input, byte for byte")
    put.add_argument("--ttl", type=float, help="seconds until it expires")
    put.add_argument("--if-absent", action="store_true", help="only if there is no such key")
    put.add_argument(
        "--if-version", help="only if it still has the version that get --json printed"
    )
    scan.add_argument("--limit", type=int, help="list at most so many")


async def _get(options: argparse.Namespace) -> int:
    async with _store(options) as kv:
        entry = await kv.get(options.key)
    if options.json:
        show_json(None if entry is None else _fields(entry))
    elif entry is None:
        sys.stderr.write(f"there is no key {options.key!r}\n")
    else:
        sys.stdout.buffer.write(entry.value)
    return 0 if entry else 1


async def _put(options: argparse.Namespace) -> int:
    value = _value(options)
    async with _store(options) as kv:
        applied = await kv.put(
            options.key,
            value,
            ttl=options.ttl,
            if_absent=options.if_absent,
            if_version=options.if_version,
        )
    if options.json:
        show_json({"applied": applied})
    elif not applied:
        sys.stderr.write(f"{options.key!r} was not written: its condition does not hold\n")
    return 0 if applied else 1


async def _scan(options: argparse.Namespace) -> None:
    async with _store(options) as kv:
        if options.limit is None:
            entries = [entry async for entry in kv.scan(options.prefix)]
        else:
            entries = [*(await kv.scan_prefix(options.prefix, limit=options.limit)).items]
    if options.json:
        show_json([_fields(entry) for entry in entries])
        return
    rows = ((entry.key, len(entry.value), _start(entry.value)) for entry in entries)
    show_table(("key", "bytes", "value"), rows)


def _store(options: argparse.Namespace) -> LocalKv:
    return LocalKv(options.data_dir, driver=options.driver)


def _value(options: argparse.Namespace) -> bytes:
    if options.value == "-":
        return sys.stdin.buffer.read()
    return str(options.value).encode("utf-8", "surrogateescape")


def _fields(entry: KvEntry) -> dict[str, Any]:
    """Values are any bytes, so JSON has them in base64."""
    value = base64.b64encode(entry.value).decode()
    return {"key": entry.key, "valueBase64": value, "version": entry.version}


def _start(value: bytes) -> str:
    text = value[:SHOWN].decode("utf-8", "backslashreplace")
    shown = "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )
    return f"{shown}…" if len(value) > SHOWN else shown
