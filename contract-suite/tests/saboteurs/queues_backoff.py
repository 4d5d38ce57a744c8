"""Faults in how long a retry waits, and in what is kept of an error's text."""

from sabotage import Saboteur, constant, core


def backoff(change):
    """Wait as `change(wait, base, attempt)` says."""
    return core(
        "policy.backoff:backoff_delay",
        lambda real, base, attempt, *rng: change(real(base, attempt, *rng), base, attempt),
    )


def text(change):
    """Keep another text of an error."""
    return core("policy.errortext:storable_error", lambda real, error: real(change(error)))


SABOTEURS = {
    "queues.backoff.range": Saboteur(
        # The third wait is as long as the fourth.
        backoff(lambda wait, base, attempt: wait * 4 if attempt == 3 else wait)
    ),
    "queues.backoff.cap": Saboteur(
        backoff(lambda wait, base, attempt: wait * 4 if attempt > 10 else wait)
    ),
    "queues.backoff.huge": Saboteur(
        backoff(lambda wait, base, attempt: base if base > 3600 else wait)
    ),
    "queues.backoff.none": Saboteur(
        backoff(lambda wait, base, attempt: wait or int(base <= 0)), stateful=True
    ),
    "queues.backoff.spread": Saboteur(
        # The longest for all, so that they come back together.
        backoff(
            lambda wait, base, attempt: (
                min(base << attempt - 1, 3600) if wait > 1 and attempt < 9 else wait
            )
        )
    ),
    "queues.error.kept": Saboteur(
        text(lambda error: error.strip() if isinstance(error, str) else error)
    ),
    "queues.error.nul": Saboteur(
        text(lambda error: error.replace("\0", "") if isinstance(error, str) else error),
        stateful=True,
    ),
    "queues.error.surrogate": Saboteur(
        text(
            lambda error: (
                error.encode(errors="ignore").decode() if isinstance(error, str) else error
            )
        )
    ),
    "queues.error.long": Saboteur(constant("policy.errortext:MAX_ERROR_BYTES", 8191)),
    "queues.error.whole": Saboteur(
        # Characters are counted, not bytes.
        text(
            lambda error: error[:2000] if isinstance(error, str) and not error.isascii() else error
        )
    ),
    "queues.error.exception": Saboteur(
        text(lambda error: str(error) if isinstance(error, ValueError) else error)
    ),
}
