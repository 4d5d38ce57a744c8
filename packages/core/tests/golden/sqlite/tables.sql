CREATE TABLE __alkstore_channels (
	seq INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
	channel TEXT NOT NULL,
	notified_at INTEGER NOT NULL,
	UNIQUE (channel)
);

CREATE TABLE __alkstore_consumers (
	stream TEXT NOT NULL,
	consumer TEXT NOT NULL,
	"offset" INTEGER NOT NULL,
	PRIMARY KEY (stream, consumer)
)
 WITHOUT ROWID;

CREATE TABLE __alkstore_dead_jobs (
	id INTEGER NOT NULL,
	queue TEXT NOT NULL,
	payload BLOB NOT NULL,
	headers TEXT,
	state TEXT NOT NULL,
	priority INTEGER NOT NULL,
	run_at INTEGER NOT NULL,
	created_at INTEGER NOT NULL,
	expires_at INTEGER,
	attempts INTEGER NOT NULL,
	max_attempts INTEGER NOT NULL,
	visibility_timeout_s INTEGER NOT NULL,
	backoff_base_s INTEGER NOT NULL,
	dead_letter_retention_s INTEGER,
	worker_id TEXT,
	claimed_at INTEGER,
	claim_expires_at INTEGER,
	last_error TEXT,
	died_at INTEGER NOT NULL,
	retained_until INTEGER,
	PRIMARY KEY (id)
);
CREATE INDEX __alkstore_dead_jobs_queue ON __alkstore_dead_jobs (queue, id);
CREATE INDEX __alkstore_dead_jobs_retention ON __alkstore_dead_jobs (queue, retained_until) WHERE retained_until IS NOT NULL;

CREATE TABLE __alkstore_events (
	"offset" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
	stream TEXT NOT NULL,
	"key" TEXT,
	payload BLOB NOT NULL,
	headers TEXT,
	created_at INTEGER NOT NULL
);
CREATE INDEX __alkstore_events_stream ON __alkstore_events (stream, "offset");

CREATE TABLE __alkstore_jobs (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
	queue TEXT NOT NULL,
	payload BLOB NOT NULL,
	headers TEXT,
	state TEXT NOT NULL,
	priority INTEGER NOT NULL,
	run_at INTEGER NOT NULL,
	created_at INTEGER NOT NULL,
	expires_at INTEGER,
	attempts INTEGER NOT NULL,
	max_attempts INTEGER NOT NULL,
	visibility_timeout_s INTEGER NOT NULL,
	backoff_base_s INTEGER NOT NULL,
	dead_letter_retention_s INTEGER,
	worker_id TEXT,
	claimed_at INTEGER,
	claim_expires_at INTEGER,
	last_error TEXT
);
CREATE INDEX __alkstore_jobs_delayed ON __alkstore_jobs (queue, run_at, priority, expires_at) WHERE state = 'delayed';
CREATE INDEX __alkstore_jobs_expiry ON __alkstore_jobs (queue, state, expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX __alkstore_jobs_processing ON __alkstore_jobs (queue, claim_expires_at) WHERE state = 'processing';
CREATE INDEX __alkstore_jobs_ready ON __alkstore_jobs (queue, priority DESC, run_at, id, expires_at) WHERE state = 'ready';

CREATE TABLE __alkstore_locks (
	name TEXT NOT NULL,
	owner TEXT NOT NULL,
	token INTEGER NOT NULL,
	expires_at INTEGER NOT NULL,
	PRIMARY KEY (name)
)
 WITHOUT ROWID;

CREATE TABLE __alkstore_meta (
	"key" TEXT NOT NULL,
	value TEXT NOT NULL,
	PRIMARY KEY ("key")
);

CREATE TABLE __alkstore_schedules (
	name TEXT NOT NULL,
	spec TEXT NOT NULL,
	queue TEXT NOT NULL,
	payload BLOB NOT NULL,
	priority INTEGER NOT NULL,
	max_attempts INTEGER,
	expires INTEGER,
	headers TEXT,
	next_fire_at INTEGER NOT NULL,
	PRIMARY KEY (name)
);

CREATE TABLE __alkstore_sequences (
	name TEXT NOT NULL,
	value INTEGER NOT NULL,
	PRIMARY KEY (name)
)
 WITHOUT ROWID;

