"""How a job is to be stored: the options as they cross the seam, resolved and checked."""

from __future__ import annotations

from attrs import frozen


@frozen(kw_only=True)
class JobSpec:
    """Everything a job row gets besides queue and payload.

    At most one of `delay` (seconds from now) and `run_at` (unix seconds) is set; neither means
    ready at once. `expires` is seconds from now. Only the engine knows "now", so these become
    stamps there, saturating. `headers` is encoded JSON text.
    """

    priority: int
    delay: int | None
    run_at: int | None
    expires: int | None
    max_attempts: int
    visibility_timeout_s: int
    backoff_base_s: int
    dead_letter_retention_s: int | None
    headers: str | None
