-- PROBE
SELECT (SELECT alkstore.__alkstore_jobs.id
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.queue = $1::VARCHAR AND alkstore.__alkstore_jobs.state = 'delayed' AND alkstore.__alkstore_jobs.run_at <= (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) ORDER BY alkstore.__alkstore_jobs.run_at
 LIMIT 1 OFFSET 0) IS NOT NULL AS anon_1, (SELECT alkstore.__alkstore_jobs.id
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.queue = $1::VARCHAR AND alkstore.__alkstore_jobs.state = 'processing' AND alkstore.__alkstore_jobs.claim_expires_at < (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) ORDER BY alkstore.__alkstore_jobs.claim_expires_at
 LIMIT 1 OFFSET 0) IS NOT NULL AS anon_2, (SELECT alkstore.__alkstore_jobs.id
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.queue = $1::VARCHAR AND alkstore.__alkstore_jobs.state = 'ready' AND alkstore.__alkstore_jobs.expires_at <= (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) ORDER BY alkstore.__alkstore_jobs.expires_at
 LIMIT 1 OFFSET 0) IS NOT NULL OR (SELECT alkstore.__alkstore_jobs.id
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.queue = $1::VARCHAR AND alkstore.__alkstore_jobs.state = 'delayed' AND alkstore.__alkstore_jobs.expires_at <= (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) ORDER BY alkstore.__alkstore_jobs.expires_at
 LIMIT 1 OFFSET 0) IS NOT NULL AS anon_3, (SELECT alkstore.__alkstore_jobs.id
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.queue = $1::VARCHAR AND alkstore.__alkstore_jobs.state = 'ready' AND coalesce(alkstore.__alkstore_jobs.expires_at, 9223372036854775807) > (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) ORDER BY alkstore.__alkstore_jobs.priority DESC, alkstore.__alkstore_jobs.run_at, alkstore.__alkstore_jobs.id
 LIMIT 1 OFFSET 0) IS NOT NULL AS anon_4;

-- CLAIM
WITH best AS MATERIALIZED
(SELECT alkstore.__alkstore_jobs.id AS id
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.state = 'ready' AND alkstore.__alkstore_jobs.queue = $3::VARCHAR AND coalesce(alkstore.__alkstore_jobs.expires_at, 9223372036854775807) > (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) AND (SELECT alkstore.__alkstore_jobs.id
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.queue = $3::VARCHAR AND alkstore.__alkstore_jobs.state = 'delayed' AND alkstore.__alkstore_jobs.run_at <= (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) ORDER BY alkstore.__alkstore_jobs.run_at
 LIMIT 1 OFFSET 0) IS NULL AND (SELECT alkstore.__alkstore_jobs.id
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.queue = $3::VARCHAR AND alkstore.__alkstore_jobs.state = 'processing' AND alkstore.__alkstore_jobs.claim_expires_at < (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) ORDER BY alkstore.__alkstore_jobs.claim_expires_at
 LIMIT 1 OFFSET 0) IS NULL AND (SELECT alkstore.__alkstore_jobs.id
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.queue = $3::VARCHAR AND alkstore.__alkstore_jobs.state = 'ready' AND alkstore.__alkstore_jobs.expires_at <= (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) ORDER BY alkstore.__alkstore_jobs.expires_at
 LIMIT 1 OFFSET 0) IS NULL AND (SELECT alkstore.__alkstore_jobs.id
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.queue = $3::VARCHAR AND alkstore.__alkstore_jobs.state = 'delayed' AND alkstore.__alkstore_jobs.expires_at <= (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) ORDER BY alkstore.__alkstore_jobs.expires_at
 LIMIT 1 OFFSET 0) IS NULL ORDER BY alkstore.__alkstore_jobs.priority DESC, alkstore.__alkstore_jobs.run_at, alkstore.__alkstore_jobs.id
 LIMIT $4::BIGINT OFFSET 0 FOR UPDATE OF __alkstore_jobs SKIP LOCKED)
 UPDATE alkstore.__alkstore_jobs SET state='processing', attempts=(alkstore.__alkstore_jobs.attempts + 1), worker_id=$1::VARCHAR, claimed_at=(SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)), claim_expires_at=CASE WHEN (alkstore.__alkstore_jobs.visibility_timeout_s > 9223372036854775807 - (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint))) THEN 9223372036854775807 ELSE (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) + alkstore.__alkstore_jobs.visibility_timeout_s END WHERE alkstore.__alkstore_jobs.id = ANY (array((SELECT best.id
FROM best))) RETURNING alkstore.__alkstore_jobs.id, alkstore.__alkstore_jobs.queue, alkstore.__alkstore_jobs.payload, alkstore.__alkstore_jobs.headers, alkstore.__alkstore_jobs.state, alkstore.__alkstore_jobs.priority, alkstore.__alkstore_jobs.run_at, alkstore.__alkstore_jobs.created_at, alkstore.__alkstore_jobs.expires_at, alkstore.__alkstore_jobs.attempts, alkstore.__alkstore_jobs.max_attempts, alkstore.__alkstore_jobs.visibility_timeout_s, alkstore.__alkstore_jobs.backoff_base_s, alkstore.__alkstore_jobs.dead_letter_retention_s, alkstore.__alkstore_jobs.worker_id, alkstore.__alkstore_jobs.claimed_at, alkstore.__alkstore_jobs.claim_expires_at, alkstore.__alkstore_jobs.last_error, NULL AS died_at, CASE WHEN (extract(epoch FROM clock_timestamp() - statement_timestamp()) > $5::FLOAT) THEN CASE WHEN pg_visible_in_snapshot(CAST(CAST(made_ready AS text) AS xid8), pg_current_snapshot()) THEN CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS text) AS bigint) END END AS anon_1;

