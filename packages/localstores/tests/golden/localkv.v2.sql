CREATE TABLE IF NOT EXISTS meta (
    "key" TEXT,
    value TEXT NOT NULL,
    PRIMARY KEY ("key")
);

CREATE TABLE IF NOT EXISTS kv (
    "key" TEXT,
    value BLOB NOT NULL,
    expires_at INTEGER,
    version TEXT NOT NULL,
    PRIMARY KEY ("key")
);
