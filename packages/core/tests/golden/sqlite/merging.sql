-- ACK_EACH
DELETE FROM __alkstore_jobs WHERE __alkstore_jobs.id IN (SELECT ids.value AS value_1
FROM json_each(:ids) AS ids) AND __alkstore_jobs.queue = :queue AND +__alkstore_jobs.state = 'processing' AND __alkstore_jobs.claim_expires_at >= :now AND __alkstore_jobs.attempts = :attempt RETURNING id;
