-- Parked events that the database refuses for something that is in them, and by which SQLSTATE: no other event
-- waits for them.  A digest of what each is known by is its key, and nothing else is looked at, so that nothing
-- of an event keeps it out of here too.
CREATE TABLE onramp_admin.set_aside (
    key bytea PRIMARY KEY,
    sqlstate text NOT NULL,
    set_aside_at timestamptz NOT NULL DEFAULT now(),
    event bytea NOT NULL,
    value bytea
);
