"""What `diagnose` tells an operator."""

from alkstore_postgres import diagnosis


async def test_a_forgotten_publisher_is_named(store, sql, monkeypatch):
    """Whoever holds readers of a stream back is told with its backend, and only then."""
    assert [] == await store.diagnose()
    monkeypatch.setattr(diagnosis, "NOTES", _at_once(diagnosis.NOTES))
    await store.stream("s").publish(1)
    assert [] == await store.diagnose()
    async with store.begin_tx() as tx:
        await tx.publish_tx("s", 2)
        pid = await sql.fetchval(
            "SELECT pid FROM pg_stat_activity WHERE state = 'idle in transaction' "
            "AND datname = current_database()"
        )
        (finding,) = await store.diagnose()
    assert "postgres.stream.held" == finding.code
    assert "'s'" in finding.message
    assert f"pg_terminate_backend({pid})" in finding.message


async def test_an_old_snapshot_is_named(store, sql, monkeypatch):
    """A session whose snapshot keeps dead rows alive is told."""
    monkeypatch.setattr(diagnosis, "SNAPSHOTS", _at_once(diagnosis.SNAPSHOTS))
    async with sql.transaction(isolation="repeatable_read"):
        await sql.fetch("SELECT 1")
        findings = await store.diagnose()
    messages = [finding.message for finding in findings]
    (message,) = [text for text in messages if f"backend {sql.get_server_pid()} " in text]
    assert "in a transaction that has been open for 0 s" in message
    assert {"postgres.snapshot.old"} == {finding.code for finding in findings}


def _at_once(statement):
    """The statement without its last condition: the time that has to pass before it tells."""
    bare = statement._generate()
    bare._where_criteria = statement._where_criteria[:-1]
    return bare
