-- Readings of the databases for statements: one of each database and hour, so that a period that Kafka and the
-- totals have passed can still be printed. `content` is compressed JSON (services/ops/statement/reading.py).
CREATE TABLE onramp_admin.readings (
    hour     timestamptz NOT NULL,
    database text        NOT NULL,
    at       timestamptz NOT NULL,
    content  bytea       NOT NULL,
    PRIMARY KEY (hour, database)
);
CREATE INDEX readings_of_database ON onramp_admin.readings (database, at);
