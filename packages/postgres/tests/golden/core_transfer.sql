-- DUMP_JOBS
SELECT alkstore.__alkstore_jobs.id, alkstore.__alkstore_jobs.queue, alkstore.__alkstore_jobs.payload, alkstore.__alkstore_jobs.headers, CASE WHEN (alkstore.__alkstore_jobs.state = 'processing') THEN 'processing' ELSE 'pending' END AS anon_1, alkstore.__alkstore_jobs.priority, alkstore.__alkstore_jobs.run_at, alkstore.__alkstore_jobs.created_at, alkstore.__alkstore_jobs.expires_at, alkstore.__alkstore_jobs.attempts, alkstore.__alkstore_jobs.max_attempts, alkstore.__alkstore_jobs.visibility_timeout_s, alkstore.__alkstore_jobs.backoff_base_s, alkstore.__alkstore_jobs.dead_letter_retention_s, alkstore.__alkstore_jobs.worker_id, alkstore.__alkstore_jobs.claimed_at, alkstore.__alkstore_jobs.claim_expires_at, alkstore.__alkstore_jobs.last_error
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.id > $1::BIGINT ORDER BY alkstore.__alkstore_jobs.id
 LIMIT $2::BIGINT OFFSET 0;

-- LOAD_JOBS
INSERT INTO alkstore.__alkstore_jobs (queue, payload, headers, state, priority, run_at, created_at, expires_at, attempts, max_attempts, visibility_timeout_s, backoff_base_s, dead_letter_retention_s, worker_id, claimed_at, claim_expires_at, last_error) SELECT (rows.value ->> 0) AS json_extract_1, convert_to((rows.value ->> 1), 'UTF8') AS anon_1, (rows.value ->> 2) AS json_extract_2, CASE WHEN ((rows.value ->> 3) = 'processing' AND (rows.value ->> 15)::bigint IS NOT NULL) THEN 'processing' WHEN ((rows.value ->> 5)::bigint > (SELECT coalesce($1::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint))) THEN 'delayed' ELSE 'ready' END AS anon_2, (rows.value ->> 4)::bigint AS json_extract_3, (rows.value ->> 5)::bigint AS json_extract_4, (rows.value ->> 6)::bigint AS json_extract_5, (rows.value ->> 7)::bigint AS json_extract_6, (rows.value ->> 8)::bigint AS json_extract_7, (rows.value ->> 9)::bigint AS json_extract_8, (rows.value ->> 10)::bigint AS json_extract_9, (rows.value ->> 11)::bigint AS json_extract_10, (rows.value ->> 12)::bigint AS json_extract_11, (rows.value ->> 13) AS json_extract_12, (rows.value ->> 14)::bigint AS json_extract_13, (rows.value ->> 15)::bigint AS json_extract_14, (rows.value ->> 16) AS json_extract_15
FROM (SELECT each.value, each.key FROM json_array_elements(CAST($2::VARCHAR AS JSON)) WITH ORDINALITY AS each(value, key)) AS rows ORDER BY rows.key RETURNING alkstore.__alkstore_jobs.id;

-- DUMP_DEAD_JOBS
SELECT alkstore.__alkstore_dead_jobs.id, alkstore.__alkstore_dead_jobs.queue, alkstore.__alkstore_dead_jobs.payload, alkstore.__alkstore_dead_jobs.headers, alkstore.__alkstore_dead_jobs.priority, alkstore.__alkstore_dead_jobs.run_at, alkstore.__alkstore_dead_jobs.created_at, alkstore.__alkstore_dead_jobs.expires_at, alkstore.__alkstore_dead_jobs.attempts, alkstore.__alkstore_dead_jobs.max_attempts, alkstore.__alkstore_dead_jobs.visibility_timeout_s, alkstore.__alkstore_dead_jobs.backoff_base_s, alkstore.__alkstore_dead_jobs.dead_letter_retention_s, alkstore.__alkstore_dead_jobs.worker_id, alkstore.__alkstore_dead_jobs.claimed_at, alkstore.__alkstore_dead_jobs.claim_expires_at, alkstore.__alkstore_dead_jobs.last_error, alkstore.__alkstore_dead_jobs.died_at
FROM alkstore.__alkstore_dead_jobs
WHERE alkstore.__alkstore_dead_jobs.id > $1::BIGINT ORDER BY alkstore.__alkstore_dead_jobs.id
 LIMIT $2::BIGINT OFFSET 0;

