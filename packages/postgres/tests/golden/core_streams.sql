-- APPEND
INSERT INTO alkstore.__alkstore_events (stream, key, payload, headers, created_at) VALUES ($1::VARCHAR, $2::VARCHAR, $3::BYTEA, $4::VARCHAR, (SELECT coalesce($5::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint))) RETURNING alkstore.__alkstore_events."offset";

-- APPEND_MANY
INSERT INTO alkstore.__alkstore_events (stream, key, payload, headers, created_at) SELECT $1::VARCHAR AS anon_1, (entries.value ->> 1) AS json_extract_1, convert_to((entries.value ->> 0), 'UTF8') AS anon_2, (entries.value ->> 2) AS json_extract_2, (SELECT coalesce($2::BIGINT, floor(extract(epoch FROM clock_timestamp()))::bigint)) AS anon_3
FROM (SELECT each.value, each.key FROM json_array_elements(CAST($3::VARCHAR AS JSON)) WITH ORDINALITY AS each(value, key)) AS entries ORDER BY entries.key RETURNING alkstore.__alkstore_events."offset";

-- READ
SELECT alkstore.__alkstore_events."offset", alkstore.__alkstore_events.stream, alkstore.__alkstore_events.key, alkstore.__alkstore_events.payload, alkstore.__alkstore_events.headers, alkstore.__alkstore_events.created_at
FROM alkstore.__alkstore_events
WHERE alkstore.__alkstore_events.stream = $1::VARCHAR AND alkstore.__alkstore_events."offset" > $2::BIGINT ORDER BY alkstore.__alkstore_events."offset"
 LIMIT $3::BIGINT OFFSET 0;

-- READ_FROM
SELECT alkstore.__alkstore_events."offset", alkstore.__alkstore_events.stream, alkstore.__alkstore_events.key, alkstore.__alkstore_events.payload, alkstore.__alkstore_events.headers, alkstore.__alkstore_events.created_at
FROM alkstore.__alkstore_events
WHERE alkstore.__alkstore_events.stream = $1::VARCHAR AND alkstore.__alkstore_events."offset" > coalesce((SELECT alkstore.__alkstore_consumers."offset"
FROM alkstore.__alkstore_consumers
WHERE alkstore.__alkstore_consumers.stream = $1::VARCHAR AND alkstore.__alkstore_consumers.consumer = $2::VARCHAR), 0) ORDER BY alkstore.__alkstore_events."offset"
 LIMIT $3::BIGINT OFFSET 0;

-- GET_OFFSET
SELECT alkstore.__alkstore_consumers."offset"
FROM alkstore.__alkstore_consumers
WHERE alkstore.__alkstore_consumers.stream = $1::VARCHAR AND alkstore.__alkstore_consumers.consumer = $2::VARCHAR;

-- SAVE_OFFSET
INSERT INTO alkstore.__alkstore_consumers (stream, consumer, "offset") VALUES ($1::VARCHAR, $2::VARCHAR, $3::BIGINT) ON CONFLICT (stream, consumer) DO UPDATE SET "offset" = excluded."offset" WHERE alkstore.__alkstore_consumers."offset" < excluded."offset";

-- TRIM
DELETE FROM alkstore.__alkstore_events WHERE alkstore.__alkstore_events."offset" IN (SELECT alkstore.__alkstore_events."offset"
FROM alkstore.__alkstore_events
WHERE alkstore.__alkstore_events.stream = $1::VARCHAR AND alkstore.__alkstore_events."offset" <= $2::BIGINT ORDER BY alkstore.__alkstore_events."offset"
 LIMIT $3::BIGINT OFFSET 0);

-- LIST_CONSUMERS
SELECT alkstore.__alkstore_consumers.stream, alkstore.__alkstore_consumers.consumer, alkstore.__alkstore_consumers."offset"
FROM alkstore.__alkstore_consumers
WHERE alkstore.__alkstore_consumers.stream = $1::VARCHAR ORDER BY alkstore.__alkstore_consumers.consumer;

-- BOUNDS
SELECT min(alkstore.__alkstore_events."offset") AS min_1, max(alkstore.__alkstore_events."offset") AS max_1, count(*) AS count_1
FROM alkstore.__alkstore_events
WHERE alkstore.__alkstore_events.stream = $1::VARCHAR;
