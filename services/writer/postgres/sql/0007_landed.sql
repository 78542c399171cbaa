-- What landed in one table: asked for each type that has its first parked event.
CREATE INDEX totals_landed ON onramp.totals (destination) WHERE outcome = 'landed';
