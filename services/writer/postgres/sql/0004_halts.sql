-- That this database is halted and why, and how a person wants it resolved.  One row at most.
CREATE TABLE onramp.halts (
    one         boolean     PRIMARY KEY DEFAULT true CHECK (one),
    reason      text        NOT NULL,
    since       timestamptz NOT NULL DEFAULT now(),
    resolution  text        CHECK (resolution IN ('recheck', 'replay', 'skip')),
    resolved_by text
);
