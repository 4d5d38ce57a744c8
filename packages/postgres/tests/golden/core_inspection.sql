-- STATS
SELECT (SELECT count(*) AS count_1
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.state = 'ready' AND alkstore.__alkstore_jobs.queue = $1::VARCHAR AND (alkstore.__alkstore_jobs.expires_at IS NULL OR alkstore.__alkstore_jobs.expires_at > (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)))) AS ready, (SELECT count(*) AS count_2
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.state = 'delayed' AND alkstore.__alkstore_jobs.queue = $1::VARCHAR AND alkstore.__alkstore_jobs.run_at <= (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) AND (alkstore.__alkstore_jobs.expires_at IS NULL OR alkstore.__alkstore_jobs.expires_at > (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)))) AS due, (SELECT count(*) AS count_3
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.state = 'delayed' AND alkstore.__alkstore_jobs.queue = $1::VARCHAR AND alkstore.__alkstore_jobs.run_at > (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) AND (alkstore.__alkstore_jobs.expires_at IS NULL OR alkstore.__alkstore_jobs.expires_at > (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)))) AS delayed, (SELECT count(*) AS count_4
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.state = 'processing' AND alkstore.__alkstore_jobs.queue = $1::VARCHAR AND alkstore.__alkstore_jobs.claim_expires_at >= (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint))) AS live, (SELECT count(*) AS count_5
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.state = 'processing' AND alkstore.__alkstore_jobs.queue = $1::VARCHAR AND alkstore.__alkstore_jobs.claim_expires_at < (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) AND (alkstore.__alkstore_jobs.expires_at IS NULL OR alkstore.__alkstore_jobs.expires_at > (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)))) AS lapsed, (SELECT count(*) AS count_6
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.queue = $1::VARCHAR AND alkstore.__alkstore_jobs.state IN ('delayed', 'expired', 'ready') AND alkstore.__alkstore_jobs.expires_at <= (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint))) AS expired, (SELECT count(*) AS count_7
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.state = 'processing' AND alkstore.__alkstore_jobs.queue = $1::VARCHAR AND alkstore.__alkstore_jobs.claim_expires_at < (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) AND alkstore.__alkstore_jobs.expires_at <= (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint))) AS lapsed_and_expired, (SELECT count(*) AS count_8
FROM alkstore.__alkstore_dead_jobs
WHERE alkstore.__alkstore_dead_jobs.queue = $1::VARCHAR) AS dead, (SELECT min(alkstore.__alkstore_jobs.run_at) AS min_1
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.state = 'ready' AND alkstore.__alkstore_jobs.queue = $1::VARCHAR AND (alkstore.__alkstore_jobs.expires_at IS NULL OR alkstore.__alkstore_jobs.expires_at > (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)))) AS oldest_ready, (SELECT min(alkstore.__alkstore_jobs.run_at) AS min_2
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.state = 'delayed' AND alkstore.__alkstore_jobs.queue = $1::VARCHAR AND alkstore.__alkstore_jobs.run_at <= (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) AND (alkstore.__alkstore_jobs.expires_at IS NULL OR alkstore.__alkstore_jobs.expires_at > (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)))) AS oldest_due, (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) AS read_at;

-- LIST_JOBS
SELECT alkstore.__alkstore_jobs.id, alkstore.__alkstore_jobs.queue, alkstore.__alkstore_jobs.payload, alkstore.__alkstore_jobs.headers, alkstore.__alkstore_jobs.state, alkstore.__alkstore_jobs.priority, alkstore.__alkstore_jobs.run_at, alkstore.__alkstore_jobs.created_at, alkstore.__alkstore_jobs.expires_at, alkstore.__alkstore_jobs.attempts, alkstore.__alkstore_jobs.max_attempts, alkstore.__alkstore_jobs.visibility_timeout_s, alkstore.__alkstore_jobs.backoff_base_s, alkstore.__alkstore_jobs.dead_letter_retention_s, alkstore.__alkstore_jobs.worker_id, alkstore.__alkstore_jobs.claimed_at, alkstore.__alkstore_jobs.claim_expires_at, alkstore.__alkstore_jobs.last_error, NULL AS died_at
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.queue = $1::VARCHAR AND alkstore.__alkstore_jobs.id > $2::BIGINT ORDER BY alkstore.__alkstore_jobs.id
 LIMIT $3::BIGINT OFFSET 0;

-- LIST_PENDING
SELECT alkstore.__alkstore_jobs.id, alkstore.__alkstore_jobs.queue, alkstore.__alkstore_jobs.payload, alkstore.__alkstore_jobs.headers, alkstore.__alkstore_jobs.state, alkstore.__alkstore_jobs.priority, alkstore.__alkstore_jobs.run_at, alkstore.__alkstore_jobs.created_at, alkstore.__alkstore_jobs.expires_at, alkstore.__alkstore_jobs.attempts, alkstore.__alkstore_jobs.max_attempts, alkstore.__alkstore_jobs.visibility_timeout_s, alkstore.__alkstore_jobs.backoff_base_s, alkstore.__alkstore_jobs.dead_letter_retention_s, alkstore.__alkstore_jobs.worker_id, alkstore.__alkstore_jobs.claimed_at, alkstore.__alkstore_jobs.claim_expires_at, alkstore.__alkstore_jobs.last_error, NULL AS died_at
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.queue = $1::VARCHAR AND alkstore.__alkstore_jobs.id > $2::BIGINT AND alkstore.__alkstore_jobs.state != 'processing' ORDER BY alkstore.__alkstore_jobs.id
 LIMIT $3::BIGINT OFFSET 0;

