-- INSERT_JOB
INSERT INTO __alkstore_jobs (queue, payload, headers, state, priority, run_at, created_at, expires_at, attempts, max_attempts, visibility_timeout_s, backoff_base_s, dead_letter_retention_s) VALUES (:queue, :payload, :headers, CASE WHEN (:delay > 0) THEN 'delayed' WHEN (:run_at > :now) THEN 'delayed' ELSE 'ready' END, :priority, coalesce(CASE WHEN (:delay > 9223372036854775807 - :now) THEN 9223372036854775807 ELSE :now + :delay END, :run_at, :now), :now, CASE WHEN (:expires > 9223372036854775807 - :now) THEN 9223372036854775807 ELSE :now + :expires END, 0, :max_attempts, :visibility_timeout_s, :backoff_base_s, :dead_letter_retention_s) RETURNING id;

-- INSERT_JOB_AT_ONCE
INSERT INTO __alkstore_jobs (queue, payload, headers, state, priority, run_at, created_at, attempts, max_attempts, visibility_timeout_s, backoff_base_s, dead_letter_retention_s) VALUES (:queue, :payload, :headers, 'ready', :priority, :now, :now, 0, :max_attempts, :visibility_timeout_s, :backoff_base_s, :dead_letter_retention_s) RETURNING id;

-- INSERT_JOBS
INSERT INTO __alkstore_jobs (queue, payload, headers, state, priority, run_at, created_at, expires_at, attempts, max_attempts, visibility_timeout_s, backoff_base_s, dead_letter_retention_s) SELECT :queue AS anon_1, CAST(payloads.value AS BLOB) AS anon_2, :headers AS anon_3, CASE WHEN (:delay > 0) THEN 'delayed' WHEN (:run_at > :now) THEN 'delayed' ELSE 'ready' END AS anon_4, :priority AS anon_5, coalesce(CASE WHEN (:delay > 9223372036854775807 - :now) THEN 9223372036854775807 ELSE :now + :delay END, :run_at, :now) AS coalesce_1, :now AS anon_6, CASE WHEN (:expires > 9223372036854775807 - :now) THEN 9223372036854775807 ELSE :now + :expires END AS anon_7, 0, :max_attempts AS anon_8, :visibility_timeout_s AS anon_9, :backoff_base_s AS anon_10, :dead_letter_retention_s AS anon_11
FROM json_each(:payloads) AS payloads ORDER BY payloads."key" RETURNING id;

-- ACK
DELETE FROM __alkstore_jobs WHERE __alkstore_jobs.id = :id AND __alkstore_jobs.attempts = :attempt AND __alkstore_jobs.queue = :queue AND +__alkstore_jobs.state = 'processing' AND __alkstore_jobs.claim_expires_at >= :now;

-- ACK_MANY
DELETE FROM __alkstore_jobs WHERE __alkstore_jobs.id IN (SELECT ids.value AS value_1
FROM json_each(:ids) AS ids) AND __alkstore_jobs.queue = :queue AND +__alkstore_jobs.state = 'processing' AND __alkstore_jobs.claim_expires_at >= :now AND __alkstore_jobs.attempts = :attempt;

-- ACK_IDS
DELETE FROM __alkstore_jobs WHERE __alkstore_jobs.id IN (SELECT ids.value AS value_1
FROM json_each(:ids) AS ids) AND __alkstore_jobs.queue = :queue AND +__alkstore_jobs.state = 'processing' AND __alkstore_jobs.claim_expires_at >= :now AND __alkstore_jobs.worker_id = :worker_id;

-- EXTEND
UPDATE __alkstore_jobs SET claim_expires_at=CASE WHEN (:seconds > 9223372036854775807 - :now) THEN 9223372036854775807 ELSE :now + :seconds END WHERE __alkstore_jobs.id = :id AND __alkstore_jobs.attempts = :attempt AND __alkstore_jobs.queue = :queue AND +__alkstore_jobs.state = 'processing' AND __alkstore_jobs.claim_expires_at >= :now;

-- EXTEND_MANY
UPDATE __alkstore_jobs SET claim_expires_at=CASE WHEN (:seconds > 9223372036854775807 - :now) THEN 9223372036854775807 ELSE :now + :seconds END WHERE __alkstore_jobs.id IN (SELECT json_extract(claims.value, '$[0]') AS json_extract_1
FROM json_each(:claims) AS claims) AND (__alkstore_jobs.id, __alkstore_jobs.attempts) IN (SELECT json_extract(claims.value, '$[0]') AS json_extract_1, json_extract(claims.value, '$[1]') AS json_extract_2
FROM json_each(:claims) AS claims) AND __alkstore_jobs.queue = :queue AND +__alkstore_jobs.state = 'processing' AND __alkstore_jobs.claim_expires_at >= :now RETURNING id;

