-- KV_COUNTS
SELECT count(*) AS total, count(*) FILTER (WHERE kv.expires_at IS NULL OR kv.expires_at > :now) AS live, count(*) FILTER (WHERE kv.expires_at IS NOT NULL AND kv.expires_at <= :now) AS expired
FROM kv;

-- QUEUE_COUNTS
SELECT count(*) AS total, count(*) FILTER (WHERE messages.visible_at <= :now) AS visible, count(*) FILTER (WHERE messages.visible_at > :now AND messages.receipt_handle IS NOT NULL) AS "inFlight", count(*) FILTER (WHERE messages.visible_at > :now AND messages.receipt_handle IS NULL) AS delayed
FROM messages;
