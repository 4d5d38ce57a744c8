"""Options resolved over a queue's, once, into what is stored with a job."""

from __future__ import annotations

from alkstore_core.headers import encode_headers
from alkstore_core.integers import check_class, check_duration, check_i64
from alkstore_core.jobspec import JobSpec
from alkstore_core.values import EnqueueOpts, QueueOpts, ScheduleOpts

OUTBOX_OPTS = QueueOpts(visibility_timeout_s=60, max_attempts=5, backoff_base_s=5)


class OptionResolver:
    """A queue's options, checked once; resolves the options of each enqueue over them."""

    def __init__(self, queue_opts: QueueOpts) -> None:
        """Check a queue's options.

        Raises:
            DatabaseError: one is not an i64, or the visibility timeout is 0 or less.

        """
        check_class("opts", queue_opts, QueueOpts)
        self._defaults = JobSpec(
            priority=0,
            delay=None,
            run_at=None,
            expires=None,
            max_attempts=_attempts(queue_opts.max_attempts),
            visibility_timeout_s=check_duration(
                "visibility_timeout_s", queue_opts.visibility_timeout_s
            ),
            backoff_base_s=check_i64("backoff_base_s", queue_opts.backoff_base_s),
            dead_letter_retention_s=_optional(
                "dead_letter_retention_s", queue_opts.dead_letter_retention_s
            ),
            headers=None,
        )

    def resolve(self, opts: EnqueueOpts | None = None) -> JobSpec:
        """The spec of a job: `delay` wins over `run_at`, an own `max_attempts` over the queue's.

        Raises:
            DatabaseError: an option is not an i64.
            CodecError: the headers are not storable.

        """
        if opts is None:
            return self._defaults
        check_class("opts", opts, EnqueueOpts)
        delay = _optional("delay", opts.delay)
        run_at = _optional("run_at", opts.run_at)
        return self._stamped(opts, delay, run_at if delay is None else None)

    def resolve_scheduled(self, opts: ScheduleOpts | None = None) -> JobSpec:
        """The spec of a job that a schedule enqueues; it is ready at once.

        Raises:
            DatabaseError: an option is not an i64.
            CodecError: the headers are not storable.

        """
        if opts is None:
            return self._defaults
        check_class("opts", opts, ScheduleOpts)
        return self._stamped(opts, None, None)

    def _stamped(
        self, opts: EnqueueOpts | ScheduleOpts, delay: int | None, run_at: int | None
    ) -> JobSpec:
        queue = self._defaults
        attempts = opts.max_attempts
        return JobSpec(
            priority=check_i64("priority", opts.priority),
            delay=delay,
            run_at=run_at,
            expires=_optional("expires", opts.expires),
            max_attempts=queue.max_attempts if attempts is None else _attempts(attempts),
            visibility_timeout_s=queue.visibility_timeout_s,
            backoff_base_s=queue.backoff_base_s,
            dead_letter_retention_s=queue.dead_letter_retention_s,
            headers=encode_headers(opts.headers),
        )


def _attempts(value: int) -> int:
    return max(check_i64("max_attempts", value), 1)


def _optional(what: str, value: int | None) -> int | None:
    return None if value is None else check_i64(what, value)


PLAIN = OptionResolver(QueueOpts())
OUTBOX = OptionResolver(OUTBOX_OPTS)
