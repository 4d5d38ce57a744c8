-- DUMP_JOBS
SELECT __alkstore_jobs.id, __alkstore_jobs.queue, __alkstore_jobs.payload, __alkstore_jobs.headers, CASE WHEN (__alkstore_jobs.state = 'processing') THEN 'processing' ELSE 'pending' END AS anon_1, __alkstore_jobs.priority, __alkstore_jobs.run_at, __alkstore_jobs.created_at, __alkstore_jobs.expires_at, __alkstore_jobs.attempts, __alkstore_jobs.max_attempts, __alkstore_jobs.visibility_timeout_s, __alkstore_jobs.backoff_base_s, __alkstore_jobs.dead_letter_retention_s, __alkstore_jobs.worker_id, __alkstore_jobs.claimed_at, __alkstore_jobs.claim_expires_at, __alkstore_jobs.last_error
FROM __alkstore_jobs
WHERE __alkstore_jobs.id > :after_id ORDER BY __alkstore_jobs.id
 LIMIT :limit OFFSET 0;

-- LOAD_JOBS
INSERT INTO __alkstore_jobs (queue, payload, headers, state, priority, run_at, created_at, expires_at, attempts, max_attempts, visibility_timeout_s, backoff_base_s, dead_letter_retention_s, worker_id, claimed_at, claim_expires_at, last_error) SELECT json_extract(rows.value, '$[0]') AS json_extract_1, CAST(json_extract(rows.value, '$[1]') AS BLOB) AS anon_1, json_extract(rows.value, '$[2]') AS json_extract_2, CASE WHEN (json_extract(rows.value, '$[3]') = 'processing' AND json_extract(rows.value, '$[15]') IS NOT NULL) THEN 'processing' WHEN (json_extract(rows.value, '$[5]') > :now) THEN 'delayed' ELSE 'ready' END AS anon_2, json_extract(rows.value, '$[4]') AS json_extract_3, json_extract(rows.value, '$[5]') AS json_extract_4, json_extract(rows.value, '$[6]') AS json_extract_5, json_extract(rows.value, '$[7]') AS json_extract_6, json_extract(rows.value, '$[8]') AS json_extract_7, json_extract(rows.value, '$[9]') AS json_extract_8, json_extract(rows.value, '$[10]') AS json_extract_9, json_extract(rows.value, '$[11]') AS json_extract_10, json_extract(rows.value, '$[12]') AS json_extract_11, json_extract(rows.value, '$[13]') AS json_extract_12, json_extract(rows.value, '$[14]') AS json_extract_13, json_extract(rows.value, '$[15]') AS json_extract_14, json_extract(rows.value, '$[16]') AS json_extract_15
FROM json_each(:rows) AS rows ORDER BY rows."key" RETURNING id;

-- DUMP_DEAD_JOBS
SELECT __alkstore_dead_jobs.id, __alkstore_dead_jobs.queue, __alkstore_dead_jobs.payload, __alkstore_dead_jobs.headers, __alkstore_dead_jobs.priority, __alkstore_dead_jobs.run_at, __alkstore_dead_jobs.created_at, __alkstore_dead_jobs.expires_at, __alkstore_dead_jobs.attempts, __alkstore_dead_jobs.max_attempts, __alkstore_dead_jobs.visibility_timeout_s, __alkstore_dead_jobs.backoff_base_s, __alkstore_dead_jobs.dead_letter_retention_s, __alkstore_dead_jobs.worker_id, __alkstore_dead_jobs.claimed_at, __alkstore_dead_jobs.claim_expires_at, __alkstore_dead_jobs.last_error, __alkstore_dead_jobs.died_at
FROM __alkstore_dead_jobs
WHERE __alkstore_dead_jobs.id > :after_id ORDER BY __alkstore_dead_jobs.id
 LIMIT :limit OFFSET 0;

-- LOAD_DEAD_JOBS
INSERT INTO __alkstore_dead_jobs (id, queue, payload, headers, priority, run_at, created_at, expires_at, attempts, max_attempts, visibility_timeout_s, backoff_base_s, dead_letter_retention_s, worker_id, claimed_at, claim_expires_at, last_error, died_at, state, retained_until) SELECT json_extract(rows.value, '$[0]') AS json_extract_1, json_extract(rows.value, '$[1]') AS json_extract_2, CAST(json_extract(rows.value, '$[2]') AS BLOB) AS anon_1, json_extract(rows.value, '$[3]') AS json_extract_3, json_extract(rows.value, '$[4]') AS json_extract_4, json_extract(rows.value, '$[5]') AS json_extract_5, json_extract(rows.value, '$[6]') AS json_extract_6, json_extract(rows.value, '$[7]') AS json_extract_7, json_extract(rows.value, '$[8]') AS json_extract_8, json_extract(rows.value, '$[9]') AS json_extract_9, json_extract(rows.value, '$[10]') AS json_extract_10, json_extract(rows.value, '$[11]') AS json_extract_11, json_extract(rows.value, '$[12]') AS json_extract_12, json_extract(rows.value, '$[13]') AS json_extract_13, json_extract(rows.value, '$[14]') AS json_extract_14, json_extract(rows.value, '$[15]') AS json_extract_15, json_extract(rows.value, '$[16]') AS json_extract_16, json_extract(rows.value, '$[17]') AS json_extract_17, 'dead', CASE WHEN (json_extract(rows.value, '$[12]') <= 9223372036854775807 - json_extract(rows.value, '$[17]')) THEN json_extract(rows.value, '$[17]') + json_extract(rows.value, '$[12]') END AS anon_2
FROM json_each(:rows) AS rows ORDER BY rows."key";

