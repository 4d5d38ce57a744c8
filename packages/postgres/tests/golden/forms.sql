-- NOTIFY_ALL
SELECT pg_notify((channels.value #>> '{}'), '') AS pg_notify_1
FROM (SELECT each.value, each.key FROM json_array_elements(CAST($1::VARCHAR AS JSON)) WITH ORDINALITY AS each(value, key)) AS channels;
