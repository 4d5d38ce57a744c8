"""Faults in what a handle's calls do once its claim is over."""

from rowops import write
from sabotage import Saboteur, core, primitive

from alkstore_core import JobState
from alkstore_core.spi import Claim

PRIMITIVES = {
    "ack": "ack",
    "retry": "requeue",
    "fail": "bury",
    "heartbeat": "extend",
    "release": "release",
}


def _follow(session, call, queue, claim):
    """The call, on a claim it was not made for."""
    match call:
        case "ack":
            return session.ack(queue, (claim,))
        case "retry":
            return session.requeue(queue, claim, 7, "stale")
        case "fail":
            return session.bury(queue, claim, "stale")
        case "heartbeat":
            return session.extend(queue, (claim,), 5000)
        case _:
            return session.release(queue, (claim,))


def after(call, condition, then):
    """What was refused is looked at again: then `then` decides if `condition(mine, job)`."""

    async def called(real, self, *args):
        settled = self.settled
        done = await real(self, *args)
        if done or settled:
            return done
        session = self._runtime.session()
        job = await session.get_job(self.job.queue, self.job.id)
        return await then(session, job) if condition(self.job, job) else done

    return core(f"jobs:JobHandle.{call}", called)


def late(call, also):
    """A second of grace, as long as nobody else has claimed the job."""
    name = PRIMITIVES[call]

    async def again(real, queue, held, *args, **kwargs):
        done = await getattr(real, name)(queue, held, *args, **kwargs)
        claims = (held,) if isinstance(held, Claim) else held
        if done or len(claims) != 1:
            return done
        job = await real.get_job(queue, claims[0].id)
        if (
            job is None
            or (job.state, job.attempts) != (JobState.PROCESSING, claims[0].attempt)
            or job.claim_expires_at + 1 != await real.engine.now()
        ):
            return done
        await write(
            real.engine, f"UPDATE __alkstore_jobs SET claim_expires_at = :now WHERE id = {job.id}"
        )
        return await getattr(real, name)(queue, held, *args, **kwargs)

    reason = "it calls a second too late as well"
    return Saboteur(primitive(name, again), also=dict.fromkeys(also, reason), stateful=True)


def reclaimed(call, *, same, also=()):
    """The call follows the job to the claim of another worker, or of the same worker."""

    def newer(mine, job):
        return (
            job is not None
            and job.state is JobState.PROCESSING
            and job.attempts > mine.attempts
            and (job.worker_id == mine.worker_id) is same
        )

    async def follow(session, job):
        return bool(await _follow(session, call, job.queue, Claim(job.id, job.attempts)))

    reason = "it calls after a reclaim by the same worker as well"
    return Saboteur(after(call, newer, follow), also=dict.fromkeys(also, reason), stateful=True)


def over(call):
    """Gone is as good as done."""

    async def yes(session, job):
        return True

    return Saboteur(after(call, lambda mine, job: job is None, yes), stateful=True)


def settled(ended):
    """A heartbeat of a settled handle is answered with yes where `ended(mine, job)`."""

    async def called(real, self, extend):
        if not self.settled:
            return await real(self, extend)
        session = self._runtime.session()
        return ended(self.job, await session.get_job(self.job.queue, self.job.id))

    return Saboteur(core("jobs:JobHandle.heartbeat", called), stateful=True)


SABOTEURS = {
    "queues.ack.lapsed": late(
        "ack",
        [
            "queues.heartbeat.resets",
            "time.at_least",
            "time.tx_judges",
        ],
    ),
    "queues.retry.lapsed": late("retry", []),
    "queues.fail.lapsed": late("fail", []),
    "queues.heartbeat.lapsed": late("heartbeat", []),
    "queues.release.lapsed": late("release", []),
    "queues.ack.settles": settled(lambda mine, job: job is None),
    "queues.retry.settles": settled(
        lambda mine, job: (
            job is not None and (job.state, job.attempts) == (JobState.PENDING, mine.attempts)
        )
    ),
    "queues.fail.settles": settled(
        lambda mine, job: job is not None and job.state is JobState.DEAD
    ),
    "queues.release.settles": settled(
        lambda mine, job: (
            job is not None and (job.state, job.attempts) == (JobState.PENDING, mine.attempts - 1)
        )
    ),
}
for _call in PRIMITIVES:
    SABOTEURS[f"queues.{_call}.reclaimed"] = reclaimed(_call, same=False)
    SABOTEURS[f"queues.{_call}.reclaimed_same"] = reclaimed(
        _call, same=True, also=["time.clients"] if _call == "ack" else []
    )
    SABOTEURS[f"queues.{_call}.over"] = over(_call)
