-- Pages of what is rare among a million: without these they read all of it.
CREATE INDEX events_open ON onramp_admin.events (id) WHERE state = 'open';
CREATE INDEX events_of_state ON onramp_admin.events (state, id) WHERE state <> 'open';
CREATE INDEX events_of_code ON onramp_admin.events (code, id);
CREATE INDEX events_of_destination ON onramp_admin.events (destination, id);
CREATE INDEX events_by_time ON onramp_admin.events (parked_at, id);
