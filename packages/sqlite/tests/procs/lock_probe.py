"""Try the write lock all the time for 2.5 s without waiting, and watch the file's version.

Answers "probing", then "probed BUSY CHANGES PROBES". Half of the time it holds the lock itself.
"""

import sqlite3
import sys
import time

from wire import say

path = sys.argv[1]
locker = sqlite3.connect(path, timeout=0, isolation_level=None)
watcher = sqlite3.connect(path, timeout=0, isolation_level=None)


def version() -> int:
    """The file's version as it looks to a connection that never writes."""
    return watcher.execute("PRAGMA data_version").fetchone()[0]


say("probing")
busy = changes = probes = 0
known = version()
ends = time.monotonic() + 2.5
while time.monotonic() < ends:
    probes += 1
    try:
        locker.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError:
        busy += 1
    else:
        time.sleep(0.001)
        locker.execute("ROLLBACK")
    time.sleep(0.001)
    now = version()
    changes += now != known
    known = now
say("probed", busy, changes, probes)
