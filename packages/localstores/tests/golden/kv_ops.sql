-- FIND
SELECT kv."key", kv.value, kv.expires_at, kv.version
FROM kv
WHERE kv."key" = :name;

-- FIND_EXPIRY
SELECT kv.expires_at
FROM kv
WHERE kv."key" = :name;

-- DROP_EXPIRED
DELETE FROM kv WHERE kv."key" = :name AND kv.expires_at IS NOT NULL AND kv.expires_at <= :now;

-- PUT
INSERT INTO kv ("key", value, expires_at, version) VALUES (:name, :content, :expiry, :fresh) ON CONFLICT ("key") DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at, version = excluded.version;

-- PUT_IF_ABSENT
INSERT INTO kv ("key", value, expires_at, version) VALUES (:name, :content, :expiry, :fresh) ON CONFLICT ("key") DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at, version = excluded.version WHERE kv.expires_at IS NOT NULL AND kv.expires_at <= :now;

-- PUT_IF_VERSION
UPDATE kv SET value=:content, expires_at=:expiry, version=:fresh WHERE kv."key" = :name AND kv.version = :expected AND (kv.expires_at IS NULL OR kv.expires_at > :now);

-- DELETE
DELETE FROM kv WHERE kv."key" = :name;

-- DELETE_IF_VERSION
DELETE FROM kv WHERE kv."key" = :name AND kv.version = :expected AND (kv.expires_at IS NULL OR kv.expires_at > :now);

-- DELETE_ALL
DELETE FROM kv;

-- PAGE
SELECT kv."key", kv.value, kv.expires_at, kv.version
FROM kv
WHERE kv."key" < :until AND (kv.expires_at IS NULL OR kv.expires_at > :now) AND kv."key" >= :since ORDER BY kv."key"
 LIMIT :count OFFSET 0;

-- PAGE_AFTER
SELECT kv."key", kv.value, kv.expires_at, kv.version
FROM kv
WHERE kv."key" < :until AND (kv.expires_at IS NULL OR kv.expires_at > :now) AND kv."key" > :since ORDER BY kv."key"
 LIMIT :count OFFSET 0;

-- COUNT
SELECT count(*) AS count_1
FROM kv
WHERE kv.expires_at IS NULL OR kv.expires_at > :now;

-- KEYS
SELECT kv."key"
FROM kv
WHERE kv.expires_at IS NULL OR kv.expires_at > :now ORDER BY kv."key";
