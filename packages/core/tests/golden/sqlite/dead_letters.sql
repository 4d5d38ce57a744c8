-- BURY
INSERT INTO __alkstore_dead_jobs (id, queue, payload, headers, state, priority, run_at, created_at, expires_at, attempts, max_attempts, visibility_timeout_s, backoff_base_s, dead_letter_retention_s, worker_id, claimed_at, claim_expires_at, last_error, died_at, retained_until) SELECT __alkstore_jobs.id, __alkstore_jobs.queue, __alkstore_jobs.payload, __alkstore_jobs.headers, 'dead', __alkstore_jobs.priority, __alkstore_jobs.run_at, __alkstore_jobs.created_at, __alkstore_jobs.expires_at, __alkstore_jobs.attempts, __alkstore_jobs.max_attempts, __alkstore_jobs.visibility_timeout_s, __alkstore_jobs.backoff_base_s, __alkstore_jobs.dead_letter_retention_s, __alkstore_jobs.worker_id, __alkstore_jobs.claimed_at, __alkstore_jobs.claim_expires_at, :last_error AS anon_1, :now AS anon_2, CASE WHEN (__alkstore_jobs.dead_letter_retention_s > 9223372036854775807 - :now) THEN NULL ELSE :now + __alkstore_jobs.dead_letter_retention_s END AS anon_3
FROM __alkstore_jobs
WHERE __alkstore_jobs.id = :id AND __alkstore_jobs.attempts = :attempt AND __alkstore_jobs.queue = :queue AND +__alkstore_jobs.state = 'processing' AND __alkstore_jobs.claim_expires_at >= :now;

-- DROP_BURIED
DELETE FROM __alkstore_jobs WHERE __alkstore_jobs.id = :id AND __alkstore_jobs.attempts = :attempt AND __alkstore_jobs.queue = :queue AND +__alkstore_jobs.state = 'processing' AND __alkstore_jobs.claim_expires_at >= :now;

-- BURY_IDS
INSERT INTO __alkstore_dead_jobs (id, queue, payload, headers, state, priority, run_at, created_at, expires_at, attempts, max_attempts, visibility_timeout_s, backoff_base_s, dead_letter_retention_s, worker_id, claimed_at, claim_expires_at, last_error, died_at, retained_until) SELECT __alkstore_jobs.id, __alkstore_jobs.queue, __alkstore_jobs.payload, __alkstore_jobs.headers, 'dead', __alkstore_jobs.priority, __alkstore_jobs.run_at, __alkstore_jobs.created_at, __alkstore_jobs.expires_at, __alkstore_jobs.attempts, __alkstore_jobs.max_attempts, __alkstore_jobs.visibility_timeout_s, __alkstore_jobs.backoff_base_s, __alkstore_jobs.dead_letter_retention_s, __alkstore_jobs.worker_id, __alkstore_jobs.claimed_at, __alkstore_jobs.claim_expires_at, :last_error AS anon_1, :now AS anon_2, CASE WHEN (__alkstore_jobs.dead_letter_retention_s > 9223372036854775807 - :now) THEN NULL ELSE :now + __alkstore_jobs.dead_letter_retention_s END AS anon_3
FROM __alkstore_jobs
WHERE __alkstore_jobs.id IN (SELECT ids.value AS value_1
FROM json_each(:ids) AS ids);

-- DROP_IDS
DELETE FROM __alkstore_jobs WHERE __alkstore_jobs.id IN (SELECT ids.value AS value_1
FROM json_each(:ids) AS ids);

-- PAST_EXPIRY
SELECT __alkstore_jobs.id
FROM __alkstore_jobs
WHERE __alkstore_jobs.queue = :queue AND __alkstore_jobs.state IN ('delayed', 'expired', 'processing', 'ready') AND __alkstore_jobs.expires_at <= :now
 LIMIT :limit OFFSET 0;

-- PURGE_RETIRED
DELETE FROM __alkstore_dead_jobs WHERE __alkstore_dead_jobs.id IN (SELECT __alkstore_dead_jobs.id
FROM __alkstore_dead_jobs
WHERE __alkstore_dead_jobs.queue = :queue AND __alkstore_dead_jobs.retained_until < :now
 LIMIT :limit OFFSET 0);

-- PURGE_DEAD
DELETE FROM __alkstore_dead_jobs WHERE __alkstore_dead_jobs.id IN (SELECT __alkstore_dead_jobs.id
FROM __alkstore_dead_jobs
WHERE __alkstore_dead_jobs.queue = :queue AND (:before IS NULL OR __alkstore_dead_jobs.died_at < :before) ORDER BY __alkstore_dead_jobs.id
 LIMIT :limit OFFSET 0);

-- LIST_DEAD
SELECT __alkstore_dead_jobs.id, __alkstore_dead_jobs.queue, __alkstore_dead_jobs.payload, __alkstore_dead_jobs.headers, __alkstore_dead_jobs.state, __alkstore_dead_jobs.priority, __alkstore_dead_jobs.run_at, __alkstore_dead_jobs.created_at, __alkstore_dead_jobs.expires_at, __alkstore_dead_jobs.attempts, __alkstore_dead_jobs.max_attempts, __alkstore_dead_jobs.visibility_timeout_s, __alkstore_dead_jobs.backoff_base_s, __alkstore_dead_jobs.dead_letter_retention_s, __alkstore_dead_jobs.worker_id, __alkstore_dead_jobs.claimed_at, __alkstore_dead_jobs.claim_expires_at, __alkstore_dead_jobs.last_error, __alkstore_dead_jobs.died_at
FROM __alkstore_dead_jobs
WHERE __alkstore_dead_jobs.queue = :queue AND __alkstore_dead_jobs.id > :after_id ORDER BY __alkstore_dead_jobs.id
 LIMIT :limit OFFSET 0;

-- REDRIVE
INSERT INTO __alkstore_jobs (queue, payload, headers, priority, max_attempts, visibility_timeout_s, backoff_base_s, dead_letter_retention_s, state, run_at, created_at, attempts) SELECT __alkstore_dead_jobs.queue, __alkstore_dead_jobs.payload, __alkstore_dead_jobs.headers, __alkstore_dead_jobs.priority, __alkstore_dead_jobs.max_attempts, __alkstore_dead_jobs.visibility_timeout_s, __alkstore_dead_jobs.backoff_base_s, __alkstore_dead_jobs.dead_letter_retention_s, 'ready', :now AS anon_1, :now AS anon__1, 0
FROM __alkstore_dead_jobs
WHERE __alkstore_dead_jobs.id = :id AND __alkstore_dead_jobs.queue = :queue RETURNING id;

-- DROP_DEAD
DELETE FROM __alkstore_dead_jobs WHERE __alkstore_dead_jobs.id = :id AND __alkstore_dead_jobs.queue = :queue;