-- CLAIM_ANYWAY
WITH best AS MATERIALIZED
(SELECT alkstore.__alkstore_jobs.id AS id
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.state = 'ready' AND alkstore.__alkstore_jobs.queue = $3::VARCHAR AND coalesce(alkstore.__alkstore_jobs.expires_at, 9223372036854775807) > (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) ORDER BY alkstore.__alkstore_jobs.priority DESC, alkstore.__alkstore_jobs.run_at, alkstore.__alkstore_jobs.id
 LIMIT $4::BIGINT OFFSET 0 FOR UPDATE OF __alkstore_jobs SKIP LOCKED)
 UPDATE alkstore.__alkstore_jobs SET state='processing', attempts=(alkstore.__alkstore_jobs.attempts + 1), worker_id=$1::VARCHAR, claimed_at=(SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)), claim_expires_at=CASE WHEN (alkstore.__alkstore_jobs.visibility_timeout_s > 9223372036854775807 - (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint))) THEN 9223372036854775807 ELSE (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) + alkstore.__alkstore_jobs.visibility_timeout_s END WHERE alkstore.__alkstore_jobs.id = ANY (array((SELECT best.id
FROM best))) RETURNING alkstore.__alkstore_jobs.id, alkstore.__alkstore_jobs.queue, alkstore.__alkstore_jobs.payload, alkstore.__alkstore_jobs.headers, alkstore.__alkstore_jobs.state, alkstore.__alkstore_jobs.priority, alkstore.__alkstore_jobs.run_at, alkstore.__alkstore_jobs.created_at, alkstore.__alkstore_jobs.expires_at, alkstore.__alkstore_jobs.attempts, alkstore.__alkstore_jobs.max_attempts, alkstore.__alkstore_jobs.visibility_timeout_s, alkstore.__alkstore_jobs.backoff_base_s, alkstore.__alkstore_jobs.dead_letter_retention_s, alkstore.__alkstore_jobs.worker_id, alkstore.__alkstore_jobs.claimed_at, alkstore.__alkstore_jobs.claim_expires_at, alkstore.__alkstore_jobs.last_error, NULL AS died_at, NULL AS anon_1;

