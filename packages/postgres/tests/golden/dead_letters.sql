-- BURY
WITH gone AS
(DELETE FROM alkstore.__alkstore_jobs WHERE alkstore.__alkstore_jobs.id = $3::BIGINT AND alkstore.__alkstore_jobs.attempts = $4::BIGINT AND alkstore.__alkstore_jobs.queue = $5::VARCHAR AND (alkstore.__alkstore_jobs.state || '') = 'processing' AND alkstore.__alkstore_jobs.claim_expires_at >= (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) RETURNING alkstore.__alkstore_jobs.id, alkstore.__alkstore_jobs.queue, alkstore.__alkstore_jobs.payload, alkstore.__alkstore_jobs.headers, alkstore.__alkstore_jobs.state, alkstore.__alkstore_jobs.priority, alkstore.__alkstore_jobs.run_at, alkstore.__alkstore_jobs.created_at, alkstore.__alkstore_jobs.expires_at, alkstore.__alkstore_jobs.attempts, alkstore.__alkstore_jobs.max_attempts, alkstore.__alkstore_jobs.visibility_timeout_s, alkstore.__alkstore_jobs.backoff_base_s, alkstore.__alkstore_jobs.dead_letter_retention_s, alkstore.__alkstore_jobs.worker_id, alkstore.__alkstore_jobs.claimed_at, alkstore.__alkstore_jobs.claim_expires_at, alkstore.__alkstore_jobs.last_error)
 INSERT INTO alkstore.__alkstore_dead_jobs (id, queue, payload, headers, state, priority, run_at, created_at, expires_at, attempts, max_attempts, visibility_timeout_s, backoff_base_s, dead_letter_retention_s, worker_id, claimed_at, claim_expires_at, last_error, died_at, retained_until) SELECT gone.id, gone.queue, gone.payload, gone.headers, 'dead', gone.priority, gone.run_at, gone.created_at, gone.expires_at, gone.attempts, gone.max_attempts, gone.visibility_timeout_s, gone.backoff_base_s, gone.dead_letter_retention_s, gone.worker_id, gone.claimed_at, gone.claim_expires_at, $1::VARCHAR AS anon_1, (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) AS anon_2, CASE WHEN (gone.dead_letter_retention_s > 9223372036854775807 - (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint))) THEN NULL ELSE (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) + gone.dead_letter_retention_s END AS anon_3
FROM gone;

-- SWEEP
WITH chosen AS MATERIALIZED
(SELECT expired.id AS id
FROM ((SELECT alkstore.__alkstore_jobs.id AS id
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.queue = $3::VARCHAR AND alkstore.__alkstore_jobs.state = 'delayed' AND alkstore.__alkstore_jobs.expires_at <= (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) ORDER BY alkstore.__alkstore_jobs.expires_at
 LIMIT $4::BIGINT OFFSET 0) UNION ALL (SELECT alkstore.__alkstore_jobs.id AS id
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.queue = $3::VARCHAR AND alkstore.__alkstore_jobs.state = 'expired' AND alkstore.__alkstore_jobs.expires_at <= (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) ORDER BY alkstore.__alkstore_jobs.expires_at
 LIMIT $4::BIGINT OFFSET 0) UNION ALL (SELECT alkstore.__alkstore_jobs.id AS id
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.queue = $3::VARCHAR AND alkstore.__alkstore_jobs.state = 'processing' AND alkstore.__alkstore_jobs.expires_at <= (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) ORDER BY alkstore.__alkstore_jobs.expires_at
 LIMIT $4::BIGINT OFFSET 0) UNION ALL (SELECT alkstore.__alkstore_jobs.id AS id
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.queue = $3::VARCHAR AND alkstore.__alkstore_jobs.state = 'ready' AND alkstore.__alkstore_jobs.expires_at <= (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) ORDER BY alkstore.__alkstore_jobs.expires_at
 LIMIT $4::BIGINT OFFSET 0)) AS expired
 LIMIT $4::BIGINT OFFSET 0),
