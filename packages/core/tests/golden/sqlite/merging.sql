-- ACK_EACH
DELETE FROM __alkstore_jobs WHERE __alkstore_jobs.id IN (SELECT json_extract(claims.value, '$[0]') AS json_extract_1
FROM json_each(:claims) AS claims) AND (__alkstore_jobs.id, __alkstore_jobs.attempts) IN (SELECT json_extract(claims.value, '$[0]') AS json_extract_1, json_extract(claims.value, '$[1]') AS json_extract_2
FROM json_each(:claims) AS claims) AND __alkstore_jobs.queue = :queue AND +__alkstore_jobs.state = 'processing' AND __alkstore_jobs.claim_expires_at >= :now RETURNING id, attempts;