-- RESERVE_IDS
INSERT INTO __alkstore_jobs (queue, payload, state, priority, run_at, created_at, attempts, max_attempts, visibility_timeout_s, backoff_base_s) SELECT 'ready', 0 AS anon_1, 'ready', 0, 0, 0, 0, 0, 0, 0
FROM json_each(:rows) AS rows ORDER BY rows."key" RETURNING id;

-- DROP_RESERVED
DELETE FROM __alkstore_jobs WHERE __alkstore_jobs.id IN (SELECT ids.value AS value_1
FROM json_each(:ids) AS ids);

-- DUMP_EVENTS
SELECT __alkstore_events."offset", __alkstore_events.stream, __alkstore_events."key", __alkstore_events.payload, __alkstore_events.headers, __alkstore_events.created_at
FROM __alkstore_events
WHERE __alkstore_events."offset" > :after_offset ORDER BY __alkstore_events."offset"
 LIMIT :limit OFFSET 0;

-- LOAD_EVENTS
INSERT INTO __alkstore_events (stream, "key", payload, headers, created_at) SELECT json_extract(rows.value, '$[0]') AS json_extract_1, json_extract(rows.value, '$[1]') AS json_extract_2, CAST(json_extract(rows.value, '$[2]') AS BLOB) AS anon_1, json_extract(rows.value, '$[3]') AS json_extract_3, json_extract(rows.value, '$[4]') AS json_extract_4
FROM json_each(:rows) AS rows ORDER BY rows."key" RETURNING "offset";

-- DUMP_CONSUMERS
SELECT __alkstore_consumers.stream, __alkstore_consumers.consumer, __alkstore_consumers.stream AS stream__1, __alkstore_consumers.consumer AS consumer__1, __alkstore_consumers."offset"
FROM __alkstore_consumers
WHERE (__alkstore_consumers.stream, __alkstore_consumers.consumer) > (:after_stream, :after_consumer) ORDER BY __alkstore_consumers.stream, __alkstore_consumers.consumer
 LIMIT :limit OFFSET 0;

-- LOAD_CONSUMERS
INSERT INTO __alkstore_consumers (stream, consumer, "offset") SELECT json_extract(rows.value, '$[0]') AS json_extract_1, json_extract(rows.value, '$[1]') AS json_extract_2, json_extract(rows.value, '$[2]') AS json_extract_3
FROM json_each(:rows) AS rows ORDER BY rows."key" ON CONFLICT (stream, consumer) DO UPDATE SET "offset" = excluded."offset";

-- DUMP_SCHEDULES
SELECT __alkstore_schedules.name, __alkstore_schedules.name AS name__1, __alkstore_schedules.spec, __alkstore_schedules.queue, __alkstore_schedules.payload, __alkstore_schedules.priority, __alkstore_schedules.max_attempts, __alkstore_schedules.expires, __alkstore_schedules.headers, __alkstore_schedules.next_fire_at
FROM __alkstore_schedules
WHERE __alkstore_schedules.name > :after_name ORDER BY __alkstore_schedules.name
 LIMIT :limit OFFSET 0;

-- LOAD_SCHEDULES
INSERT INTO __alkstore_schedules (name, spec, queue, payload, priority, max_attempts, expires, headers, next_fire_at) SELECT json_extract(rows.value, '$[0]') AS json_extract_1, json_extract(rows.value, '$[1]') AS json_extract_2, json_extract(rows.value, '$[2]') AS json_extract_3, CAST(json_extract(rows.value, '$[3]') AS BLOB) AS anon_1, json_extract(rows.value, '$[4]') AS json_extract_4, json_extract(rows.value, '$[5]') AS json_extract_5, json_extract(rows.value, '$[6]') AS json_extract_6, json_extract(rows.value, '$[7]') AS json_extract_7, json_extract(rows.value, '$[8]') AS json_extract_8
FROM json_each(:rows) AS rows ORDER BY rows."key" ON CONFLICT (name) DO UPDATE SET spec = excluded.spec, queue = excluded.queue, payload = excluded.payload, priority = excluded.priority, max_attempts = excluded.max_attempts, expires = excluded.expires, headers = excluded.headers, next_fire_at = excluded.next_fire_at;