locked AS MATERIALIZED
(SELECT alkstore.__alkstore_jobs.id AS id
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.id = ANY (array((SELECT chosen.id
FROM chosen))) AND alkstore.__alkstore_jobs.expires_at <= (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) ORDER BY alkstore.__alkstore_jobs.id FOR UPDATE OF __alkstore_jobs),
gone AS
(DELETE FROM alkstore.__alkstore_jobs WHERE alkstore.__alkstore_jobs.id = ANY (array((SELECT locked.id
FROM locked))) RETURNING alkstore.__alkstore_jobs.id, alkstore.__alkstore_jobs.queue, alkstore.__alkstore_jobs.payload, alkstore.__alkstore_jobs.headers, alkstore.__alkstore_jobs.state, alkstore.__alkstore_jobs.priority, alkstore.__alkstore_jobs.run_at, alkstore.__alkstore_jobs.created_at, alkstore.__alkstore_jobs.expires_at, alkstore.__alkstore_jobs.attempts, alkstore.__alkstore_jobs.max_attempts, alkstore.__alkstore_jobs.visibility_timeout_s, alkstore.__alkstore_jobs.backoff_base_s, alkstore.__alkstore_jobs.dead_letter_retention_s, alkstore.__alkstore_jobs.worker_id, alkstore.__alkstore_jobs.claimed_at, alkstore.__alkstore_jobs.claim_expires_at, alkstore.__alkstore_jobs.last_error)
 INSERT INTO alkstore.__alkstore_dead_jobs (id, queue, payload, headers, state, priority, run_at, created_at, expires_at, attempts, max_attempts, visibility_timeout_s, backoff_base_s, dead_letter_retention_s, worker_id, claimed_at, claim_expires_at, last_error, died_at, retained_until) SELECT gone.id, gone.queue, gone.payload, gone.headers, 'dead', gone.priority, gone.run_at, gone.created_at, gone.expires_at, gone.attempts, gone.max_attempts, gone.visibility_timeout_s, gone.backoff_base_s, gone.dead_letter_retention_s, gone.worker_id, gone.claimed_at, gone.claim_expires_at, $1::VARCHAR AS anon_1, (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) AS anon_2, CASE WHEN (gone.dead_letter_retention_s > 9223372036854775807 - (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint))) THEN NULL ELSE (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) + gone.dead_letter_retention_s END AS anon_3
FROM gone;

