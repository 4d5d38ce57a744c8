-- HOLDER
SELECT alkstore.__alkstore_locks.owner, alkstore.__alkstore_locks.token
FROM alkstore.__alkstore_locks
WHERE alkstore.__alkstore_locks.name = $1::VARCHAR AND alkstore.__alkstore_locks.expires_at >= (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint));

-- NEXT_TOKEN
INSERT INTO alkstore.__alkstore_sequences (name, value) VALUES ('lock', 1) ON CONFLICT (name) DO UPDATE SET value = (alkstore.__alkstore_sequences.value + 1) RETURNING alkstore.__alkstore_sequences.value;

-- TAKE
INSERT INTO alkstore.__alkstore_locks (name, owner, token, expires_at) VALUES ($1::VARCHAR, $2::VARCHAR, $3::BIGINT, CASE WHEN ($4::BIGINT > 9223372036854775807 - (SELECT coalesce($5::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint))) THEN 9223372036854775807 ELSE (SELECT coalesce($5::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) + $4::BIGINT END) ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, token = excluded.token, expires_at = excluded.expires_at WHERE alkstore.__alkstore_locks.expires_at < (SELECT coalesce($5::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) RETURNING alkstore.__alkstore_locks.token;

-- RENEW
UPDATE alkstore.__alkstore_locks SET expires_at=CASE WHEN ($1::BIGINT > 9223372036854775807 - (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint))) THEN 9223372036854775807 ELSE (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) + $1::BIGINT END WHERE alkstore.__alkstore_locks.name = $3::VARCHAR AND alkstore.__alkstore_locks.token = $4::BIGINT AND alkstore.__alkstore_locks.expires_at >= (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint));

-- RELEASE_LOCK
DELETE FROM alkstore.__alkstore_locks WHERE alkstore.__alkstore_locks.name = $1::VARCHAR AND alkstore.__alkstore_locks.token = $2::BIGINT AND alkstore.__alkstore_locks.expires_at >= (SELECT coalesce($3::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint));

-- HOLDS
SELECT alkstore.__alkstore_locks.token
FROM alkstore.__alkstore_locks
WHERE alkstore.__alkstore_locks.name = $1::VARCHAR AND alkstore.__alkstore_locks.token = $2::BIGINT AND alkstore.__alkstore_locks.expires_at >= (SELECT coalesce($3::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) FOR UPDATE;

-- LIST_LOCKS
SELECT alkstore.__alkstore_locks.name, alkstore.__alkstore_locks.owner, alkstore.__alkstore_locks.token, alkstore.__alkstore_locks.expires_at
FROM alkstore.__alkstore_locks
WHERE alkstore.__alkstore_locks.expires_at >= (SELECT coalesce($1::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) ORDER BY alkstore.__alkstore_locks.name;
