-- What SQLite does in its own way.

-- The entries that a search looks through, and their words. The text itself stands only in the
-- entries; `texts` gives each a number that no clean-up of the file changes.
CREATE TABLE texts (
    id INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL REFERENCES sessions (id),
    seq BIGINT NOT NULL,
    UNIQUE (session_id, seq)
);

CREATE VIRTUAL TABLE words USING fts5 (
    text, content = '', contentless_delete = 1, tokenize = 'ascii'
);

-- Folds that may be thrown away at any time.
CREATE TABLE snapshots (
    session_id TEXT NOT NULL PRIMARY KEY REFERENCES sessions (id),
    seq BIGINT NOT NULL,
    version BIGINT NOT NULL,
    body BLOB NOT NULL
);
