-- ACK_MANY
WITH locked AS MATERIALIZED
(SELECT alkstore.__alkstore_jobs.id AS id
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.id = ANY ($1::BIGINT[]) AND ((alkstore.__alkstore_jobs.id, alkstore.__alkstore_jobs.attempts) IN (SELECT given.id, given.attempt
FROM unnest($1::BIGINT[], $2::BIGINT[]) AS given(id, attempt))) IS true AND alkstore.__alkstore_jobs.queue = $3::VARCHAR AND (alkstore.__alkstore_jobs.state || '') = 'processing' AND alkstore.__alkstore_jobs.claim_expires_at >= (SELECT coalesce($4::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) ORDER BY alkstore.__alkstore_jobs.id FOR UPDATE OF __alkstore_jobs)
 DELETE FROM alkstore.__alkstore_jobs WHERE alkstore.__alkstore_jobs.id = ANY (array((SELECT locked.id
FROM locked)));

-- ACK_EACH
WITH locked AS MATERIALIZED
(SELECT alkstore.__alkstore_jobs.id AS id
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.id = ANY ($1::BIGINT[]) AND ((alkstore.__alkstore_jobs.id, alkstore.__alkstore_jobs.attempts) IN (SELECT given.id, given.attempt
FROM unnest($1::BIGINT[], $2::BIGINT[]) AS given(id, attempt))) IS true AND alkstore.__alkstore_jobs.queue = $3::VARCHAR AND (alkstore.__alkstore_jobs.state || '') = 'processing' AND alkstore.__alkstore_jobs.claim_expires_at >= (SELECT coalesce($4::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) ORDER BY alkstore.__alkstore_jobs.id FOR UPDATE OF __alkstore_jobs)
 DELETE FROM alkstore.__alkstore_jobs WHERE alkstore.__alkstore_jobs.id = ANY (array((SELECT locked.id
FROM locked))) RETURNING alkstore.__alkstore_jobs.id, alkstore.__alkstore_jobs.attempts;

-- ACK_IDS
WITH locked AS MATERIALIZED
(SELECT alkstore.__alkstore_jobs.id AS id
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.id = ANY (array((SELECT (ids.value #>> '{}')::bigint AS value_1
FROM (SELECT each.value, each.key FROM json_array_elements(CAST($1::VARCHAR AS JSON)) WITH ORDINALITY AS each(value, key)) AS ids))) AND alkstore.__alkstore_jobs.queue = $2::VARCHAR AND (alkstore.__alkstore_jobs.state || '') = 'processing' AND alkstore.__alkstore_jobs.claim_expires_at >= (SELECT coalesce($3::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) AND alkstore.__alkstore_jobs.worker_id = $4::VARCHAR ORDER BY alkstore.__alkstore_jobs.id FOR UPDATE OF __alkstore_jobs)
 DELETE FROM alkstore.__alkstore_jobs WHERE alkstore.__alkstore_jobs.id = ANY (array((SELECT locked.id
FROM locked)));

-- EXTEND_MANY
WITH locked AS MATERIALIZED
(SELECT alkstore.__alkstore_jobs.id AS id
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.id = ANY (array((SELECT (claims.value ->> 0)::bigint AS json_extract_1
FROM (SELECT each.value, each.key FROM json_array_elements(CAST($3::VARCHAR AS JSON)) WITH ORDINALITY AS each(value, key)) AS claims))) AND ((alkstore.__alkstore_jobs.id, alkstore.__alkstore_jobs.attempts) IN (SELECT (claims.value ->> 0)::bigint AS json_extract_1, (claims.value ->> 1)::bigint AS json_extract_2
FROM (SELECT each.value, each.key FROM json_array_elements(CAST($3::VARCHAR AS JSON)) WITH ORDINALITY AS each(value, key)) AS claims)) IS true AND alkstore.__alkstore_jobs.queue = $4::VARCHAR AND (alkstore.__alkstore_jobs.state || '') = 'processing' AND alkstore.__alkstore_jobs.claim_expires_at >= (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) ORDER BY alkstore.__alkstore_jobs.id FOR UPDATE OF __alkstore_jobs)
 UPDATE alkstore.__alkstore_jobs SET claim_expires_at=CASE WHEN ($1::BIGINT > 9223372036854775807 - (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint))) THEN 9223372036854775807 ELSE (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) + $1::BIGINT END WHERE alkstore.__alkstore_jobs.id = ANY (array((SELECT locked.id
FROM locked))) RETURNING alkstore.__alkstore_jobs.id;

-- RELEASE
WITH locked AS MATERIALIZED
(SELECT alkstore.__alkstore_jobs.id AS id
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.id = ANY (array((SELECT (claims.value ->> 0)::bigint AS json_extract_1
FROM (SELECT each.value, each.key FROM json_array_elements(CAST($2::VARCHAR AS JSON)) WITH ORDINALITY AS each(value, key)) AS claims))) AND ((alkstore.__alkstore_jobs.id, alkstore.__alkstore_jobs.attempts) IN (SELECT (claims.value ->> 0)::bigint AS json_extract_1, (claims.value ->> 1)::bigint AS json_extract_2
FROM (SELECT each.value, each.key FROM json_array_elements(CAST($2::VARCHAR AS JSON)) WITH ORDINALITY AS each(value, key)) AS claims)) IS true AND alkstore.__alkstore_jobs.queue = $3::VARCHAR AND (alkstore.__alkstore_jobs.state || '') = 'processing' AND alkstore.__alkstore_jobs.claim_expires_at >= (SELECT coalesce($1::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) ORDER BY alkstore.__alkstore_jobs.id FOR UPDATE OF __alkstore_jobs)
 UPDATE alkstore.__alkstore_jobs SET state=CASE WHEN (alkstore.__alkstore_jobs.run_at > (SELECT coalesce($1::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint))) THEN 'delayed' ELSE 'ready' END, attempts=(alkstore.__alkstore_jobs.attempts - 1), worker_id=NULL, claimed_at=NULL, claim_expires_at=NULL WHERE alkstore.__alkstore_jobs.id = ANY (array((SELECT locked.id
FROM locked)));

-- RELEASE_UNSEEN
WITH locked AS MATERIALIZED
(SELECT alkstore.__alkstore_jobs.id AS id
FROM alkstore.__alkstore_jobs
WHERE alkstore.__alkstore_jobs.id = ANY (array((SELECT (claims.value ->> 0)::bigint AS json_extract_1
FROM (SELECT each.value, each.key FROM json_array_elements(CAST($2::VARCHAR AS JSON)) WITH ORDINALITY AS each(value, key)) AS claims))) AND ((alkstore.__alkstore_jobs.id, alkstore.__alkstore_jobs.attempts) IN (SELECT (claims.value ->> 0)::bigint AS json_extract_1, (claims.value ->> 1)::bigint AS json_extract_2
FROM (SELECT each.value, each.key FROM json_array_elements(CAST($2::VARCHAR AS JSON)) WITH ORDINALITY AS each(value, key)) AS claims)) IS true AND alkstore.__alkstore_jobs.queue = $3::VARCHAR AND (alkstore.__alkstore_jobs.state || '') = 'processing' ORDER BY alkstore.__alkstore_jobs.id FOR UPDATE OF __alkstore_jobs)
 UPDATE alkstore.__alkstore_jobs SET state=CASE WHEN (alkstore.__alkstore_jobs.run_at > (SELECT coalesce($1::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint))) THEN 'delayed' ELSE 'ready' END, attempts=(alkstore.__alkstore_jobs.attempts - 1), worker_id=NULL, claimed_at=NULL, claim_expires_at=NULL WHERE alkstore.__alkstore_jobs.id = ANY (array((SELECT locked.id
FROM locked)));