-- LIST_PROCESSING
SELECT alkstore.__alkstore_jobs.id, alkstore.__alkstore_jobs.queue, alkstore.__alkstore_jobs.payload, alkstore.__alkstore_jobs.headers, alkstore.__alkstore_jobs.state, alkstore.__alkstore_jobs.priority, alkstore.__alkstore_jobs.run_at, alkstore.__alkstore_jobs.created_at, alkstore.__alkstore_jobs.expires_at, alkstore.__alkstore_jobs.attempts, alkstore.__alkstore_jobs.max_attempts, alkstore.__alkstore_jobs.visibility_timeout_s, alkstore.__alkstore_jobs.backoff_base_s, alkstore.__alkstore_jobs.dead_letter_retention_s, alkstore.__alkstore_jobs.worker_id, alkstore.__alkstore_jobs.claimed_at, alkstore.__alkstore_jobs.claim_expires_at, alkstore.__alkstore_jobs.last_error, NULL AS died_at
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.queue = $1::VARCHAR AND alkstore.__alkstore_jobs.id > $2::BIGINT AND alkstore.__alkstore_jobs.state = 'processing' ORDER BY alkstore.__alkstore_jobs.id
 LIMIT $3::BIGINT OFFSET 0;

-- NEXT_DUE
SELECT (queues.value #>> '{}') AS value_1, (SELECT coalesce($1::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) AS anon_1, (SELECT alkstore.__alkstore_jobs.run_at
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.state = 'delayed' AND alkstore.__alkstore_jobs.queue = (queues.value #>> '{}') AND (alkstore.__alkstore_jobs.expires_at IS NULL OR alkstore.__alkstore_jobs.expires_at > (SELECT coalesce($1::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint))) ORDER BY alkstore.__alkstore_jobs.run_at
 LIMIT 1 OFFSET 0) AS anon_2, (SELECT alkstore.__alkstore_jobs.claim_expires_at
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.state = 'processing' AND alkstore.__alkstore_jobs.queue = (queues.value #>> '{}') AND (alkstore.__alkstore_jobs.expires_at IS NULL OR alkstore.__alkstore_jobs.expires_at > (SELECT coalesce($1::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint))) ORDER BY alkstore.__alkstore_jobs.claim_expires_at
 LIMIT 1 OFFSET 0) AS anon_3
FROM (SELECT each.value, each.key FROM json_array_elements(CAST($2::VARCHAR AS JSON)) WITH ORDINALITY AS each(value, key)) AS queues;

-- QUEUE_NAMES
WITH RECURSIVE ready(name) AS
(SELECT min(alkstore.__alkstore_jobs.queue) AS name
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.state = 'ready' UNION ALL SELECT (SELECT min(alkstore.__alkstore_jobs.queue) AS min_1
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.state = 'ready' AND alkstore.__alkstore_jobs.queue > ready.name) AS anon_1
FROM ready
WHERE ready.name IS NOT NULL),
delayed(name) AS
(SELECT min(alkstore.__alkstore_jobs.queue) AS name
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.state = 'delayed' UNION ALL SELECT (SELECT min(alkstore.__alkstore_jobs.queue) AS min_2
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.state = 'delayed' AND alkstore.__alkstore_jobs.queue > delayed.name) AS anon_2
FROM delayed
WHERE delayed.name IS NOT NULL),
processing(name) AS
(SELECT min(alkstore.__alkstore_jobs.queue) AS name
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.state = 'processing' UNION ALL SELECT (SELECT min(alkstore.__alkstore_jobs.queue) AS min_3
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.state = 'processing' AND alkstore.__alkstore_jobs.queue > processing.name) AS anon_3
FROM processing
WHERE processing.name IS NOT NULL),
expiring(name) AS
(SELECT min(alkstore.__alkstore_jobs.queue) AS name
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.expires_at IS NOT NULL UNION ALL SELECT (SELECT min(alkstore.__alkstore_jobs.queue) AS min_4
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.expires_at IS NOT NULL AND alkstore.__alkstore_jobs.queue > expiring.name) AS anon_4
FROM expiring
WHERE expiring.name IS NOT NULL),
dead(name) AS
(SELECT min(alkstore.__alkstore_dead_jobs.queue) AS name
FROM alkstore.__alkstore_dead_jobs UNION ALL SELECT (SELECT min(alkstore.__alkstore_dead_jobs.queue) AS min_5
FROM alkstore.__alkstore_dead_jobs
WHERE alkstore.__alkstore_dead_jobs.queue > dead.name) AS anon_5
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
(SELECT min(alkstore.__alkstore_events.stream) AS name
FROM alkstore.__alkstore_events UNION ALL SELECT (SELECT min(alkstore.__alkstore_events.stream) AS min_1
FROM alkstore.__alkstore_events
WHERE alkstore.__alkstore_events.stream > published.name) AS anon_1
FROM published
WHERE published.name IS NOT NULL),
consumed(name) AS
(SELECT min(alkstore.__alkstore_consumers.stream) AS name
FROM alkstore.__alkstore_consumers UNION ALL SELECT (SELECT min(alkstore.__alkstore_consumers.stream) AS min_2
FROM alkstore.__alkstore_consumers
WHERE alkstore.__alkstore_consumers.stream > consumed.name) AS anon_2
FROM consumed
WHERE consumed.name IS NOT NULL)
 SELECT published.name
FROM published
WHERE published.name IS NOT NULL UNION SELECT consumed.name
FROM consumed
WHERE consumed.name IS NOT NULL;