-- REDRIVE
WITH gone AS
(DELETE FROM alkstore.__alkstore_dead_jobs WHERE alkstore.__alkstore_dead_jobs.id = $2::BIGINT AND alkstore.__alkstore_dead_jobs.queue = $3::VARCHAR RETURNING alkstore.__alkstore_dead_jobs.id, alkstore.__alkstore_dead_jobs.queue, alkstore.__alkstore_dead_jobs.payload, alkstore.__alkstore_dead_jobs.headers, alkstore.__alkstore_dead_jobs.state, alkstore.__alkstore_dead_jobs.priority, alkstore.__alkstore_dead_jobs.run_at, alkstore.__alkstore_dead_jobs.created_at, alkstore.__alkstore_dead_jobs.expires_at, alkstore.__alkstore_dead_jobs.attempts, alkstore.__alkstore_dead_jobs.max_attempts, alkstore.__alkstore_dead_jobs.visibility_timeout_s, alkstore.__alkstore_dead_jobs.backoff_base_s, alkstore.__alkstore_dead_jobs.dead_letter_retention_s, alkstore.__alkstore_dead_jobs.worker_id, alkstore.__alkstore_dead_jobs.claimed_at, alkstore.__alkstore_dead_jobs.claim_expires_at, alkstore.__alkstore_dead_jobs.last_error, alkstore.__alkstore_dead_jobs.died_at, alkstore.__alkstore_dead_jobs.retained_until)
 INSERT INTO alkstore.__alkstore_jobs (queue, payload, headers, priority, max_attempts, visibility_timeout_s, backoff_base_s, dead_letter_retention_s, state, run_at, created_at, attempts) SELECT gone.queue, gone.payload, gone.headers, gone.priority, gone.max_attempts, gone.visibility_timeout_s, gone.backoff_base_s, gone.dead_letter_retention_s, 'ready', (SELECT coalesce($1::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) AS anon_1, (SELECT coalesce($1::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) AS anon__1, 0
FROM gone RETURNING alkstore.__alkstore_jobs.id;

-- REDRIVE_WAKING
WITH gone AS
(DELETE FROM alkstore.__alkstore_dead_jobs WHERE alkstore.__alkstore_dead_jobs.id = $3::BIGINT AND alkstore.__alkstore_dead_jobs.queue = $4::VARCHAR RETURNING alkstore.__alkstore_dead_jobs.id, alkstore.__alkstore_dead_jobs.queue, alkstore.__alkstore_dead_jobs.payload, alkstore.__alkstore_dead_jobs.headers, alkstore.__alkstore_dead_jobs.state, alkstore.__alkstore_dead_jobs.priority, alkstore.__alkstore_dead_jobs.run_at, alkstore.__alkstore_dead_jobs.created_at, alkstore.__alkstore_dead_jobs.expires_at, alkstore.__alkstore_dead_jobs.attempts, alkstore.__alkstore_dead_jobs.max_attempts, alkstore.__alkstore_dead_jobs.visibility_timeout_s, alkstore.__alkstore_dead_jobs.backoff_base_s, alkstore.__alkstore_dead_jobs.dead_letter_retention_s, alkstore.__alkstore_dead_jobs.worker_id, alkstore.__alkstore_dead_jobs.claimed_at, alkstore.__alkstore_dead_jobs.claim_expires_at, alkstore.__alkstore_dead_jobs.last_error, alkstore.__alkstore_dead_jobs.died_at, alkstore.__alkstore_dead_jobs.retained_until)
 INSERT INTO alkstore.__alkstore_jobs (queue, payload, headers, priority, max_attempts, visibility_timeout_s, backoff_base_s, dead_letter_retention_s, state, run_at, created_at, attempts) SELECT gone.queue, gone.payload, gone.headers, gone.priority, gone.max_attempts, gone.visibility_timeout_s, gone.backoff_base_s, gone.dead_letter_retention_s, 'ready', (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) AS anon_2, (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) AS anon__1, 0
FROM gone RETURNING alkstore.__alkstore_jobs.id, (SELECT pg_notify($1::VARCHAR, '') AS pg_notify_1) AS anon_1;

-- PURGE_RETIRED
WITH chosen AS MATERIALIZED
(SELECT alkstore.__alkstore_dead_jobs.id AS id
FROM alkstore.__alkstore_dead_jobs
WHERE alkstore.__alkstore_dead_jobs.queue = $1::VARCHAR AND alkstore.__alkstore_dead_jobs.retained_until < (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint))
 LIMIT $3::BIGINT OFFSET 0),
locked AS MATERIALIZED
(SELECT alkstore.__alkstore_dead_jobs.id AS id
FROM alkstore.__alkstore_dead_jobs
WHERE alkstore.__alkstore_dead_jobs.id = ANY (array((SELECT chosen.id
FROM chosen))) ORDER BY alkstore.__alkstore_dead_jobs.id FOR UPDATE OF __alkstore_dead_jobs SKIP LOCKED)
 DELETE FROM alkstore.__alkstore_dead_jobs WHERE alkstore.__alkstore_dead_jobs.id = ANY (array((SELECT locked.id
FROM locked)));

-- PURGE_DEAD
WITH chosen AS MATERIALIZED
(SELECT alkstore.__alkstore_dead_jobs.id AS id
FROM alkstore.__alkstore_dead_jobs
WHERE alkstore.__alkstore_dead_jobs.queue = $1::VARCHAR AND ($2::BIGINT IS NULL OR alkstore.__alkstore_dead_jobs.died_at < $2::BIGINT) ORDER BY alkstore.__alkstore_dead_jobs.id
 LIMIT $3::BIGINT OFFSET 0),
locked AS MATERIALIZED
(SELECT alkstore.__alkstore_dead_jobs.id AS id
FROM alkstore.__alkstore_dead_jobs
WHERE alkstore.__alkstore_dead_jobs.id = ANY (array((SELECT chosen.id
FROM chosen))) ORDER BY alkstore.__alkstore_dead_jobs.id FOR UPDATE OF __alkstore_dead_jobs SKIP LOCKED)
 DELETE FROM alkstore.__alkstore_dead_jobs WHERE alkstore.__alkstore_dead_jobs.id = ANY (array((SELECT locked.id
FROM locked)));
