-- A fold is kept as several rows: 0 is what changes with each snapshot, the others are pieces that are
-- written once. What was kept before is made anew from the log.
DROP TABLE snapshots;

CREATE TABLE snapshots (
    session_id TEXT NOT NULL REFERENCES sessions (id),
    number BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    version BIGINT NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (session_id, number)
);
