-- STATS
SELECT (SELECT count(*) AS count_1
FROM __alkstore_jobs
WHERE __alkstore_jobs.state = 'ready' AND __alkstore_jobs.queue = :queue AND (__alkstore_jobs.expires_at IS NULL OR __alkstore_jobs.expires_at > :now)) AS ready, (SELECT count(*) AS count_2
FROM __alkstore_jobs
WHERE __alkstore_jobs.state = 'delayed' AND __alkstore_jobs.queue = :queue AND __alkstore_jobs.run_at <= :now AND (__alkstore_jobs.expires_at IS NULL OR __alkstore_jobs.expires_at > :now)) AS due, (SELECT count(*) AS count_3
FROM __alkstore_jobs
WHERE __alkstore_jobs.state = 'delayed' AND __alkstore_jobs.queue = :queue AND __alkstore_jobs.run_at > :now AND (__alkstore_jobs.expires_at IS NULL OR __alkstore_jobs.expires_at > :now)) AS delayed, (SELECT count(*) AS count_4
FROM __alkstore_jobs
WHERE __alkstore_jobs.state = 'processing' AND __alkstore_jobs.queue = :queue AND __alkstore_jobs.claim_expires_at >= :now) AS live, (SELECT count(*) AS count_5
FROM __alkstore_jobs
WHERE __alkstore_jobs.state = 'processing' AND __alkstore_jobs.queue = :queue AND __alkstore_jobs.claim_expires_at < :now AND (__alkstore_jobs.expires_at IS NULL OR __alkstore_jobs.expires_at > :now)) AS lapsed, (SELECT count(*) AS count_6
FROM __alkstore_jobs
WHERE __alkstore_jobs.queue = :queue AND __alkstore_jobs.state IN ('delayed', 'expired', 'ready') AND __alkstore_jobs.expires_at <= :now) AS expired, (SELECT count(*) AS count_7
FROM __alkstore_jobs
WHERE __alkstore_jobs.state = 'processing' AND __alkstore_jobs.queue = :queue AND __alkstore_jobs.claim_expires_at < :now AND __alkstore_jobs.expires_at <= :now) AS lapsed_and_expired, (SELECT count(*) AS count_8
FROM __alkstore_dead_jobs
WHERE __alkstore_dead_jobs.queue = :queue) AS dead, (SELECT min(__alkstore_jobs.run_at) AS min_1
FROM __alkstore_jobs
WHERE __alkstore_jobs.state = 'ready' AND __alkstore_jobs.queue = :queue AND (__alkstore_jobs.expires_at IS NULL OR __alkstore_jobs.expires_at > :now)) AS oldest_ready, (SELECT min(__alkstore_jobs.run_at) AS min_2
FROM __alkstore_jobs
WHERE __alkstore_jobs.state = 'delayed' AND __alkstore_jobs.queue = :queue AND __alkstore_jobs.run_at <= :now AND (__alkstore_jobs.expires_at IS NULL OR __alkstore_jobs.expires_at > :now)) AS oldest_due, :now AS read_at;

-- LIST_JOBS
SELECT __alkstore_jobs.id, __alkstore_jobs.queue, __alkstore_jobs.payload, __alkstore_jobs.headers, __alkstore_jobs.state, __alkstore_jobs.priority, __alkstore_jobs.run_at, __alkstore_jobs.created_at, __alkstore_jobs.expires_at, __alkstore_jobs.attempts, __alkstore_jobs.max_attempts, __alkstore_jobs.visibility_timeout_s, __alkstore_jobs.backoff_base_s, __alkstore_jobs.dead_letter_retention_s, __alkstore_jobs.worker_id, __alkstore_jobs.claimed_at, __alkstore_jobs.claim_expires_at, __alkstore_jobs.last_error, NULL AS died_at
FROM __alkstore_jobs
WHERE __alkstore_jobs.queue = :queue AND __alkstore_jobs.id > :after_id ORDER BY __alkstore_jobs.id
 LIMIT :limit OFFSET 0;

-- LIST_PENDING
SELECT __alkstore_jobs.id, __alkstore_jobs.queue, __alkstore_jobs.payload, __alkstore_jobs.headers, __alkstore_jobs.state, __alkstore_jobs.priority, __alkstore_jobs.run_at, __alkstore_jobs.created_at, __alkstore_jobs.expires_at, __alkstore_jobs.attempts, __alkstore_jobs.max_attempts, __alkstore_jobs.visibility_timeout_s, __alkstore_jobs.backoff_base_s, __alkstore_jobs.dead_letter_retention_s, __alkstore_jobs.worker_id, __alkstore_jobs.claimed_at, __alkstore_jobs.claim_expires_at, __alkstore_jobs.last_error, NULL AS died_at
FROM __alkstore_jobs
WHERE __alkstore_jobs.queue = :queue AND __alkstore_jobs.id > :after_id AND __alkstore_jobs.state != 'processing' ORDER BY __alkstore_jobs.id
 LIMIT :limit OFFSET 0;

