-- From which offset on a table's changes are of another log, whose positions do not compare with those before: a
-- resync was asked for there. A table that is emptied amid its log (`begins_at` alone) still knows what came again.
ALTER TABLE onramp.models ADD COLUMN log_begins_at bigint;
UPDATE onramp.models SET log_begins_at = greatest(clear_at, begins_at) WHERE greatest(clear_at, begins_at) > 0;
