"""Faults in how names and labels are judged, and in what they stand for."""

import unicodedata

from sabotage import Saboteur, core, primitive

from alkstore_core import ReservedName, StreamHandle
from alkstore_core.names import RESERVED_PREFIX
from alkstore_core.spi import Topic


def name(kind, change):
    """What a legal name of one kind is taken for."""
    return core(
        "names:_legal",
        lambda real, what, value: change(real(what, value)) if what == kind else real(what, value),
    )


def lenient(kind, accept, change=lambda value: value):
    """Names of one kind that are not legal are taken, as what `change` makes of them."""
    return core(
        "names:_legal",
        lambda real, what, value: (
            change(value) if what == kind and accept(value) else real(what, value)
        ),
    )


def _spoiled(real, self, stream, *args):
    async def call():
        try:
            return await real(self, stream, *args)
        except ReservedName:
            self._tx._fault = "a call was refused"
            raise

    return call()


def _unchecked_unless_open(real, self, stream):
    if self._runtime.is_open or not stream.startswith(RESERVED_PREFIX):
        return real(self, stream)
    return StreamHandle(self._runtime, stream)


def _schedule(real, plan, spec, queue, *args):
    if queue == "__alkstore_x":
        return real(plan, spec, "x", *args)._replace(queue=queue)
    return real(plan, spec, queue, *args)


def _any_case_reserved(real, kind, value):
    if value.lower().startswith(RESERVED_PREFIX):
        raise ReservedName(kind, value)
    return real(kind, value)


SABOTEURS = {
    # Blanks are spaces only: a name of other white space is taken.
    "names.empty": Saboteur(lenient("lock", lambda value: value == "\t\n")),
    "names.empty_tx": Saboteur(
        core(
            "txops:TxOps.notify_tx",
            lambda real, self, channel, payload=None: real(
                self, "x" if channel == " " else channel, payload
            ),
        )
    ),
    "names.reserved": Saboteur(
        core(
            "names:_accepted_name",
            lambda real, kind, value: (
                value if kind == "lock" and value == RESERVED_PREFIX else real(kind, value)
            ),
        )
    ),
    "names.reserved_tx": Saboteur(
        core(
            "txops:TxOps.get_offset_tx",
            lambda real, self, stream, consumer: real(
                self, "x" if stream == "__alkstore_" else stream, consumer
            ),
        )
    ),
    "names.reserved_exactly": Saboteur(core("names:_accepted_name", _any_case_reserved)),
    # The end of a C string.
    "names.nul": Saboteur(lenient("lock", lambda value: value == "a\0", lambda value: value[:-1])),
    "names.surrogate": Saboteur(
        lenient("lock", lambda value: value == "a\udfffb", lambda value: "a?b")
    ),
    # Counted in characters.
    "names.too_long": Saboteur(
        lenient("lock", lambda value: len(value) <= 255 < len(value.encode(errors="replace")))
    ),
    "names.no_text": Saboteur(
        core(
            "names:check_name",
            lambda real, kind, value: real(kind, value.decode() if value == b"bytes" else value),
        )
    ),
    "names.at_once": Saboteur(core("store:Store.stream", _unchecked_unless_open)),
    "names.target": Saboteur(core("requests:schedule", _schedule)),
    "names.derived": Saboteur(
        core(
            "store:Store.queue",
            lambda real, self, value, opts=None: real(
                self, "x" if value == "__alkstore_outbox:mail" else value, opts
            ),
        )
    ),
    "names.usable_tx": Saboteur(core("txops:TxOps.publish_tx", _spoiled)),
    "names.untrimmed": Saboteur(name("schedule", lambda value: value.removesuffix("\n"))),
    "names.case": Saboteur(
        name("schedule", lambda value: value if value.isascii() else value.lower())
    ),
    "names.unicode": Saboteur(name("schedule", lambda value: unicodedata.normalize("NFC", value))),
    "names.longest": Saboteur(name("schedule", lambda value: value[:254])),
    "names.longest_channel": Saboteur(
        name("channel", lambda value: value if value.isascii() else value[:84]),
        also={"notify.channel": "it listens to such a long name as well"},
    ),
    "names.kinds": Saboteur(
        core("names:backing_queue", lambda real, value: "x" if value == "x" else real(value))
    ),
    # A job without a payload is taken for a signal.
    "names.kinds_wake": Saboteur(
        primitive(
            "insert_jobs",
            lambda real, queue, payloads, spec, wake=(): real.insert_jobs(
                queue,
                payloads,
                spec,
                wake=(*wake, Topic("channel", queue)) if b"null" in payloads else wake,
            ),
        ),
        stateful=True,
    ),
    "names.labels": Saboteur(
        core(
            "names:check_label",
            lambda real, kind, value: real(
                kind, "7" if (kind, value) == ("consumer", 7) else value
            ),
        )
    ),
    "names.labels_kept": Saboteur(
        name("worker id", lambda value: value.strip()),
        also={"queues.ack_batch.worker": "a worker of almost that id is taken for it"},
    ),
}