-- LIST_PROCESSING
SELECT __alkstore_jobs.id, __alkstore_jobs.queue, __alkstore_jobs.payload, __alkstore_jobs.headers, __alkstore_jobs.state, __alkstore_jobs.priority, __alkstore_jobs.run_at, __alkstore_jobs.created_at, __alkstore_jobs.expires_at, __alkstore_jobs.attempts, __alkstore_jobs.max_attempts, __alkstore_jobs.visibility_timeout_s, __alkstore_jobs.backoff_base_s, __alkstore_jobs.dead_letter_retention_s, __alkstore_jobs.worker_id, __alkstore_jobs.claimed_at, __alkstore_jobs.claim_expires_at, __alkstore_jobs.last_error, NULL AS died_at
FROM __alkstore_jobs
WHERE __alkstore_jobs.queue = :queue AND __alkstore_jobs.id > :after_id AND __alkstore_jobs.state = 'processing' ORDER BY __alkstore_jobs.id
 LIMIT :limit OFFSET 0;

-- NEXT_DUE
SELECT queues.value AS value_1, :now AS anon_1, (SELECT __alkstore_jobs.run_at
FROM __alkstore_jobs
WHERE __alkstore_jobs.state = 'delayed' AND __alkstore_jobs.queue = queues.value AND (__alkstore_jobs.expires_at IS NULL OR __alkstore_jobs.expires_at > :now) ORDER BY __alkstore_jobs.run_at
 LIMIT 1 OFFSET 0) AS anon_2, (SELECT __alkstore_jobs.claim_expires_at
FROM __alkstore_jobs
WHERE __alkstore_jobs.state = 'processing' AND __alkstore_jobs.queue = queues.value AND (__alkstore_jobs.expires_at IS NULL OR __alkstore_jobs.expires_at > :now) ORDER BY __alkstore_jobs.claim_expires_at
 LIMIT 1 OFFSET 0) AS anon_3
FROM json_each(:queues) AS queues;

-- QUEUE_NAMES
WITH RECURSIVE ready(name) AS
(SELECT min(__alkstore_jobs.queue) AS name
FROM __alkstore_jobs
WHERE __alkstore_jobs.state = 'ready' UNION ALL SELECT (SELECT min(__alkstore_jobs.queue) AS min_1
FROM __alkstore_jobs
WHERE __alkstore_jobs.state = 'ready' AND __alkstore_jobs.queue > ready.name) AS anon_1
FROM ready
WHERE ready.name IS NOT NULL),
delayed(name) AS
(SELECT min(__alkstore_jobs.queue) AS name
FROM __alkstore_jobs
WHERE __alkstore_jobs.state = 'delayed' UNION ALL SELECT (SELECT min(__alkstore_jobs.queue) AS min_2
FROM __alkstore_jobs
WHERE __alkstore_jobs.state = 'delayed' AND __alkstore_jobs.queue > delayed.name) AS anon_2
FROM delayed
WHERE delayed.name IS NOT NULL),
processing(name) AS
(SELECT min(__alkstore_jobs.queue) AS name
FROM __alkstore_jobs
WHERE __alkstore_jobs.state = 'processing' UNION ALL SELECT (SELECT min(__alkstore_jobs.queue) AS min_3
FROM __alkstore_jobs
WHERE __alkstore_jobs.state = 'processing' AND __alkstore_jobs.queue > processing.name) AS anon_3
FROM processing
WHERE processing.name IS NOT NULL),
expiring(name) AS
(SELECT min(__alkstore_jobs.queue) AS name
FROM __alkstore_jobs
WHERE __alkstore_jobs.expires_at IS NOT NULL UNION ALL SELECT (SELECT min(__alkstore_jobs.queue) AS min_4
FROM __alkstore_jobs
WHERE __alkstore_jobs.expires_at IS NOT NULL AND __alkstore_jobs.queue > expiring.name) AS anon_4
FROM expiring
WHERE expiring.name IS NOT NULL),
dead(name) AS
(SELECT min(__alkstore_dead_jobs.queue) AS name
FROM __alkstore_dead_jobs UNION ALL SELECT (SELECT min(__alkstore_dead_jobs.queue) AS min_5
FROM __alkstore_dead_jobs
WHERE __alkstore_dead_jobs.queue > dead.name) AS anon_5
FROM dead
WHERE dead.name IS NOT NULL)
 SELECT ready.name
FROM ready
WHERE ready.name IS NOT NULL UNION SELECT delayed.name
FROM delayed
WHERE delayed.name IS NOT NULL UNION SELECT processing.name
FROM processing
WHERE processing.name IS NOT NULL UNION SELECT expiring.name
FROM expiring
WHERE expiring.name IS NOT NULL UNION SELECT dead.name
FROM dead
WHERE dead.name IS NOT NULL;

-- STREAM_NAMES
WITH RECURSIVE published(name) AS
(SELECT min(__alkstore_events.stream) AS name
FROM __alkstore_events UNION ALL SELECT (SELECT min(__alkstore_events.stream) AS min_1
FROM __alkstore_events
WHERE __alkstore_events.stream > published.name) AS anon_1
FROM published
WHERE published.name IS NOT NULL),
consumed(name) AS
(SELECT min(__alkstore_consumers.stream) AS name
FROM __alkstore_consumers UNION ALL SELECT (SELECT min(__alkstore_consumers.stream) AS min_2
FROM __alkstore_consumers
WHERE __alkstore_consumers.stream > consumed.name) AS anon_2
FROM consumed
WHERE consumed.name IS NOT NULL)
 SELECT published.name
FROM published
WHERE published.name IS NOT NULL UNION SELECT consumed.name
FROM consumed
WHERE consumed.name IS NOT NULL;
