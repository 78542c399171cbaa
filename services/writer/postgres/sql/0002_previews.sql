-- Samples that an operator wants to see as rows of a table, which need not exist yet. The writer lands them in a
-- temporary copy of the table, rolls back, and answers; nothing else is stored. Old rows are dropped.
CREATE TABLE onramp.previews (
    id             uuid        PRIMARY KEY DEFAULT gen_random_uuid(),
    schema_name    text        NOT NULL,
    table_name     text        NOT NULL,
    -- The rule for fields without a column: freeze or discard.
    unknown_fields text        NOT NULL,
    -- The JSON Schema whose columns are added first; none are added without it.
    fields         json,
    -- Events as text, in the order of the answer.
    samples        text[]      NOT NULL,
    staged_at      timestamptz NOT NULL DEFAULT now(),
    -- The rows as Postgres returns them as JSON, or why there is none.
    answer         json
);
CREATE INDEX previews_unanswered ON onramp.previews (staged_at) WHERE answer IS NULL;
