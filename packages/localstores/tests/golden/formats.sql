-- FIND_MARKER
SELECT meta.value
FROM meta
WHERE meta."key" = :key_1;

-- SET_MARKER
INSERT OR IGNORE INTO meta ("key", value) VALUES (:key, :marker);
