-- SEND
INSERT INTO messages (payload_type, payload_data, enqueued_at, visible_at, attempt) VALUES (:type, :data, :now, :now, 0);

-- SEND_TWO
INSERT INTO messages (payload_type, payload_data, enqueued_at, visible_at, attempt) VALUES (:type_0, :data_0, :now, :now, 0), (:type_1, :data_1, :now, :now, 0);

-- DUE
SELECT messages.id
FROM messages
WHERE messages.visible_at <= :now ORDER BY messages.enqueued_at, messages.id
 LIMIT :limit OFFSET 0;

-- LOOK
SELECT CAST(messages.payload_type AS BLOB) AS payload_type, CAST(messages.payload_data AS BLOB) AS payload_data, CASE WHEN (typeof(messages.attempt) = 'integer') THEN messages.attempt END AS anon_1
FROM messages
WHERE messages.id = :id;

-- CLAIM
UPDATE messages SET visible_at=(:now + 30000), attempt=(messages.attempt + 1), receipt_handle=:receipt WHERE messages.id = :id RETURNING payload_type, payload_data, attempt;

-- ACK
DELETE FROM messages WHERE messages.id = :id AND messages.receipt_handle = :receipt;

-- NACK
UPDATE messages SET visible_at=:now WHERE messages.id = :id AND messages.receipt_handle = :receipt;

-- RENEW
UPDATE messages SET visible_at=(:now + :milliseconds) WHERE messages.id = :id AND messages.receipt_handle = :receipt AND messages.visible_at > :now;

-- EXISTS
SELECT messages.id
FROM messages
WHERE messages.id = :id;

-- PURGE
DELETE FROM messages;

-- STATS
SELECT count(*) AS count_1, count(CASE WHEN (messages.visible_at <= :now) THEN 1 END) AS count_2, count(CASE WHEN (messages.visible_at > :now) THEN messages.receipt_handle END) AS count_3
FROM messages;
