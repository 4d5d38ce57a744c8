"""Faults of engines that do not dump what they hold, and of the copy that is made of it."""

from sabotage import Saboteur, core, primitive


def dumped(kind, **changes):
    """Rows of a kind come out with other fields, on both sides, so that no comparison tells."""

    async def dump(real, which, after, limit):
        records = await real.dump(which, after, limit)
        if which != kind:
            return records
        return [
            record._replace(
                fields=record.fields
                | {name: change(record.fields) for name, change in changes.items()}
            )
            for record in records
        ]

    return primitive("dump", dump)


async def _not_looked(real, source):
    """Nobody is at work."""


async def _never_asked(real, session):
    return True


SABOTEURS = {
    "copy.jobs": Saboteur(dumped("jobs", last_error=lambda fields: None), stateful=True),
    "copy.dead_jobs": Saboteur(dumped("dead_jobs", attempts=lambda fields: 0), stateful=True),
    "copy.events": Saboteur(dumped("events", headers=lambda fields: None), stateful=True),
    # One before the last event that it had passed, which it then reads again.
    "copy.consumers": Saboteur(
        core(
            "copying.verifying:Positions.passes",
            lambda real, self, stream, old, new: real(self, stream, old, new - 1),
        ),
        also={"copy.resumed": "it looks at what a consumer has not read"},
        stateful=True,
    ),
    "copy.schedules": Saboteur(
        dumped("schedules", headers=lambda fields: None),
        stateful=True,
    ),
    "copy.claims_refused": Saboteur(core("copying.checks:check_quiet", _not_looked), stateful=True),
    # It takes the target for an empty one, and says only afterwards that it was none.
    "copy.target_refused": Saboteur(core("copying.checks:is_empty", _never_asked)),
    # The mark does not say how far the copy is.
    "copy.resumed": Saboteur(
        core(
            "copying.mark:Marked.advance",
            lambda real, self, work, last, count: real(self, work, {}, count),
        )
    ),
}