-- CLAIM_BEHIND
WITH best AS MATERIALIZED
(SELECT alkstore.__alkstore_jobs.id AS id
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.state = 'ready' AND alkstore.__alkstore_jobs.queue = $3::VARCHAR AND coalesce(alkstore.__alkstore_jobs.expires_at, 9223372036854775807) > (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) AND (SELECT alkstore.__alkstore_jobs.id
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.queue = $3::VARCHAR AND alkstore.__alkstore_jobs.state = 'delayed' AND alkstore.__alkstore_jobs.run_at <= (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) ORDER BY alkstore.__alkstore_jobs.run_at
 LIMIT 1 OFFSET 0) IS NULL AND (SELECT alkstore.__alkstore_jobs.id
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.queue = $3::VARCHAR AND alkstore.__alkstore_jobs.state = 'processing' AND alkstore.__alkstore_jobs.claim_expires_at < (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) ORDER BY alkstore.__alkstore_jobs.claim_expires_at
 LIMIT 1 OFFSET 0) IS NULL AND (SELECT alkstore.__alkstore_jobs.id
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.queue = $3::VARCHAR AND alkstore.__alkstore_jobs.state = 'ready' AND alkstore.__alkstore_jobs.expires_at <= (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) ORDER BY alkstore.__alkstore_jobs.expires_at
 LIMIT 1 OFFSET 0) IS NULL AND (SELECT alkstore.__alkstore_jobs.id
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.queue = $3::VARCHAR AND alkstore.__alkstore_jobs.state = 'delayed' AND alkstore.__alkstore_jobs.expires_at <= (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) ORDER BY alkstore.__alkstore_jobs.expires_at
 LIMIT 1 OFFSET 0) IS NULL AND (SELECT alkstore.__alkstore_jobs.id
FROM alkstore.__alkstore_jobs
WHERE (alkstore.__alkstore_jobs.queue || '') = $3::VARCHAR AND alkstore.__alkstore_jobs.state = 'ready' AND coalesce(alkstore.__alkstore_jobs.expires_at, 9223372036854775807) > (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) AND $4::BIGINT <= made_ready AND (alkstore.__alkstore_jobs.priority + 0 > $5::BIGINT OR alkstore.__alkstore_jobs.priority + 0 = $5::BIGINT AND (alkstore.__alkstore_jobs.run_at + 0, alkstore.__alkstore_jobs.id) <= ($6::BIGINT, $7::BIGINT)) ORDER BY made_ready
 LIMIT 1 OFFSET 0) IS NULL AND alkstore.__alkstore_jobs.priority = $5::BIGINT AND (alkstore.__alkstore_jobs.run_at, alkstore.__alkstore_jobs.id) > ($6::BIGINT, $7::BIGINT) ORDER BY alkstore.__alkstore_jobs.priority DESC, alkstore.__alkstore_jobs.run_at, alkstore.__alkstore_jobs.id
 LIMIT $8::BIGINT OFFSET 0 FOR UPDATE OF __alkstore_jobs SKIP LOCKED)
 UPDATE alkstore.__alkstore_jobs SET state='processing', attempts=(alkstore.__alkstore_jobs.attempts + 1), worker_id=$1::VARCHAR, claimed_at=(SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)), claim_expires_at=CASE WHEN (alkstore.__alkstore_jobs.visibility_timeout_s > 9223372036854775807 - (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint))) THEN 9223372036854775807 ELSE (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) + alkstore.__alkstore_jobs.visibility_timeout_s END WHERE alkstore.__alkstore_jobs.id = ANY (array((SELECT best.id
FROM best))) RETURNING alkstore.__alkstore_jobs.id, alkstore.__alkstore_jobs.queue, alkstore.__alkstore_jobs.payload, alkstore.__alkstore_jobs.headers, alkstore.__alkstore_jobs.state, alkstore.__alkstore_jobs.priority, alkstore.__alkstore_jobs.run_at, alkstore.__alkstore_jobs.created_at, alkstore.__alkstore_jobs.expires_at, alkstore.__alkstore_jobs.attempts, alkstore.__alkstore_jobs.max_attempts, alkstore.__alkstore_jobs.visibility_timeout_s, alkstore.__alkstore_jobs.backoff_base_s, alkstore.__alkstore_jobs.dead_letter_retention_s, alkstore.__alkstore_jobs.worker_id, alkstore.__alkstore_jobs.claimed_at, alkstore.__alkstore_jobs.claim_expires_at, alkstore.__alkstore_jobs.last_error, NULL AS died_at, CASE WHEN pg_visible_in_snapshot(CAST(CAST(made_ready AS text) AS xid8), pg_current_snapshot()) THEN CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS text) AS bigint) END AS anon_1;

-- SET_READY_ASIDE
WITH chosen AS MATERIALIZED
(SELECT alkstore.__alkstore_jobs.id AS id
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.queue = $1::VARCHAR AND alkstore.__alkstore_jobs.state = 'ready' AND alkstore.__alkstore_jobs.expires_at <= (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) ORDER BY alkstore.__alkstore_jobs.expires_at
 LIMIT $3::BIGINT OFFSET 0),
