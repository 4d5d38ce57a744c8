"""Faults in what is an error, and which."""

from sabotage import Saboteur, core

from alkstore_core import DatabaseError, InvalidSpec, JobState
from alkstore_core.spi import Claim


class _OddSpecError(InvalidSpec):
    """It is an `InvalidSpec`, but not the one that can be told by its class."""


def _odd_spec(real, spec):
    try:
        return real(spec)
    except InvalidSpec as error:
        raise _OddSpecError(*error.args) from None


async def _nothing_is_an_error(real, self, horizon):
    deleted = await real(self, horizon)
    if horizon == 5 and not deleted and not (await self.bounds()).last:
        raise DatabaseError("there is no such stream")
    return deleted


async def _false_when_closed(real, self, extend):
    return await real(self, extend) if self._runtime.is_open else False


async def _jobs_given_back(real, self):
    if self.is_open:
        session = self.engine.auto
        for queue in await session.names("queue"):
            for job in await session.list_jobs(queue, JobState.PROCESSING, 100, 0):
                await session.release(queue, [Claim(job.id, job.attempts)])
    await real(self)


SABOTEURS = {
    "errors.family": Saboteur(core("policy.every:parse_every", _odd_spec)),
    "errors.values": Saboteur(core("streams:StreamHandle.trim_to", _nothing_is_an_error)),
    "errors.closed_handles": Saboteur(
        core("jobs:JobHandle.heartbeat", _false_when_closed),
        also={"lifecycle.handles_after_close": "it calls handles of a closed store as well"},
    ),
    "errors.open_claims": Saboteur(
        core("runtime:Runtime.close", _jobs_given_back),
        also={
            "durability.claims": "its claims outlive their stores",
            "durability.jobs": "one of its jobs is claimed when the store closes",
            "lifecycle.close.give_backs": "only what is on its way back is given back",
            "lifecycle.close.others": "another client's claims are given back too",
            "lifecycle.handles_after_close": "its claims outlive their store",
        },
        stateful=True,
    ),
    "errors.message": Saboteur(
        core("errors:InvalidName.__str__", lambda real, self: f"{self.name!r:.80} {self.problem}")
    ),
}
