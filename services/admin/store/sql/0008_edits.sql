-- Payloads that somebody has edited are sent first, and jobs take them; nothing was ever kept in the table of before.
DROP TABLE onramp_admin.edits;
CREATE TABLE onramp_admin.uploads (
    id     bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at     timestamptz NOT NULL DEFAULT now(),
    actor  text        NOT NULL,
    events bigint      NOT NULL DEFAULT 0
);
CREATE TABLE onramp_admin.edits (
    upload  bigint NOT NULL REFERENCES onramp_admin.uploads,
    event   bigint NOT NULL,
    payload bytea  NOT NULL,
    PRIMARY KEY (upload, event)
);