locked AS MATERIALIZED
(SELECT alkstore.__alkstore_jobs.id AS id
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.id = ANY (array((SELECT chosen.id
FROM chosen))) AND (alkstore.__alkstore_jobs.state || '') = 'ready' AND alkstore.__alkstore_jobs.expires_at <= (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) ORDER BY alkstore.__alkstore_jobs.id FOR UPDATE OF __alkstore_jobs)
 UPDATE alkstore.__alkstore_jobs SET state='expired' WHERE alkstore.__alkstore_jobs.id = ANY (array((SELECT locked.id
FROM locked)));

-- SET_DELAYED_ASIDE
WITH chosen AS MATERIALIZED
(SELECT alkstore.__alkstore_jobs.id AS id
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.queue = $1::VARCHAR AND alkstore.__alkstore_jobs.state = 'delayed' AND alkstore.__alkstore_jobs.expires_at <= (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) ORDER BY alkstore.__alkstore_jobs.expires_at
 LIMIT $3::BIGINT OFFSET 0),
locked AS MATERIALIZED
(SELECT alkstore.__alkstore_jobs.id AS id
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.id = ANY (array((SELECT chosen.id
FROM chosen))) AND (alkstore.__alkstore_jobs.state || '') = 'delayed' AND alkstore.__alkstore_jobs.expires_at <= (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) ORDER BY alkstore.__alkstore_jobs.id FOR UPDATE OF __alkstore_jobs)
 UPDATE alkstore.__alkstore_jobs SET state='expired' WHERE alkstore.__alkstore_jobs.id = ANY (array((SELECT locked.id
FROM locked)));

-- BURY_LAPSED
WITH chosen AS MATERIALIZED
(SELECT alkstore.__alkstore_jobs.id AS id
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.queue = $3::VARCHAR AND alkstore.__alkstore_jobs.state = 'processing' AND alkstore.__alkstore_jobs.claim_expires_at < (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) AND alkstore.__alkstore_jobs.attempts >= alkstore.__alkstore_jobs.max_attempts AND coalesce(alkstore.__alkstore_jobs.expires_at, 9223372036854775807) > (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) ORDER BY alkstore.__alkstore_jobs.claim_expires_at
 LIMIT $4::BIGINT OFFSET 0),
locked AS MATERIALIZED
(SELECT alkstore.__alkstore_jobs.id AS id
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.id = ANY (array((SELECT chosen.id
FROM chosen))) AND (alkstore.__alkstore_jobs.state || '') = 'processing' AND alkstore.__alkstore_jobs.claim_expires_at < (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) AND alkstore.__alkstore_jobs.attempts >= alkstore.__alkstore_jobs.max_attempts AND coalesce(alkstore.__alkstore_jobs.expires_at, 9223372036854775807) > (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) ORDER BY alkstore.__alkstore_jobs.id FOR UPDATE OF __alkstore_jobs),
gone AS
(DELETE FROM alkstore.__alkstore_jobs WHERE alkstore.__alkstore_jobs.id = ANY (array((SELECT locked.id
FROM locked))) RETURNING alkstore.__alkstore_jobs.id, alkstore.__alkstore_jobs.queue, alkstore.__alkstore_jobs.payload, alkstore.__alkstore_jobs.headers, alkstore.__alkstore_jobs.state, alkstore.__alkstore_jobs.priority, alkstore.__alkstore_jobs.run_at, alkstore.__alkstore_jobs.created_at, alkstore.__alkstore_jobs.expires_at, alkstore.__alkstore_jobs.attempts, alkstore.__alkstore_jobs.max_attempts, alkstore.__alkstore_jobs.visibility_timeout_s, alkstore.__alkstore_jobs.backoff_base_s, alkstore.__alkstore_jobs.dead_letter_retention_s, alkstore.__alkstore_jobs.worker_id, alkstore.__alkstore_jobs.claimed_at, alkstore.__alkstore_jobs.claim_expires_at, alkstore.__alkstore_jobs.last_error)
 INSERT INTO alkstore.__alkstore_dead_jobs (id, queue, payload, headers, state, priority, run_at, created_at, expires_at, attempts, max_attempts, visibility_timeout_s, backoff_base_s, dead_letter_retention_s, worker_id, claimed_at, claim_expires_at, last_error, died_at, retained_until) SELECT gone.id, gone.queue, gone.payload, gone.headers, 'dead', gone.priority, gone.run_at, gone.created_at, gone.expires_at, gone.attempts, gone.max_attempts, gone.visibility_timeout_s, gone.backoff_base_s, gone.dead_letter_retention_s, gone.worker_id, gone.claimed_at, gone.claim_expires_at, $1::VARCHAR AS anon_1, (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) AS anon_2, CASE WHEN (gone.dead_letter_retention_s > 9223372036854775807 - (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint))) THEN NULL ELSE (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) + gone.dead_letter_retention_s END AS anon_3
