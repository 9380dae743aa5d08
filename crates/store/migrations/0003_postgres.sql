-- What Postgres does in its own way.

-- Lists are in the order of bytes, whatever the language of the database.
ALTER TABLE sessions ALTER COLUMN id TYPE TEXT COLLATE "C";

-- Who drives a session, until when, by the clock of this database.
CREATE TABLE claims (
    session_id TEXT NOT NULL PRIMARY KEY,
    owner TEXT NOT NULL,
    until_ms BIGINT NOT NULL
);

CREATE INDEX claims_by_owner ON claims (owner);

-- The words of the entries that a search looks through. The text itself stands only in the entries.
CREATE TABLE words (
    session_id TEXT NOT NULL REFERENCES sessions (id),
    seq BIGINT NOT NULL,
    words TSVECTOR NOT NULL,
    PRIMARY KEY (session_id, seq)
);

CREATE INDEX words_by_text ON words USING GIN (words);

-- Folds that may be thrown away at any time.
CREATE TABLE snapshots (
    session_id TEXT NOT NULL PRIMARY KEY REFERENCES sessions (id),
    seq BIGINT NOT NULL,
    version BIGINT NOT NULL,
    body BYTEA NOT NULL
);
