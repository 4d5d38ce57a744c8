-- TAKE
WITH token AS
(INSERT INTO alkstore.__alkstore_sequences (name, value) VALUES ('lock', 1) ON CONFLICT (name) DO UPDATE SET value = (alkstore.__alkstore_sequences.value + 1) RETURNING alkstore.__alkstore_sequences.value)
 INSERT INTO alkstore.__alkstore_locks (name, owner, token, expires_at) SELECT $1::VARCHAR AS anon_1, $2::VARCHAR AS anon_2, token.value, CASE WHEN ($3::BIGINT > 9223372036854775807 - (SELECT coalesce($4::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint))) THEN 9223372036854775807 ELSE (SELECT coalesce($4::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) + $3::BIGINT END AS anon_3
FROM token ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, token = excluded.token, expires_at = excluded.expires_at WHERE alkstore.__alkstore_locks.expires_at < (SELECT coalesce($4::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) RETURNING alkstore.__alkstore_locks.token;
