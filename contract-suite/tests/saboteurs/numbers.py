"""Faults in how numbers are judged, and at the ends of their range."""

from sabotage import Saboteur, arguments, claimed, core, primitive, spec

GREATEST = 2**63 - 1
GREAT = 2**40
"""Where an engine stops that takes it for as good as for ever."""


def lenient(kind, take, what="before"):
    """`check_i64` takes values of a kind for one argument that only few calls have."""
    return core(
        "integers:check_i64",
        lambda real, name, value: (
            take(value) if name == what and type(value) in kind else real(name, value)
        ),
    )


def _refusal_spoils(real, self, queue, job_id):
    async def call():
        try:
            return await real(self, queue, job_id)
        except Exception as error:
            if type(error).__name__ == "DatabaseError":
                self._tx._fault = "a call was refused"
            raise

    return call()


SABOTEURS = {
    "numbers.range": Saboteur(
        # Held at the ends of the range instead of refused.
        lenient((int,), lambda value: min(max(value, -(2**63)), GREATEST))
    ),
    "numbers.bools": Saboteur(lenient((bool,), int)),
    "numbers.floats": Saboteur(lenient((float,), lambda value: 0)),
    "numbers.texts": Saboteur(lenient((str, bytes), int)),
    "numbers.usable_tx": Saboteur(core("txops:TxOps.get_job_tx", _refusal_spoils)),
    "numbers.extents": Saboteur(
        core(
            "queues:JobSource.dead_jobs",
            lambda real, self, limit=100, after_id=0: real(
                self, 1 if limit == -1 else limit, after_id
            ),
        )
    ),
    "numbers.extents_greatest": Saboteur(
        arguments("claim", lambda queue, worker, n: (queue, worker, 1 if n >= 100_000 else n))
    ),
    "numbers.durations": Saboteur(
        core(
            "integers:check_duration",
            lambda real, what, value: 1 if (what, value) == ("extend", -1) else real(what, value),
        )
    ),
    # Through a float.
    "numbers.exact": Saboteur(spec(priority=lambda n: int(float(n)) if abs(n) < 2**60 else n)),
    "numbers.greatest_stamps": Saboteur(spec(max_attempts=lambda n: min(n, 2**31 - 1))),
    # Ids as places in a list, where -1 is the last.
    "numbers.unlikely_ids": Saboteur(
        arguments("delete_job", lambda queue, id_: (queue, 1 if id_ == -1 else id_))
    ),
    "numbers.saturate_delay": Saboteur(
        spec(delay=lambda delay: delay and min(delay, GREAT)), stateful=True
    ),
    "numbers.saturate_expires": Saboteur(
        spec(expires=lambda expires: expires and min(expires, GREAT)), stateful=True
    ),
    "numbers.saturate_claim": Saboteur(
        claimed(claim_expires_at=lambda job: min(job.claim_expires_at, GREAT)), stateful=True
    ),
    "numbers.saturate_heartbeat": Saboteur(
        arguments("extend", lambda queue, claims, seconds: (queue, claims, min(seconds, GREAT))),
        stateful=True,
    ),
    "numbers.saturate_retry": Saboteur(
        arguments(
            "requeue", lambda queue, claim, delay, error: (queue, claim, min(delay, GREAT), error)
        ),
        stateful=True,
    ),
    "numbers.saturate_lock": Saboteur(
        arguments("acquire", lambda name, owner, ttl: (name, owner, min(ttl, GREAT))),
        stateful=True,
    ),
    "numbers.saturate_renew": Saboteur(
        arguments("renew", lambda name, token, ttl: (name, token, min(ttl, GREAT))), stateful=True
    ),
    # In a few decades everything is old enough.
    "numbers.saturate_retention": Saboteur(
        primitive(
            "purge_retired",
            lambda real, queue, limit: (
                real.purge_dead(queue, None, limit)
                if real.engine.clock.now() > 3_000_000_000
                else real.purge_retired(queue, limit)
            ),
        )
    ),
    "numbers.saturate_schedule": Saboteur(
        primitive(
            "put_schedule",
            lambda real, entry, **wake: real.put_schedule(
                entry._replace(every=min(entry.every, GREAT)), **wake
            ),
        ),
        also={"scheduler.grammar.valid": "the longest interval is one of its cases"},
    ),
    "numbers.past_delay": Saboteur(spec(delay=lambda delay: 5 if delay == -5 else delay)),
    "numbers.past_expiry": Saboteur(
        spec(expires=lambda expires: None if expires == -1 else expires)
    ),
    # From the end, as for a place in a list.
    "numbers.any_boundary": Saboteur(
        arguments("list_dead", lambda queue, n, after: (queue, n, GREAT if after == -1 else after))
    ),
    "numbers.greatest_boundary": Saboteur(
        primitive(
            "purge_dead",
            lambda real, queue, before, n: (
                0 if before == GREATEST else real.purge_dead(queue, before, n)
            ),
        )
    ),
}
