-- HOLDER
SELECT __alkstore_locks.owner, __alkstore_locks.token
FROM __alkstore_locks
WHERE __alkstore_locks.name = :name AND __alkstore_locks.expires_at >= :now;

-- NEXT_TOKEN
INSERT INTO __alkstore_sequences (name, value) VALUES ('lock', 1) ON CONFLICT (name) DO UPDATE SET value = (__alkstore_sequences.value + 1) RETURNING value;

-- TAKE
INSERT INTO __alkstore_locks (name, owner, token, expires_at) VALUES (:name, :owner, :token, CASE WHEN (:ttl > 9223372036854775807 - :now) THEN 9223372036854775807 ELSE :now + :ttl END) ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, token = excluded.token, expires_at = excluded.expires_at WHERE __alkstore_locks.expires_at < :now RETURNING token;

-- RENEW
UPDATE __alkstore_locks SET expires_at=CASE WHEN (:ttl > 9223372036854775807 - :now) THEN 9223372036854775807 ELSE :now + :ttl END WHERE __alkstore_locks.name = :name AND __alkstore_locks.token = :token AND __alkstore_locks.expires_at >= :now;

-- RELEASE_LOCK
DELETE FROM __alkstore_locks WHERE __alkstore_locks.name = :name AND __alkstore_locks.token = :token AND __alkstore_locks.expires_at >= :now;

-- HOLDS
SELECT __alkstore_locks.token
FROM __alkstore_locks
WHERE __alkstore_locks.name = :name AND __alkstore_locks.token = :token AND __alkstore_locks.expires_at >= :now;

-- LIST_LOCKS
SELECT __alkstore_locks.name, __alkstore_locks.owner, __alkstore_locks.token, __alkstore_locks.expires_at
FROM __alkstore_locks
WHERE __alkstore_locks.expires_at >= :now ORDER BY __alkstore_locks.name;
