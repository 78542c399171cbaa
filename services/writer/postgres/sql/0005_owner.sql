-- Whose this database is: of which Kafka cluster, and under which public name.  One row, written
-- once, at the first claim; two owners would each take the other's offsets for settled.
CREATE TABLE onramp.owner (
    one        boolean     PRIMARY KEY DEFAULT true CHECK (one),
    cluster_id text        NOT NULL,
    name       text        NOT NULL,
    since      timestamptz NOT NULL DEFAULT now()
);
