-- FIND_MARKER
SELECT meta.value
FROM meta
WHERE meta."key" = 'format';

-- SET_MARKER
INSERT OR IGNORE INTO meta ("key", value) VALUES ('format', :marker);
