-- NOTIFY
INSERT OR REPLACE INTO __alkstore_channels (channel, notified_at) VALUES (:channel, :now) RETURNING seq;

-- FORGET_IDLE
DELETE FROM __alkstore_channels WHERE __alkstore_channels.seq IN (SELECT __alkstore_channels.seq
FROM __alkstore_channels ORDER BY __alkstore_channels.seq
 LIMIT 2 OFFSET 0) AND __alkstore_channels.notified_at < :now - 3600;

-- CHANNELS_SINCE
SELECT __alkstore_channels.seq, __alkstore_channels.channel
FROM __alkstore_channels
WHERE __alkstore_channels.seq > :after ORDER BY __alkstore_channels.seq;

-- LAST_NOTIFY
SELECT max(__alkstore_channels.seq) AS max_1
FROM __alkstore_channels;

-- STREAM_TAILS
SELECT streams.value AS value_1, (SELECT max(__alkstore_events."offset") AS max_1
FROM __alkstore_events
WHERE __alkstore_events.stream = streams.value) AS anon_1
FROM json_each(:streams) AS streams;

-- READY_QUEUES
SELECT queues.value AS value_1
FROM json_each(:queues) AS queues
WHERE (SELECT min(__alkstore_jobs.queue) AS min_1
FROM __alkstore_jobs
WHERE __alkstore_jobs.state = 'ready' AND __alkstore_jobs.queue >= queues.value) = queues.value;

-- SCHEDULES_STATE
SELECT count(*) AS count_1, min(__alkstore_schedules.next_fire_at) AS min_1, (SELECT count(*) AS count_2
FROM __alkstore_locks
WHERE __alkstore_locks.name = :leadership) AS anon_1
FROM __alkstore_schedules;