FROM gone;

-- TURN_BACK
WITH chosen AS MATERIALIZED
(SELECT alkstore.__alkstore_jobs.id AS id
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.queue = $2::VARCHAR AND alkstore.__alkstore_jobs.state = 'processing' AND alkstore.__alkstore_jobs.claim_expires_at < (SELECT coalesce($1::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) AND (alkstore.__alkstore_jobs.attempts < alkstore.__alkstore_jobs.max_attempts OR alkstore.__alkstore_jobs.expires_at <= (SELECT coalesce($1::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint))) ORDER BY alkstore.__alkstore_jobs.claim_expires_at
 LIMIT $3::BIGINT OFFSET 0),
locked AS MATERIALIZED
(SELECT alkstore.__alkstore_jobs.id AS id
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.id = ANY (array((SELECT chosen.id
FROM chosen))) AND (alkstore.__alkstore_jobs.state || '') = 'processing' AND alkstore.__alkstore_jobs.claim_expires_at < (SELECT coalesce($1::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) AND (alkstore.__alkstore_jobs.attempts < alkstore.__alkstore_jobs.max_attempts OR alkstore.__alkstore_jobs.expires_at <= (SELECT coalesce($1::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint))) ORDER BY alkstore.__alkstore_jobs.id FOR UPDATE OF __alkstore_jobs)
 UPDATE alkstore.__alkstore_jobs SET state=CASE WHEN (alkstore.__alkstore_jobs.expires_at <= (SELECT coalesce($1::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint))) THEN 'expired' ELSE 'ready' END, worker_id=NULL, claimed_at=NULL, claim_expires_at=NULL WHERE alkstore.__alkstore_jobs.id = ANY (array((SELECT locked.id
FROM locked)));

-- TURN_BEST_BACK
WITH chosen AS MATERIALIZED
(SELECT alkstore.__alkstore_jobs.id AS id
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.queue = $2::VARCHAR AND alkstore.__alkstore_jobs.state = 'processing' AND alkstore.__alkstore_jobs.claim_expires_at < (SELECT coalesce($1::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) AND alkstore.__alkstore_jobs.attempts < alkstore.__alkstore_jobs.max_attempts AND coalesce(alkstore.__alkstore_jobs.expires_at, 9223372036854775807) > (SELECT coalesce($1::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) ORDER BY alkstore.__alkstore_jobs.priority DESC, alkstore.__alkstore_jobs.run_at, alkstore.__alkstore_jobs.id
 LIMIT $3::BIGINT OFFSET 0),
locked AS MATERIALIZED
(SELECT alkstore.__alkstore_jobs.id AS id
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.id = ANY (array((SELECT chosen.id
FROM chosen))) AND (alkstore.__alkstore_jobs.state || '') = 'processing' AND alkstore.__alkstore_jobs.claim_expires_at < (SELECT coalesce($1::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) AND alkstore.__alkstore_jobs.attempts < alkstore.__alkstore_jobs.max_attempts AND coalesce(alkstore.__alkstore_jobs.expires_at, 9223372036854775807) > (SELECT coalesce($1::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) ORDER BY alkstore.__alkstore_jobs.id FOR UPDATE OF __alkstore_jobs)
 UPDATE alkstore.__alkstore_jobs SET state=CASE WHEN (alkstore.__alkstore_jobs.expires_at <= (SELECT coalesce($1::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint))) THEN 'expired' ELSE 'ready' END, worker_id=NULL, claimed_at=NULL, claim_expires_at=NULL WHERE alkstore.__alkstore_jobs.id = ANY (array((SELECT locked.id
FROM locked)));

-- PROMOTE
WITH chosen AS MATERIALIZED
(SELECT alkstore.__alkstore_jobs.id AS id
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.queue = $1::VARCHAR AND alkstore.__alkstore_jobs.state = 'delayed' AND alkstore.__alkstore_jobs.run_at <= (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) AND coalesce(alkstore.__alkstore_jobs.expires_at, 9223372036854775807) > (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) ORDER BY alkstore.__alkstore_jobs.run_at
 LIMIT $3::BIGINT OFFSET 0),
locked AS MATERIALIZED
(SELECT alkstore.__alkstore_jobs.id AS id
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.id = ANY (array((SELECT chosen.id
FROM chosen))) AND (alkstore.__alkstore_jobs.state || '') = 'delayed' AND alkstore.__alkstore_jobs.run_at <= (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) AND coalesce(alkstore.__alkstore_jobs.expires_at, 9223372036854775807) > (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) ORDER BY alkstore.__alkstore_jobs.id FOR UPDATE OF __alkstore_jobs)
 UPDATE alkstore.__alkstore_jobs SET state='ready' WHERE alkstore.__alkstore_jobs.id = ANY (array((SELECT locked.id
FROM locked)));

-- PROMOTE_BEST
WITH chosen AS MATERIALIZED
(SELECT alkstore.__alkstore_jobs.id AS id
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.queue = $1::VARCHAR AND alkstore.__alkstore_jobs.state = 'delayed' AND alkstore.__alkstore_jobs.run_at <= (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) AND coalesce(alkstore.__alkstore_jobs.expires_at, 9223372036854775807) > (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) ORDER BY alkstore.__alkstore_jobs.priority DESC, alkstore.__alkstore_jobs.run_at, alkstore.__alkstore_jobs.id
 LIMIT $3::BIGINT OFFSET 0),
locked AS MATERIALIZED
(SELECT alkstore.__alkstore_jobs.id AS id
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.id = ANY (array((SELECT chosen.id
FROM chosen))) AND (alkstore.__alkstore_jobs.state || '') = 'delayed' AND alkstore.__alkstore_jobs.run_at <= (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) AND coalesce(alkstore.__alkstore_jobs.expires_at, 9223372036854775807) > (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) ORDER BY alkstore.__alkstore_jobs.id FOR UPDATE OF __alkstore_jobs)
 UPDATE alkstore.__alkstore_jobs SET state='ready' WHERE alkstore.__alkstore_jobs.id = ANY (array((SELECT locked.id
FROM locked)));

-- BURY_OVERDRAWN
WITH locked AS MATERIALIZED
(SELECT alkstore.__alkstore_jobs.id AS id
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.id = ANY (array((SELECT (ids.value #>> '{}')::bigint AS value_1
FROM (SELECT each.value, each.key FROM json_array_elements(CAST($3::VARCHAR AS JSON)) WITH ORDINALITY AS each(value, key)) AS ids))) AND (alkstore.__alkstore_jobs.state || '') = 'processing' ORDER BY alkstore.__alkstore_jobs.id FOR UPDATE OF __alkstore_jobs),
gone AS
(DELETE FROM alkstore.__alkstore_jobs WHERE alkstore.__alkstore_jobs.id = ANY (array((SELECT locked.id
FROM locked))) RETURNING alkstore.__alkstore_jobs.id, alkstore.__alkstore_jobs.queue, alkstore.__alkstore_jobs.payload, alkstore.__alkstore_jobs.headers, alkstore.__alkstore_jobs.state, alkstore.__alkstore_jobs.priority, alkstore.__alkstore_jobs.run_at, alkstore.__alkstore_jobs.created_at, alkstore.__alkstore_jobs.expires_at, alkstore.__alkstore_jobs.attempts, alkstore.__alkstore_jobs.max_attempts, alkstore.__alkstore_jobs.visibility_timeout_s, alkstore.__alkstore_jobs.backoff_base_s, alkstore.__alkstore_jobs.dead_letter_retention_s, alkstore.__alkstore_jobs.worker_id, alkstore.__alkstore_jobs.claimed_at, alkstore.__alkstore_jobs.claim_expires_at, alkstore.__alkstore_jobs.last_error)
 INSERT INTO alkstore.__alkstore_dead_jobs (id, queue, payload, headers, state, priority, run_at, created_at, expires_at, attempts, max_attempts, visibility_timeout_s, backoff_base_s, dead_letter_retention_s, worker_id, claimed_at, claim_expires_at, last_error, died_at, retained_until) SELECT gone.id, gone.queue, gone.payload, gone.headers, 'dead', gone.priority, gone.run_at, gone.created_at, gone.expires_at, gone.attempts - 1 AS anon_1, gone.max_attempts, gone.visibility_timeout_s, gone.backoff_base_s, gone.dead_letter_retention_s, NULL AS anon_2, NULL AS anon__1, NULL AS anon__2, $1::VARCHAR AS anon_3, (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) AS anon_4, CASE WHEN (gone.dead_letter_retention_s > 9223372036854775807 - (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint))) THEN NULL ELSE (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) + gone.dead_letter_retention_s END AS anon_5
FROM gone;
