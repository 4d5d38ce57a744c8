"""The shared SQL layer: tables, ops and sessions for engines on a SQL database."""

from alkstore_core.sql.join import JoinedSyncTx, JoinedTx
from alkstore_core.sql.store import SqlEngine, SqlStore, SqlTxHandle

__all__ = ["JoinedSyncTx", "JoinedTx", "SqlEngine", "SqlStore", "SqlTxHandle"]
