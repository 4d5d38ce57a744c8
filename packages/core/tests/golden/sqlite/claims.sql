-- PROBE
SELECT EXISTS (SELECT __alkstore_jobs.id
FROM __alkstore_jobs
WHERE __alkstore_jobs.state = 'delayed' AND __alkstore_jobs.queue = :queue AND __alkstore_jobs.run_at <= :now AND (__alkstore_jobs.expires_at IS NULL OR __alkstore_jobs.expires_at > :now)) AS due, EXISTS (SELECT __alkstore_jobs.id
FROM __alkstore_jobs
WHERE __alkstore_jobs.state = 'processing' AND __alkstore_jobs.queue = :queue AND __alkstore_jobs.claim_expires_at < :now) AS lapsed, (EXISTS (SELECT __alkstore_jobs.id
FROM __alkstore_jobs
WHERE __alkstore_jobs.queue = :queue AND __alkstore_jobs.state = 'delayed' AND __alkstore_jobs.expires_at <= :now)) OR (EXISTS (SELECT __alkstore_jobs.id
FROM __alkstore_jobs
WHERE __alkstore_jobs.queue = :queue AND __alkstore_jobs.state = 'ready' AND __alkstore_jobs.expires_at <= :now)) AS expired;

-- SET_ASIDE
UPDATE __alkstore_jobs SET state='expired' WHERE __alkstore_jobs.id IN (SELECT __alkstore_jobs.id
FROM __alkstore_jobs
WHERE __alkstore_jobs.queue = :queue AND __alkstore_jobs.state IN ('delayed', 'ready') AND __alkstore_jobs.expires_at <= :now
 LIMIT :chunk OFFSET 0);

-- LAPSED
SELECT __alkstore_jobs.id, __alkstore_jobs.attempts >= __alkstore_jobs.max_attempts AND (__alkstore_jobs.expires_at IS NULL OR __alkstore_jobs.expires_at > :now) AS spent
FROM __alkstore_jobs
WHERE __alkstore_jobs.state = 'processing' AND __alkstore_jobs.queue = :queue AND __alkstore_jobs.claim_expires_at < :now ORDER BY __alkstore_jobs.claim_expires_at
 LIMIT :chunk OFFSET 0;

-- TURN_BACK
UPDATE __alkstore_jobs SET state=CASE WHEN (__alkstore_jobs.expires_at <= :now) THEN 'expired' ELSE 'ready' END, worker_id=NULL, claimed_at=NULL, claim_expires_at=NULL WHERE __alkstore_jobs.id IN (SELECT ids.value AS value_1
FROM json_each(:ids) AS ids);

-- TURN_BEST_BACK
UPDATE __alkstore_jobs SET state='ready', worker_id=NULL, claimed_at=NULL, claim_expires_at=NULL WHERE __alkstore_jobs.id IN (SELECT __alkstore_jobs.id
FROM __alkstore_jobs
WHERE __alkstore_jobs.state = 'processing' AND __alkstore_jobs.queue = :queue AND __alkstore_jobs.claim_expires_at < :now AND (__alkstore_jobs.expires_at IS NULL OR __alkstore_jobs.expires_at > :now) AND __alkstore_jobs.attempts < __alkstore_jobs.max_attempts ORDER BY __alkstore_jobs.priority DESC, __alkstore_jobs.run_at, __alkstore_jobs.id
 LIMIT :chunk OFFSET 0);

-- PROMOTE
UPDATE __alkstore_jobs SET state='ready' WHERE __alkstore_jobs.id IN (SELECT __alkstore_jobs.id
FROM __alkstore_jobs
WHERE __alkstore_jobs.state = 'delayed' AND __alkstore_jobs.queue = :queue AND __alkstore_jobs.run_at <= :now AND (__alkstore_jobs.expires_at IS NULL OR __alkstore_jobs.expires_at > :now) ORDER BY __alkstore_jobs.run_at
 LIMIT :chunk OFFSET 0);

-- PROMOTE_BEST
UPDATE __alkstore_jobs SET state='ready' WHERE __alkstore_jobs.id IN (SELECT __alkstore_jobs.id
FROM __alkstore_jobs
WHERE __alkstore_jobs.state = 'delayed' AND __alkstore_jobs.queue = :queue AND __alkstore_jobs.run_at <= :now AND (__alkstore_jobs.expires_at IS NULL OR __alkstore_jobs.expires_at > :now) ORDER BY __alkstore_jobs.priority DESC, __alkstore_jobs.run_at, __alkstore_jobs.id
 LIMIT :chunk OFFSET 0);

-- BEST
SELECT __alkstore_jobs.id, __alkstore_jobs.payload, __alkstore_jobs.headers, __alkstore_jobs.priority, __alkstore_jobs.run_at, __alkstore_jobs.created_at, __alkstore_jobs.expires_at, __alkstore_jobs.attempts + 1 AS anon_1, __alkstore_jobs.max_attempts, __alkstore_jobs.visibility_timeout_s, __alkstore_jobs.backoff_base_s, __alkstore_jobs.dead_letter_retention_s, :now AS anon_2, CASE WHEN (__alkstore_jobs.visibility_timeout_s > 9223372036854775807 - :now) THEN 9223372036854775807 ELSE :now + __alkstore_jobs.visibility_timeout_s END AS anon_3, __alkstore_jobs.last_error
FROM __alkstore_jobs
WHERE __alkstore_jobs.state = 'ready' AND __alkstore_jobs.queue = :queue AND (__alkstore_jobs.expires_at IS NULL OR __alkstore_jobs.expires_at > :now) ORDER BY __alkstore_jobs.priority DESC, __alkstore_jobs.run_at, __alkstore_jobs.id
 LIMIT :limit OFFSET 0;

-- CLAIM
UPDATE __alkstore_jobs SET state='processing', attempts=(__alkstore_jobs.attempts + 1), worker_id=:worker_id, claimed_at=:now, claim_expires_at=CASE WHEN (__alkstore_jobs.visibility_timeout_s > 9223372036854775807 - :now) THEN 9223372036854775807 ELSE :now + __alkstore_jobs.visibility_timeout_s END WHERE __alkstore_jobs.id = :id;

-- CLAIM_MANY
UPDATE __alkstore_jobs SET state='processing', attempts=(__alkstore_jobs.attempts + 1), worker_id=:worker_id, claimed_at=:now, claim_expires_at=CASE WHEN (__alkstore_jobs.visibility_timeout_s > 9223372036854775807 - :now) THEN 9223372036854775807 ELSE :now + __alkstore_jobs.visibility_timeout_s END WHERE __alkstore_jobs.id IN (SELECT ids.value AS value_1
FROM json_each(:ids) AS ids);
