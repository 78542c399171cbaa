-- Bytes that left the database: each segment has those of the events of a range of ids, named relative to ONRAMP_ADMIN_STORE.
CREATE TABLE onramp_admin.segments (
    first_event bigint      PRIMARY KEY,
    last_event  bigint      NOT NULL CHECK (last_event >= first_event),
    name        text        NOT NULL UNIQUE,
    events      bigint      NOT NULL,
    size        bigint      NOT NULL,
    made_at     timestamptz NOT NULL DEFAULT now()
);

-- What is in a segment, without opening it.
CREATE TABLE onramp_admin.parts (
    id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    segment     bigint      NOT NULL REFERENCES onramp_admin.segments ON DELETE CASCADE,
    destination text        NOT NULL,
    event_name  text,
    step        text,
    code        text        NOT NULL,
    hour        timestamptz NOT NULL,
    events      bigint      NOT NULL
);
CREATE INDEX parts_of_segment ON onramp_admin.parts (segment);

-- `gone`: its bytes were removed, long after it was replayed or discarded.
ALTER TABLE onramp_admin.events ADD COLUMN gone boolean NOT NULL DEFAULT false;
ALTER TABLE onramp_admin.bytes ADD COLUMN kept_at timestamptz NOT NULL DEFAULT now();

-- Two installations that share a store have a folder each.
ALTER TABLE onramp_admin.installation ADD COLUMN folder uuid NOT NULL DEFAULT gen_random_uuid();