-- REQUEUE
UPDATE __alkstore_jobs SET state=CASE WHEN (:delay > 0) THEN 'delayed' ELSE 'ready' END, run_at=CASE WHEN (:delay > 9223372036854775807 - :now) THEN 9223372036854775807 ELSE :now + :delay END, worker_id=NULL, claimed_at=NULL, claim_expires_at=NULL, last_error=:last_error WHERE __alkstore_jobs.id = :id AND __alkstore_jobs.attempts = :attempt AND __alkstore_jobs.queue = :queue AND +__alkstore_jobs.state = 'processing' AND __alkstore_jobs.claim_expires_at >= :now;

-- RELEASE_UNSEEN
UPDATE __alkstore_jobs SET state=CASE WHEN (__alkstore_jobs.run_at > :now) THEN 'delayed' ELSE 'ready' END, attempts=(__alkstore_jobs.attempts - 1), worker_id=NULL, claimed_at=NULL, claim_expires_at=NULL WHERE __alkstore_jobs.id IN (SELECT json_extract(claims.value, '$[0]') AS json_extract_1
FROM json_each(:claims) AS claims) AND (__alkstore_jobs.id, __alkstore_jobs.attempts) IN (SELECT json_extract(claims.value, '$[0]') AS json_extract_1, json_extract(claims.value, '$[1]') AS json_extract_2
FROM json_each(:claims) AS claims) AND __alkstore_jobs.queue = :queue AND +__alkstore_jobs.state = 'processing';

-- RELEASE
UPDATE __alkstore_jobs SET state=CASE WHEN (__alkstore_jobs.run_at > :now) THEN 'delayed' ELSE 'ready' END, attempts=(__alkstore_jobs.attempts - 1), worker_id=NULL, claimed_at=NULL, claim_expires_at=NULL WHERE __alkstore_jobs.id IN (SELECT json_extract(claims.value, '$[0]') AS json_extract_1
FROM json_each(:claims) AS claims) AND (__alkstore_jobs.id, __alkstore_jobs.attempts) IN (SELECT json_extract(claims.value, '$[0]') AS json_extract_1, json_extract(claims.value, '$[1]') AS json_extract_2
FROM json_each(:claims) AS claims) AND __alkstore_jobs.queue = :queue AND +__alkstore_jobs.state = 'processing' AND __alkstore_jobs.claim_expires_at >= :now;

-- DELETE_JOB
DELETE FROM __alkstore_jobs WHERE __alkstore_jobs.id = :id AND __alkstore_jobs.queue = :queue;

-- GET_JOB
SELECT __alkstore_jobs.id, __alkstore_jobs.queue, __alkstore_jobs.payload, __alkstore_jobs.headers, __alkstore_jobs.state, __alkstore_jobs.priority, __alkstore_jobs.run_at, __alkstore_jobs.created_at, __alkstore_jobs.expires_at, __alkstore_jobs.attempts, __alkstore_jobs.max_attempts, __alkstore_jobs.visibility_timeout_s, __alkstore_jobs.backoff_base_s, __alkstore_jobs.dead_letter_retention_s, __alkstore_jobs.worker_id, __alkstore_jobs.claimed_at, __alkstore_jobs.claim_expires_at, __alkstore_jobs.last_error, NULL AS died_at
FROM __alkstore_jobs
WHERE __alkstore_jobs.id = :id AND __alkstore_jobs.queue = :queue UNION ALL SELECT __alkstore_dead_jobs.id, __alkstore_dead_jobs.queue, __alkstore_dead_jobs.payload, __alkstore_dead_jobs.headers, __alkstore_dead_jobs.state, __alkstore_dead_jobs.priority, __alkstore_dead_jobs.run_at, __alkstore_dead_jobs.created_at, __alkstore_dead_jobs.expires_at, __alkstore_dead_jobs.attempts, __alkstore_dead_jobs.max_attempts, __alkstore_dead_jobs.visibility_timeout_s, __alkstore_dead_jobs.backoff_base_s, __alkstore_dead_jobs.dead_letter_retention_s, __alkstore_dead_jobs.worker_id, __alkstore_dead_jobs.claimed_at, __alkstore_dead_jobs.claim_expires_at, __alkstore_dead_jobs.last_error, __alkstore_dead_jobs.died_at
FROM __alkstore_dead_jobs
WHERE __alkstore_dead_jobs.id = :id AND __alkstore_dead_jobs.queue = :queue;
