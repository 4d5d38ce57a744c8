"""Faults in how payloads and headers are encoded, stored and built again."""

import dataclasses
from typing import Any

from attrs import evolve
from sabotage import Saboteur, claimed, constant, core, result

from alkstore_core import CodecError

MEGABYTE = 2**20


def encoded(when, change):
    """Some values are stored as others."""
    return core(
        "payload:encode_payload", lambda real, value: real(change(value) if when(value) else value)
    )


def _is_long_list(value):
    return isinstance(value, list) and value != [] and type(value[0]) is int


def _short_integers(real, value):
    if _is_long_list(value) and abs(value[0]) >= 10**4299:
        raise CodecError("an integer of more than 4,299 digits")
    return real(value)


def _quoting(real, value):
    try:
        return real(value)
    except CodecError as error:
        if isinstance(value, dict) and "token" in value:
            raise CodecError(f"{error}: {value['token']!r}") from None
        raise


def _spoiled(real, self, stream, payloads):
    async def call():
        try:
            return await real(self, stream, payloads)
        except CodecError:
            self._tx._fault = "a call was refused"
            raise

    return call()


def _outbox(real, outbox, payload, opts):
    asked = real(outbox, payload, opts)
    return asked._replace(payloads=tuple(data.replace(b"e+", b"e") for data in asked.payloads))


def _naive(real, value, target):
    built = real(value, target)
    if getattr(built, "when", None) is None:
        return built
    return dataclasses.replace(built, when=built.when.replace(tzinfo=None))


def _only_high(real, value, path, above):
    if len(path) >= 3:
        raise CodecError("an instance within a list within a list")
    return real(value, path, above)


def _no_none(real, value, target):
    if value is None and target is not Any:
        raise CodecError("there is nothing")
    return real(value, target)


SABOTEURS = {
    "payloads.bytes": Saboteur(core("requests:outbox_enqueue", _outbox)),
    "payloads.claimed": Saboteur(
        result(
            "read_from",
            lambda events: [
                evolve(event, payload=event.payload.replace(b"e+", b"e")) for event in events
            ],
        )
    ),
    "payloads.key_order": Saboteur(
        encoded(
            lambda value: isinstance(value, dict) and len(value) > 5,
            lambda value: dict(sorted(value.items())),
        )
    ),
    "payloads.integers": Saboteur(core("payload:encode_payload", _short_integers)),
    "payloads.integers_longer": Saboteur(
        encoded(
            lambda value: _is_long_list(value) and abs(value[0]) >= 10**4300,
            lambda value: [10**4299],
        )
    ),
    "payloads.large": Saboteur(
        encoded(
            lambda value: isinstance(value, str) and len(value) > 2**20,
            lambda value: value[: 2**20],
        )
    ),
    "payloads.depth": Saboteur(constant("structuring:MAX_DEPTH", 499)),
    "payloads.refused": Saboteur(encoded(lambda value: value == (), list)),
    "payloads.refused_tx": Saboteur(core("txops:TxOps.publish_many_tx", _spoiled)),
    "payloads.discretion": Saboteur(core("payload:encode_payload", _quoting)),
    "payloads.attrs": Saboteur(
        core(
            "structuring:unstructure",
            lambda real, value: {
                name: field for name, field in real(value).items() if name != "note"
            },
        )
    ),
    "payloads.dataclass": Saboteur(core("structuring:structure_value", _naive)),
    "payloads.nested": Saboteur(core("jsontree:_plain_container", _only_high)),
    "payloads.as_types": Saboteur(core("structuring:structure_value", _no_none)),
    "payloads.as_mismatch": Saboteur(
        core(
            "structuring:structure_value",
            lambda real, value, target: (
                int(value) if target is int and isinstance(value, str) else real(value, target)
            ),
        )
    ),
    "payloads.headers.kept": Saboteur(constant("headers:MAX_HEADERS_BYTES", 4095)),
    "payloads.headers.refused": Saboteur(constant("headers:MAX_HEADERS_BYTES", 4097)),
    "payloads.carried": Saboteur(
        claimed(headers=lambda job: job.headers if job.attempts == 1 else None), stateful=True
    ),
}
