"""The contract as a program: what each call answers, and what it leaves behind.

Every mechanism is a class with plain dicts in it, and every promise about state is a line of its
code. `now` is always given. Where an engine may choose (ids, offsets, tokens, the wait within a
backoff, what a claim does with lapsed jobs that it does not hand out), the choice is given too.

Nothing of `alkstore_core` is used here: were the two to share arithmetic, they would share its
faults. Start with `jobs`, `queues` and `database`.
"""

from alkstore_contract.model.database import Database, Transaction

__all__ = ["Database", "Transaction"]
