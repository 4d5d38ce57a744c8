-- NOTES
SELECT CAST(pg_locks.classid AS BIGINT) AS classid, pg_stat_activity.pid, coalesce(CAST(pg_stat_activity.application_name AS TEXT), '') AS coalesce_1, coalesce(CAST(pg_stat_activity.state AS TEXT), 'unknown') AS coalesce_2, CAST(floor(EXTRACT(epoch FROM clock_timestamp() - pg_stat_activity.xact_start)) AS BIGINT) AS floor_1
FROM pg_locks JOIN pg_stat_activity ON pg_locks.pid = pg_stat_activity.pid
WHERE pg_locks.locktype = 'advisory' AND pg_locks.database = (SELECT pg_database.oid
FROM pg_database
WHERE pg_database.datname = current_database()) AND pg_locks.objsubid = 2 AND CAST(floor(EXTRACT(epoch FROM clock_timestamp() - pg_stat_activity.xact_start)) AS BIGINT) >= 60;

-- SNAPSHOTS
SELECT pg_stat_activity.pid, coalesce(CAST(pg_stat_activity.application_name AS TEXT), '') AS coalesce_1, coalesce(CAST(pg_stat_activity.state AS TEXT), 'unknown') AS coalesce_2, CAST(floor(EXTRACT(epoch FROM clock_timestamp() - pg_stat_activity.xact_start)) AS BIGINT) AS floor_1
FROM pg_stat_activity
WHERE pg_stat_activity.datname = current_database() AND pg_stat_activity.backend_xmin IS NOT NULL AND pg_stat_activity.backend_type != 'autovacuum worker' AND CAST(floor(EXTRACT(epoch FROM clock_timestamp() - pg_stat_activity.xact_start)) AS BIGINT) >= 600;

-- QUEUE
SELECT pg_notification_queue_usage() AS pg_notification_queue_usage_1;
