-- Under which routes (the digest of their snapshot) each range was settled here, moved with the
-- ledger in the rows' own transaction: [since, upto) of a ledger row under its `digest`, what
-- came before in `settled_under`, of two that overlap the later one.  Null: nothing yet.
ALTER TABLE onramp.ledger
    ADD COLUMN digest text,
    ADD COLUMN since  bigint,
    ADD COLUMN upto   bigint;

CREATE TABLE onramp.settled_under (
    id        bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    topic_id  uuid    NOT NULL,
    topic     text    NOT NULL,
    partition integer NOT NULL,
    start     bigint  NOT NULL,
    "end"     bigint  NOT NULL,
    digest    text    NOT NULL
);
