-- APPEND
INSERT INTO __alkstore_events (stream, "key", payload, headers, created_at) VALUES (:stream, :key, :payload, :headers, :now) RETURNING "offset";

-- APPEND_MANY
INSERT INTO __alkstore_events (stream, "key", payload, headers, created_at) SELECT :stream AS anon_1, json_extract(entries.value, '$[1]') AS json_extract_1, CAST(json_extract(entries.value, '$[0]') AS BLOB) AS anon_2, json_extract(entries.value, '$[2]') AS json_extract_2, :now AS anon_3
FROM json_each(:entries) AS entries ORDER BY entries."key" RETURNING "offset";

-- READ
SELECT __alkstore_events."offset", __alkstore_events.stream, __alkstore_events."key", __alkstore_events.payload, __alkstore_events.headers, __alkstore_events.created_at
FROM __alkstore_events
WHERE __alkstore_events.stream = :stream AND __alkstore_events."offset" > :after ORDER BY __alkstore_events."offset"
 LIMIT :limit OFFSET 0;

-- READ_FROM
SELECT __alkstore_events."offset", __alkstore_events.stream, __alkstore_events."key", __alkstore_events.payload, __alkstore_events.headers, __alkstore_events.created_at
FROM __alkstore_events
WHERE __alkstore_events.stream = :stream AND __alkstore_events."offset" > coalesce((SELECT __alkstore_consumers."offset"
FROM __alkstore_consumers
WHERE __alkstore_consumers.stream = :stream AND __alkstore_consumers.consumer = :consumer), 0) ORDER BY __alkstore_events."offset"
 LIMIT :limit OFFSET 0;

-- GET_OFFSET
SELECT __alkstore_consumers."offset"
FROM __alkstore_consumers
WHERE __alkstore_consumers.stream = :stream AND __alkstore_consumers.consumer = :consumer;

-- SAVE_OFFSET
INSERT INTO __alkstore_consumers (stream, consumer, "offset") VALUES (:stream, :consumer, :offset) ON CONFLICT (stream, consumer) DO UPDATE SET "offset" = excluded."offset" WHERE __alkstore_consumers."offset" < excluded."offset";

-- TRIM
DELETE FROM __alkstore_events WHERE __alkstore_events."offset" IN (SELECT __alkstore_events."offset"
FROM __alkstore_events
WHERE __alkstore_events.stream = :stream AND __alkstore_events."offset" <= :horizon ORDER BY __alkstore_events."offset"
 LIMIT :limit OFFSET 0);

-- LIST_CONSUMERS
SELECT __alkstore_consumers.stream, __alkstore_consumers.consumer, __alkstore_consumers."offset"
FROM __alkstore_consumers
WHERE __alkstore_consumers.stream = :stream ORDER BY __alkstore_consumers.consumer;

-- BOUNDS
SELECT min(__alkstore_events."offset") AS min_1, max(__alkstore_events."offset") AS max_1, count(*) AS count_1
FROM __alkstore_events
WHERE __alkstore_events.stream = :stream;
