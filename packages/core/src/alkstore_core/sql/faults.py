"""What the SQL engines say when the database does not do as asked.

The driver's error is the cause of each; none of these texts carries a statement's parameters.
"""

from __future__ import annotations

from alkstore_core.errors import DatabaseError


def locked(database: str, busy_timeout: float, cause: BaseException | None) -> DatabaseError:
    """Nothing was done: somebody else's transaction outlasted our patience."""
    return _caused(
        f"{database} stayed locked by another connection or process for {busy_timeout:g} s; "
        "find the transaction that is open that long, or raise busy_timeout. If it is this task's "
        "own, on an application's session: use store.join(session) and its *_tx methods",
        cause,
    )


def commit_failed(database: str, cause: BaseException) -> DatabaseError:
    """Nobody knows whether it is done, so nobody may try again."""
    return _caused(
        f"the commit of {database} failed: {reason(cause)}. Whether it took effect is unknown "
        "until the database is read again; nothing was retried",
        cause,
    )


def refused(database: str, cause: BaseException | None) -> DatabaseError:
    """Nothing was done: the database said no."""
    return _caused(f"{database} refused an operation: {reason(cause)}", cause)


def reason(error: BaseException | None) -> str:
    """The driver's own words, without SQLAlchemy's statement and parameters around them."""
    told = str(getattr(error, "orig", None) or error)
    return told or ("no answer in time" if isinstance(error, TimeoutError) else "")


def _caused(message: str, cause: BaseException | None) -> DatabaseError:
    error = DatabaseError(message)
    error.__cause__ = cause
    return error
