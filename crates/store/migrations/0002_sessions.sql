-- Sessions as things. The same text serves SQLite and Postgres.

-- What lists, workers and forks ask of a session, taken from its entries when they are written.
ALTER TABLE sessions ADD COLUMN format BIGINT NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN agent TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN workdir TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN standing TEXT NOT NULL DEFAULT 'idle';
ALTER TABLE sessions ADD COLUMN stop TEXT;
ALTER TABLE sessions ADD COLUMN wake_ms BIGINT;

-- A fork's log is its parent's up to and including this entry, then its own.
ALTER TABLE sessions ADD COLUMN parent_id TEXT REFERENCES sessions (id);
ALTER TABLE sessions ADD COLUMN parent_seq BIGINT NOT NULL DEFAULT 0;

-- 1 for one that was removed and is hidden until its last fork goes.
ALTER TABLE sessions ADD COLUMN removed BIGINT NOT NULL DEFAULT 0;

CREATE INDEX sessions_by_standing ON sessions (standing, updated_ms) WHERE standing <> 'idle';

CREATE INDEX sessions_by_parent ON sessions (parent_id) WHERE parent_id IS NOT NULL;

-- The blobs that an entry names: what no row names may be swept.
CREATE TABLE blob_refs (
    hash TEXT NOT NULL,
    session_id TEXT NOT NULL REFERENCES sessions (id),
    seq BIGINT NOT NULL,
    PRIMARY KEY (hash, session_id, seq)
);

CREATE INDEX blob_refs_by_session ON blob_refs (session_id);
