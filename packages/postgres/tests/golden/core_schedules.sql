-- PUT_SCHEDULE
INSERT INTO alkstore.__alkstore_schedules (name, spec, queue, payload, priority, max_attempts, expires, headers, next_fire_at) VALUES ($1::VARCHAR, $2::VARCHAR, $3::VARCHAR, $4::BYTEA, $5::BIGINT, $6::BIGINT, $7::BIGINT, $8::VARCHAR, CASE WHEN ($9::BIGINT > 9223372036854775807 - (SELECT coalesce($10::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint))) THEN 9223372036854775807 ELSE (SELECT coalesce($10::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) + $9::BIGINT END) ON CONFLICT (name) DO UPDATE SET spec = excluded.spec, queue = excluded.queue, payload = excluded.payload, priority = excluded.priority, max_attempts = excluded.max_attempts, expires = excluded.expires, headers = excluded.headers, next_fire_at = CASE WHEN (alkstore.__alkstore_schedules.spec = excluded.spec) THEN alkstore.__alkstore_schedules.next_fire_at ELSE excluded.next_fire_at END RETURNING alkstore.__alkstore_schedules.name, alkstore.__alkstore_schedules.spec, alkstore.__alkstore_schedules.queue, alkstore.__alkstore_schedules.payload, alkstore.__alkstore_schedules.priority, alkstore.__alkstore_schedules.max_attempts, alkstore.__alkstore_schedules.expires, alkstore.__alkstore_schedules.headers, alkstore.__alkstore_schedules.next_fire_at;

-- DELETE_SCHEDULE
DELETE FROM alkstore.__alkstore_schedules WHERE alkstore.__alkstore_schedules.name = $1::VARCHAR;

-- LIST_SCHEDULES
SELECT alkstore.__alkstore_schedules.name, alkstore.__alkstore_schedules.spec, alkstore.__alkstore_schedules.queue, alkstore.__alkstore_schedules.payload, alkstore.__alkstore_schedules.priority, alkstore.__alkstore_schedules.max_attempts, alkstore.__alkstore_schedules.expires, alkstore.__alkstore_schedules.headers, alkstore.__alkstore_schedules.next_fire_at
FROM alkstore.__alkstore_schedules ORDER BY alkstore.__alkstore_schedules.name;

-- ADVANCE
UPDATE alkstore.__alkstore_schedules SET next_fire_at=$1::BIGINT WHERE alkstore.__alkstore_schedules.name = $2::VARCHAR AND alkstore.__alkstore_schedules.next_fire_at = $3::BIGINT;
