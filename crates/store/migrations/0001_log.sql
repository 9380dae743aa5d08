-- The log, and what people ask of it. The same text serves SQLite and Postgres.

-- One row a session: who may write it (the epoch), and where its log ends.
CREATE TABLE sessions (
    id TEXT NOT NULL PRIMARY KEY,
    epoch BIGINT NOT NULL,
    head_seq BIGINT NOT NULL,
    head_hash TEXT NOT NULL,
    started_ms BIGINT NOT NULL,
    updated_ms BIGINT NOT NULL
);

CREATE INDEX sessions_by_change ON sessions (updated_ms DESC, id DESC);

-- The truth. The body is JSON as it was written, byte for byte, and the last column: what people
-- ask for stands before it, so that no question has to read past a long body.
CREATE TABLE entries (
    session_id TEXT NOT NULL REFERENCES sessions (id),
    seq BIGINT NOT NULL,
    at_ms BIGINT NOT NULL,
    turn BIGINT NOT NULL,
    round BIGINT NOT NULL,
    kind TEXT NOT NULL,
    version BIGINT NOT NULL,
    call TEXT,
    name TEXT,
    how TEXT,
    stop TEXT,
    input_tokens BIGINT,
    cache_read_tokens BIGINT,
    cache_write_tokens BIGINT,
    output_tokens BIGINT,
    reasoning_tokens BIGINT,
    cost_nano_usd BIGINT,
    ms BIGINT,
    preview TEXT,
    hash TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (session_id, seq)
);

-- What model calls cost: a list of sessions adds these up without a look at the entries. A query
-- must say the same condition to the letter.
CREATE INDEX entries_by_cost ON entries (
    session_id, kind,
    input_tokens, cache_read_tokens, cache_write_tokens, output_tokens, cost_nano_usd
) WHERE kind IN ('ModelReplied', 'ModelFailed');

-- One row a turn. A turn that was woken or prompted again after its end is open: it has no stop.
-- A sum over nothing known is NULL: unknown is not zero. Reasoning is part of the output.
CREATE VIEW turns AS
SELECT
    t.session_id AS session,
    t.turn AS turn,
    t.started_ms AS started_ms,
    CASE WHEN last.stop IS NOT NULL THEN last.at_ms END AS ended_ms,
    last.stop AS stop,
    t.rounds AS rounds,
    t.model_calls AS model_calls,
    t.tool_calls AS tool_calls,
    t.input_tokens AS input_tokens,
    t.cache_read_tokens AS cache_read_tokens,
    t.cache_write_tokens AS cache_write_tokens,
    t.output_tokens AS output_tokens,
    t.reasoning_tokens AS reasoning_tokens,
    t.cost_nano_usd AS cost_nano_usd,
    COALESCE(first.preview, '') AS title
FROM (
    SELECT
        session_id,
        turn,
        MIN(at_ms) AS started_ms,
        MAX(round) AS rounds,
        COUNT(CASE WHEN kind IN ('ModelReplied', 'ModelFailed') THEN 1 END) AS model_calls,
        COUNT(CASE WHEN kind = 'ToolFinished' THEN 1 END) AS tool_calls,
        CAST(SUM(input_tokens) AS BIGINT) AS input_tokens,
        CAST(SUM(cache_read_tokens) AS BIGINT) AS cache_read_tokens,
        CAST(SUM(cache_write_tokens) AS BIGINT) AS cache_write_tokens,
        CAST(SUM(output_tokens) AS BIGINT) AS output_tokens,
        CAST(SUM(reasoning_tokens) AS BIGINT) AS reasoning_tokens,
        CAST(SUM(cost_nano_usd) AS BIGINT) AS cost_nano_usd,
        MIN(CASE WHEN kind = 'PromptSubmitted' THEN seq END) AS first_seq,
        MAX(CASE WHEN kind IN ('PromptSubmitted', 'Woken', 'TurnEnded') THEN seq END) AS last_seq
    FROM entries
    WHERE turn > 0
    GROUP BY session_id, turn
) AS t
LEFT JOIN entries AS first ON first.session_id = t.session_id AND first.seq = t.first_seq
LEFT JOIN entries AS last ON last.session_id = t.session_id AND last.seq = t.last_seq;

-- One row a model call or tool call that has ended.
CREATE VIEW steps AS
SELECT
    session_id AS session,
    turn,
    round,
    seq,
    at_ms,
    CASE WHEN kind = 'ToolFinished' THEN 'tool' ELSE 'model' END AS what,
    name,
    how,
    input_tokens,
    cache_read_tokens,
    cache_write_tokens,
    output_tokens,
    reasoning_tokens,
    cost_nano_usd,
    ms
FROM entries
WHERE kind IN ('ModelReplied', 'ModelFailed', 'ToolFinished');
