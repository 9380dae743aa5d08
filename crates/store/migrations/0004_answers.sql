-- Answers of people for sessions that somebody else drives, until the log has them. The same text
-- serves SQLite and Postgres.
CREATE TABLE answers (
    session_id TEXT NOT NULL REFERENCES sessions (id),
    call TEXT NOT NULL,
    choice TEXT NOT NULL,
    why TEXT NOT NULL,
    PRIMARY KEY (session_id, call)
);
