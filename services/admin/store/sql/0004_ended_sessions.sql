-- Sessions of the web UI that were logged out, until they would have ended by themselves.
CREATE TABLE onramp_admin.ended_sessions (
    session text        PRIMARY KEY,
    until   timestamptz NOT NULL
);
