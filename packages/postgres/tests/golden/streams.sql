-- APPEND
WITH noted AS MATERIALIZED
(SELECT coalesce($7::BIGINT, CASE WHEN alkstore.__alkstore_events_offset_seq.is_called THEN alkstore.__alkstore_events_offset_seq.last_value ELSE 0 END) AS bound
FROM alkstore.__alkstore_events_offset_seq),
held AS MATERIALIZED
(SELECT noted.bound AS bound, pg_advisory_xact_lock_shared($6::INTEGER, CAST(noted.bound % 2147483648 AS INTEGER)) AS pg_advisory_xact_lock_shared_1
FROM noted)
 INSERT INTO alkstore.__alkstore_events (stream, key, payload, headers, created_at) SELECT $1::VARCHAR AS anon_1, $2::VARCHAR AS anon_2, $3::BYTEA AS anon_3, $4::VARCHAR AS anon_4, (SELECT coalesce($5::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) AS anon_5
FROM held RETURNING alkstore.__alkstore_events."offset";

-- APPEND_MANY
WITH noted AS MATERIALIZED
(SELECT coalesce($4::BIGINT, CASE WHEN alkstore.__alkstore_events_offset_seq.is_called THEN alkstore.__alkstore_events_offset_seq.last_value ELSE 0 END) AS bound
FROM alkstore.__alkstore_events_offset_seq),
held AS MATERIALIZED
(SELECT noted.bound AS bound, pg_advisory_xact_lock_shared($3::INTEGER, CAST(noted.bound % 2147483648 AS INTEGER)) AS pg_advisory_xact_lock_shared_1
FROM noted)
 INSERT INTO alkstore.__alkstore_events (stream, key, payload, headers, created_at) SELECT $1::VARCHAR AS anon_1, (entries.value ->> 1) AS json_extract_1, convert_to((entries.value ->> 0), 'UTF8') AS anon_2, (entries.value ->> 2) AS json_extract_2, (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) AS anon_3
FROM held, (SELECT each.value, each.key FROM json_array_elements(CAST($5::VARCHAR AS JSON)) WITH ORDINALITY AS each(value, key)) AS entries ORDER BY entries.key RETURNING alkstore.__alkstore_events."offset";

-- APPEND_WAKING
WITH noted AS MATERIALIZED
(SELECT coalesce($8::BIGINT, CASE WHEN alkstore.__alkstore_events_offset_seq.is_called THEN alkstore.__alkstore_events_offset_seq.last_value ELSE 0 END) AS bound
FROM alkstore.__alkstore_events_offset_seq),
held AS MATERIALIZED
(SELECT noted.bound AS bound, pg_advisory_xact_lock_shared($7::INTEGER, CAST(noted.bound % 2147483648 AS INTEGER)) AS pg_advisory_xact_lock_shared_1
FROM noted)
 INSERT INTO alkstore.__alkstore_events (stream, key, payload, headers, created_at) SELECT $2::VARCHAR AS anon_2, $3::VARCHAR AS anon_3, $4::BYTEA AS anon_4, $5::VARCHAR AS anon_5, (SELECT coalesce($6::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) AS anon_6
FROM held RETURNING alkstore.__alkstore_events."offset", (SELECT pg_notify($1::VARCHAR, '') AS pg_notify_1) AS anon_1;

-- APPEND_MANY_WAKING
WITH noted AS MATERIALIZED
(SELECT coalesce($5::BIGINT, CASE WHEN alkstore.__alkstore_events_offset_seq.is_called THEN alkstore.__alkstore_events_offset_seq.last_value ELSE 0 END) AS bound
FROM alkstore.__alkstore_events_offset_seq),
held AS MATERIALIZED
(SELECT noted.bound AS bound, pg_advisory_xact_lock_shared($4::INTEGER, CAST(noted.bound % 2147483648 AS INTEGER)) AS pg_advisory_xact_lock_shared_1
FROM noted)
 INSERT INTO alkstore.__alkstore_events (stream, key, payload, headers, created_at) SELECT $2::VARCHAR AS anon_2, (entries.value ->> 1) AS json_extract_1, convert_to((entries.value ->> 0), 'UTF8') AS anon_3, (entries.value ->> 2) AS json_extract_2, (SELECT coalesce($3::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) AS anon_4
FROM held, (SELECT each.value, each.key FROM json_array_elements(CAST($6::VARCHAR AS JSON)) WITH ORDINALITY AS each(value, key)) AS entries ORDER BY entries.key RETURNING alkstore.__alkstore_events."offset", (SELECT pg_notify($1::VARCHAR, '') AS pg_notify_1) AS anon_1;

-- APPEND_IN
WITH noted AS MATERIALIZED
(SELECT coalesce($2::BIGINT, CASE WHEN alkstore.__alkstore_events_offset_seq.is_called THEN alkstore.__alkstore_events_offset_seq.last_value ELSE 0 END) AS bound
FROM alkstore.__alkstore_events_offset_seq),
held AS MATERIALIZED
(SELECT noted.bound AS bound, pg_advisory_xact_lock_shared($1::INTEGER, CAST(noted.bound % 2147483648 AS INTEGER)) AS pg_advisory_xact_lock_shared_1
FROM noted)
 INSERT INTO alkstore.__alkstore_events (stream, key, payload, headers, created_at) SELECT $3::VARCHAR AS anon_2, $4::VARCHAR AS anon_3, $5::BYTEA AS anon_4, $6::VARCHAR AS anon_5, (SELECT coalesce($7::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) AS anon_6
FROM held RETURNING alkstore.__alkstore_events."offset", (SELECT held.bound
FROM held) AS anon_1;

-- APPEND_MANY_IN
WITH noted AS MATERIALIZED
(SELECT coalesce($2::BIGINT, CASE WHEN alkstore.__alkstore_events_offset_seq.is_called THEN alkstore.__alkstore_events_offset_seq.last_value ELSE 0 END) AS bound
FROM alkstore.__alkstore_events_offset_seq),
held AS MATERIALIZED
(SELECT noted.bound AS bound, pg_advisory_xact_lock_shared($1::INTEGER, CAST(noted.bound % 2147483648 AS INTEGER)) AS pg_advisory_xact_lock_shared_1
FROM noted)
 INSERT INTO alkstore.__alkstore_events (stream, key, payload, headers, created_at) SELECT $3::VARCHAR AS anon_2, (entries.value ->> 1) AS json_extract_1, convert_to((entries.value ->> 0), 'UTF8') AS anon_3, (entries.value ->> 2) AS json_extract_2, (SELECT coalesce($4::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) AS anon_4
FROM held, (SELECT each.value, each.key FROM json_array_elements(CAST($5::VARCHAR AS JSON)) WITH ORDINALITY AS each(value, key)) AS entries ORDER BY entries.key RETURNING alkstore.__alkstore_events."offset", (SELECT held.bound
FROM held) AS anon_1;

-- APPEND_IN_WAKING
WITH noted AS MATERIALIZED
(SELECT coalesce($2::BIGINT, CASE WHEN alkstore.__alkstore_events_offset_seq.is_called THEN alkstore.__alkstore_events_offset_seq.last_value ELSE 0 END) AS bound
FROM alkstore.__alkstore_events_offset_seq),
held AS MATERIALIZED
(SELECT noted.bound AS bound, pg_advisory_xact_lock_shared($1::INTEGER, CAST(noted.bound % 2147483648 AS INTEGER)) AS pg_advisory_xact_lock_shared_1
FROM noted)
 INSERT INTO alkstore.__alkstore_events (stream, key, payload, headers, created_at) SELECT $4::VARCHAR AS anon_3, $5::VARCHAR AS anon_4, $6::BYTEA AS anon_5, $7::VARCHAR AS anon_6, (SELECT coalesce($8::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) AS anon_7
FROM held RETURNING alkstore.__alkstore_events."offset", (SELECT held.bound
FROM held) AS anon_1, (SELECT pg_notify($3::VARCHAR, '') AS pg_notify_1) AS anon_2;

-- APPEND_MANY_IN_WAKING
WITH noted AS MATERIALIZED
(SELECT coalesce($2::BIGINT, CASE WHEN alkstore.__alkstore_events_offset_seq.is_called THEN alkstore.__alkstore_events_offset_seq.last_value ELSE 0 END) AS bound
FROM alkstore.__alkstore_events_offset_seq),
held AS MATERIALIZED
(SELECT noted.bound AS bound, pg_advisory_xact_lock_shared($1::INTEGER, CAST(noted.bound % 2147483648 AS INTEGER)) AS pg_advisory_xact_lock_shared_1
FROM noted)
 INSERT INTO alkstore.__alkstore_events (stream, key, payload, headers, created_at) SELECT $4::VARCHAR AS anon_3, (entries.value ->> 1) AS json_extract_1, convert_to((entries.value ->> 0), 'UTF8') AS anon_4, (entries.value ->> 2) AS json_extract_2, (SELECT coalesce($5::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) AS anon_5
FROM held, (SELECT each.value, each.key FROM json_array_elements(CAST($6::VARCHAR AS JSON)) WITH ORDINALITY AS each(value, key)) AS entries ORDER BY entries.key RETURNING alkstore.__alkstore_events."offset", (SELECT held.bound
FROM held) AS anon_1, (SELECT pg_notify($3::VARCHAR, '') AS pg_notify_1) AS anon_2;

-- TAIL
SELECT CASE WHEN alkstore.__alkstore_events_offset_seq.is_called THEN alkstore.__alkstore_events_offset_seq.last_value ELSE 0 END AS anon_1, current_setting('transaction_isolation') AS current_setting_1
FROM alkstore.__alkstore_events_offset_seq;

-- HORIZON
SELECT $1::BIGINT + min((((CAST(pg_locks.objid AS BIGINT) - $1::BIGINT) + (2147483648 - 1048576)) % 2147483648 + 2147483648) % 2147483648 - (2147483648 - 1048576)) AS anon_1
FROM pg_locks
WHERE pg_locks.locktype = 'advisory' AND pg_locks.database = (SELECT pg_database.oid
FROM pg_database
WHERE pg_database.datname = current_database()) AND pg_locks.objsubid = 2 AND CAST(pg_locks.classid AS BIGINT) = $2::BIGINT AND pg_locks.pid IS DISTINCT FROM pg_backend_pid();

-- READ
SELECT alkstore.__alkstore_events."offset", alkstore.__alkstore_events.stream, alkstore.__alkstore_events.key, alkstore.__alkstore_events.payload, alkstore.__alkstore_events.headers, alkstore.__alkstore_events.created_at
FROM alkstore.__alkstore_events
WHERE (alkstore.__alkstore_events.stream, alkstore.__alkstore_events."offset") > ($1::VARCHAR, $2::BIGINT) AND (alkstore.__alkstore_events.stream, alkstore.__alkstore_events."offset") <= ($1::VARCHAR, $3::BIGINT) ORDER BY alkstore.__alkstore_events.stream, alkstore.__alkstore_events."offset"
 LIMIT $4::BIGINT OFFSET 0;

-- READ_FROM
SELECT alkstore.__alkstore_events."offset", alkstore.__alkstore_events.stream, alkstore.__alkstore_events.key, alkstore.__alkstore_events.payload, alkstore.__alkstore_events.headers, alkstore.__alkstore_events.created_at
FROM alkstore.__alkstore_events
WHERE (alkstore.__alkstore_events.stream, alkstore.__alkstore_events."offset") > ($1::VARCHAR, coalesce((SELECT alkstore.__alkstore_consumers."offset"
FROM alkstore.__alkstore_consumers
WHERE alkstore.__alkstore_consumers.stream = $1::VARCHAR AND alkstore.__alkstore_consumers.consumer = $2::VARCHAR), 0)) AND (alkstore.__alkstore_events.stream, alkstore.__alkstore_events."offset") <= ($1::VARCHAR, $3::BIGINT) ORDER BY alkstore.__alkstore_events.stream, alkstore.__alkstore_events."offset"
 LIMIT $4::BIGINT OFFSET 0;

-- READ_WITH_OWN
SELECT alkstore.__alkstore_events."offset", alkstore.__alkstore_events.stream, alkstore.__alkstore_events.key, alkstore.__alkstore_events.payload, alkstore.__alkstore_events.headers, alkstore.__alkstore_events.created_at
FROM alkstore.__alkstore_events
WHERE (alkstore.__alkstore_events.stream, alkstore.__alkstore_events."offset") > ($1::VARCHAR, $2::BIGINT) AND (alkstore.__alkstore_events.stream, alkstore.__alkstore_events."offset") <= ($1::VARCHAR, 9223372036854775807) AND (alkstore.__alkstore_events."offset" <= $3::BIGINT OR alkstore.__alkstore_events."offset" IN (SELECT (own.value #>> '{}')::bigint AS value_1
FROM (SELECT each.value, each.key FROM json_array_elements(CAST($4::VARCHAR AS JSON)) WITH ORDINALITY AS each(value, key)) AS own)) ORDER BY alkstore.__alkstore_events.stream, alkstore.__alkstore_events."offset"
 LIMIT $5::BIGINT OFFSET 0;

-- TRIM
WITH chosen AS MATERIALIZED
(SELECT alkstore.__alkstore_events."offset" AS "offset"
FROM alkstore.__alkstore_events
WHERE (alkstore.__alkstore_events.stream, alkstore.__alkstore_events."offset") > ($1::VARCHAR, -9223372036854775807) AND (alkstore.__alkstore_events.stream, alkstore.__alkstore_events."offset") <= ($1::VARCHAR, $2::BIGINT) ORDER BY alkstore.__alkstore_events.stream, alkstore.__alkstore_events."offset"
 LIMIT $3::BIGINT OFFSET 0),
locked AS MATERIALIZED
(SELECT alkstore.__alkstore_events."offset" AS "offset"
FROM alkstore.__alkstore_events
WHERE alkstore.__alkstore_events."offset" = ANY (array((SELECT chosen."offset"
FROM chosen))) ORDER BY alkstore.__alkstore_events."offset" FOR UPDATE OF __alkstore_events SKIP LOCKED)
 DELETE FROM alkstore.__alkstore_events WHERE alkstore.__alkstore_events."offset" = ANY (array((SELECT locked."offset"
FROM locked)));
