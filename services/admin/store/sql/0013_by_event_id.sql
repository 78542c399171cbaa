-- In the order of the page: without fresh statistics, the planner took the way back through all events instead.
DROP INDEX onramp_admin.events_of_id;
CREATE INDEX events_of_id ON onramp_admin.parked (event_id, id);