-- LOAD_DEAD_JOBS
INSERT INTO alkstore.__alkstore_dead_jobs (id, queue, payload, headers, priority, run_at, created_at, expires_at, attempts, max_attempts, visibility_timeout_s, backoff_base_s, dead_letter_retention_s, worker_id, claimed_at, claim_expires_at, last_error, died_at, state, retained_until) SELECT (rows.value ->> 0)::bigint AS json_extract_1, (rows.value ->> 1) AS json_extract_2, convert_to((rows.value ->> 2), 'UTF8') AS anon_1, (rows.value ->> 3) AS json_extract_3, (rows.value ->> 4)::bigint AS json_extract_4, (rows.value ->> 5)::bigint AS json_extract_5, (rows.value ->> 6)::bigint AS json_extract_6, (rows.value ->> 7)::bigint AS json_extract_7, (rows.value ->> 8)::bigint AS json_extract_8, (rows.value ->> 9)::bigint AS json_extract_9, (rows.value ->> 10)::bigint AS json_extract_10, (rows.value ->> 11)::bigint AS json_extract_11, (rows.value ->> 12)::bigint AS json_extract_12, (rows.value ->> 13) AS json_extract_13, (rows.value ->> 14)::bigint AS json_extract_14, (rows.value ->> 15)::bigint AS json_extract_15, (rows.value ->> 16) AS json_extract_16, (rows.value ->> 17)::bigint AS json_extract_17, 'dead', CASE WHEN ((rows.value ->> 12)::bigint <= 9223372036854775807 - (rows.value ->> 17)::bigint) THEN (rows.value ->> 17)::bigint + (rows.value ->> 12)::bigint END AS anon_2
FROM (SELECT each.value, each.key FROM json_array_elements(CAST($1::VARCHAR AS JSON)) WITH ORDINALITY AS each(value, key)) AS rows ORDER BY rows.key;

-- RESERVE_IDS
INSERT INTO alkstore.__alkstore_jobs (queue, payload, state, priority, run_at, created_at, attempts, max_attempts, visibility_timeout_s, backoff_base_s) SELECT 'ready', ''::bytea AS anon_1, 'ready', 0, 0, 0, 0, 0, 0, 0
FROM (SELECT each.value, each.key FROM json_array_elements(CAST($1::VARCHAR AS JSON)) WITH ORDINALITY AS each(value, key)) AS rows ORDER BY rows.key RETURNING alkstore.__alkstore_jobs.id;

