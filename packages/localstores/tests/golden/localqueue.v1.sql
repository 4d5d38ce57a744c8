CREATE TABLE IF NOT EXISTS meta (
    "key" TEXT,
    value TEXT NOT NULL,
    PRIMARY KEY ("key")
);

CREATE TABLE IF NOT EXISTS messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    payload_type TEXT NOT NULL,
    payload_data TEXT NOT NULL,
    enqueued_at INTEGER NOT NULL,
    visible_at INTEGER NOT NULL,
    attempt INTEGER DEFAULT 0 NOT NULL,
    receipt_handle TEXT
);

CREATE INDEX IF NOT EXISTS idx_messages_visible ON messages (visible_at, enqueued_at, id);