-- DROP_RESERVED
DELETE FROM alkstore.__alkstore_jobs WHERE alkstore.__alkstore_jobs.id IN (SELECT (ids.value #>> '{}')::bigint AS value_1
FROM (SELECT each.value, each.key FROM json_array_elements(CAST($1::VARCHAR AS JSON)) WITH ORDINALITY AS each(value, key)) AS ids);

-- DUMP_EVENTS
SELECT alkstore.__alkstore_events."offset", alkstore.__alkstore_events.stream, alkstore.__alkstore_events.key, alkstore.__alkstore_events.payload, alkstore.__alkstore_events.headers, alkstore.__alkstore_events.created_at
FROM alkstore.__alkstore_events
WHERE alkstore.__alkstore_events."offset" > $1::BIGINT ORDER BY alkstore.__alkstore_events."offset"
 LIMIT $2::BIGINT OFFSET 0;

-- LOAD_EVENTS
INSERT INTO alkstore.__alkstore_events (stream, key, payload, headers, created_at) SELECT (rows.value ->> 0) AS json_extract_1, (rows.value ->> 1) AS json_extract_2, convert_to((rows.value ->> 2), 'UTF8') AS anon_1, (rows.value ->> 3) AS json_extract_3, (rows.value ->> 4)::bigint AS json_extract_4
FROM (SELECT each.value, each.key FROM json_array_elements(CAST($1::VARCHAR AS JSON)) WITH ORDINALITY AS each(value, key)) AS rows ORDER BY rows.key RETURNING alkstore.__alkstore_events."offset";

-- DUMP_CONSUMERS
SELECT alkstore.__alkstore_consumers.stream, alkstore.__alkstore_consumers.consumer, alkstore.__alkstore_consumers.stream AS stream__1, alkstore.__alkstore_consumers.consumer AS consumer__1, alkstore.__alkstore_consumers."offset"
FROM alkstore.__alkstore_consumers
WHERE (alkstore.__alkstore_consumers.stream, alkstore.__alkstore_consumers.consumer) > ($1::VARCHAR, $2::VARCHAR) ORDER BY alkstore.__alkstore_consumers.stream, alkstore.__alkstore_consumers.consumer
 LIMIT $3::BIGINT OFFSET 0;

-- LOAD_CONSUMERS
INSERT INTO alkstore.__alkstore_consumers (stream, consumer, "offset") SELECT (rows.value ->> 0) AS json_extract_1, (rows.value ->> 1) AS json_extract_2, (rows.value ->> 2)::bigint AS json_extract_3
FROM (SELECT each.value, each.key FROM json_array_elements(CAST($1::VARCHAR AS JSON)) WITH ORDINALITY AS each(value, key)) AS rows ORDER BY rows.key ON CONFLICT (stream, consumer) DO UPDATE SET "offset" = excluded."offset";

-- DUMP_SCHEDULES
SELECT alkstore.__alkstore_schedules.name, alkstore.__alkstore_schedules.name AS name__1, alkstore.__alkstore_schedules.spec, alkstore.__alkstore_schedules.queue, alkstore.__alkstore_schedules.payload, alkstore.__alkstore_schedules.priority, alkstore.__alkstore_schedules.max_attempts, alkstore.__alkstore_schedules.expires, alkstore.__alkstore_schedules.headers, alkstore.__alkstore_schedules.next_fire_at
FROM alkstore.__alkstore_schedules
WHERE alkstore.__alkstore_schedules.name > $1::VARCHAR ORDER BY alkstore.__alkstore_schedules.name
 LIMIT $2::BIGINT OFFSET 0;

-- LOAD_SCHEDULES
INSERT INTO alkstore.__alkstore_schedules (name, spec, queue, payload, priority, max_attempts, expires, headers, next_fire_at) SELECT (rows.value ->> 0) AS json_extract_1, (rows.value ->> 1) AS json_extract_2, (rows.value ->> 2) AS json_extract_3, convert_to((rows.value ->> 3), 'UTF8') AS anon_1, (rows.value ->> 4)::bigint AS json_extract_4, (rows.value ->> 5)::bigint AS json_extract_5, (rows.value ->> 6)::bigint AS json_extract_6, (rows.value ->> 7) AS json_extract_7, (rows.value ->> 8)::bigint AS json_extract_8
FROM (SELECT each.value, each.key FROM json_array_elements(CAST($1::VARCHAR AS JSON)) WITH ORDINALITY AS each(value, key)) AS rows ORDER BY rows.key ON CONFLICT (name) DO UPDATE SET spec = excluded.spec, queue = excluded.queue, payload = excluded.payload, priority = excluded.priority, max_attempts = excluded.max_attempts, expires = excluded.expires, headers = excluded.headers, next_fire_at = excluded.next_fire_at;
